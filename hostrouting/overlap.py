"""Expected CIDRs and the kernel's decisions: what escapes, and the verdict.

Here: facts, as values. Not here: the sentences in which they are told (`wording`), and what closes an escape
(`repair`).
"""

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network, IPv6Network
from typing import Literal, TypeAlias

import attrs

from hostrouting.door import listed, names, require
from hostrouting.fib import ANY, Cases, Cell, Decision, Fib, Flow, Variant
from hostrouting.model import IPV4, NextHop, Prefix, as_prefix, extent, prefixes_between, width_of
from hostrouting.reserved import LOOPBACK
from hostrouting.uplink import outbound_devs

__all__ = ["Escape", "Finding", "Judge", "Kept", "Note", "OverlapReport", "Verdict", "check_overlap", "is_own"]

Verdict: TypeAlias = Literal["ok", "overlap", "no-default-route", "undecided"]
Escape: TypeAlias = Literal["overlap", "no-route", "unreachable", "blackhole", "prohibit"]
# How a decision escapes, and by which devices; None when it does not.
Judged: TypeAlias = tuple[Escape, tuple[str, ...]] | None

_LOOPBACK = Prefix.of(LOOPBACK)  # every host's own, and told of no one
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

    def __repr__(self) -> str:
        way = f" by {', '.join(self.devs)}" if self.devs else ""
        where = extent(self.cidr.family, self.first, self.last)
        return f"<Finding {self.kind} {where} of {self.cidr}{way}: {self.decision}>"


@attrs.frozen
class Note:
    """What the verdict does not hold for: packets of which all of one of the `cases` is true, which go by `decision`.

    It is true of some addresses between `first` and `last`; `more_routes` counts those besides the decision's by which
    such packets fare alike. `escapes` tells whether they escape.
    """

    cidr: Prefix
    first: int
    last: int
    cases: Cases
    decision: Decision
    escapes: bool
    more_routes: int = 0

    def __repr__(self) -> str:
        cases = " or ".join(" and ".join(map(str, case)) for case in self.cases)
        fate = f"{'escape' if self.escapes else 'stay'}, {self.more_routes} more routes"
        where = f"{extent(self.cidr.family, self.first, self.last)} of {self.cidr}"
        return f"<Note {where}, {cases}: {self.decision}, {fate}>"


@attrs.frozen
class Kept:
    """A range of an expected CIDR, wider than one address, that is the host's own: packets for it never leave."""

    cidr: Prefix
    first: int
    last: int
    decision: Decision

    def __repr__(self) -> str:
        return f"<Kept {extent(self.cidr.family, self.first, self.last)} of {self.cidr}: {self.decision}>"


@attrs.frozen
class OverlapReport:
    """The verdict on the expected CIDRs, and what it rests on. Findings are sorted, disjoint within a CIDR."""

    verdict: Verdict
    cidrs: tuple[Prefix, ...]
    expected_devs: tuple[str, ...]
    allowed_devs: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[Note, ...] = ()
    kept: tuple[Kept, ...] = ()


def check_overlap(
    fib: Fib,
    cidrs: Iterable[Prefix | IPv4Network | IPv6Network | str],
    *,
    expected_devs: Iterable[str] = (),
    allowed_devs: Iterable[str] = (),
    flow: Flow = ANY,
) -> OverlapReport:
    """Whether every address of every CIDR leaves by an expected device.

    Expected are `expected_devs`, or the devices of the default route of the CIDRs' family when none are given.
    `allowed_devs` are patterns of devices that may carry some of it too. A CIDR may be text, such as "172.16.0.0/16".
    ValueError for a text that is none, and for CIDRs of both families at once; TypeError for a text where a list is
    meant.
    """
    require(fib, Fib, "check_overlap", "write Fib(snapshot)")
    expected = tuple(sorted({as_prefix(cidr) for cidr in listed(cidrs, "check_overlap: cidrs")}))
    families = {cidr.family for cidr in expected}
    if len(families) > 1:
        raise ValueError("CIDRs of IPv4 and of IPv6 are two checks: each family has a default route of its own")
    named = tuple(dict.fromkeys(names(expected_devs, "check_overlap: expected_devs"))) or outbound_devs(
        fib, family=families.pop() if families else IPV4
    )
    patterns = names(allowed_devs, "check_overlap: allowed_devs")
    if not named and expected:
        return OverlapReport("no-default-route", expected, (), patterns)
    judge = Judge(named, patterns)
    findings: list[Finding] = []
    notes: list[Note] = []
    kept: list[Kept] = []
    for cidr, cells in zip(expected, fib.doubtful_cells(expected, judge.likes, flow), strict=True):
        if not cells:
            continue
        findings += _findings(cidr, cells, judge)
        notes += _notes(cidr, cells, judge)
        kept += _kept(cidr, cells)
    verdict: Verdict = "overlap" if findings else "undecided" if any(note.escapes for note in notes) else "ok"
    return OverlapReport(verdict, expected, named, patterns, tuple(findings), tuple(notes), tuple(kept))


