"""The repair: the fewest static routes that close every escape, and the ranges that no route can close safely.

Here: which ranges to close, to keep and to report as unsafe; whether Linux would accept the gateway; and the proof of
the result. Not here: the choice of prefixes (`cover`), installing the routes (`routes`), and the messages (`report`).

A block of CIDRs is cut into ranges with one decision, each with the shortest prefix with which our route would win
there. An escaping range must be closed by our route. A range that another route of table main leads the right way
must stay as it is. The other ranges may become either. `cover` finds the fewest prefixes that do this, and each becomes
a route by the expected device. The proof is the same check, made on the tables with these routes. What pods send may
still escape then: the same is done for each class of their packets, on these tables, and routes that would divert other
packets are not used.

Before Linux adds a route, it looks up the gateway in table main. In IPv4 it does so with the policy rules, like a
packet of a socket that is bound to the route's device, and only among routes with scope link or narrower. If a rule
refuses such packets, it refuses the route. In IPv6 it first looks only into table main, then with the policy rules. The
second lookup ignores suppress_prefixlength and suppress_ifgroup, and `iif lo` never matches. One of the two must find a
route by the device without a gateway. A link-local gateway is not looked up.

With `onlink`, Linux only checks that no route contradicts. In IPv4 it looks up the gateway in table local alone. As
long as table main is merged with it, that includes main. A route that is not unicast refuses the gateway. In IPv6 Linux
looks into table main alone. A route that is not unicast refuses the gateway, and so does a unicast route by another
device. Routes whose network is ::, such as the default route, and routes that refuse packets do not count.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from itertools import accumulate
from typing import Literal, NamedTuple, TypeAlias

import attrs

from hostrouting.arguments import require
from hostrouting.check.cover import Zone, ZoneKind, cover
from hostrouting.check.overlap import Escape, Judge, OverlapReport, is_unexplained, networks_of
from hostrouting.check.packets import PodPackets, with_devices_of
from hostrouting.check.pods import PodReport, check_pods
from hostrouting.fib.decision import Contest, Decision, paired
from hostrouting.fib.engine import Fib, gives_way
from hostrouting.fib.packet import ANY, PLAIN, Flow
from hostrouting.finding import Finding
from hostrouting.model.prefix import (
    IP,
    IPV4,
    IPV6,
    LINK_LOCAL,
    RESERVED_RANGES,
    Prefix,
    is_reserved,
    prefixes_between,
    spans_of,
    width_of,
)
from hostrouting.model.route import (
    DEFAULT_METRIC,
    OURS,
    PROTOCOL_KERNEL,
    REFUSING,
    SCOPE_LINK,
    TABLE_MAIN,
    NextHop,
    Route,
)
from hostrouting.model.rule import default_rules
from hostrouting.model.snapshot import Snapshot
from hostrouting.routes.uplink import METRICS, DesiredRoute, Pending, Uplink, default_route
from hostrouting.text import spoken

# earlier-rule: a rule decides before table main is looked up. longest-prefix: a route to a single address decides, and
# no prefix is longer. no-way: no gateway is known for the expected device. too-many: closing it would take more than
# TOO_MANY routes. reserved: a static route to this range is not allowed. surprise: the kernel's answer differs from its
# tables. refused: Linux would not accept a route by that gateway. clash: routes for packets of pods would take the
# host, or other pods, from a way that is right. still-open: the proof found it open.
UnsafeReason: TypeAlias = Literal[
    "earlier-rule", "longest-prefix", "no-way", "too-many", "reserved", "surprise", "refused", "clash", "still-open"
]

# No operator would read a repair with more routes than this.
TOO_MANY = 1024
# Route types that send packets out by a device.
_SENDING = frozenset({"unicast", "broadcast", "anycast", "multicast"})
_FREE: tuple[ZoneKind, int] = ("free", 0)
# By family: the first address of each reserved range, and the first one after it.
_BORDERS = {
    family: sorted({at for low, high in ranges for at in (low, high + 1)}) for family, ranges in RESERVED_RANGES.items()
}
_NAMED = 9  # a message names at most this many devices


class Unsafe(NamedTuple):
    """An escaping range that our routes cannot close safely; `decision` names the rule and route that decide.

    The range includes the host's single addresses inside it, as in an Escape. `missing` names what a repair needs. If
    Linux refuses the next hop, `missing` is that next hop, and `against` is the decision that makes Linux refuse it.
    """

    family: int
    first: int
    last: int
    reason: UnsafeReason
    decision: Decision
    missing: str = ""
    against: Decision | None = None
    senders: tuple[PodPackets, ...] = ()
    """The packets of pods that it is about; empty if it is about those that the host itself sends."""


# What the repair does to a network that packets for the repaired range reach without a gateway, or that a route
# refuses: the sentence before and after the name of the network.
_Diversion: TypeAlias = tuple[str, str]


class Repair(NamedTuple):
    """The routes that close the escapes, what no route can close, the cost, and the check with these routes."""

    routes: tuple[DesiredRoute, ...]
    unsafe: tuple[Unsafe, ...]
    proof: OverlapReport
    pods: tuple[PodReport, ...] = ()
    """The check of what pods send with the routes in place."""
    costs: tuple[Finding, ...] = ()
    """What they take from other devices."""


def propose_repair(
    fib: Fib, report: OverlapReport, *, flow: Flow = ANY, names_dev: bool = False, pods: Sequence[PodReport] = ()
) -> Repair:
    """The fewest routes that close what `report` found on this host, without touching a route that is not ours.

    Our routes leave open what the default route of this host fills in rightly, so
    that they can repair many hosts: the gateway, and unless the repair `names_dev`, the device; `resolve_route`
    completes them. The proof is the same check with the routes in place. If what `pods` send still escapes then, more
    routes are added for it.
    """
    require(fib, Fib, "propose_repair", "write propose_repair(Fib(snapshot), report)")
    require(report, OverlapReport, "propose_repair", "write propose_repair(fib, check_overlap(fib, cidrs))")
    repair, routes, _, diverted, after = _propose(fib, report, flow, names_dev=names_dev)
    added = list(routes)
    every = [packets for pod_report in pods for packets in pod_report.packets]
    flows = [flow, *(packets.flow for packets in every)]
    for packets in [
        packets for pod_report in pods if pod_report.escapes_beyond(report) for packets in pod_report.packets
    ]:
        seen = with_devices_of(after, every)
        left = report.again(seen, packets.flow)
        more, routes, replaced, others, then = _propose(seen, left, packets.flow, names_dev=names_dev)
        reason: UnsafeReason | None = "too-many" if len(added) + len(routes) > TOO_MANY else None
        if reason is None and routes and _diverts(seen, then, report, flows):
            reason = "clash"
        if reason is not None:
            more, routes, replaced, others, _ = _nothing(seen, left, reason)
        repair, after = _both(repair, more, packets), _with(after, routes, replaced)
        added += routes
        diverted = {**others, **diverted}
    surprising = [
        lost._replace(senders=pod_report.packets)
        for pod_report in pods
        for lost in _surprising(pod_report.escapes_beyond(report))
    ]
    repair = repair._replace(unsafe=(*repair.unsafe, *surprising))
    if pods:
        proof = report.again(after, flow)
        repair = repair._replace(proof=proof, pods=check_pods(after, proof, every))
    return repair._replace(costs=tuple(_diversions(diverted)) if added else ())


def _with(fib: Fib, routes: Sequence[Route], replaced: Sequence[Route]) -> Fib:
    return fib.with_routes(routes, without=replaced) if routes else fib


def _diverts(before: Fib, after: Fib, report: OverlapReport, flows: Iterable[Flow]) -> bool:
    """Whether packets that stayed here, or left by an allowed device, are routed differently now."""
    judge = Judge.of(report, before)
    return any(
        (then.kind, then.devs) != (now.kind, now.devs)
        and judge.escape(then) is None
        and not set(then.devs) & set(report.expected_devs)
        for flow in flows
        for cidr in report.cidrs
        for _, _, then, now in paired(before.cells(cidr, flow), after.cells(cidr, flow))
    )


def _diversions(diverted: Mapping[Prefix, _Diversion]) -> Iterator[Finding]:
    """What the repair takes from other devices, with equal cases together."""
    alike: dict[_Diversion, list[str]] = {}
    for prefix, diversion in diverted.items():
        alike.setdefault(diversion, []).append(str(prefix))
    for (before, after), prefixes in alike.items():
        networks = spoken(prefixes)
        yield Finding("repair-cost", "warning", f"{before}{networks}{after}" if after else before, networks)


def _both(one: Repair, other: Repair, packets: PodPackets) -> Repair:
    """One repair with the routes of both, and with what cannot be closed; `other` is for these packets."""
    unsafe = {_place(lost): lost for lost in one.unsafe}
    for lost in other.unsafe:
        known = unsafe.get(_place(lost))
        # What the host itself sends there escapes as well.
        if known is None or known.senders:
            unsafe[_place(lost)] = lost._replace(senders=(*(known.senders if known else ()), packets))
    return one._replace(
        routes=(*one.routes, *(route for route in other.routes if route not in one.routes)),
        unsafe=tuple(unsafe.values()),
    )


def _place(unsafe: Unsafe) -> tuple[object, ...]:
    return (unsafe.first, unsafe.last, unsafe.reason, unsafe.decision.route)


# A repair, the routes that it adds, our routes that these replace, what it diverts, and the host with these routes.
_Proposal: TypeAlias = tuple[Repair, tuple[Route, ...], tuple[Route, ...], dict[Prefix, _Diversion], Fib]


def _propose(fib: Fib, report: OverlapReport, flow: Flow, *, names_dev: bool) -> _Proposal:
    """The repair of what was found for the packets of this flow."""
    if not report.escapes:
        return Repair((), (), report), (), (), {}, fib
    family = report.family
    uplink = Uplink(fib)
    pattern = _pattern(fib, report, family)
    way = uplink.resolve(pattern)
    written = uplink.leave_open(pattern, names_dev=names_dev)
    if isinstance(way, Pending):
        return _nothing(fib, report, "no-way", _missing(way, fib))
    for leg, words in zip(way.legs, way.ways, strict=True):
        against = refused_gateway(fib, leg)
        if against is not None:
            return _nothing(fib, report, "refused", words, against)
    task = _Task(fib, report, way, flow)
    for block in _open_blocks(report):
        # In IPv6 a connected route has metric 256: a lower one wins over it, the usual one needs two longer prefixes.
        tries = [task.closing(block, metric=metric) for metric in METRICS[family]]
        task = min(tries, key=lambda tried: (tried.lost, len(tried.routes)))
    routes = task.routes
    if len(routes) > TOO_MANY:
        return _nothing(fib, report, "too-many")
    replaced = [
        standing
        for route in routes
        for standing in fib.routes(route.prefix)
        if standing.key == route.key and standing.protocol == OURS
    ]
    after = _with(fib, routes, replaced)
    proof = report.again(after, flow)
    repair = Repair(
        tuple(attrs.evolve(written, destination=route.prefix, metric=_as_written(route)) for route in routes),
        (*task.unsafe, *_surprising(report.escapes), *_still_open(proof, task.unsafe)),
        proof,
    )
    return repair, tuple(routes), tuple(replaced), task.diverted, after


def _nothing(
    fib: Fib, report: OverlapReport, reason: UnsafeReason, missing: str = "", against: Decision | None = None
) -> _Proposal:
    """A proposal without routes, because of this reason."""
    lost = (
        Unsafe(report.family, finding.first, finding.last, reason, finding.decision, missing, against)
        for finding in report.escapes
    )
    return Repair((), tuple(lost), report), (), (), {}, fib


def _pattern(fib: Fib, report: OverlapReport, family: int) -> DesiredRoute:
    """The template for the routes: by a device with a default route, or open if that has several next hops."""
    anywhere = Prefix(family, 0, 0)
    default = default_route(fib, family=family)
    if default is not None and len(default.legs) > 1 and set(default.devs) <= set(report.expected_devs):
        return DesiredRoute(anywhere)
    named = (dev for dev in report.expected_devs if default_route(fib, family=family, dev=dev) is not None)
    return DesiredRoute(anywhere, dev=next(named, next(iter(report.expected_devs))))


def _missing(way: Pending, fib: Fib) -> str:
    """What is missing. For a device, also the devices that exist, because its name may be mistyped."""
    dev, names = way.desired.dev, [link.name for link in fib.snapshot.links if link.name != "lo"]
    if dev is None or dev in names or dev not in way.missing:
        return way.missing
    return f"the device {dev}, which expectedDevs names; this host has {spoken(names, most=_NAMED) or 'none'}"


def _blocks(cidrs: Iterable[Prefix]) -> Iterator[Prefix]:
    """The CIDRs as the fewest blocks: adjacent and nested CIDRs are merged."""
    for span in spans_of(cidrs):
        yield from prefixes_between(*span)


def _open_blocks(report: OverlapReport) -> Iterator[Prefix]:
    """The blocks that contain a finding: each finding lies in one CIDR, and each CIDR in one block."""
    begins = sorted(finding.first for finding in report.escapes)
    for block in _blocks(report.cidrs):
        if bisect_right(begins, block.last) > bisect_left(begins, block.first):
            yield block


def _as_written(route: Route) -> int:
    """The metric in a configuration: 0 for the usual one."""
    return 0 if route.metric == DEFAULT_METRIC[route.prefix.family] else route.metric


class _Task:
    """One repair while it is being computed."""

    def __init__(self, fib: Fib, report: OverlapReport, way: Route, flow: Flow) -> None:
        self._fib, self._way, self._flow = fib, way, flow
        self._judge, self._networks = Judge.of(report, fib), networks_of(fib.snapshot.addresses)
        self.routes: list[Route] = []
        self.unsafe: list[Unsafe] = []
        # The last address of the last unsafe range, or of the own addresses directly after it.
        self._reach = -1
        self.diverted: dict[Prefix, _Diversion] = {}

    @property
    def lost(self) -> int:
        """The number of addresses that none of our routes can close."""
        return sum(unsafe.last - unsafe.first + 1 for unsafe in self.unsafe)

    def closing(self, block: Prefix, *, metric: int) -> "_Task":
        """A copy of this repair that also closes the block's escapes, as far as routes of this metric can."""
        after = copy(self)
        after._way = attrs.evolve(self._way, metric=metric)
        after.routes, after.unsafe, after.diverted = [*self.routes], [*self.unsafe], {**self.diverted}
        after.routes += [after._route_to(prefix) for prefix in after._close(block)]
        return after

    def _route_to(self, prefix: Prefix) -> Route:
        """The route to this prefix, with a lower metric only if another route would win otherwise."""
        usual = DEFAULT_METRIC[prefix.family]
        near = self._fib.routes(prefix)
        is_enough = all(gives_way(route, usual, OURS) for route in near)
        is_lowest = self._way.metric == METRICS[prefix.family][-1]
        return attrs.evolve(self._way, prefix=prefix, metric=usual if is_lowest and is_enough else self._way.metric)

    def _close(self, block: Prefix) -> tuple[Prefix, ...]:
        """The prefixes that close the block's escapes, as far as possible."""
        dev = self._way.legs[0].dev
        contests = self._fib.contests(block, dev=dev, metric=self._way.metric, ours=OURS, flow=self._flow)
        pieces = [piece for contest in contests for piece in _at_borders(block.family, contest)]
        zones = [Zone(piece.first, piece.last, *self._treatment(block.family, piece)) for piece in pieces]
        chosen = cover(block, _merged(zones), usable=self._is_usable)
        if chosen is not None:
            return chosen
        # Only reserved ranges can make a choice impossible: leave out each that no choice closes with the others.
        lost = [
            at
            for at, zone in enumerate(zones)
            if zone.kind == "open" and is_reserved(block.family, zone.first, zone.last)
        ]
        spared = [zone._replace(kind="free") if at in set(lost) else zone for at, zone in enumerate(zones)]
        chosen = cover(block, _merged(spared), usable=self._is_usable) or ()
        for at in lost:
            tried = [*spared[:at], zones[at], *spared[at + 1 :]]
            closing = cover(block, _merged(tried), usable=self._is_usable)
            if closing is None:
                self._leave(block.family, pieces[at], "reserved")
            else:
                spared, chosen = tried, closing
        return chosen

    def _treatment(self, family: int, contest: Contest) -> tuple[ZoneKind, int]:
        """How the repair treats a range: close or keep it, and from which prefix length on."""
        decision, length = contest.decision, contest.length
        if self._judge.escape(decision) is None:
            # A kind that follows from the address alone is the same for every route.
            if contest.first == contest.last == self._reach + 1 and decision.own:
                self._reach = contest.last
            if length is None or decision.route is None or decision.route.type != decision.kind:
                return _FREE
            return _FREE if _ways(decision.route) == _ways(self._way) else ("keep", length)
        reason = self._reason_against(family, contest)
        if reason is not None or length is None:
            self._leave(family, contest, reason or "earlier-rule")
            return _FREE
        self._divert(decision)
        return "open", length

    def _reason_against(self, family: int, contest: Contest) -> UnsafeReason | None:
        """Why our routes cannot close the range; None if they can."""
        width, length, route = width_of(family), contest.length, contest.decision.route
        if length is None:
            host_route = route is not None and route.table == TABLE_MAIN and route.prefix.length == width
            return "longest-prefix" if host_route else "earlier-rule"
        if contest.last - contest.first >> width - length >= TOO_MANY:
            return "too-many"
        # Only at a route to a single address can every prefix around it be held by another route.
        around = (Prefix.around(family, contest.first, longer) for longer in range(width, length - 1, -1))
        single = contest.first == contest.last and not is_reserved(family, contest.first, contest.last)
        if single and not any(self._is_usable(prefix) for prefix in around):
            return "longest-prefix"
        return None

    def _is_usable(self, prefix: Prefix) -> bool:
        """Whether a static route may have this prefix, decides for packets, and has a key that only we can hold."""
        if not prefix.length or is_reserved(prefix.family, prefix.first, prefix.last):
            return False
        if self._fib.skips(prefix, self._flow):
            return False
        key = self._way.key._replace(prefix=prefix)
        return not any(route.key == key and route.protocol != OURS for route in self._fib.routes(prefix))

    def _leave(self, family: int, contest: Contest, reason: UnsafeReason) -> None:
        decision, first = contest.decision, contest.first
        before = self.unsafe[-1] if self.unsafe else None
        follows = self._reach + 1 == first
        self._reach = contest.last
        if before and follows and (before.reason, before.decision) == (reason, decision):
            self.unsafe[-1] = before._replace(last=contest.last)
        else:
            self.unsafe.append(Unsafe(family, first, contest.last, reason, decision))

    def _divert(self, decision: Decision) -> None:
        """Record the networks of other devices that our routes take over, and what a route has refused on purpose."""
        route = decision.route
        if route is None or route.prefix in self.diverted:
            return
        if route.type in REFUSING:
            told = f"the repair overrides [{decision.holder}], which may be there on purpose"
            self.diverted[route.prefix] = f"{told}: packets for the repaired range are no longer refused", ""
        if any(leg.gateway is None for leg in route.legs):
            near = [other for other in self._fib.routes(route.prefix, table=route.table) if other.type in _SENDING]
            devs = tuple(dict.fromkeys(dev for other in near for dev in other.devs if dev not in self._way.devs))
            # The kernel adds a route for the network of each address.
            connected = any(
                other.protocol == PROTOCOL_KERNEL and not is_unexplained(other, self._networks) for other in near
            )
            lost = "neighbours there, in the repaired range, become unreachable over IP"
            after = lost if connected else "packets for the repaired range no longer go there"
            self.diverted[route.prefix] = "the repair diverts addresses of ", f" from {', '.join(devs)}: {after}"


