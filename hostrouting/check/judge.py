"""What is right: for each end of packets, whether it is fine, in doubt, or an escape.

Theory of operation. The engine says where packets end, by which route and which devices. Here that
is judged, by two lists of rules. The first rule with an opinion decides:

- `RULES_FOR_ROUTES` look at what the route does: it refuses, it keeps packets on this host, or it
  is of a kind that is not judged.
- `RULES_FOR_DEVICES` look at one device by which the route leads; of several devices, the worst
  opinion counts. What no rule has an opinion on escapes.

No rule looks at the CIDR that is asked about, only at ends of packets. So a part's verdict is never
worse than the whole's, and the verdict of a union is the worst of its parts.

To add a rule, write a function with the signature of its neighbours and put it into a list, where
its place says what it gives way to: what is never right stands before `expected`. Its docstring
names the states of nodes that need it (tests/hosts, one file for each), and its test is a host in
tests/hostrouting/check/test_judge.py. A device of one more CNI needs no rule: it is a row in
`config.cni`.

What a device is, `devices` says; which devices are expected, `expected`; which refused ranges are a
CNI's, `refusals`. Packets that a rule of the host tells from the others are judged by
`other_packets`, which asks here about the route that they take.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.check.devices import Devices
from hostrouting.check.expected import find_uplinks
from hostrouting.check.refusals import Refusals
from hostrouting.check.results import OWN, Grade, Opinion
from hostrouting.fib.engine import NOT_JUDGED, Decision, Fib
from hostrouting.fib.not_judged import may_change_destination
from hostrouting.model.prefix import IPV4, Prefix
from hostrouting.model.route import PROTOCOL_KERNEL, PROTOCOL_RA, REFUSING, Route
from hostrouting.routes.uplink import is_tunnel
from hostrouting.text import spoken

if TYPE_CHECKING:
    from collections.abc import Callable

    from hostrouting.config.cni import Cni, Device
    from hostrouting.config.settings import Network, RouteOverlapConfig

_PROTOCOL_DHCP = 16
_WHO_IS_A_NEIGHBOUR = {PROTOCOL_KERNEL, PROTOCOL_RA, _PROTOCOL_DHCP}
"""Protocols whose routes without a gateway are right: their makers know who is on the link."""


class Way(NamedTuple):
    """The route that packets take."""

    route: Route
    devs: tuple[str, ...]
    """The devices by which they leave; those of equal default routes are among them."""
    is_wide: bool
    """Whether the route is for more than one address."""
    is_selected: bool
    """Whether a mark, or the device on which pods' packets arrive, has selected the packets."""


