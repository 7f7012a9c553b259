"""From escapes to routes: what is open, what has to stay, what nobody can close; and the proof of the rest.

Here: what the ranges mean. Not here: the choice of prefixes (`cover`).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Literal, TypeAlias

import attrs

from hostrouting.door import require
from hostrouting.fib import ANY, Contest, Decision, Fib, Flow
from hostrouting.model import (
    IP,
    OURS,
    PROTOCOL_KERNEL,
    TABLE_MAIN,
    Prefix,
    Route,
    extent,
    prefixes_between,
    width_of,
)
from hostrouting.overlap import Judge, OverlapReport, check_overlap, is_own
from hostrouting.repair.cover import Zone, ZoneKind, cover
from hostrouting.reserved import RESERVED_RANGES, is_reserved
from hostrouting.uplink import DesiredRoute, Pending, default_route, outbound_devs, resolve_route

__all__ = ["TOO_MANY", "Diversion", "Repair", "Unsafe", "UnsafeReason", "propose_repair"]

# earlier-rule: it is decided before the table main is asked. longest-prefix: a route to a single address holds
# it, and nothing is longer. no-way: no gateway is known by which the expected device could be used.
# too-many: it would take an absurd number of routes. reserved: no static route may lead there. still-open: the
# proof found it open after all.
UnsafeReason: TypeAlias = Literal["earlier-rule", "longest-prefix", "no-way", "too-many", "reserved", "still-open"]

# More routes than this are no repair that an operator would want to see.
TOO_MANY = 1024
_NAMED = 9  # so many devices are named in a message


@attrs.frozen
class Unsafe:
    """A range that escapes and that no route of ours can safely close; `decision` names who holds it.

    Single addresses of the host's own inside the range are counted in, as in a Finding.
    """

    family: int
    first: int
    last: int
    reason: UnsafeReason
    decision: Decision
    missing: str = ""

    def __repr__(self) -> str:
        missing = f", {self.missing}" if self.missing else ""
        return f"<Unsafe {extent(self.family, self.first, self.last)}, {self.reason}{missing}: {self.decision}>"


@attrs.frozen
class Diversion:
    """What reached other devices without a gateway, and of which the repair takes a part from them.

    When they are `connected` to the network, neighbours there are lost; else what entered a tunnel no longer does.
    """

    prefix: Prefix
    devs: tuple[str, ...]
    connected: bool


@attrs.frozen
class Repair:
    """The routes that close the escapes, what they cannot close, what they divert, and the check with them there."""

    routes: tuple[DesiredRoute, ...]
    unsafe: tuple[Unsafe, ...]
    diverted: tuple[Diversion, ...]
    proof: OverlapReport


def propose_repair(
    fib: Fib,
    report: OverlapReport,
    *,
    protocol: int = OURS,
    metric: int = 0,
    flow: Flow = ANY,
    gateway: IP | None = None,
) -> Repair:
    """The fewest routes that close what `report` found on this host, without touching a route that is not ours.

    Ours are those that carry `protocol`. They lead to the `gateway`, a router on the first of the expected devices; by
    default to that of the default route. The proof is the same check on the host with the routes there.
    """
    require(fib, Fib, "propose_repair", "write propose_repair(Fib(snapshot), report)")
    require(report, OverlapReport, "propose_repair", "write propose_repair(fib, check_overlap(fib, cidrs))")
    if not report.findings:
        return Repair((), (), (), report)
    family = report.findings[0].cidr.family
    pattern = _pattern(fib, report, family, metric, gateway)
    way = resolve_route(pattern, fib, protocol=protocol)
    if isinstance(way, Pending):
        lost = [
            Unsafe(family, finding.first, finding.last, "no-way", finding.decision, _missing(way, fib))
            for finding in report.findings
        ]
        return Repair((), tuple(lost), (), report)
    task = _Task(fib, report, way, protocol)
    prefixes: list[Prefix] = []
    for block in _open_blocks(report):
        prefixes += task.close(block, flow)
    if len(prefixes) > TOO_MANY:
        lost = [Unsafe(family, it.first, it.last, "too-many", it.decision) for it in report.findings]
        return Repair((), tuple(lost), (), report)
    routes = [attrs.evolve(way, prefix=prefix) for prefix in prefixes]
    replaced = [
        standing
        for route in routes
        for standing in fib.routes(route.prefix)
        if standing.key == route.key and standing.protocol == protocol
    ]
    proof = check_overlap(
        fib.with_routes(routes, without=replaced),
        report.cidrs,
        expected_devs=report.expected_devs,
        allowed_devs=report.allowed_devs,
        flow=flow,
    )
    return Repair(
        tuple(attrs.evolve(pattern, destination=prefix) for prefix in prefixes),
        (*task.unsafe, *_still_open(proof, task.unsafe)),
        tuple(task.diverted.values()),
        proof,
    )


def _pattern(fib: Fib, report: OverlapReport, family: int, metric: int, gateway: IP | None) -> DesiredRoute:
    """A route like those of the repair: spelled out where it can be, automatic where the default is ECMP."""
    anywhere = Prefix(family, 0, 0)
    if gateway is not None:
        return DesiredRoute(anywhere, gateway=gateway, dev=next(iter(report.expected_devs)), metric=metric)
    default = default_route(fib, family=family)
    if (
        default is not None
        and len(default.legs) > 1
        and set(outbound_devs(fib, family=family)) <= set(report.expected_devs)
    ):
        return DesiredRoute(anywhere, metric=metric)
    named = ((dev, default_route(fib, family=family, dev=dev)) for dev in report.expected_devs)
    for dev, route in named:
        if route is not None:
            through = next(leg.gateway for leg in route.legs if leg.dev == dev)
            # A neighbour of the other family is no gateway that a static route can spell out.
            spelled = through if through is not None and through.version == family else None
            return DesiredRoute(anywhere, gateway=spelled, dev=dev, metric=metric)
    return DesiredRoute(anywhere, dev=next(iter(report.expected_devs)), metric=metric)


def _missing(way: Pending, fib: Fib) -> str:
    """What is missing; for a device that is not there, which there are: its name may be a slip."""
    dev, names = way.desired.dev, [link.name for link in fib.snapshot.links if link.name != "lo"]
    if dev is None or dev in names or dev not in way.missing:
        return way.missing
    there = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    return f"the device {dev}, which expectedDevs names; this host has {there or 'none'}"


def _blocks(cidrs: Iterable[Prefix]) -> Iterator[Prefix]:
    """The CIDRs in the fewest blocks: neighbours and those inside others are one."""
    spans: list[tuple[int, int, int]] = []
    for cidr in sorted(cidrs):
        if spans and spans[-1][0] == cidr.family and cidr.first <= spans[-1][2] + 1:
            spans[-1] = (cidr.family, spans[-1][1], max(spans[-1][2], cidr.last))
        else:
            spans.append((cidr.family, cidr.first, cidr.last))
    for family, first, last in spans:
        yield from prefixes_between(family, first, last)


def _open_blocks(report: OverlapReport) -> Iterator[Prefix]:
    """Those blocks in which there is something to close: a finding is in one CIDR, and that in one block."""
    begins = sorted(finding.first for finding in report.findings)
    for block in _blocks(report.cidrs):
        if bisect_right(begins, block.last) > bisect_left(begins, block.first):
            yield block


class _Task:
    """One repair in the making."""

    def __init__(self, fib: Fib, report: OverlapReport, way: Route, protocol: int) -> None:
        self._fib, self._way, self._protocol = fib, way, protocol
        self._judge = Judge(report.expected_devs, report.allowed_devs)
        self.unsafe: list[Unsafe] = []
        # The last address of the last of these, or of the host's own ones behind it.
        self._reach = -1
        self.diverted: dict[Prefix, Diversion] = {}

    def close(self, block: Prefix, flow: Flow) -> tuple[Prefix, ...]:
        """The prefixes that close the block's escapes, as far as they can be closed."""
        dev = self._way.legs[0].dev
        contests = self._fib.contests(block, dev=dev, metric=self._way.metric, ours=self._protocol, flow=flow)
        pieces = [piece for contest in contests for piece in _at_borders(block.family, contest)]
        zones = [Zone(it.first, it.last, *self._means(block.family, it)) for it in pieces]
        chosen = cover(block, _merged(zones), usable=self._is_usable)
        if chosen is not None:
            return chosen
        # Only where no static route may lead can there be no choice: that steers the others no more.
        lost = [at for at, it in enumerate(zones) if it.kind == "open" and is_reserved(block.family, it.first, it.last)]
        spared = [it._replace(kind="free") if at in set(lost) else it for at, it in enumerate(zones)]
        chosen = cover(block, _merged(spared), usable=self._is_usable) or ()
        for at in lost:
            zone = zones[at]
            if not any(it.length >= zone.length and it.first <= zone.first and zone.last <= it.last for it in chosen):
                self._leave(block.family, pieces[at], "reserved")
        return chosen

    def _means(self, family: int, contest: Contest) -> tuple[ZoneKind, int]:
        """What the repair has to make of a range, and from which length on."""
        decision, length = contest.decision, contest.length
        if self._judge.escape(decision) is None:
            # What an address is by itself it stays, whichever route takes it.
            if contest.first == contest.last == self._reach + 1 and is_own(decision):
                self._reach = contest.last
            if decision.route is None or decision.route.type != decision.kind:
                return "free", 0
            alike = _ways(decision.route) == _ways(self._way)
            return ("free", 0) if length is None or alike else ("keep", length)
        reason = self._reason_against(family, contest)
        if reason is not None or length is None:
            self._leave(family, contest, reason or "earlier-rule")
            return "free", 0
        self._divert(decision)
        return "open", length

    def _reason_against(self, family: int, contest: Contest) -> UnsafeReason | None:
        """Why no route of ours can close the range, if none can."""
        width, length, route = width_of(family), contest.length, contest.decision.route
        if length is None:
            host_route = route is not None and route.table == TABLE_MAIN and route.prefix.length == width
            return "longest-prefix" if host_route else "earlier-rule"
        if contest.last - contest.first >> width - length >= TOO_MANY:
            return "too-many"
        # Only where a route to the single address stands can every prefix around an address be somebody's.
        around = (Prefix.around(family, contest.first, longer) for longer in range(width, length - 1, -1))
        single = contest.first == contest.last and not is_reserved(family, contest.first, contest.last)
        if single and not any(self._is_usable(prefix) for prefix in around):
            return "longest-prefix"
        return None

    def _is_usable(self, prefix: Prefix) -> bool:
        """Whether a static route may lead to the prefix, and its key is not held by somebody else."""
        if not prefix.length or is_reserved(prefix.family, prefix.first, prefix.last):
            return False
        metric = self._way.metric
        return not any(
            route.metric == metric and not route.tos and route.protocol != self._protocol
            for route in self._fib.routes(prefix)
        )

    def _leave(self, family: int, contest: Contest, reason: UnsafeReason) -> None:
        decision, first = contest.decision, contest.first
        before = self.unsafe[-1] if self.unsafe else None
        follows = before is not None and self._reach + 1 == first
        self._reach = contest.last
        if before and follows and (before.reason, before.decision) == (reason, decision):
            self.unsafe[-1] = attrs.evolve(before, last=contest.last)
        else:
            self.unsafe.append(Unsafe(family, first, contest.last, reason, decision))

    def _divert(self, decision: Decision) -> None:
        """Note the networks of other devices' own that will be reached by ours instead."""
        route = decision.route
        if route is None or route.prefix in self.diverted:
            return
        if any(leg.gateway is None for leg in route.legs):
            near = [it for it in self._fib.routes(route.prefix, table=route.table) if it.type == "unicast"]
            devs = tuple(dict.fromkeys(dev for it in near for dev in it.devs if dev not in self._way.devs))
            # The kernel itself makes a route for the network of each address.
            connected = any(it.protocol == PROTOCOL_KERNEL for it in near)
            self.diverted[route.prefix] = Diversion(route.prefix, devs, connected)


