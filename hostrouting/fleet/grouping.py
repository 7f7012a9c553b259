"""Nodes with the same problem: what it is, which nodes have it, and whether one repair helps all of them.

Here: groups as values, and what each is called. Not here: how they are printed (`cli.fleet`).

Two nodes have the same problem if the same CIDRs escape, as a whole or in part, to devices that differ only in their
numbers, and if one repair closes all of it on both, or routes cannot do it on either. So a node that needs another
repair, or that no route can repair, does not hide the repair of the others. The ranges and the devices themselves may
differ: on one node Linux finds ib0's route first, on another ib3's.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING

import attrs

from hostrouting.errors import HostRoutingError, InputError
from hostrouting.text import spoken

if TYPE_CHECKING:
    from hostrouting.check.check import Verdict
    from hostrouting.fleet.judge import NodeEscape, NodeResult
    from hostrouting.routes.uplink import DesiredRoute

_WORST_FIRST: tuple[Verdict | None, ...] = ("overlap", None, "no-default-route", "undecided", "ok")
_NUMBER = re.compile(r"\d+")
_RUN = 3  # consecutive numbers from which on only the first and the last device are named


@attrs.frozen
class NodeGroup:
    """Nodes with the same result, and with the same problem if there is one."""

    verdict: Verdict | None
    """None for nodes whose snapshots could not be checked."""
    problem: str
    """What is wrong, in words; empty if nothing is."""
    nodes: tuple[str, ...]
    """The names of the nodes, in order."""
    example: NodeResult
    """The result of one of the nodes."""
    repair: tuple[DesiredRoute, ...] = ()
    """The routes to add to the configuration of these nodes; empty if they need none, or none repairs them."""
    is_repairable: bool = False
    """Whether the repair leaves no escape."""

    @property
    def verdict_words(self) -> str:
        """The verdict, or a phrase that there is none."""
        return self.verdict or "no verdict"

    @property
    def repair_words(self) -> str:
        """What repairs the nodes; empty if nothing escapes for certain."""
        if self.verdict != "overlap":
            return ""
        if not self.is_repairable:
            return "no route can repair all of it"
        return "one repair for all" if len(self.nodes) > 1 else "a repair"


def group_nodes(results: Iterable[NodeResult]) -> tuple[NodeGroup, ...]:
    """The results in groups: the worst first, and of those the one with most nodes."""
    grouping = Grouping()
    for result in results:
        grouping.add(result)
    return grouping.groups()


def tally_verdicts(groups: Iterable[NodeGroup]) -> dict[str, int]:
    """The number of nodes with each verdict, in the order of the groups."""
    found: dict[str, int] = {}
    for group in groups:
        found[group.verdict_words] = found.get(group.verdict_words, 0) + len(group.nodes)
    return found


class Grouping:
    """The groups of the results so far. Of each result, only the facts for its group are kept."""

    def __init__(self) -> None:
        """Begin without a result."""
        self._found: dict[Hashable, _Group] = {}

    def add(self, result: NodeResult) -> None:
        """Add one more result."""
        kind = _kind(result)
        group = self._found.get(kind)
        if group is None:
            group = self._found[kind] = _Group(result)
        group.add(result)

    def groups(self) -> tuple[NodeGroup, ...]:
        """The groups: the worst first, and of those the one with most nodes."""
        found = [group.as_value() for group in self._found.values()]
        return tuple(sorted(found, key=_order))


class _Group:
    """One group while results are added."""

    def __init__(self, first: NodeResult) -> None:
        self._first = first
        self._names: list[str] = []
        # By the place of a problem: all devices that packets leave by instead.
        self._devs: dict[Hashable, dict[str, None]] = {}

    def add(self, result: NodeResult) -> None:
        self._names.append(result.name)
        for escape in result.escapes:
            self._devs.setdefault(_place(escape), {}).update(dict.fromkeys(escape.devs))

    def as_value(self) -> NodeGroup:
        first = self._first
        names = tuple(sorted(self._names))
        return NodeGroup(first.verdict, self._problem(), names, first, first.routes, first.is_repairable)

    def _problem(self) -> str:
        first = self._first
        if first.failure is not None:
            return _reason(first.failure)
        # CIDRs with the same fate are named together.
        fates: dict[tuple[str, bool, str], dict[str, None]] = {}
        for parts in _with_one_fate(first.escapes):
            leading, devs = parts[0], dict.fromkeys(dev for part in parts for dev in self._devs[_place(part)])
            fate = leading.packets, _are_whole(parts), _way(leading, tuple(devs))
            fates.setdefault(fate, {})[str(leading.cidr)] = None
        phrases = [
            f"{f'{packets}: ' if packets else ''}{'' if is_whole else 'a part of '}{spoken(tuple(cidrs))} {way}"
            for (packets, is_whole, way), cidrs in fates.items()
        ]
        lacking = [f"no IPv{family} default route" for family in first.without_default]
        return spoken([*phrases, *lacking, *first.doubts])


def _order(group: NodeGroup) -> tuple[int, int, str, bool, tuple[str, ...]]:
    """A key that sorts groups: the worst first, and of those the one with most nodes."""
    return _WORST_FIRST.index(group.verdict), -len(group.nodes), group.problem, not group.is_repairable, group.nodes


def _kind(result: NodeResult) -> Hashable:
    """Equal for nodes with the same problem and the same repair."""
    if result.failure is not None:
        return type(result.failure), _reason(result.failure)
    return (
        result.verdict,
        result.without_default,
        result.doubts,
        frozenset(map(_place, result.escapes)),
        result.is_repairable,
        result.routes,
    )


def _place(escape: NodeEscape) -> Hashable:
    return escape.cidr, escape.is_whole, escape.kind, _stems(escape.devs), escape.packets


def _with_one_fate(escapes: Iterable[NodeEscape]) -> Iterable[Sequence[NodeEscape]]:
    """The ranges of a CIDR, grouped by what happens to their packets."""
    found: dict[Hashable, list[NodeEscape]] = {}
    for escape in escapes:
        found.setdefault((escape.cidr, escape.kind, _stems(escape.devs), escape.packets), []).append(escape)
    return found.values()


def _are_whole(parts: Sequence[NodeEscape]) -> bool:
    """Whether these ranges of one CIDR together cover all of it."""
    cidr = parts[0].cidr
    reached = cidr.first
    for part in sorted(parts, key=lambda part: part.first):
        if part.first > reached:
            return False
        reached = max(reached, part.last + 1)
    return reached > cidr.last


def _stems(devs: Iterable[str]) -> frozenset[str]:
    return frozenset(_NUMBER.sub("0", dev) for dev in devs)


def _reason(error: HostRoutingError) -> str:
    return "; ".join(map(str, error.faults)) if isinstance(error, InputError) else str(error)


def _way(escape: NodeEscape, devs: Sequence[str]) -> str:
    return f"by {_devices(devs)}" if escape.kind == "overlap" else f"by no device ({escape.kind.replace('-', ' ')})"


def _devices(devs: Sequence[str]) -> str:
    """The devices as a phrase; for consecutive numbers only the first and last: `ib0…ib7`."""
    if not devs:
        return "an unknown device"
    runs: list[list[str]] = []
    for dev in sorted(devs, key=_natural):
        if runs and _follows(runs[-1][-1], dev):
            runs[-1].append(dev)
        else:
            runs.append([dev])
    return spoken([name for run in runs for name in ([f"{run[0]}…{run[-1]}"] if len(run) >= _RUN else run)])


def _natural(dev: str) -> tuple[str, int]:
    """A key by which ib10 comes after ib9."""
    stem = dev.rstrip("0123456789")
    return stem, int(dev[len(stem) :] or -1)


def _follows(one: str, other: str) -> bool:
    (stem, number), following = _natural(one), _natural(other)
    return number >= 0 and following == (stem, number + 1)
