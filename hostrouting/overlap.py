"""Expected CIDRs and the kernel's decisions: what escapes, and the verdict.

Here: facts, as values. Not here: the sentences in which they are told (`wording`), and what closes an escape
(`repair`).
"""

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network
from typing import Literal, TypeAlias

import attrs

from hostrouting.fib import ANY, Cell, Condition, Decision, Fib, Flow
from hostrouting.model import IPV4, Prefix, prefixes_between
from hostrouting.uplink import outbound_devs

__all__ = ["Escape", "Finding", "Judge", "Note", "OverlapReport", "Verdict", "check_overlap"]

Verdict: TypeAlias = Literal["ok", "overlap", "no-default-route", "undecided"]
Escape: TypeAlias = Literal["overlap", "no-route", "unreachable", "blackhole", "prohibit"]

# What the host keeps for itself, or sends to all: it leaves by no device that anybody could have expected.
_OWN = frozenset({"local", "broadcast", "anycast", "multicast"})


@attrs.frozen
class Finding:
    """A range of an expected CIDR, as integers, both ends included, that does not leave by an expected device.

    `devs` are those by which it leaves instead, as far as they are known.

    Single addresses of the host's own inside the range, or beside it within the prefix of the same route, are
    counted in: they go nowhere, and without them the range is said in one line.
    """

    cidr: Prefix
    first: int
    last: int
    kind: Escape
    devs: tuple[str, ...]
    decision: Decision

    @property
    def prefixes(self) -> tuple[Prefix, ...]:
        """The range in the fewest blocks."""
        return tuple(prefixes_between(self.cidr.family, self.first, self.last))


@attrs.frozen
class Note:
    """What the verdict does not hold for: packets of which `conditions` are true, which go by `decision`.

    It is true of some addresses between `first` and `last`. `escapes` tells whether those packets escape.
    """

    cidr: Prefix
    first: int
    last: int
    conditions: tuple[Condition, ...]
    decision: Decision
    escapes: bool


@attrs.frozen
class OverlapReport:
    """The verdict on the expected CIDRs, and what it rests on. Findings are sorted, disjoint within a CIDR."""

    verdict: Verdict
    cidrs: tuple[Prefix, ...]
    expected_devs: tuple[str, ...]
    allowed: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[Note, ...] = ()


def check_overlap(
    fib: Fib,
    cidrs: Iterable[Prefix | IPv4Network | IPv6Network],
    *,
    devs: Iterable[str] = (),
    allowed: Iterable[str] = (),
    flow: Flow = ANY,
) -> OverlapReport:
    """Whether every address of every CIDR leaves by an expected device.

    Expected are `devs`, or those of the default route of the CIDRs' family when none are given. `allowed` are
    patterns of devices that may carry some of it too. CIDRs of both families at once are refused with ValueError.
    """
    expected = tuple(sorted({cidr if isinstance(cidr, Prefix) else Prefix.of(cidr) for cidr in cidrs}))
    families = {cidr.family for cidr in expected}
    if len(families) > 1:
        raise ValueError("CIDRs of IPv4 and of IPv6 are two checks: each family has a default route of its own")
    named = tuple(dict.fromkeys(devs)) or outbound_devs(fib, family=families.pop() if families else IPV4)
    patterns = tuple(allowed)
    if not named and expected:
        return OverlapReport("no-default-route", expected, (), patterns)
    judge = Judge(named, patterns)
    findings: list[Finding] = []
    notes: dict[object, Note] = {}
    for cidr in expected:
        cells = fib.cells(cidr, flow)
        findings += _findings(cidr, cells, judge)
        for cell in cells:
            if cell.decision.variants:
                _note(cidr, cell, judge, notes)
    verdict: Verdict = "overlap" if findings else "undecided" if any(note.escapes for note in notes.values()) else "ok"
    return OverlapReport(verdict, expected, named, patterns, tuple(findings), tuple(notes.values()))


class Judge:
    """Tells decisions that are welcome from escapes."""

    def __init__(self, expected: tuple[str, ...], allowed: tuple[str, ...]) -> None:
        """Take the expected devices by name and the allowed ones by pattern."""
        self._welcome = dict.fromkeys(expected, True)
        self._allowed = allowed

    def escape(self, decision: Decision) -> tuple[Escape, tuple[str, ...]] | None:
        """How the decision escapes, and by which devices; None when it does not."""
        match decision.kind:
            case "no-route" | "unreachable" | "blackhole" | "prohibit":
                return decision.kind, ()
            case "unicast":
                stray = tuple(dev for dev in decision.devs if not self._is_welcome(dev))
                # A way without a device that we know is none that anybody expected.
                known = decision.legs and all(leg.dev is not None for leg in decision.legs)
                return None if known and not stray else ("overlap", stray)
            case _:
                return None

    def _is_welcome(self, dev: str) -> bool:
        if dev not in self._welcome:
            from fnmatch import fnmatchcase  # noqa: PLC0415  loaded when the first stray device is seen

            self._welcome[dev] = any(fnmatchcase(dev, pattern) for pattern in self._allowed)
        return self._welcome[dev]


def _findings(cidr: Prefix, cells: list[Cell], judge: Judge) -> list[Finding]:
    """The escapes of one CIDR, neighbours by the same rule and route in one."""
    found: list[Finding] = []
    # Whether the last finding ends where the next cell begins, but for single own addresses; and how many
    # addresses of that sort have just gone by.
    touching, own = False, 0
    for cell in cells:
        escape = judge.escape(cell.decision)
        if escape is None:
            single = cell.first == cell.last and cell.decision.kind in _OWN
            own = own + 1 if single else 0
            if not single:
                touching = False
            elif touching and _counts_in(found[-1].decision, cell.last):
                found[-1] = attrs.evolve(found[-1], last=cell.last)
                own = 0
            continue
        finding = Finding(cidr, cell.first, cell.last, *escape, cell.decision)
        if touching and _same(found[-1], finding):
            found[-1] = attrs.evolve(found[-1], last=cell.last)
        else:
            while own and _counts_in(cell.decision, finding.first - 1):
                finding, own = attrs.evolve(finding, first=finding.first - 1), own - 1
            found.append(finding)
        touching, own = True, 0
    return found


def _same(one: Finding, other: Finding) -> bool:
    return (one.kind, one.devs, one.decision.rule, one.decision.route) == (
        other.kind,
        other.devs,
        other.decision.rule,
        other.decision.route,
    )


def _counts_in(decision: Decision, address: int) -> bool:
    """Whether an own address may be counted in with a neighbour that is decided like this."""
    route = decision.route
    return route is None or route.prefix.first <= address <= route.prefix.last


def _note(cidr: Prefix, cell: Cell, judge: Judge, notes: dict[object, Note]) -> None:
    """Add what could make the judgement on the cell another; each reason is noted once for a CIDR."""
    judged = judge.escape(cell.decision)
    for variant in cell.decision.variants:
        escape = judge.escape(variant.decision)
        if (escape is None) is (judged is None):
            continue
        key = (cidr, variant.conditions, escape, variant.decision.route)
        first = notes[key].first if key in notes else cell.first
        notes[key] = Note(cidr, first, cell.last, variant.conditions, variant.decision, escape is not None)
