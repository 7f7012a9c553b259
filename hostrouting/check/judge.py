"""What is right: for each decision of the engine, whether it is fine, in doubt, or an escape.

- A `Decision` is where a lookup ends: a route, a rule that refuses packets, or neither.
- An `Outcome` is the same for packets that a rule tells from plain ones.
- An `Opinion` is what is said here of either: a grade, and the reason.
- A verdict is for a whole report: the worst opinion on any address of the expected CIDRs.

Theory of operation. The engine says by which route and which devices packets leave. Here that is
judged, by two lists of rules. The first rule with an opinion decides:

- `RULES_FOR_ROUTES` look at what the route does: it refuses, it keeps packets on this host, or it
  is of a kind that is not judged.
- `RULES_FOR_DEVICES` look at one device by which the route leads; of several devices, the worst
  opinion counts. What no rule has an opinion on escapes.

Rules see only the route, never the CIDR that is asked about, so splitting a CIDR cannot make a part
worse, and the verdict of a union is the worst of its parts.

To add a rule, write a function with the signature of its neighbours and put it into a list, where
its place says what it gives way to: a rule for what is never right stands before those that say
fine. For devices, these are `own_subnet` (first of all, because neighbours of the card are not in
doubt when the default route is), `expected`, `allowed_by_configuration` and `device_of_a_cni`. A
rule here does not yet make a thing never fine: `find_uplinks` decides which devices are expected,
and `other_packets` has rules of its own, which say fine before it asks here.

The docstring of a rule names the states of nodes that need it (tests/hosts, one file for each), and
its test is a host in tests/hostrouting/check/test_judge.py. A device of one more CNI needs no rule:
it is a row in `config.cni`.

What a device is, `devices` says; which devices are expected, `expected`; which refused ranges are a
CNI's, `refusals`.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.check.devices import Devices
from hostrouting.check.expected import find_uplinks
from hostrouting.check.refusals import Refusals
from hostrouting.check.results import OWN, Grade, Opinion, grouped
from hostrouting.config.cni import BRIDGE_PLUGIN
from hostrouting.fib.engine import NOT_JUDGED, Decision, Fib
from hostrouting.fib.not_judged import may_change_destination
from hostrouting.model.prefix import IPV4, Prefix
from hostrouting.model.route import PROTOCOL_KERNEL, PROTOCOL_RA, REFUSING, Route
from hostrouting.text import spoken

if TYPE_CHECKING:
    from collections.abc import Callable

    from hostrouting.config.cni import Cni, Device, Use
    from hostrouting.config.settings import Network, RouteOverlapConfig

_PROTOCOL_DHCP = 16
_KNOW_NEIGHBOURS = {PROTOCOL_KERNEL, PROTOCOL_RA, _PROTOCOL_DHCP}
"""Protocols whose routes without a gateway are right: their makers know who is on the link."""
NO_GATEWAY = "[{route}] has no gateway, and {dev} is not in routeOverlap.allowedDevs"
"""Why packets may be lost by a route of a card; the script at boot says it, too."""
_FOR_MANY_PODS: tuple[Use, ...] = ("network", "bridge")
"""Uses of a CNI's device that leads to more than one pod."""


class Way(NamedTuple):
    """The route that packets take."""

    route: Route
    devs: tuple[str, ...]
    """The devices by which they leave; those of equal default routes are among them."""
    is_wide: bool
    """Whether the route is for more than one address."""
    is_marked_or_of_pods: bool
    """Whether a rule has selected the packets by a mark, or by a pods' device that they arrive on.
    """


