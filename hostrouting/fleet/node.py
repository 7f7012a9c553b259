"""The result for one node: a small value that another process can make and send.

Here: values. Not here: how a snapshot is judged (`judging`), and which nodes have the same result (`grouping`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.errors import SnapshotError
from hostrouting.saved_snapshot import of_file
from hostrouting.wording import repair_document

if TYPE_CHECKING:
    from hostrouting.correction import Correction
    from hostrouting.errors import HostRoutingError
    from hostrouting.model import Prefix
    from hostrouting.overlap import Escape, Verdict
    from hostrouting.uplink import DesiredRoute

__all__ = ["NodeEscape", "NodeResult"]


@attrs.frozen
class NodeEscape:
    """A range of an expected CIDR that escapes, as integers, both ends included; `devs` are the devices instead."""

    cidr: Prefix
    first: int
    last: int
    kind: Escape
    devs: tuple[str, ...]
    packets: str = ""
    """Which packets, as a phrase; empty for plain packets of the host itself."""

    @property
    def is_whole(self) -> bool:
        """Whether it is all of the CIDR."""
        return (self.first, self.last) == (self.cidr.first, self.cidr.last)


@attrs.frozen
class NodeResult:
    """The result for one node: a verdict with its reasons, or the error because of which there is none."""

    name: str = ""
    path: str = ""
    """The file with its snapshot."""
    verdict: Verdict | None = None
    """None if the snapshot could not be judged."""
    escapes: tuple[NodeEscape, ...] = ()
    """The findings; if the verdict is undecided, what escapes of the packets that a rule treats differently."""
    without_default: tuple[int, ...] = ()
    """The families that have no default route: 4, 6 or both."""
    open_repair: tuple[DesiredRoute, ...] = ()
    """The routes that repair the node as it is. What the default route fills in rightly is left open."""
    correction: Correction | None = None
    """What to change in the configuration so that it repairs the node; None if no route repairs the node as it is."""
    is_repairable: bool = False
    """Whether the repair leaves no escape of the findings."""
    answer: str = ""
    """What `hostrouting check --snapshot FILE --json` prints, on one line; empty without a verdict."""
    failure: HostRoutingError | None = None
    """Why there is no verdict, without the name of the file."""

    @property
    def error(self) -> HostRoutingError | None:
        """Why there is no verdict: the error of the check of this file alone."""
        return of_file(self.failure, self.path) if isinstance(self.failure, SnapshotError) else self.failure

    def to_mapping(self) -> dict[str, Any]:
        """The same document as plain values, with what is known of the node; or the facts of the error."""
        error = self.error
        said = json.loads(self.answer) if error is None else error.to_mapping()
        return {**self.heading, **said}

    @property
    def heading(self) -> dict[str, Any]:
        """What the document of a node has in addition to that of a check: its name, its file and the correction."""
        named = {"node": self.name, "snapshot": self.path}
        return named if self.verdict is None else {**named, "correction": _correction_document(self.correction)}

    @property
    def findings(self) -> list[dict[str, Any]]:
        """The findings, as in that document."""
        found: list[dict[str, Any]] = self._said("findings")
        return found

    @property
    def repair(self) -> list[dict[str, Any]]:
        """The routes that repair the node as it is, as in `staticRoutes.routes` of a configuration."""
        found: list[dict[str, Any]] = self._said("repair")
        return found

    @property
    def notes(self) -> list[str]:
        """What limits or explains the verdict, each a sentence."""
        found: list[str] = self._said("notes")
        return found

    def _said(self, key: str) -> Any:
        return json.loads(self.answer)[key] if self.answer else []

    def __str__(self) -> str:
        return f"{self.name}: {self.verdict or self.error}"

    def __repr__(self) -> str:
        return f"<NodeResult {self}>"


def _correction_document(correction: Correction | None) -> dict[str, Any] | None:
    if correction is None:
        return None
    deleted = [("replaced", it) for it in correction.replaced] + [("contested", it) for it in correction.contested]
    entries = [{"destination": str(it.destination), "metric": it.metric, "reason": reason} for reason, it in deleted]
    return {"delete": entries, "add": repair_document(correction.add)}