class Judge:
    """Judges the ends of packets on one host, for one family."""

    def __init__(self, fib: Fib, config: RouteOverlapConfig) -> None:
        """Use these tables, and what the configuration says about them."""
        self.fib = fib
        self.config = config
        self.configured_devs = frozenset(config.expected_devs)
        self.services = of_family(config.service_cidrs, fib.family)
        self.pods = of_family(config.pod_cidrs, fib.family)
        self.devices = Devices(fib)
        self.uplinks = find_uplinks(fib, self.devices, self.configured_devs)
        self.refusals = Refusals(fib, self.devices, self.uplinks.devs, self.services)
        self._opinions: dict[tuple[int, bool], tuple[Route, Opinion]] = {}
        """By the identity of a route, which is kept alive: to hash a route takes longer than to
        judge most of them.
        """

    def opinion(self, decision: Decision, *, is_selected: bool = False) -> Opinion:
        """What is to be said of packets that end so.

        `is_selected` says that a mark, or the device on which pods' packets arrive, has selected
        them.
        """
        route = decision.route
        if route is None:
            return _without_a_route(decision)
        # Own addresses cut a route into many ranges, and each of them asks.
        key = (id(route), is_selected)
        if key not in self._opinions:
            self._opinions[key] = (route, self._judge(decision, route, is_selected=is_selected))
        return self._opinions[key][1]

    def _judge(self, decision: Decision, route: Route, *, is_selected: bool) -> Opinion:
        is_wide = route.prefix.length < self.fib.width
        way = Way(route, self.all_devs(decision), is_wide, is_selected)
        for rule in RULES_FOR_ROUTES:
            opinion = rule(self, way)
            if opinion is not None:
                return opinion
        if not way.devs:
            return _not_judged(route)
        opinions = [self._judge_device(dev, way) for dev in way.devs]
        worst = max(opinions, key=lambda opinion: opinion.grade)
        if worst.grade is Grade.FINE and is_lost_to_tcp(self, route):
            return Opinion(Grade.DOUBT, "doubtful-route", f"TCP does not connect by [{route}]")
        escaping = (opinion.reason for opinion in opinions if opinion.grade is Grade.ESCAPE)
        return worst._replace(devs=tuple(escaping))

    def _judge_device(self, dev: str, way: Way) -> Opinion:
        for rule in RULES_FOR_DEVICES:
            opinion = rule(self, dev, way)
            if opinion is not None:
                return opinion
        return Opinion(Grade.ESCAPE, "overlap", dev)

    def all_devs(self, decision: Decision) -> tuple[str, ...]:
        """The devices of the decision; equal default routes are one route with all next hops."""
        if decision.route is None:
            return ()
        devs: dict[str, None] = {}
        for route in self.fib.equal_cost_routes(decision.route):
            devs |= dict.fromkeys(Decision(decision.kind, route).devs)
        return tuple(devs)

    def is_listed(self, dev: str) -> bool:
        """Whether the configuration allows the device (`allowedDevs`)."""
        return any(fnmatchcase(dev, pattern) for pattern in self.config.allowed_devs)

    @property
    def lacks_nic(self) -> bool:
        """Whether no default route says which card is the uplink: a tunnel or a dummy has the only
        one.

        OpenVPN may have replaced the card's, and k3s asks for a dummy's. Then a card's own routes
        may be what is meant.
        """
        uplinks = self.uplinks
        if self.configured_devs or uplinks.hidden_nic is not None:
            return False
        links = self.devices.links
        for dev in uplinks.devs:
            link = links.get(dev)
            if link is not None and link.kind == "dummy":
                return True
        return any(is_tunnel(links.get(dev)) for dev in uplinks.doubtful)


def of_family(cidrs: Iterable[Network], family: int) -> tuple[Prefix, ...]:
    """The CIDRs of this family."""
    return tuple(Prefix.of(cidr) for cidr in cidrs if cidr.version == family)


def _without_a_route(decision: Decision) -> Opinion:
    """Nothing is known where something is not judged; otherwise packets are lost."""
    if decision.kind == NOT_JUDGED:
        return Opinion(Grade.DOUBT, decision.kind)
    return Opinion(Grade.ESCAPE, decision.kind)


def _not_judged(route: Route) -> Opinion:
    """A doubt that `fib.not_judged` explains."""
    return Opinion(Grade.DOUBT, "not-judged", str(route))


# The rules for a route, by what it does with packets.


def refused(judge: Judge, way: Way) -> Opinion | None:
    """A route that refuses packets is fine only if it is a CNI's; `refusals` has the rules.

    Field states: calico-services-refused, bird-aggregate, flannel-stale-block.
    """
    if way.route.type not in REFUSING:
        return None
    return judge.refusals.opinion(way.route)


def own_range(_: Judge, way: Way) -> Opinion | None:
    """A `local` route keeps packets on this host: right for one address, an escape for a network.

    A network that is made this host's own (AnyIP) answers for others. For packets with a mark it is
    how a proxy takes them in: `local default dev lo`, on every node with Cilium.

    Field states: anyip-services, anyip-one-service; istio-tproxy.
    """
    if way.route.type != "local":
        return None
    if way.is_wide and not way.is_selected:
        return Opinion(Grade.ESCAPE, "own-range")
    return OWN


def own_broadcast(_: Judge, way: Way) -> Opinion | None:
    """The broadcast address of a network, and an anycast address, belong to an address of the host.

    Linux adds these routes itself. Those of other programs are judged by their devices.

    Field states: azure-nd-one-subnet, calico-ipip and most others that expect a card's network.
    """
    is_own_type = (
        way.route.type in {"broadcast", "anycast"} and way.route.protocol == PROTOCOL_KERNEL
    )
    if is_own_type and not way.is_wide:
        return OWN
    return None


