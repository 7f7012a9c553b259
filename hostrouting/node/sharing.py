"""A pass is shared by the starts that were waiting for one: fifty units that start together make
two or three passes.

A start may use the outcome of a pass that began after the start asked for one, was made by the same
program, and read the same configuration. The outcome is a file of root's in /run.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.errors import HostError
from hostrouting.host.layout import HostLayout

if TYPE_CHECKING:
    from hostrouting.host.files import Files
    from hostrouting.node.journal import Line


class PassResult(NamedTuple):
    """What a start has to know of a pass."""

    units: tuple[str, ...]
    """The units that the configuration gates."""
    lines: tuple[Line, ...] = ()
    refuses: bool = False
    waits: str = ""


class PassKey(NamedTuple):
    """What a pass was made with."""

    config: str
    """The text of the configuration."""
    program: list[int]


def read_shared(files: Files, key: PassKey, *, since: float, now: float) -> PassResult | None:
    """The result of a pass with this key that began in this time; None if there is none."""
    import json  # noqa: PLC0415  a host without a shared pass needs none

    path = HostLayout.result_path
    with suppress(HostError, ValueError, KeyError, TypeError):
        entry = files.look(path)
        if entry is None or entry.kind != "file" or entry.is_open_to_others:
            return None
        document = json.loads(files.read(path) or "")
        if PassKey(document["config"], document["program"]) != key:
            return None
        if not since <= document["began"] <= now:  # also of another boot
            return None
        lines = tuple((level, words) for level, words in document["lines"])
        return PassResult(tuple(document["units"]), lines, document["refuses"], document["waits"])
    return None


def share(files: Files, key: PassKey, result: PassResult, *, began: float) -> None:
    """Leave the result for those who wait; a failure costs them a pass each."""
    import json  # noqa: PLC0415  as above

    document = {"began": began, **key._asdict(), **result._asdict()}
    with suppress(HostError):
        files.write(HostLayout.result_path, json.dumps(document))