def _merged(zones: list[Zone]) -> list[Zone]:
    """The same with neighbours that mean the same in one."""
    found: list[Zone] = []
    for zone in zones:
        if found and found[-1][2:] == zone[2:]:
            found[-1] = found[-1]._replace(last=zone.last)
        else:
            found.append(zone)
    return found


def _at_borders(family: int, contest: Contest) -> Iterator[Contest]:
    """The range in pieces that are reserved or not."""
    begins = [at for low, high in RESERVED_RANGES[family] for at in (low, high + 1)]
    inside = [at for at in begins if contest.first < at <= contest.last]
    if not inside:
        yield contest
        return
    for first, following in zip([contest.first, *inside], [*inside, contest.last + 1], strict=True):
        yield attrs.evolve(contest, first=first, last=following - 1)


def _ways(route: Route) -> set[tuple[str | None, IP | None]]:
    return {(leg.dev, leg.gateway) for leg in route.legs}


def _still_open(proof: OverlapReport, known: list[Unsafe]) -> Iterator[Unsafe]:
    """What the proof found that was not given up before; a report is about one family."""
    given_up = sorted(known, key=lambda it: it.first)
    firsts = [it.first for it in given_up]
    reaches = list(accumulate((it.last for it in given_up), max))
    for finding in proof.findings:
        before = bisect_right(firsts, finding.last)
        if not before or reaches[before - 1] < finding.first:
            yield Unsafe(finding.cidr.family, finding.first, finding.last, "still-open", finding.decision)