def _merged(zones: list[Zone]) -> list[Zone]:
    """The same zones, with equal neighbours merged."""
    found: list[Zone] = []
    for zone in zones:
        if found and (found[-1].kind, found[-1].length) == (zone.kind, zone.length):
            found[-1] = found[-1]._replace(last=zone.last)
        else:
            found.append(zone)
    return found


def _at_borders(family: int, contest: Contest) -> Iterator[Contest]:
    """Split the range at the borders of the reserved ranges."""
    borders = _BORDERS[family]
    inside = borders[bisect_right(borders, contest.first) : bisect_right(borders, contest.last)]
    for first, following in zip([contest.first, *inside], [*inside, contest.last + 1], strict=True):
        yield Contest(first, following - 1, contest.decision, contest.length)


def _ways(route: Route) -> set[tuple[str | None, IP | None]]:
    return {(leg.dev, leg.gateway) for leg in route.legs}


def _surprising(findings: Iterable[Escape]) -> Iterator[Unsafe]:
    for finding in findings:
        if finding.surprise:
            yield Unsafe(finding.cidr.family, finding.first, finding.last, "surprise", finding.decision)


def _still_open(proof: OverlapReport, known: list[Unsafe]) -> Iterator[Unsafe]:
    """What the proof found and was not reported as unsafe before, for the one family of the report."""
    given_up = sorted(known)
    firsts = [unsafe.first for unsafe in given_up]
    reaches = list(accumulate((unsafe.last for unsafe in given_up), max))
    for finding in proof.escapes:
        before = bisect_right(firsts, finding.last)
        if not before or reaches[before - 1] < finding.first:
            yield Unsafe(finding.cidr.family, finding.first, finding.last, "still-open", finding.decision)


