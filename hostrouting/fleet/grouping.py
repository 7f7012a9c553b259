"""Nodes with the same problem: what it is, which nodes have it, and whether one repair helps all of them.

Two nodes have the same problem if the same CIDRs escape, as a whole or in part, to devices that differ only in their
numbers. The ranges and the devices themselves may differ: on one node Linux finds ib0's route first, on another ib3's.

Here: groups as values, and what each is called. Not here: how they are printed (`cli.fleet_view`, `fleet.page`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import attrs

from hostrouting.errors import SnapshotError
from hostrouting.phrases import spoken

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from hostrouting.errors import HostRoutingError
    from hostrouting.fleet.node import NodeEscape, NodeResult
    from hostrouting.overlap import Verdict
    from hostrouting.uplink import DesiredRoute

__all__ = ["Grouping", "NodeGroup", "group_nodes", "tally_verdicts"]

_WORST_FIRST: tuple[Verdict | None, ...] = ("overlap", None, "no-default-route", "undecided", "ok")
_NUMBER = re.compile(r"\d+")
_RUN = 3  # consecutive numbers from which on only the first and the last device are named


@attrs.frozen
class NodeGroup:
    """Nodes with the same result, and with the same problem if there is one."""

    verdict: Verdict | None
    """None if there is no verdict."""
    problem: str
    """What is wrong, in words; empty if nothing is."""
    nodes: tuple[str, ...]
    """The names of the nodes, in order."""
    example: NodeResult
    """The result of one of them."""
    repair: tuple[DesiredRoute, ...] = ()
    """The routes that repair every one of these nodes; empty if the nodes need different ones."""
    repairs: int = 0
    """The number of different repairs of these nodes."""
    is_repairable: bool = False
    """Whether these repairs leave no escape."""

    @property
    def verdict_words(self) -> str:
        """The verdict, or that there is none."""
        return self.verdict or "no verdict"

    @property
    def repair_words(self) -> str:
        """What repairs it; empty if nothing escapes for certain."""
        if self.verdict != "overlap":
            return ""
        if self.repair:
            return "one repair for all" if len(self.nodes) > 1 else "a repair"
        return f"{self.repairs:,} different repairs" if self.is_repairable else "no route can repair all of it"


def group_nodes(results: Iterable[NodeResult]) -> tuple[NodeGroup, ...]:
    """The results in groups: the worst first, and of those the one with most nodes."""
    grouping = Grouping()
    for it in results:
        grouping.add(it)
    return grouping.groups()


def tally_verdicts(groups: Iterable[NodeGroup]) -> dict[str, int]:
    """The number of nodes with each verdict, in the order of the groups."""
    found: dict[str, int] = {}
    for it in groups:
        found[it.verdict_words] = found.get(it.verdict_words, 0) + len(it.nodes)
    return found


class Grouping:
    """The groups of the results so far; of each result, only what its group needs is kept."""

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
        found = [it.made() for it in self._found.values()]
        return tuple(sorted(found, key=lambda it: (_WORST_FIRST.index(it.verdict), -len(it.nodes), it.problem)))


class _Group:
    """One group while results are added."""

    def __init__(self, first: NodeResult) -> None:
        self._first = first
        self._names: list[str] = []
        # By the place of a problem: all devices that packets leave by instead.
        self._devs: dict[Hashable, dict[str, None]] = {}
        self._repairs: dict[tuple[DesiredRoute, ...], None] = {}
        self._is_repairable = True

    def add(self, result: NodeResult) -> None:
        self._names.append(result.name)
        for it in result.escapes:
            self._devs.setdefault(_place(it), {}).update(dict.fromkeys(it.devs))
        self._repairs[result.open_repair] = None
        self._is_repairable = self._is_repairable and result.is_repairable

    def made(self) -> NodeGroup:
        repairs = [it for it in self._repairs if it]
        return NodeGroup(
            self._first.verdict,
            self._problem(),
            tuple(sorted(self._names)),
            self._first,
            repairs[0] if len(self._repairs) == 1 and repairs and self._is_repairable else (),
            len(repairs),
            self._is_repairable,
        )

    def _problem(self) -> str:
        first = self._first
        if first.failure is not None:
            return _reason(first.failure)
        # CIDRs with the same fate are named together.
        fates: dict[tuple[str, bool, str], dict[str, None]] = {}
        for it in first.escapes:
            fate = it.packets, it.is_whole, _way(it, tuple(self._devs[_place(it)]))
            fates.setdefault(fate, {})[str(it.cidr)] = None
        parts = [
            f"{f'{packets}: ' if packets else ''}{'' if is_whole else 'a part of '}{spoken(tuple(cidrs))} {way}"
            for (packets, is_whole, way), cidrs in fates.items()
        ]
        lacking = [f"no IPv{family} default route" for family in first.without_default]
        return spoken([*parts, *lacking])


def _kind(result: NodeResult) -> Hashable:
    """Equal for nodes with the same problem."""
    if result.failure is not None:
        return type(result.failure), _reason(result.failure)
    return result.verdict, result.without_default, frozenset(map(_place, result.escapes))


def _place(escape: NodeEscape) -> Hashable:
    devs = frozenset(_NUMBER.sub("0", dev) for dev in escape.devs)
    return escape.cidr, escape.is_whole, escape.kind, devs, escape.packets


def _reason(error: HostRoutingError) -> str:
    if isinstance(error, SnapshotError):  # whose message has a word for what it is about
        return f"{error.path}: {error.problem}" if error.path else error.problem
    return str(error)


def _way(escape: NodeEscape, devs: Sequence[str]) -> str:
    return f"by {_devices(devs)}" if escape.kind == "overlap" else f"by no device ({escape.kind.replace('-', ' ')})"


def _devices(devs: Sequence[str]) -> str:
    """The devices as a phrase; of consecutive numbers, the first and the last: `ib0…ib7`."""
    if not devs:
        return "an unknown device"
    runs: list[list[str]] = []
    for dev in sorted(devs, key=_natural):
        if runs and _follows(runs[-1][-1], dev):
            runs[-1].append(dev)
        else:
            runs.append([dev])
    return spoken([it for run in runs for it in ([f"{run[0]}…{run[-1]}"] if len(run) >= _RUN else run)])


def _natural(dev: str) -> tuple[str, int]:
    """A key by which ib10 comes after ib9."""
    stem = dev.rstrip("0123456789")
    return stem, int(dev[len(stem) :] or -1)


def _follows(one: str, other: str) -> bool:
    (stem, number), following = _natural(one), _natural(other)
    return number >= 0 and following == (stem, number + 1)
