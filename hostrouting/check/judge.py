"""What is right: for each end of a packet, whether it is fine, in doubt, or an escape.

Theory of operation. The engine says where packets end; here that is judged. No rule looks at the CIDR that is asked
about, only at ends of packets: so a part's verdict is never worse than the whole's, and the verdict of a union is the
worst of its parts. The rules, in the order in which they are asked:

1. Expected: the configured devices, or those of the default route. A default route by a tunnel, or several that share
   one metric, leave that in doubt; then the devices are in doubt, and each range that leaves by one of them. So is a
   wide route by an expected card that was made by hand without a gateway, although the default route has one.
2. Allowed: devices of a known CNI, by name and kind, and the patterns of the configuration. A bridge or an overlay
   beside pods of another CNI is in doubt.
3. Own: single addresses of this host, broadcast, and by their address multicast and what every host or link has. A
   wider `local` route is an escape. IPv4 routes of the types broadcast and multicast are in doubt, because TCP refuses
   them, and escape by their device; others are judged like unicast routes.
4. Refused ranges: fine only if they are a CNI's, by its table (`config.cni`).
5. The node's own subnet, where a tunnel's default route hides that of the network card.

Other ends of packets (marked ones, those with a source, …) are fine, known, or opaque: an opaque one that would escape
is the doubt `other-packets`. What the engine cannot judge is in `fib.not_judged`, and asked for by `check`.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache, cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from hostrouting.check.expected import ETHERNET, RA, Uplinks, defaults_of, find_uplinks, is_tunnel
from hostrouting.config.cni import CNIS, Cni, Device, Use, devices_of
from hostrouting.fib.engine import PLAIN, Decision, End, Fib, Packet, conditions_of
from hostrouting.fib.not_judged import may_change_destination
from hostrouting.model.prefix import IPV4, LINK_LOCAL, MULTICAST, Prefix
from hostrouting.model.route import PROTOCOL_KERNEL, REFUSING, TABLE_MAIN
from hostrouting.routes.uplink import leads_out
from hostrouting.text import spoken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hostrouting.config.settings import RouteOverlapConfig
    from hostrouting.config.values import Network
    from hostrouting.model.prefix import IP
    from hostrouting.model.route import Route

T = TypeVar("T")

FINE, DOUBT, ESCAPE = 0, 1, 2
"""The grades of an opinion."""

_DHCP = 16
_EVERYWHERE = {
    4: [*map(Prefix.parse, ("0.0.0.0/32", "127.0.0.0/8", "224.0.0.0/4", "255.255.255.255/32"))],
    6: [Prefix.of(LINK_LOCAL), Prefix.of(MULTICAST[6])],
}
"""By family, in order: multicast, broadcast, and the addresses that every host has, or every link."""
POD_BLOCK = {4: 20, 6: 64}
"""By family: the shortest prefix that may be a block of pods of a CNI that is not known."""


class Opinion(NamedTuple):
    """What is to be said of one end."""

    grade: int
    name: str = ""
    """The name of the finding, if it is not fine; else what makes it fine."""
    reason: str = ""
    """The thing: a device, a route, a rule."""
    selection: str = ""
    """The selectors of the rule, if other packets are in doubt."""
    devs: tuple[str, ...] = ()
    """The devices by which packets escape."""


class Part(NamedTuple):
    """A range of addresses that are judged alike."""

    first: int
    last: int
    decision: Decision
    opinion: Opinion
    others: tuple[Opinion, ...]
    """The opinions on other ends."""

    @property
    def grade(self) -> int:
        """The worst grade of its ends."""
        return max(self.opinion.grade, *(other.grade for other in self.others), FINE)


def ranges_of(parts: Iterable[Part], label: Callable[[Part], T | None]) -> list[tuple[T, int, int]]:
    """The ranges of neighbouring parts with one label. Own addresses beside them would only split them."""
    ranges: list[tuple[T | None, int, int]] = []
    is_open = False  # so far, the last range has only own addresses
    for part in parts:
        value = label(part)
        is_own = value is None and part.opinion.name == "own"
        before, first, last = ranges[-1] if ranges else (None, 0, -2)
        if last + 1 == part.first and (is_own or is_open or value == before):
            ranges[-1] = (value if is_open else before, first, part.last)
            is_open = is_open and is_own
        else:
            ranges.append((value, part.first, part.last))
            is_open = is_own
    return [(value, first, last) for value, first, last in ranges if value is not None]


def of_family(cidrs: Iterable[Network], family: int) -> tuple[Prefix, ...]:
    """The CIDRs of this family."""
    return tuple(Prefix.of(cidr) for cidr in cidrs if cidr.version == family)


class Judge:
    """Judges the ends of packets on one host, for one family."""

    def __init__(self, fib: Fib, check: RouteOverlapConfig) -> None:
        """Use these tables, and what the configuration says about them."""
        self.fib, self._check = fib, check
        self.named = frozenset(check.expected_devs)
        """The devices that the configuration expects."""
        self.services = of_family(check.service_cidrs, fib.family)
        self.pods = of_family(check.pod_cidrs, fib.family)
        self._intended = {intended.rule for intended in check.intended_rules}
        self._links = {link.name: link for link in fib.snapshot.links}
        self._refusals: dict[Route, Opinion] = {}
        self._addresses = [address for address in fib.snapshot.addresses if address.ip.version == fib.family]

    def with_routes(self, routes: Iterable[Route]) -> Judge:
        """The same judge of a host that also has these routes."""
        return Judge(Fib(self.fib.snapshot.with_routes(routes), self.fib.family), self._check)

    def parts(self, first: int, last: int, packet: Packet = PLAIN) -> Iterator[Part]:
        """The ranges of these addresses, in order."""
        for low, high, is_everywhere in _pieces(self.fib.family, first, last):
            for cell in self.fib.cells_between(low, high, packet):
                decision = cell.decision
                if is_everywhere and (decision.devs or not cell.first):  # Linux takes 0.0.0.0 for this host
                    yield Part(cell.first, cell.last, decision, Opinion(FINE, "own"), ())
                    continue
                others = tuple(self.opinion_of_other(end, decision, packet) for end in cell.others)
                yield Part(cell.first, cell.last, decision, self.opinion(decision), others)

    # Devices.

    def _rows(self, dev: str) -> list[tuple[Cni, Device]]:
        link = self._links.get(dev)
        return [] if link is None else _rows_of(dev, link.kind)

    def _is_of(self, dev: str, cni: Cni) -> bool:
        return any(row is cni for row, _ in self._rows(dev))

    @cached_property
    def uplinks(self) -> Uplinks:
        """The expected devices, and the doubt about them."""
        return find_uplinks(self.fib, self.named)

    def is_tunnel(self, dev: str) -> bool:
        """Whether packets that leave by the device go to another device again."""
        return is_tunnel(self._links.get(dev))

    def is_card(self, dev: str) -> bool:
        """Whether the device can have a default route of the network, and is not a tunnel."""
        return leads_out(self._links.get(dev)) and not self.is_tunnel(dev)

    def _is_listed(self, dev: str) -> bool:
        """Whether the configuration allows the device."""
        return any(fnmatchcase(dev, pattern) for pattern in self._check.allowed_devs)

    def _useful(self, devs: Iterable[str]) -> frozenset[str]:
        """Those of the devices by which a default route can be one of the network."""
        return frozenset(dev for dev in devs if leads_out(self._links.get(dev)))

    # 2 to 5, for one end.

    def opinion(self, decision: Decision, *, is_marked: bool = False) -> Opinion:
        """What is to be said of packets that end so."""
        route = decision.route
        if route is None:
            return Opinion(ESCAPE, decision.kind, str(decision.rule or ""))
        if decision.kind in REFUSING:
            if route not in self._refusals:
                self._refusals[route] = self._of_refusal(route)
            return self._refusals[route]
        is_wide = route.prefix.length < self.fib.width
        if decision.kind == "local" and is_wide and not is_marked:
            return Opinion(ESCAPE, "own-range", str(route))
        is_of_address = decision.kind in {"broadcast", "anycast"} and route.protocol == PROTOCOL_KERNEL
        if decision.kind == "local" or (is_of_address and not is_wide):
            return Opinion(FINE, "own")
        devs = self.all_devs(decision)
        if not devs or may_change_destination(route):
            return Opinion(DOUBT, "not-judged", str(route))  # `not_judged` says why
        opinions = [self._by_device(dev, route, is_marked=is_marked) for dev in devs]
        worst = max(opinions, key=lambda opinion: opinion.grade)
        if worst.grade == FINE and self.fib.family == IPV4 and decision.kind not in {"unicast", "anycast"}:
            return Opinion(DOUBT, "not-unicast", f"[{route}]")
        return worst._replace(devs=tuple(opinion.reason for opinion in opinions if opinion.grade == ESCAPE))

    def all_devs(self, decision: Decision) -> tuple[str, ...]:
        """The devices of the decision; equal default routes are one route with all next hops."""
        route = decision.route
        if route is None or route.prefix.length:
            return decision.devs
        rivals = self.fib.tables[route.table].at(0, 0)
        equals = [rival for rival in rivals if (rival.metric, rival.type) == (route.metric, "unicast")]
        return tuple(dict.fromkeys([*decision.devs, *(dev for rival in equals for dev in rival.devs)]))

    def _by_device(self, dev: str, route: Route, *, is_marked: bool) -> Opinion:
        uplinks = self.uplinks
        if dev == uplinks.card and self._is_connected(dev, route):
            return Opinion(FINE, "own-subnet", dev)
        if dev in self.named or (dev in uplinks.devs and leads_out(self._links.get(dev))):
            if dev in uplinks.doubtful:
                return Opinion(DOUBT, "default-routes", spoken(sorted(uplinks.doubtful)))
            is_far = self._is_far(dev, route)
            return Opinion(DOUBT, "on-link", f"[{route}]") if is_far else Opinion(FINE, "expected", dev)
        if self._is_listed(dev):
            return Opinion(FINE, "allowed", f"{dev} (allowedDevs)")
        if row := self._row_allowing(dev, route, is_marked=is_marked):
            cni, device = row
            if not is_marked and (owner := self._network_owner(dev, route)):
                return Opinion(DOUBT, "own-network", f"{dev} has a part of the network of {owner}")
            if rival := self._rival_of(dev):
                return Opinion(DOUBT, "two-cnis", f"{dev} beside {rival}")
            return Opinion(FINE, "allowed", f"{device.pattern} ({cni.name})")
        is_below_tunnel = uplinks.card is None and any(map(self.is_tunnel, uplinks.doubtful))
        if is_below_tunnel and self.is_card(dev) and self._is_connected(dev, route):
            return Opinion(DOUBT, "default-routes", f"a tunnel and {dev}, perhaps the card below it")
        return Opinion(ESCAPE, "overlap", dev)

    def _row_allowing(self, dev: str, route: Route, *, is_marked: bool) -> tuple[Cni, Device] | None:
        """The row of the table that allows this device for packets of this route."""
        unfit = {Use.MARKED: not is_marked, Use.POD: route.prefix.length < self.fib.width}
        return next((row for row in self._rows(dev) if not unfit.get(row[1].use)), None)

    def _owners(self, prefix: Prefix) -> dict[str, None]:
        """The devices that have a network around this prefix."""
        return {address.dev: None for address in self._addresses if prefix in address.network}

    def _is_connected(self, dev: str, route: Route) -> bool:
        """Whether the route has no gateway, and its prefix lies in a network of the device."""
        return not any(leg.gateway for leg in route.legs) and dev in self._owners(route.prefix)

    def _is_far(self, dev: str, route: Route) -> bool:
        """Whether the route asks a card's link for addresses that are probably behind the router.

        It is made by hand: DHCP, an advertisement and an address say who is a neighbour. Where the default route by
        this card needs no gateway, no other route does.
        """
        if any(leg.gateway for leg in route.legs if leg.dev == dev):
            return False
        is_wide = 0 < route.prefix.length < self.fib.width and route.prefix not in _ZEROCONF
        is_by_hand = route.protocol not in {PROTOCOL_KERNEL, RA, _DHCP}
        is_ethernet = self.is_card(dev) and self._links[dev].type == ETHERNET
        if not (is_wide and is_by_hand and is_ethernet) or self._is_listed(dev) or self._is_connected(dev, route):
            return False
        legs = (leg for default in defaults_of(self.fib) for leg in default.route.legs)
        return any(leg.gateway for leg in legs if leg.dev == dev)

    def _network_owner(self, dev: str, route: Route) -> str:
        """The card or the pods' bridge in whose connected network a CNI has put a route for many addresses."""
        owners = self._owners(route.prefix) if route.prefix.length < self.fib.width else {}
        for owner in owners:
            is_bridge = any(device.use is Use.BRIDGE for _, device in self._rows(owner))
            if owner != dev and (is_bridge or (owner in self.uplinks.devs and not self.is_tunnel(owner))):
                return owner
        return ""

    def _rival_of(self, dev: str) -> str:
        """Pods of another CNI than that of this device, which may be left behind; empty if there are none."""
        rows = [(cni, device) for cni, device in self._rows(dev) if device.use in {Use.BRIDGE, Use.NETWORK}]
        if not rows or any(cni.serves is None and device.use is Use.NETWORK for cni, device in rows):
            return ""
        own = {"bridge", *(name for cni, _ in rows for name in (cni.name, *(cni.serves or ())))}
        return next((f"pods of {cni.name} ({other})" for other, cni in self._pods if cni.name not in own), "")

    @cached_property
    def _pods(self) -> list[tuple[str, Cni]]:
        """The devices by which routes lead to pods, and whose they are."""
        devs = dict.fromkeys(dev for route in self.fib.routes if route.type == "unicast" for dev in route.devs)
        rows = ((dev, cni, device) for dev in devs for cni, device in self._rows(dev))
        return [(dev, cni) for dev, cni, device in rows if device.use is Use.POD or dev == "cilium_host"]

    # 4. Refused ranges.

    def _of_refusal(self, route: Route) -> Opinion:
        length, opinion = route.prefix.length, Opinion(ESCAPE, route.type, str(route))
        if any(route.prefix in services or services in route.prefix for services in self.services):
            return opinion
        inside = self._leading_inside(route)
        is_one_of_many = sum(other.protocol == route.protocol for other in self.fib.routes) > 1
        has_pod = any(single == self.fib.width and self._rows(dev) for dev, single in inside)
        if has_pod and length >= POD_BLOCK[self.fib.family]:
            opinion = Opinion(DOUBT, "refused-range", f"{route}, with pods inside")
        for cni in CNIS:
            has_device = any(self._is_of(dev, cni) for dev in self._links)
            for row in cni.refusals:
                low, high = row.lengths[self.fib.family]
                is_alike = row.protocol == route.protocol and route.type in row.types and low <= length <= high
                if not is_alike or (row.is_node_subnet and not self._is_node_subnet(route, cni)):
                    continue
                is_known = row.is_exclusive or any(self._is_of(dev, cni) or row.is_node_subnet for dev, _ in inside)
                if has_device and is_known:
                    return Opinion(FINE, "pod-block", f"{route.prefix} ({cni.name})")
                if has_device or (cni.name == "Calico" and is_one_of_many):
                    opinion = Opinion(DOUBT, "refused-range", f"{route}, perhaps of {cni.name}")
        return opinion

    def _leading_inside(self, route: Route) -> list[tuple[str, int]]:
        """Devices and lengths of routes inside a refused range, and of own addresses in it, but for the uplinks."""
        inside = [
            (dev, other.prefix.length)
            for other in self.fib.routes
            if other.type == "unicast" and other.table == route.table and other.prefix in route.prefix
            for dev in other.devs
            if other.prefix != route.prefix and dev not in self.uplinks.devs
        ]
        own = (address for address in self._addresses if address.ip in route.prefix)
        return [*inside, *((address.dev, self.fib.width) for address in own)]

    def _is_node_subnet(self, route: Route, cni: Cni) -> bool:
        """Whether the range is the network of the pods' bridge, or begins with the address of the CNI's device."""
        return any(
            (address.network == route.prefix and bool(self._rows(address.dev)))
            or (int(address.ip) == route.prefix.first and self._is_of(address.dev, cni))
            for address in self._addresses
        )

    # Other ends.

    def opinion_of_other(self, end: End, plain: Decision, packet: Packet = PLAIN) -> Opinion:
        """What is to be said of packets that differ from the others of this kind at a rule."""
        rule, decision = end.rule, end.decision
        conditions = {name: value for name, value in conditions_of(rule) if (name, value) != ("iif", "lo")}
        if packet is PLAIN:  # of pods, source and device are known
            if end.meets and "iif" in conditions:
                return Opinion(FINE, "forwarded")
            if end.meets and rule.src is not None and (known := self._of_source(rule.src, end, plain)):
                return known
        if end.meets and decision.kind == "unicast" and decision.devs == (conditions.get("oif"),):
            return Opinion(FINE, "bound")
        is_marked = conditions.keys() == {"fwmark"} and bool(rule.fwmark & rule.fwmask) is end.meets
        opinion = self.opinion(decision, is_marked=is_marked)
        if opinion.grade == FINE or (is_marked and self._is_of_vpn(decision)):
            return Opinion(FINE, opinion.name)
        return Opinion(FINE, "intended") if rule.selection in self._intended else _opaque(end)

    def _of_source(self, block: Prefix, end: End, plain: Decision) -> Opinion | None:
        """The opinion on packets that a `from` selects, if they are forwarded or leave by their source's device."""
        decision = end.decision
        if any(source in block for source in self.sources_of(plain)) and set(decision.devs) != set(plain.devs):
            return _opaque(end)  # TCP looks up a second time, with the source that Linux chose for the plain route
        own = [address for address in self._addresses if address.ip in block and not address.ip.is_loopback]
        own = [address for address in own if not self._rows(address.dev)]
        if not own:
            return Opinion(FINE, "forwarded")
        holders = [{other.dev for other in own if other.ip == address.ip} for address in own]
        leaves_by_holder = decision.kind == "unicast" and all(set(decision.devs) <= devs for devs in holders)
        return Opinion(FINE, "own-address") if leaves_by_holder else None

    def sources_of(self, decision: Decision) -> tuple[IP, ...]:
        """The addresses that Linux may write as the source into packets with this decision."""
        route = decision.route
        if route is None or decision.kind != "unicast":
            return ()
        if route.prefsrc is not None:
            return (route.prefsrc,)
        known = [address for address in self._addresses if address.scope == 0 and not address.ip.is_loopback]
        of_device = [address for address in known if address.dev in decision.devs]
        gateways = [leg.gateway for leg in route.legs if leg.gateway is not None]
        near = [address for address in of_device if any(gateway in address.network for gateway in gateways)]
        return tuple(address.ip for address in near or of_device or known)

    @property
    def node_ip(self) -> IP | None:
        """The address with which this host sends by the expected device; None if there is none, or a doubt."""
        devs = self.uplinks.devs - self.uplinks.doubtful
        held = [address.ip for address in self._addresses if address.dev in devs and not address.scope]
        routes = (default.route for default in defaults_of(self.fib) if devs.issuperset(default.devs))
        sources = (ip for route in routes for ip in self.sources_of(Decision("unicast", route)))
        return next((ip for ip in sources if ip in held), None) or next(iter(held), None)

    def _is_of_vpn(self, decision: Decision) -> bool:
        """Whether packets with a mark leave as those of a VPN do: by the main default route, or by the network card."""
        route = decision.route
        if route is None or decision.kind != "unicast":
            return False
        is_default = route.table == TABLE_MAIN and not route.prefix.length and bool(self._useful(decision.devs))
        return is_default or decision.devs == (self.uplinks.card,)


_ZEROCONF = Prefix.parse("169.254.0.0/16")


def _pieces(family: int, first: int, last: int) -> Iterator[tuple[int, int, bool]]:
    """The range in pieces, each with whether its addresses belong to no single host."""
    for block in _EVERYWHERE[family]:
        if first <= block.last and block.first <= last:
            if first < block.first:
                yield first, block.first - 1, False
            yield max(first, block.first), min(last, block.last), True
            first = block.last + 1
    if first <= last:
        yield first, last, False


def _opaque(end: End) -> Opinion:
    return Opinion(DOUBT, "other-packets", f"rule {end.rule}", end.rule.selection)


@cache
def _rows_of(dev: str, kind: str) -> list[tuple[Cni, Device]]:
    return list(devices_of(dev, kind))