class Judge:
    """Judges the decisions of one host, for one family."""

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

    def opinion(self, decision: Decision, *, is_marked_or_of_pods: bool = False) -> Opinion:
        """What is to be said of packets with this decision.

        `is_marked_or_of_pods` says that a rule has selected them by a mark, or by a pods' device
        that they arrive on.
        """
        route = decision.route
        if route is None:
            return _without_a_route(decision)
        # Own addresses cut a route into many ranges, and each of them asks. The kind of a decision
        # with a route is the route's type: what the engine does not judge has no route.
        key = (id(route), is_marked_or_of_pods)
        if key not in self._opinions:
            is_wide = route.prefix.length < self.fib.width
            way = Way(route, self.all_devs(decision), is_wide, is_marked_or_of_pods)
            self._opinions[key] = (route, self._judge(way))
        return self._opinions[key][1]

    def _judge(self, way: Way) -> Opinion:
        for rule in RULES_FOR_ROUTES:
            opinion = rule(self, way)
            if opinion is not None:
                return opinion
        if not way.devs:
            return doubt_about_route(way.route)
        opinions = [self._judge_device(dev, way) for dev in way.devs]
        worst = max(opinions, key=lambda opinion: opinion.grade)
        if worst.grade is Grade.FINE and is_lost_to_tcp(self, way.route):
            reason = f"TCP does not connect by [{way.route}]"
            return Opinion(Grade.DOUBT, "doubtful-route", reason)
        escaping: list[str] = []
        for opinion in opinions:
            escaping += opinion.devs
        return worst._replace(devs=tuple(escaping))

    def _judge_device(self, dev: str, way: Way) -> Opinion:
        for rule in RULES_FOR_DEVICES:
            opinion = rule(self, dev, way)
            if opinion is not None:
                return opinion
        return Opinion(Grade.ESCAPE, "overlap", dev, devs=(dev,))

    def all_devs(self, decision: Decision) -> tuple[str, ...]:
        """The devices of the decision; equal default routes are one route with all next hops."""
        if decision.route is None or decision.kind in REFUSING:
            return ()
        devs: dict[str, None] = {}
        for route in self.fib.equal_cost_routes(decision.route):
            devs |= dict.fromkeys(_usable_devs(route))
        return tuple(devs)

    def is_listed(self, dev: str) -> bool:
        """Whether the configuration allows the device (`allowedDevs`)."""
        return any(fnmatchcase(dev, pattern) for pattern in self.config.allowed_devs)


def _usable_devs(route: Route) -> tuple[str, ...]:
    """The devices by which packets can leave that take this route."""
    return Decision(route.type, route).devs


def of_family(cidrs: Iterable[Network], family: int) -> tuple[Prefix, ...]:
    """The CIDRs of this family."""
    return tuple(Prefix.of(cidr) for cidr in cidrs if cidr.version == family)


def _without_a_route(decision: Decision) -> Opinion:
    """Nothing is known where something is not judged; otherwise packets are lost."""
    if decision.kind == NOT_JUDGED:
        return Opinion(Grade.DOUBT, NOT_JUDGED)
    return Opinion(Grade.ESCAPE, decision.kind)


def doubt_about_route(route: Route) -> Opinion:
    """The doubt about a route that is not judged; `fib.not_judged` explains it."""
    return Opinion(Grade.DOUBT, NOT_JUDGED, str(route))


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
    if way.is_wide and not way.is_marked_or_of_pods:
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
    if may_change_destination(way.route):
        return doubt_about_route(way.route)
    return None


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
    """The default route may be on the wrong device; `expected` says why.

    `allowedDevs` does not settle that. It allows a device beside the uplink, and does not say which
    device the uplink is; `expectedDevs` does, and then nothing is in doubt.

    Field states: two-cards-with-one-metric, wg-quick-full-tunnel, oci-rdma-by-ra.
    """
    doubtful = judge.uplinks.doubtful
    if dev not in doubtful:
        return None
    names = spoken(sorted(doubtful), last="or")
    if len(doubtful) == 1:  # equal default routes are several devices, so this is a tunnel
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
    is_for_a_network = way.is_wide and route.prefix.length > 0
    is_by_hand = route.protocol not in _KNOW_NEIGHBOURS
    if not (is_for_a_network and is_by_hand and _asks_the_link(route, dev)):
        return None
    are_neighbours = dev in judge.devices.devs_around(route.prefix)
    has_router = any(_has_a_gateway(default, dev) for default in judge.uplinks.defaults)
    if are_neighbours or not has_router:
        return None
    reason = NO_GATEWAY.format(route=route, dev=dev)
    return Opinion(Grade.DOUBT, "doubtful-route", reason)


def _asks_the_link(route: Route, dev: str) -> bool:
    """Whether a next hop by the device has no gateway."""
    return any(hop.gateway is None for hop in route.next_hops if hop.dev == dev)


def _has_a_gateway(route: Route, dev: str) -> bool:
    """Whether a next hop by the device has a gateway."""
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
    if not way.is_wide or way.is_marked_or_of_pods or not _fitting_rows(judge, dev, way):
        return None
    for owner in judge.devices.devs_around(way.route.prefix):
        is_rival = owner in judge.uplinks.devs or judge.devices.is_bridge_of_pods(owner)
        if is_rival and owner != dev:
            reason = f"{dev} beside the network of {owner}"
            return Opinion(Grade.DOUBT, "two-cnis", reason)
    return None


