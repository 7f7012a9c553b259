"""What is right: for each end of packets, whether it is fine, in doubt, or an escape.

Theory of operation. The engine says where packets end; here that is judged. No rule looks at the
CIDR that is asked about, only at ends of packets. So a part's verdict is never worse than the
whole's, and the verdict of a union is the worst of its parts. The rules, in the order in which they
are asked:

1. Expected: the configured devices, or those of the default route (`expected`), with the doubt
   about them.
2. Allowed: devices of a known CNI, by name and kind, and the patterns of the configuration. A CNI's
   device beside what shows that the CNI was left behind is in doubt.
3. Own: this host's single addresses and broadcast; also, by address, multicast, loopback and
   link-local. A wider `local` route is an escape.
4. Refused ranges: fine only if they are a CNI's, by its table (`config.cni`).
5. The node's own subnet, where a tunnel's default route hides that of the network card. Where no
   card has a default route at all, what leaves by a card's router or its connected subnet is in
   doubt.

Two kinds of routes by the right device are in doubt, because packets may be lost. One was made by
hand, without a gateway. The other is an IPv4 route of the type broadcast or multicast: TCP does not
use it.

Other ends of packets (marked ones, those with a source, …) are fine, known, or opaque: an opaque
one that would escape is the doubt `other-packets`. What the engine cannot judge is in
`fib.not_judged`, and asked for by `check`.

What a node forwards is not judged, unless `podCidrs` names the addresses of pods. Then their
packets are judged like the host's own, with the source and the device that they have, as far as
rules tell these apart. Without it, a rule for the device of a CNI (`iif cni0`) is known to select
packets of pods: such an end is opaque if it would escape.
"""

from __future__ import annotations

from bisect import bisect_right
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from hostrouting.check.expected import Uplinks, find_uplinks, may_be_card
from hostrouting.config.cni import CNIS, POD_NETWORKS, Cni, Device, devices_of
from hostrouting.fib.engine import (
    NOT_JUDGED,
    PLAIN,
    Decision,
    End,
    Fib,
    Packet,
    conditions_of,
    pieces,
)
from hostrouting.fib.not_judged import may_change_destination
from hostrouting.model.prefix import IP, IPV4, Prefix, borders_of, prefixes_between
from hostrouting.model.route import PROTOCOL_KERNEL, REFUSING, SCOPE_UNIVERSE, TABLE_MAIN, Route
from hostrouting.routes.uplink import is_tunnel, leads_out
from hostrouting.text import spoken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hostrouting.config.settings import Network, RouteOverlapConfig

T = TypeVar("T")

FINE, DOUBT, ESCAPE = 0, 1, 2

_OF_LINK = {PROTOCOL_KERNEL, 9, 16}
"""Protocols that say who is a neighbour: kernel (for an address), ra and dhcp."""
EVERYWHERE = {
    4: tuple(map(Prefix.parse, ("0.0.0.0/32", "127.0.0.0/8", "224.0.0.0/4", "255.255.255.255/32"))),
    6: tuple(map(Prefix.parse, ("fe80::/10", "ff00::/8"))),
}
"""By family: multicast, broadcast, and the addresses of every host or link."""
_EVERYWHERE = {family: borders_of(prefixes) for family, prefixes in EVERYWHERE.items()}
"""By family: where multicast, broadcast, and the addresses of every host or link begin and end, in
turn.
"""
POD_BLOCK = {4: 20, 6: 64}
"""By family: the shortest prefix that may be a block of pods of a CNI that is not known."""

_PODS = {"pod", "bridge"}
SOME_POD = "a pod's device"
"""Stands for every device that no rule names; no device has a name with a space."""


class Opinion(NamedTuple):
    """The judgement of one end."""

    grade: int
    name: str = ""
    """The name of the finding, or what happens to packets that escape; else what makes it fine."""
    reason: str = ""
    """The thing: a device, a route, a rule."""
    selection: str = ""
    """The selectors of the rule, if other packets are in doubt."""
    devs: tuple[str, ...] = ()