def is_own(decision: Decision) -> bool:
    """Whether the host keeps such packets for itself, or sends them to all."""
    return decision.kind in _OWN


class Judge:
    """Tells decisions that are welcome from escapes."""

    def __init__(self, expected_devs: tuple[str, ...], allowed_devs: tuple[str, ...]) -> None:
        """Take the expected devices by name and the allowed ones by pattern."""
        self._welcome = dict.fromkeys(expected_devs, True)
        self._allowed = allowed_devs

    def escape(self, decision: Decision) -> Judged:
        """How the decision escapes, and by which devices; None when it does not."""
        kind = decision.kind
        if kind in {"no-route", "unreachable", "blackhole", "prohibit"}:
            return kind, ()
        if is_own(decision):
            return None
        # A way without a device that we know is none that anybody expected; and of the types besides unicast, which no
        # kernel makes, nobody can tell where they lead.
        if kind == "unicast" and self.likes(decision.legs):
            return None
        return "overlap", tuple(dev for dev in decision.devs if not self._is_welcome(dev))

    def likes(self, legs: tuple[NextHop, ...]) -> bool:
        """Whether packets that are sent by these legs leave as they should, whichever they take."""
        for leg in legs:
            if leg.dev is None or not self._is_welcome(leg.dev):
                return False
        return bool(legs)

    def _is_welcome(self, dev: str) -> bool:
        if dev not in self._welcome:
            from fnmatch import fnmatchcase  # noqa: PLC0415  loaded when the first stray device is seen

            self._welcome[dev] = any(fnmatchcase(dev, pattern) for pattern in self._allowed)
        return self._welcome[dev]


def _findings(cidr: Prefix, cells: list[Cell], judge: Judge) -> list[Finding]:
    """The escapes of one CIDR, neighbours by the same rule and route in one; what is not among its cells is welcome."""
    found: list[Finding] = []
    # Whether the last finding ends where the next cell begins, but for single own addresses; how many addresses of
    # that sort have just gone by; and where the next cell begins if none is left out.
    touching, own, following = False, 0, cidr.first
    for cell in cells:
        if cell.first != following:
            touching, own = False, 0
        following = cell.last + 1
        escape = judge.escape(cell.decision)
        if escape is None:
            single = cell.first == cell.last and is_own(cell.decision)
            own = own + 1 if single else 0
            if not single:
                touching = False
            elif touching and _counts_in(found[-1].decision, cell.last):
                found[-1] = _reaching(found[-1], found[-1].first, cell.last)
                own = 0
            continue
        finding = Finding(cidr, cell.first, cell.last, *escape, cell.decision)
        if touching and _same(found[-1], finding):
            found[-1] = _reaching(found[-1], found[-1].first, cell.last)
        else:
            while own and _counts_in(cell.decision, finding.first - 1):
                finding, own = _reaching(finding, finding.first - 1, finding.last), own - 1
            found.append(finding)
        touching, own = True, 0
    return found


def _reaching(one: Finding, first: int, last: int) -> Finding:
    return Finding(one.cidr, first, last, one.kind, one.devs, one.decision)


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


def _kept(cidr: Prefix, cells: Iterable[Cell]) -> Iterator[Kept]:
    """The ranges that a route of type local gives to the host, as it does its single addresses."""
    for cell in cells:
        route = cell.decision.route
        if cell.decision.kind != "local" or route is None or route.type != "local" or route.prefix == _LOOPBACK:
            continue
        if route.prefix.length < width_of(cidr.family):
            yield Kept(cidr, cell.first, cell.last, cell.decision)


def _notes(cidr: Prefix, cells: Iterable[Cell], judge: Judge) -> Iterator[Note]:
    """What could make the judgement on a cell another: one note for packets of one kind that fare alike."""
    extents: dict[int, tuple[Decision, int, int]] = {}
    for cell in cells:
        if cell.decision.variants:
            _, first, _ = extents.get(id(cell.decision), (None, cell.first, None))
            extents[id(cell.decision)] = (cell.decision, first, cell.last)
    found: dict[tuple[int, Judged], tuple[int, int, Variant, dict[int, None]]] = {}
    judged: dict[int, Judged] = {}
    for decision, low, high in extents.values():
        escapes = judge.escape(decision) is not None
        for variant in decision.variants:
            # Many ranges have few variants among them.
            if id(variant.decision) not in judged:
                judged[id(variant.decision)] = judge.escape(variant.decision)
            escape = judged[id(variant.decision)]
            if (escape is not None) is escapes:
                continue
            # There is one value for equal cases, so that it need not be looked into.
            key = (id(variant.cases), escape)
            first, last, leading, routes = found.setdefault(key, (low, high, variant, {}))
            routes[id(variant.decision.route)] = None
            found[key] = (min(first, low), max(last, high), leading, routes)
    for (_, escape), (first, last, variant, routes) in found.items():
        yield Note(cidr, first, last, variant.cases, variant.decision, escape is not None, len(routes) - 1)