def encapsulated(_: Judge, way: Way) -> Opinion | None:
    """An encapsulation may give packets another destination, so the device says nothing.

    Field state: segment-routing-by-objects.
    """
    return _not_judged(way.route) if may_change_destination(way.route) else None


RULES_FOR_ROUTES: tuple[Callable[[Judge, Way], Opinion | None], ...] = (
    refused,
    own_range,
    own_broadcast,
    encapsulated,
)
"""In the order in which they are asked. A route that none of them decides is judged by its devices.
"""


def is_lost_to_tcp(judge: Judge, route: Route) -> bool:
    """Whether TCP does not connect by the route, although its devices are right.

    Linux refuses connections by IPv4 routes of the type broadcast or multicast.

    Field state: multicast-type-by-the-uplink.
    """
    return judge.fib.family == IPV4 and route.type in {"broadcast", "multicast"}


# The rules for one device of a route.


def own_subnet(judge: Judge, dev: str, way: Way) -> Opinion | None:
    """Neighbours of the card stay its neighbours, where a tunnel's default route hides the card's.

    A VPN takes what went to the router, and wg-quick says so with `suppress_prefixlength 0`. Only
    for the card that would have the default route: a rail with a connected /16 is the outage that
    the check is for.

    Field states: wg-quick-full-tunnel-own-subnet, openvpn-named-and-worse.
    """
    if dev == judge.uplinks.hidden_nic and judge.devices.is_connected(dev, way.route):
        return Opinion(Grade.FINE, "own-subnet", dev)
    return None


def doubtful_default(judge: Judge, dev: str, way: Way) -> Opinion | None:
    """The default route may be another one's than was meant; `expected` says why.

    Field states: two-cards-with-one-metric, wg-quick-full-tunnel, oci-rdma-by-ra.
    """
    doubtful = judge.uplinks.doubtful
    if dev not in doubtful:
        return None
    names = spoken(sorted(doubtful), last="or")
    if names == dev:
        names = f"{dev}, a tunnel"
    return _unclear(names, way)


def _unclear(names: str, way: Way) -> Opinion:
    """The doubt whether packets should leave by one of these, and by which they leave now."""
    now = spoken(sorted(way.devs), last="or")
    return Opinion(Grade.DOUBT, "default-routes", f"{names}; they leave through {now} now")


def on_link_by_mistake(judge: Judge, dev: str, way: Way) -> Opinion | None:
    """A route made by hand asks the link for addresses that are probably behind the router.

    The route has no gateway, but the default route by the same device has one. A single address may
    be a neighbour, and so is what lies in a network of the device. The kernel, DHCP and routers
    know who is a neighbour.

    Field states: on-link-by-mistake, ifupdown-without-the-router; it is not on-link-by-ra.
    """
    route = way.route
    if dev not in judge.uplinks.devs or judge.is_listed(dev):
        return None
    if not way.is_wide or route.prefix.length == 0 or route.protocol in _WHO_IS_A_NEIGHBOUR:
        return None
    if _has_only_gateways(route, dev) or dev in judge.devices.networks_around(route.prefix):
        return None
    if not any(_has_a_gateway(default, dev) for default in judge.uplinks.defaults):
        return None
    reason = f"[{route}] has no gateway, and {dev} is not in routeOverlap.allowedDevs"
    return Opinion(Grade.DOUBT, "doubtful-route", reason)


def _has_only_gateways(route: Route, dev: str) -> bool:
    return all(hop.gateway is not None for hop in route.next_hops if hop.dev == dev)


def _has_a_gateway(route: Route, dev: str) -> bool:
    return any(hop.gateway is not None for hop in route.next_hops if hop.dev == dev)


def expected(judge: Judge, dev: str, _: Way) -> Opinion | None:
    """Packets leave by an expected device, as on every healthy node (aks-secondary-cards)."""
    if dev in judge.uplinks.devs:
        return Opinion(Grade.FINE, "expected", dev)
    return None


def allowed_by_configuration(judge: Judge, dev: str, _: Way) -> Opinion | None:
    """The operator has allowed the device.

    Field states: k3s-over-tailscale, hetzner-pods-in-the-private-network.
    """
    if judge.is_listed(dev):
        return Opinion(Grade.FINE, "allowed", f"{dev} (allowedDevs)")
    return None