class Part(NamedTuple):
    """A range of addresses that are judged alike."""

    first: int
    last: int
    decision: Decision
    opinion: Opinion
    others: tuple[Opinion, ...]

    @property
    def grade(self) -> int:
        """The worst grade of its ends."""
        return (
            max(self.opinion, *self.others).grade if self.others else self.opinion.grade
        )  # the grade comes first


_OWN, _FINE = Opinion(FINE, "own"), Opinion(FINE)


def ranges_of(parts: Iterable[Part], label: Callable[[Part], T | None]) -> list[tuple[T, int, int]]:
    """The ranges of neighbouring parts with one label. Own addresses beside them would only split
    them.
    """
    ranges: list[tuple[Any, int, int]] = []
    for part in parts:
        value: Any = label(part) or (_OWN if part.opinion is _OWN else None)
        before, first, last = ranges[-1] if ranges else (None, 0, -2)
        if last + 1 == part.first and (value == before or _OWN in (value, before)):
            ranges[-1] = (value if before is _OWN else before, first, part.last)
        else:
            ranges.append((value, part.first, part.last))
    return [(value, first, last) for value, first, last in ranges if value not in (None, _OWN)]


def of_family(cidrs: Iterable[Network], family: int) -> tuple[Prefix, ...]:
    """The CIDRs of this family."""
    return tuple(Prefix.of(cidr) for cidr in cidrs if cidr.version == family)