# Whether Linux accepts a gateway.


def refused_gateway(fib: Fib, leg: NextHop) -> Decision | None:
    """The decision that makes Linux refuse this gateway; None if Linux accepts it or does not look it up."""
    gateway = leg.gateway
    if gateway is None or leg.dev is None or gateway in LINK_LOCAL:
        return None
    if leg.onlink:
        return _against_ipv4(fib, gateway) if gateway.version == IPV4 else _against_ipv6(fib, gateway, leg.dev)
    return _refused_ipv4(fib, gateway, leg.dev) if gateway.version == IPV4 else _refused_ipv6(fib, gateway, leg.dev)


def _against_ipv4(fib: Fib, gateway: IP) -> Decision | None:
    # While local and main are merged, a lookup of table local finds the routes of both.
    looked_up = default_rules(IPV4)[: 2 if fib.merged else 1]
    alone = attrs.evolve(fib.snapshot, rules=looked_up, routes=fib.around(gateway, table=None))
    decision = Fib(alone, merged=fib.merged).lookup(gateway, PLAIN)
    return None if decision.kind in {"unicast", "no-route", *REFUSING} else decision


def _against_ipv6(fib: Fib, gateway: IP, dev: str) -> Decision | None:
    # The device is preferred, but the lookup is not restricted to it: like that of the device that a packet came in by.
    decision = _in_main(fib, gateway).lookup(gateway, attrs.evolve(PLAIN, iif=dev))
    if decision.route is None or decision.kind in REFUSING or not decision.route.prefix.network:
        return None
    # Of several next hops, Linux checks the one that it chose by a hash: each must be by the device.
    return None if decision.kind == "unicast" and set(decision.devs) <= {dev} else decision