def inside_another_network(judge: Judge, dev: str, way: Way) -> Opinion | None:
    """A CNI's device for a network that a card, or the bridge of pods, has an address in.

    The CNI is gone, or its networks were chosen badly: the neighbours there are lost.

    Field states: flannel-stale-route-over-cni0, cilium-pool-is-the-node-subnet.
    """
    if not way.is_wide or way.is_selected or not _fitting_rows(judge, dev, way):
        return None
    for owner in judge.devices.networks_around(way.route.prefix):
        is_rival = owner in judge.uplinks.devs or "bridge" in judge.devices.uses(owner)
        if is_rival and owner != dev:
            reason = f"{dev} beside the network of {owner}"
            return Opinion(Grade.DOUBT, "two-cnis", reason)
    return None


def beside_another_cni(judge: Judge, dev: str, way: Way) -> Opinion | None:
    """A CNI's device for many pods, while the pods of this node are another CNI's.

    A migration leaves such devices behind. Some CNIs lead to the pods of others (`Cni.serves`).

    Field states: cni0-left-beside-calico, flannel-beside-cilium; it is not canal-own-block.
    """
    if not _fitting_rows(judge, dev, way):
        return None
    rows = [
        (cni, row) for cni, row in judge.devices.cni_rows(dev) if row.use in {"bridge", "network"}
    ]
    if not rows:
        return None
    served = {"bridge"}
    """The CNIs whose pods the device can lead to: the plain bridge plugin makes pods for others."""
    for cni, row in rows:
        if cni.serves is None and row.use == "network":
            return None
        served |= {cni.name, *(cni.serves or ())}
    for pod_dev, cni in judge.devices.cnis_with_pods:
        if cni.name not in served:
            reason = f"{dev} beside pods of {cni.name} ({pod_dev})"
            return Opinion(Grade.DOUBT, "two-cnis", reason)
    return None


def device_of_a_cni(judge: Judge, dev: str, way: Way) -> Opinion | None:
    """Packets leave by a device of a known CNI, which knows what to do with them.

    Of CNIs that share a name for their devices, the other devices show which one runs.

    Field states: calico-ipip, flannel-vxlan, cilium-tunnel and every other node with a CNI.
    """
    rows = _fitting_rows(judge, dev, way)
    if not rows:
        return None
    if len(rows) > 1:
        running = [row for row in rows if judge.devices.has_cni(row[0], beside=dev)]
        rows = running or rows
    names = spoken([cni.name for cni, _ in rows], last="or")
    return Opinion(Grade.FINE, "allowed", f"{rows[0][1].pattern} ({names})")


def _fitting_rows(judge: Judge, dev: str, way: Way) -> list[tuple[Cni, Device]]:
    """The CNIs' rows for the device that fit these packets.

    A pod's device is for single addresses, and a device for marked packets only for these. Field
    states: cni-ptp-wide, dual-stack-wide-route-by-a-pod; antrea-egress.
    """
    rows: list[tuple[Cni, Device]] = []
    for cni, row in judge.devices.cni_rows(dev):
        if row.use == "pod" and way.is_wide:
            continue
        if row.use == "marked" and not way.is_selected:
            continue
        rows.append((cni, row))
    return rows


def nic_that_may_be_meant(judge: Judge, dev: str, way: Way) -> Opinion | None:
    """Where no card has a default route, what leaves by a card's router or in its network may be
    right.

    Field states: openvpn-replaced-and-own-subnet, k3s-air-gapped-with-a-static-route.
    """
    if not judge.lacks_nic or not judge.devices.may_be_nic(dev):
        return None
    if way.route.has_gateway or judge.devices.is_connected(dev, way.route):
        return _unclear(spoken(sorted({*judge.uplinks.devs, dev}), last="or"), way)
    return None


RULES_FOR_DEVICES: tuple[Callable[[Judge, str, Way], Opinion | None], ...] = (
    own_subnet,
    doubtful_default,
    on_link_by_mistake,
    expected,
    allowed_by_configuration,
    inside_another_network,
    beside_another_cni,
    device_of_a_cni,
    nic_that_may_be_meant,
)
"""In the order in which they are asked. What none of them decides escapes by the device."""