class Judge:
    """Judges the ends of packets on one host, for one family."""

    def __init__(self, fib: Fib, check: RouteOverlapConfig) -> None:
        """Use these tables, and what the configuration says about them."""
        self.fib, self.check = fib, check
        self.named = frozenset(check.expected_devs)
        self.services = of_family(check.service_cidrs, fib.family)
        self.pods = of_family(check.pod_cidrs, fib.family)
        self.links = {link.name: link for link in fib.snapshot.links}
        self.addresses = [
            address for address in fib.snapshot.addresses if address.ip.version == fib.family
        ]
        self._opinions: dict[tuple[int, bool], tuple[Route, Opinion]] = {}
        """By the identity of a route, which is held: to hash a route takes longer than to judge
        most of them.
        """

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: not the opinions, because a route has another identity in another
        process.
        """
        return {**vars(self), "_opinions": {}}

    def packets(self) -> Iterator[Packet]:
        """A plain packet of this host, and a packet of each kind that pods send.

        Sources differ only where a `from` selector begins or ends, and devices only where a rule
        names one.
        """
        yield PLAIN
        named = {rule.iif for rule in self.fib.rules}
        of_pods = [
            dev
            for dev in self.links
            if dev in named and any(row.use in _PODS for _, row in self._rows(dev))
        ]
        borders = borders_of(rule.src for rule in self.fib.rules if rule.src is not None)
        for first, last in (
            piece for cidr in self.pods for piece in pieces(cidr.first, cidr.last, borders)
        ):
            for source in prefixes_between(self.fib.family, first, last):
                yield from (Packet(source, dev) for dev in (SOME_POD, *of_pods))

    def parts(self, first: int, last: int, packet: Packet = PLAIN) -> Iterator[Part]:
        """The ranges of these addresses, in order."""
        everywhere = _EVERYWHERE[self.fib.family]
        for low, high in pieces(first, last, everywhere):
            is_everywhere = bisect_right(everywhere, low) % 2 == 1
            for cell in self.fib.cells(low, high, packet):
                decision = cell.decision
                is_own = is_everywhere and decision.devs
                opinion = _OWN if is_own else self.opinion(decision)
                others = (
                    ()
                    if is_own
                    else [self._opinion_of_other(end, decision, packet) for end in cell.others]
                )
                yield Part(cell.first, cell.last, decision, opinion, tuple(others))

    # 1 to 3 and 5, for one end.

    @cached_property
    def uplinks(self) -> Uplinks:
        """The expected devices, and the doubt about them."""
        return find_uplinks(self.fib, self.links, self.named)

    def opinion(self, decision: Decision, *, is_selected: bool = False) -> Opinion:
        """What is to be said of packets that end so; own addresses cut a route into many ranges.

        `is_selected` says that a mark, or the device on which pods' packets arrive, has selected
        them.
        """
        route = decision.route
        if route is None:
            return Opinion(DOUBT if decision.kind == NOT_JUDGED else ESCAPE, decision.kind)
        key = id(route), is_selected
        if key not in self._opinions:
            self._opinions[key] = route, self._opinion_of(decision, route, is_selected=is_selected)
        return self._opinions[key][1]

    def _opinion_of(self, decision: Decision, route: Route, *, is_selected: bool) -> Opinion:
        is_wide = route.prefix.length < self.fib.width
        if route.type in REFUSING:
            return self._of_refusal(route)
        if route.type == "local":
            return Opinion(ESCAPE, "own-range") if is_wide and not is_selected else _OWN
        if (
            route.type in {"broadcast", "anycast"}
            and route.protocol == PROTOCOL_KERNEL
            and not is_wide
        ):
            return _OWN
        devs = self.all_devs(decision)
        if not devs or may_change_destination(route):
            return Opinion(DOUBT, "not-judged", str(route))  # `not_judged` says why
        opinions = [self._by_device(dev, route, is_selected=is_selected) for dev in devs]
        worst = max(opinions, key=lambda opinion: opinion.grade)
        if (
            worst.grade == FINE
            and self.fib.family == IPV4
            and route.type in {"broadcast", "multicast"}
        ):
            return Opinion(DOUBT, "doubtful-route", f"TCP does not connect by [{route}]")
        return worst._replace(
            devs=tuple(opinion.reason for opinion in opinions if opinion.grade == ESCAPE)
        )

    def all_devs(self, decision: Decision) -> tuple[str, ...]:
        """The devices of the decision; equal default routes are one route with all next hops."""
        routes = self.fib.equals(decision.route) if decision.route else ()
        return tuple({dev: None for route in routes for dev in Decision(decision.kind, route).devs})

    def _by_device(self, dev: str, route: Route, *, is_selected: bool) -> Opinion:
        uplinks, is_listed = (
            self.uplinks,
            any(fnmatchcase(dev, pattern) for pattern in self.check.allowed_devs),
        )
        if dev == uplinks.card and self._is_connected(dev, route):
            return Opinion(FINE, "own-subnet", dev)
        if dev in uplinks.doubtful:
            names = spoken(sorted(uplinks.doubtful), last="or")
            return Opinion(DOUBT, "default-routes", f"{dev}, a tunnel" if names == dev else names)
        if dev in uplinks.devs:
            if self._is_far(dev, route) and not is_listed:
                reason = f"[{route}] has no gateway, and {dev} is not in routeOverlap.allowedDevs"
                return Opinion(DOUBT, "doubtful-route", reason)
            return Opinion(FINE, "expected", dev)
        if is_listed:
            return Opinion(FINE, "allowed", f"{dev} (allowedDevs)")
        # A device for selected packets is only for these, and a pod's device for single addresses.
        unfit = {"marked": not is_selected, "pod": route.prefix.length < self.fib.width}
        if rows := [row for row in self._rows(dev) if not unfit.get(row[1].use)]:
            if rival := self._rival_of(dev, route, is_selected=is_selected):
                return Opinion(DOUBT, "two-cnis", f"{dev} beside {rival}")
            others = (
                {*self.links} - {dev} if len(rows) > 1 else ()
            )  # of CNIs that share a name, they show which runs
            rows = [
                row for row in rows if any(self._is_of(other, row[0]) for other in others)
            ] or rows
            names = spoken([cni.name for cni, _ in rows], last="or")
            return Opinion(FINE, "allowed", f"{rows[0][1].pattern} ({names})")
        may_be_meant = self.lacks_card and may_be_card(self.links.get(dev), self.links)
        if may_be_meant and (route.has_gateway or self._is_connected(dev, route)):
            return Opinion(DOUBT, "default-routes", spoken(sorted({*uplinks.devs, dev}), last="or"))
        return Opinion(ESCAPE, "overlap", dev)

    @cached_property
    def lacks_card(self) -> bool:
        """Whether no default route says which card is the uplink: a tunnel or a dummy has the only
        one.

        OpenVPN may have replaced the card's, and k3s asks for a dummy's. Then a card's own routes
        may be what is meant.
        """
        if self.named or self.uplinks.card is not None:
            return False
        links = [self.links.get(dev) for dev in self.uplinks.devs]
        if any(link is not None and link.kind == "dummy" for link in links):
            return True
        return any(is_tunnel(self.links.get(dev)) for dev in self.uplinks.doubtful)

    def is_card(self, dev: str) -> bool:
        """Whether the device can have a default route of the network, and is not a tunnel."""
        link = self.links.get(dev)
        return leads_out(link) and not is_tunnel(link)

    def _owners(self, prefix: Prefix) -> dict[str, None]:
        return {address.dev: None for address in self.addresses if prefix in address.network}

    def _is_connected(self, dev: str, route: Route) -> bool:
        """Whether the route has no gateway, and its prefix lies in a network of the device."""
        return not route.has_gateway and dev in self._owners(route.prefix)

    def _is_far(self, dev: str, route: Route) -> bool:
        """Whether a route made by hand asks the link for addresses that are probably behind the
        router.
        """
        is_wide = 0 < route.prefix.length < self.fib.width
        is_by_gateway = all(hop.gateway for hop in route.next_hops if hop.dev == dev)
        if (
            is_by_gateway
            or not is_wide
            or route.protocol in _OF_LINK
            or dev in self._owners(route.prefix)
        ):
            return False
        next_hops = (
            hop for default in self.uplinks.defaults for hop in default.next_hops if hop.dev == dev
        )
        return any(hop.gateway for hop in next_hops)

    def _rows(self, dev: str) -> tuple[tuple[Cni, Device], ...]:
        link = self.links.get(dev)
        return () if link is None else devices_of(dev, link.kind)

    def _is_of(self, dev: str, cni: Cni) -> bool:
        return any(row is cni for row, _ in self._rows(dev))

    def _rival_of(self, dev: str, route: Route, *, is_selected: bool) -> str:
        """What shows that a CNI left this device, or this route, behind; empty if nothing does.

        That is the network of a card or of a pods' bridge around many addresses, and pods of
        another CNI.
        """
        is_wide = route.prefix.length < self.fib.width and not is_selected
        for owner in self._owners(route.prefix) if is_wide else ():
            is_bridge = any(device.use == "bridge" for _, device in self._rows(owner))
            if owner != dev and (is_bridge or owner in self.uplinks.devs):
                return f"the network of {owner}"
        rows = [
            (cni, device) for cni, device in self._rows(dev) if device.use in {"bridge", "network"}
        ]
        if not rows or any(cni.serves is None and device.use == "network" for cni, device in rows):
            return ""
        own = {"bridge", *(name for cni, _ in rows for name in (cni.name, *(cni.serves or ())))}
        return next(
            (f"pods of {cni.name} ({other})" for other, cni in self._pods if cni.name not in own),
            "",
        )

    @cached_property
    def _pods(self) -> list[tuple[str, Cni]]:
        """The devices by which routes lead to pods, and whose they are."""
        devs = dict.fromkeys(
            dev for route in self.fib.routes if route.type == "unicast" for dev in route.devs
        )
        rows = ((dev, cni, device) for dev in devs for cni, device in self._rows(dev))
        return [
            (dev, cni) for dev, cni, device in rows if device.use == "pod" or dev in POD_NETWORKS
        ]

    def own_pods_in(self, first: int, last: int) -> tuple[Prefix, ...]:
        """The networks of this node's pods among these addresses, by routes to their devices."""
        prefixes: dict[Prefix, None] = {}
        for route in self.fib.routes:
            is_among = route.prefix.first <= last and first <= route.prefix.last
            if is_among and route.type == "unicast" and self._leads_to_own_pods(route):
                prefixes[route.prefix] = None
        return tuple(prefixes)

    def _leads_to_own_pods(self, route: Route) -> bool:
        return any(device.use in _PODS for dev in route.devs for _, device in self._rows(dev))

    # 4. Refused ranges.

    def _of_refusal(self, route: Route) -> Opinion:
        family, length = route.prefix.family, route.prefix.length
        opinion = Opinion(ESCAPE, route.type)
        if any(route.prefix in services or services in route.prefix for services in self.services):
            return opinion
        inside = self._pods_inside(route)
        is_one_of_many = sum(other.protocol == route.protocol for other in self.fib.routes) > 1
        if length >= POD_BLOCK[family] and any(
            single == self.fib.width and self._rows(dev) for dev, single in inside
        ):
            opinion = Opinion(DOUBT, "doubtful-route", f"[{route}] refuses them, but holds pods")
        for cni in CNIS:
            has_device = any(self._is_of(dev, cni) for dev in self.links)
            for row in cni.refusals:
                if family not in row.lengths:
                    continue
                low, high = row.lengths[family]
                is_alike = (
                    row.protocol == route.protocol
                    and route.type in row.types
                    and low <= length <= high
                )
                if not is_alike or (row.proof == "first" and not self._is_node_subnet(route, cni)):
                    continue
                is_whole = row.proof != "inside" or any(self._is_of(dev, cni) for dev, _ in inside)
                if has_device and is_whole:
                    return Opinion(FINE, "pod-block", f"{route.prefix} ({cni.name})")
                if has_device or (row.is_shown_by_protocol and is_one_of_many):
                    opinion = Opinion(
                        DOUBT, "doubtful-route", f"[{route}] refuses them, perhaps for {cni.name}"
                    )
        return opinion

    def _pods_inside(self, route: Route) -> list[tuple[str, int]]:
        """Devices and lengths of routes to neighbours inside a refused range, and of own addresses
        in it.
        """
        inside = [
            (dev, other.prefix.length)
            for other in self.fib.routes
            if other.table == route.table
            and other.prefix in route.prefix
            and other.prefix != route.prefix
            if not other.has_gateway
            for dev in other.devs
            if dev not in self.uplinks.devs
        ]
        return [
            *inside,
            *(
                (address.dev, self.fib.width)
                for address in self.addresses
                if address.ip in route.prefix
            ),
        ]

    def _is_node_subnet(self, route: Route, cni: Cni) -> bool:
        """Whether the range is the network of the pods' bridge, or begins with the address of the
        CNI's device.
        """
        return any(
            (address.network == route.prefix and bool(self._rows(address.dev)))
            or (int(address.ip) == route.prefix.first and self._is_of(address.dev, cni))
            for address in self.addresses
        )

    # Other ends.

    def _opinion_of_other(self, end: End, plain: Decision, packet: Packet) -> Opinion:
        """What is to be said of packets that differ from the others of this kind at a rule.

        Known ones are fine: each early return below is one kind. The rest is fine where a plain
        packet would be, and otherwise opaque: the cluster may send such packets.
        """
        rule, decision = end.rule, end.decision
        conditions = {
            name: value for name, value in conditions_of(rule) if (name, value) != ("iif", "lo")
        }
        opaque = Opinion(DOUBT, "other-packets", f"rule {rule}", rule.selection)
        if rule.selection in self.check.intended_rules:
            return _FINE
        is_of_pods = False
        if packet is PLAIN and end.meets:  # of pods in `podCidrs`, source and device are known
            if "iif" in conditions:
                is_of_pods = self._brings_pods_packets(conditions["iif"])
                if not is_of_pods:
                    return _FINE  # forwarded, and nothing of the cluster's
            elif rule.src is not None:
                if self._is_led_elsewhere(rule.src, plain, decision):
                    return opaque
                if self._is_by_source(rule.src, decision):
                    return _FINE
        is_bound = (
            end.meets and decision.kind == "unicast" and decision.devs == (conditions.get("oif"),)
        )
        is_marked = conditions.keys() == {"fwmark"} and bool(rule.fwmark & rule.fwmask) is end.meets
        if is_bound or (is_marked and self._is_of_vpn(decision)):
            return _FINE
        is_fine = self.opinion(decision, is_selected=is_marked or is_of_pods).grade == FINE
        return _FINE if is_fine else opaque

    def _brings_pods_packets(self, dev: str) -> bool:
        """Whether packets of pods arrive on this device: on one of a known CNI.

        With `podCidrs`, what arrives from this node's pods is judged on its own, source by source.
        """
        uses = {device.use for _, device in self._rows(dev)} - {"marked"}
        if self.pods:
            uses -= _PODS
        return bool(uses)

    def _is_led_elsewhere(self, block: Prefix, plain: Decision, decision: Decision) -> bool:
        """Whether plain TCP connections end so, although their first lookup ends at the plain
        route.

        TCP looks up a second time, with the source that Linux chose for the plain route.
        """
        is_chosen = any(source in block for source in self.sources_of(plain))
        return is_chosen and {*decision.devs} != {*plain.devs}

    def _is_by_source(self, block: Prefix, decision: Decision) -> bool:
        """Whether packets with a source in this block are forwarded, or leave through their
        source's device.
        """
        own = [
            address
            for address in self.addresses
            if address.ip in block and not address.ip.is_loopback
        ]
        devs = {address.dev for address in own if not self._rows(address.dev)}
        return not devs or (
            decision.kind == "unicast" and len(devs) == 1 and {*decision.devs} == devs
        )

    def sources_of(self, decision: Decision) -> tuple[IP, ...]:
        """The addresses that Linux may write as the source into packets with this decision."""
        route = decision.route
        if route is None or decision.kind != "unicast":
            return ()
        if route.prefsrc is not None:
            return (route.prefsrc,)
        known = [address for address in self.addresses if address.scope == SCOPE_UNIVERSE]
        of_device = [address for address in known if address.dev in decision.devs]
        gateways = [hop.gateway for hop in route.next_hops if hop.gateway is not None]
        near = [
            address
            for address in of_device
            if any(gateway in address.network for gateway in gateways)
        ]
        return tuple(address.ip for address in near or of_device or known)

    def _is_of_vpn(self, decision: Decision) -> bool:
        """Whether packets with a mark leave as those of a VPN do: by the main default route, or by
        the network card.
        """
        route = decision.route
        if route is None or decision.kind != "unicast":
            return False
        leaves = any(leads_out(self.links.get(dev)) for dev in decision.devs)
        is_default = route.table == TABLE_MAIN and not route.prefix.length and leaves
        return is_default or decision.devs == (self.uplinks.card,)

    @property
    def node_ip(self) -> IP | None:
        """The address with which this host sends by the expected devices; None if there is none, or
        several.
        """
        sources = {source for _, source in self.node_sources}
        return sources.pop() if len(sources) == 1 else None

    @cached_property
    def node_sources(self) -> tuple[tuple[str, IP], ...]:
        """The expected devices that are not in doubt, and the source of the packets that leave
        through each.

        Linux chooses one of several next hops by a hash, so no source comes before the others.
        """
        devs = self.uplinks.devs - self.uplinks.doubtful
        for route in self.uplinks.defaults:
            if devs.issuperset(route.devs):
                sources = self._sources_by_hop(route)
                if sources:
                    return sources
        first_addresses: dict[str, IP] = {}
        for address in self.addresses:
            if address.dev in devs and address.scope == SCOPE_UNIVERSE:
                first_addresses.setdefault(address.dev, address.ip)
        return tuple(first_addresses.items())

    def _sources_by_hop(self, route: Route) -> tuple[tuple[str, IP], ...]:
        sources: list[tuple[str, IP]] = []
        for hop in route.next_hops:
            if hop.dev is None or hop.dead:
                continue
            by_this_hop = Decision("unicast", route._replace(next_hops=(hop,)))
            possible = self.sources_of(by_this_hop)
            if possible:
                sources.append((hop.dev, possible[0]))
        return tuple(dict.fromkeys(sources))