def beside_another_cni(judge: Judge, dev: str, way: Way) -> Opinion | None:
    """A CNI's device for many pods, while the pods of this node are another CNI's.

    A migration leaves such devices behind. A device is not left behind if one of the CNIs that may
    have made it leads to the pods of the other (`_leads_to_pods_of`).

    Field states: cni0-left-beside-calico, flannel-beside-cilium; it is not canal-own-block.
    """
    makers: list[tuple[Cni, Device]] = []
    for cni, row in _fitting_rows(judge, dev, way):
        if row.use in _FOR_MANY_PODS:
            makers.append((cni, row))
    if not makers:
        return None
    for pod_dev, pods_cni in judge.devices.cnis_with_pods:
        if not any(_leads_to_pods_of(pods_cni, cni, row) for cni, row in makers):
            reason = f"{dev} beside pods of {pods_cni.name} ({pod_dev})"
            return Opinion(Grade.DOUBT, "two-cnis", reason)
    return None


def _leads_to_pods_of(pods_cni: Cni, cni: Cni, row: Device) -> bool:
    """Whether this device of a CNI can lead to the pods of this other one.

    All lead to pods of the plain bridge plugin, by which many CNIs attach their own. A CNI whose
    `serves` is None serves the pods of any other, but by its tunnels and not by its bridge.
    """
    if pods_cni.name in {cni.name, BRIDGE_PLUGIN}:
        return True
    if cni.serves is None:
        return row.use == "network"
    return pods_cni.name in cni.serves


def device_of_a_cni(judge: Judge, dev: str, way: Way) -> Opinion | None:
    """Packets leave by a device of a known CNI, which knows what to do with them.

    Of CNIs that share a name for their devices, the other devices show which one runs.

    Field states: calico-ipip, flannel-vxlan, cilium-tunnel and every other node with a CNI.
    """
    rows = _fitting_rows(judge, dev, way)
    if not rows:
        return None
    if len(rows) > 1:
        running = [(cni, row) for cni, row in rows if judge.devices.has_cni(cni, beside=dev)]
        if running:
            rows = running
    by_pattern = grouped((row.pattern, cni.name) for cni, row in rows)
    allowances: list[str] = []
    for pattern, names in by_pattern.items():
        allowances.append(f"{pattern} ({spoken(names, last='or')})")
    return Opinion(Grade.FINE, "allowed", spoken(allowances, last="or"))


def _fitting_rows(judge: Judge, dev: str, way: Way) -> list[tuple[Cni, Device]]:
    """The CNIs' rows for the device that fit these packets.

    A pod's device is for single addresses, and a device for marked packets only for these. Field
    states: cni-ptp-wide, dual-stack-wide-route-by-a-pod; antrea-egress.
    """
    rows: list[tuple[Cni, Device]] = []
    for cni, row in judge.devices.cni_rows(dev):
        if row.use == "pod" and way.is_wide:
            continue
        if row.use == "marked" and not way.is_marked_or_of_pods:
            continue
        rows.append((cni, row))
    return rows


def nic_that_may_be_meant(judge: Judge, dev: str, way: Way) -> Opinion | None:
    """Where no card has a default route, what leaves by a card's router or in its network may be
    right.

    Field states: openvpn-replaced-and-own-subnet, k3s-air-gapped-with-a-static-route.
    """
    if not has_only_tunnel_or_dummy(judge) or not judge.devices.may_be_nic(dev):
        return None
    has_router = _has_a_gateway(way.route, dev)
    if has_router or judge.devices.is_connected(dev, way.route):
        # Devices in doubt are among the expected ones, so the tunnel is named here, too.
        return _unclear(spoken(sorted({*judge.uplinks.devs, dev}), last="or"), way)
    return None


def has_only_tunnel_or_dummy(judge: Judge) -> bool:
    """Whether no default route says which card is the uplink, because a tunnel or a dummy has the
    only one.

    OpenVPN may have replaced the card's, and k3s asks for a dummy's. Then a card's own routes may
    be what is meant. A tunnel that is not in doubt, such as a provider's line, is the uplink.
    """
    uplinks = judge.uplinks
    if judge.configured_devs or uplinks.hidden_nic is not None:
        return False
    if any(judge.devices.may_be_nic(dev) for dev in uplinks.devs):
        return False
    return any(judge.devices.is_dummy(dev) or dev in uplinks.doubtful for dev in uplinks.devs)


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
