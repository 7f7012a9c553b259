"""What hostrouting says about nodes, and what it has to say: about each node, each group, and in the table.

Here: comparisons of an answer with the plans of the nodes. Not here: asking (`story`), and what is broken (`kinds`).
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hostrouting.fleet import NodeGroup
    from tests.benchmarks.thousand_nodes.kinds import Plan

__all__ = ["Differs", "Document", "Told", "pasted_routes", "require_equal", "require_found", "require_groups"]

Document: TypeAlias = "dict[str, Any]"

_SHOWN = 1000  # characters of a value in a message


class Differs(Exception):  # noqa: N818  reads as what happened
    """Something is not what it has to be."""


def require_equal(what: str, found: object, wanted: object) -> None:
    """Raise Differs if they are not equal."""
    if found != wanted:
        raise Differs(f"{what}: {found!r:.{_SHOWN}}, and not {wanted!r:.{_SHOWN}}")


@attrs.frozen
class Told:
    """What is said about a node."""

    verdict: str | None = "ok"
    escapes: frozenset[tuple[str, str, str]] = frozenset()
    """The kind of each escape, the device instead, and the range."""
    unsafe: frozenset[str] = frozenset()
    """Why no static route can repair it."""

    @staticmethod
    def by(document: Document) -> Told:
        """What the document of its check says; without a verdict, that is an error."""
        if "verdict" not in document:
            return Told(None)
        escapes = [
            (it["kind"], it["via"]["dev"] or "", block) for it in document["findings"] for block in it["prefixes"]
        ]
        return Told(document["verdict"], frozenset(escapes), frozenset(it["reason"] for it in document["unsafe"]))

    @staticmethod
    def wanted(plan: Plan) -> Told:
        """What has to be said about this node before a repair."""
        if plan.kind is None:
            return Told()
        return Told(plan.kind.verdict, frozenset(plan.wrong.escapes), frozenset(plan.kind.unsafe))


def require_found(documents: Mapping[str, Document], plans: Mapping[str, Plan]) -> None:
    """Exactly the broken nodes are found, and each for its reason."""
    require_equal("the nodes that were judged", sorted(documents), sorted(plans))
    wrong = sorted(name for name, it in documents.items() if Told.by(it).verdict != "ok")
    require_equal("the nodes that are not ok", wrong, sorted(name for name, it in plans.items() if it.kind))
    for name, plan in plans.items():
        kind = f" ({plan.kind.name})" if plan.kind else ""
        require_equal(f"what is said about {name}{kind}", Told.by(documents[name]), Told.wanted(plan))


def require_groups(groups: Sequence[NodeGroup], plans: Mapping[str, Plan]) -> None:
    """Nodes are in one group exactly if they are broken so that they have the same problem; each group is named for it."""
    wanted: dict[tuple[str, bool], list[str]] = {}
    for name, plan in sorted(plans.items()):
        wanted.setdefault(
            ("", False) if plan.kind is None else (plan.kind.problem, plan.kind.is_repairable), []
        ).append(name)
    grouped = {it.nodes for it in groups}
    right = {tuple(it) for it in wanted.values()}
    require_equal("the groups that differ", sorted(grouped - right), sorted(right - grouped))
    for group in groups:
        kind = plans[group.nodes[0]].kind
        if kind is None:
            require_equal("the problem of sound nodes", group.problem, "")
            continue
        require_equal(
            f"{kind.problem} matches {group.problem!r}", bool(re.fullmatch(kind.problem, group.problem)), True
        )
        require_equal(f"whether {group.problem!r} can be repaired", group.is_repairable, kind.is_repairable)
        if kind.repair:
            destinations = tuple(str(it.destination) for it in group.repair)
            require_equal(f"the one repair for all of {group.problem!r}", destinations, kind.repair)


def pasted_routes(text: str, groups: Sequence[NodeGroup]) -> list[list[Document]]:
    """For each group, the routes that the printed page has to paste; all groups are in its table, and are told below it."""
    _, table, *blocks, _ = text.split("\n\n")
    for row, group in zip(table.splitlines()[1:], groups, strict=True):
        count, verdict, *rest = re.split(r"\s{2,}", row.strip())
        require_equal(f"the numbers in {row!r}", (count, verdict), (f"{len(group.nodes):,}", group.verdict_words))
        words = [it for it in (group.problem, group.repair_words) if it]
        for cell, whole in zip(rest, words, strict=True):
            require_equal(f"the beginning of {whole!r} in {row!r}", whole.startswith(cell.rstrip("…")), True)
    told = iter(blocks)
    return [_routes_in(next(told)) if it.problem else [] for it in groups]


def _routes_in(block: str) -> list[Document]:
    return [
        json.loads(line.strip().rstrip(",")) for line in block.splitlines() if line.startswith('    {"destination"')
    ]