def _refused_ipv4(fib: Fib, gateway: IP, dev: str) -> Decision | None:
    near = [route for route in fib.around(gateway, table=None) if route.scope >= SCOPE_LINK]
    neighbours = Fib(_with_carriers(fib.snapshot, near), merged=fib.merged)
    decision = neighbours.lookup(gateway, attrs.evolve(PLAIN, oif=dev, ipproto=0))
    return None if decision.kind in {"unicast", "local"} else decision


def _refused_ipv6(fib: Fib, gateway: IP, dev: str) -> Decision | None:
    flow = attrs.evolve(PLAIN, iif="", oif=dev, ipproto=0)
    if _is_beside(_in_main(fib, gateway).lookup(gateway, flow), dev):
        return None
    rules = tuple(attrs.evolve(rule, suppress_prefixlength=None, suppress_ifgroup=None) for rule in fib.snapshot.rules)
    unsuppressed = attrs.evolve(fib.snapshot, rules=rules, routes=fib.around(gateway, table=None))
    decision = Fib(unsuppressed).lookup(gateway, flow)
    return None if _is_beside(decision, dev) else decision


def _in_main(fib: Fib, gateway: IP) -> Fib:
    """The host for a lookup of an IPv6 gateway in table main alone."""
    return Fib(_with_carriers(attrs.evolve(fib.snapshot, rules=default_rules(IPV6)), fib.around(gateway)))


def _with_carriers(snapshot: Snapshot, routes: Iterable[Route]) -> Snapshot:
    """The host with these routes, for a lookup that ignores lost carriers: Linux may list their next hops as dead."""
    its = [
        attrs.evolve(route, legs=tuple(attrs.evolve(leg, dead=False, linkdown=False) for leg in route.legs))
        for route in routes
    ]
    return attrs.evolve(snapshot, routes=its)


def _is_beside(decision: Decision, dev: str) -> bool:
    """Whether the route by this device has no gateway and does not refuse packets."""
    legs = () if decision.route is None else decision.route.legs
    return any((leg.dev, leg.gateway) == (dev, None) for leg in legs)
