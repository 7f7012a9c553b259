"""What is right: for each decision of the engine, whether it is fine, in doubt, or an escape.

- A `Decision` is where a lookup ends: a route, a rule that refuses packets, or neither.
- An `Opinion` is what this package says about a decision: a grade (fine, in doubt, or an escape), a
  name, and the thing that it is about, such as a device. Packets can be fine although they do not
  leave through the uplink, but through a CNI's device for example. Then a repair must not lead them
  to the uplink (`belongs_elsewhere`).
- A verdict is for a whole report: the worst opinion on any address of the cluster's CIDRs, which
  are `expectedCidrs` and `serviceCidrs` in the configuration.

Theory of operation. The engine says by which route and which devices packets leave. Here that is
judged, by lists of rules. Each list has an order; the first rule with an opinion decides, and the
last always has one:

- `RULES_FOR_ROUTES` look at what the route does: it refuses, it keeps packets on this host, or it
  is of a kind that is not judged. The last one asks about each device by which packets may leave.
- `RULES_FOR_DEVICES` look at one such device. The last one says that packets escape by it.

Rules see only the route, never the CIDR that is asked about, so splitting a CIDR cannot make a part
worse, and the verdict of a union is the worst of its parts.

To make something fine or doubtful, write a function with the signature of its neighbours and put it
into a list; its place there says which rules come first. Its docstring names the files of
tests/hosts, one for each node, that need it. A device of one more CNI needs no rule: it is a row in
`config.cni`. What a device is (a card, a tunnel, InfiniBand), `devices` and `model.link_kinds` say;
which devices are expected, `expected`; which refused ranges are a CNI's, `refusals`.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.check.devices import Devices, has_gateway
from hostrouting.check.expected import find_uplinks
from hostrouting.check.refusals import Refusals
from hostrouting.check.results import (
    ALLOWED,
    DEFAULT_ROUTES,
    DOUBTFUL_ROUTE,
    EXPECTED,
    OVERLAP,
    OWN_ADDRESS,
    OWN_RANGE,
    OWN_SUBNET,
    PODS_HIDDEN,
    TWO_CNIS,
    Grade,
    Opinion,
)
from hostrouting.config.cni import BRIDGE_PLUGIN
from hostrouting.fib.engine import NOT_JUDGED, Decision, Fib
from hostrouting.fib.not_judged import why_not_judged
from hostrouting.model.prefix import IPV4, LINK_LOCAL, MULTICAST, Prefix
from hostrouting.model.route import (
    OURS,
    PROTOCOL_DHCP,
    PROTOCOL_KERNEL,
    PROTOCOL_RA,
    REFUSING,
    Route,
)
from hostrouting.text import spoken

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from hostrouting.config.cni import Cni
    from hostrouting.config.settings import Network, RouteOverlapConfig

PROTOCOLS_THAT_KNOW_THE_LINK = {PROTOCOL_KERNEL, PROTOCOL_RA, PROTOCOL_DHCP}
"""Protocols of programs that know which addresses are on a link: their routes without a gateway are
right. systemd-networkd and NetworkManager write DHCP. dhclient does not, so its routes count as
made by hand.
"""

_OF_EVERY_LINK = (
    Prefix.parse("127.0.0.0/8"),
    Prefix.parse("224.0.0.0/4"),
    LINK_LOCAL,
    MULTICAST,
)
"""Addresses that every host or every link has. The link-local ones of IPv4 are missing, because
clouds have services there behind a router (169.254.169.254).
"""


class TakenRoute(NamedTuple):
    """A route, and what is known about the packets that take it."""

    route: Route
    devs: tuple[str, ...]
    """The devices by which packets may leave (`Fib.possible_devs`)."""
    by_mark_or_iif: bool
    """Whether a rule has selected the packets by their mark alone, or by their incoming device."""

    @property
    def is_wide(self) -> bool:
        """Whether the route is for more than one address."""
        return not self.route.prefix.is_single


class Judge:
    """Judges the decisions of one host, for one family."""

    def __init__(self, fib: Fib, config: RouteOverlapConfig) -> None:
        """Find out what is needed for every opinion: the devices, and which ones are expected."""
        self.fib = fib
        self.config = config
        self.configured_devs = frozenset(config.expected_devs)
        self.services = of_family(config.service_cidrs, fib.family)
        self.devices = Devices(fib)
        self.uplinks = find_uplinks(fib, self.devices, self.configured_devs)
        self.refusals = Refusals(fib, self.devices, self.services)
        self._opinions: dict[tuple[int, bool], tuple[Route, Opinion]] = {}
        """The opinion on each route, by its `id` and `by_mark_or_iif`. Without it, the check of an
        H200 node takes twice as long. The `id` is taken because to hash a route takes longer than
        to judge it; the route stays here, so that no other object gets this `id`.
        """

    def opinion(self, decision: Decision, *, by_mark_or_iif: bool = False) -> Opinion:
        """Whether packets with this decision are fine, in doubt, or escape, whatever their
        destination. `by_mark_or_iif` says that a rule has selected the packets by their mark
        alone, or by their incoming device.
        """
        if decision.kind == NOT_JUDGED:
            return Opinion(Grade.DOUBT, NOT_JUDGED)
        if decision.route is None:  # no route at all, or a rule that refuses
            return Opinion(Grade.ESCAPE, decision.kind)
        return self.opinion_on_route(decision.route, by_mark_or_iif=by_mark_or_iif)

    def opinion_on_route(self, route: Route, *, by_mark_or_iif: bool = False) -> Opinion:
        """The opinion on packets that take this route, by the first of `RULES_FOR_ROUTES` that has
        one. It is kept in `_opinions` for the next call. `by_mark_or_iif`: the rule that led there
        selects packets by a mark or a device.
        """
        key = (id(route), by_mark_or_iif)
        if key not in self._opinions:
            devs = self.fib.possible_devs(Decision(route.type, route))
            taken = TakenRoute(route, devs, by_mark_or_iif)
            self._opinions[key] = (route, first_opinion(RULES_FOR_ROUTES, self, taken))
        return self._opinions[key][1]

    def opinion_on_packets_to(self, address: int, decision: Decision) -> Opinion:
        """The opinion on packets to this address with this decision. Packets also escape if the
        address is a pod's on this node, and the decision does not lead to the pod. They are in
        doubt if a route by the uplink hides a CNI's route to the address.
        """
        opinion = self.opinion(decision)
        route = decision.route
        if route is None or opinion.name == NOT_JUDGED:
            return opinion
        for to_pods in self.devices.routes_to_pods.covering(address):
            # If `route` escapes and is in the table of the route to the pod, its own escape is
            # returned below: its remedy is to delete `route`, and Linux then uses that to the pod.
            if opinion.grade is Grade.ESCAPE and route.table == to_pods.table:
                continue
            if _misses(self, route, to_pods):
                devs = decision.devs if route.type == "unicast" else ()
                return Opinion(Grade.ESCAPE, PODS_HIDDEN, devs=devs, hidden=to_pods)
        if opinion.name == EXPECTED:
            hidden = self._cni_route_hidden_by(route, address)
            if hidden is not None:
                return Opinion(Grade.DOUBT, DOUBTFUL_ROUTE, f"[{route}] hides [{hidden}]")
        return opinion

    def _cni_route_hidden_by(self, route: Route, address: int) -> Route | None:
        """The CNI's route that Linux would use for this address without `route`, which leads
        through the uplink, and without our routes. A static route, such as one of ours, may be
        older than a CNI, and now hide the CNI's route. None if no CNI's route is hidden.

        tests/hosts: weave-after-a-repair.
        """
        # A route to a single address is always intended.
        if not route.has_gateway or route.prefix.length == 0 or route.prefix.is_single:
            return None
        for hidden in self.fib.tables[route.table].covering(address):
            if hidden is route or hidden.protocol == OURS:
                continue
            # The hidden route is a CNI's if a CNI makes its device, and packets belong there.
            is_by_cni = any(map(self.devices.cni_row, hidden.devs))
            if is_by_cni and self.opinion_on_route(hidden).belongs_elsewhere:
                return hidden
            break  # Linux would use this route, and none after it
        return None

    def is_allowed(self, dev: str) -> bool:
        """Whether the configuration allows the device (`allowedDevs`)."""
        return any(fnmatchcase(dev, pattern) for pattern in self.config.allowed_devs)


def of_family(cidrs: Iterable[Network], family: int) -> tuple[Prefix, ...]:
    """The CIDRs of this family."""
    return tuple(Prefix.of(cidr) for cidr in cidrs if cidr.version == family)


def first_opinion(rules: Iterable[Callable[..., Opinion | None]], *subject: Any) -> Opinion:
    """The opinion of the first rule that has one; `subject` are the arguments of each rule."""
    for rule in rules:
        opinion = rule(*subject)
        if opinion is not None:
            return opinion
    raise AssertionError("the last rule of each list always has an opinion")


def _misses(judge: Judge, route: Route, to_pods: Route) -> bool:
    """Whether packets that take `route` do not reach pods of this node. The route `to_pods` leads
    to these pods, but Linux may use `route` instead, because it is in a table of an earlier rule,
    or comes first in the same table.

    A CNI's device is assumed to bring packets to pods, unless it is one of the expected devices
    (`uplinks.devs`), by which packets leave the host. An address of this host, or a broadcast
    address, hides only a pod with a route of its own.

    tests/hosts: rule-before-main-hides-calico-pods, tailscale-exit-node-hides-cni0,
    address-of-a-pod-on-lo, pod-has-a-broadcast-address.
    """
    if route.type in REFUSING:
        return True
    if route.type != "unicast":  # an address of this host, or a broadcast address
        return to_pods.prefix.is_single
    for dev in {*route.usable_devs}.difference(to_pods.devs):
        if dev in judge.uplinks.devs or judge.devices.cni_row(dev) is None:
            return True
    return False


# The rules for a route, by what it does with packets.


def refused(judge: Judge, taken: TakenRoute) -> Opinion | None:
    """Judge a route that refuses packets: it is fine only if it is a CNI's, as `Refusals` decides.

    tests/hosts: calico-services-refused, bird-aggregate, frr-aggregate, flannel-stale-block,
    calico-drained.
    """
    if taken.route.type not in REFUSING:
        return None
    return judge.refusals.opinion(taken.route)


def own_address(judge: Judge, taken: TakenRoute) -> Opinion | None:
    """Addresses of this host, broadcast addresses of its networks, and addresses that every link
    has, such as multicast ones, are fine.

    A broadcast address of a network is in doubt if it can be a host's address in a larger network
    of the same device: the mask of the smaller network is probably too long.

    A `local` route to more than one address (AnyIP) is an escape, because this host keeps packets
    that are for others. But marked packets are fine by such a route: proxies catch them by `local
    default dev lo`, on every node with Cilium.

    None for every other route.

    tests/hosts: azure-nd-one-subnet, calico-ipip; anyip-services, anyip-one-service; istio-tproxy;
    vip-with-a-mask-too-long.
    """
    route = taken.route
    if any(route.prefix in block for block in _OF_EVERY_LINK):
        return OWN_ADDRESS
    if route.type == "local":
        if taken.is_wide and not taken.by_mark_or_iif:
            return Opinion(Grade.ESCAPE, OWN_RANGE)
        return OWN_ADDRESS
    # On a host that forwards, Linux adds an anycast route for the first address of an IPv6
    # network, so this address is the host's own, too.
    is_of_kernel = route.protocol == PROTOCOL_KERNEL and not taken.is_wide
    if not is_of_kernel or route.type not in {"broadcast", "anycast"}:
        return None
    for dev, network in judge.devices.networks:
        if dev in route.devs and network.first < route.prefix.first < network.last:
            reason = f"[{route}] takes an address of {network} ({dev})"
            return Opinion(Grade.DOUBT, DOUBTFUL_ROUTE, reason)
    return OWN_ADDRESS


def route_not_judged(_: Judge, taken: TakenRoute) -> Opinion | None:
    """Doubt a route that does not show where its packets go. Either it has no devices, because
    Linux does not list the next hops of its nexthop object; or it has an encapsulation that may
    change the destination.

    tests/hosts: segment-routing-by-objects, segment-routing.
    """
    if not taken.devs or why_not_judged(taken.route):
        return Opinion(Grade.DOUBT, NOT_JUDGED, str(taken.route))
    return None


def by_its_devices(judge: Judge, taken: TakenRoute) -> Opinion:
    """Judge a route by its devices: the worst opinion on a device counts, because packets may leave
    by each. Of equally bad opinions, the one with packets that belong to a CNI's device
    (`belongs_elsewhere`) counts, so that no repair leads them away from the device. The opinion
    names all devices by which packets escape.

    In IPv4, a broadcast or multicast route is at least in doubt, because TCP does not connect by
    it.

    tests/hosts: next-hops-by-flannel-first, next-hops-by-the-uplink-first;
    multicast-type-by-the-uplink.
    """
    opinions = [first_opinion(RULES_FOR_DEVICES, judge, dev, taken) for dev in taken.devs]
    if judge.fib.family == IPV4 and taken.route.type in {"broadcast", "multicast"}:
        reason = f"TCP does not connect by [{taken.route}]"
        # In the first place, so that `max` prefers it to an equal doubt about a device.
        opinions.insert(0, Opinion(Grade.DOUBT, DOUBTFUL_ROUTE, reason))
    worst = max(opinions, key=lambda opinion: (opinion.grade, opinion.belongs_elsewhere))
    escape_devs: list[str] = []
    for opinion in opinions:
        escape_devs += opinion.devs
    return worst._replace(devs=tuple(escape_devs))


RULES_FOR_ROUTES: tuple[Callable[[Judge, TakenRoute], Opinion | None], ...] = (
    # What a route does decides, whatever its devices.
    refused,
    own_address,
    # Before the next one, because its devices say nothing.
    route_not_judged,
    by_its_devices,
)
"""In the order in which they are asked; the last always has an opinion."""


# The rules for one device of a route.


def connected_route_of_the_hidden_card(judge: Judge, dev: str, taken: TakenRoute) -> Opinion | None:
    """A connected route (without a gateway, to a network of its device) is fine if its device is
    the card whose default route a tunnel hides.

    A VPN replaces the way to the router of this card, not the way to its neighbours: wg-quick keeps
    the routes to them with `suppress_prefixlength 0`. Connected routes of any other card are not
    fine: such a route (a /16 of InfiniBand) is what usually takes the cluster's packets away. A
    tunnel without a default route hides no card.

    tests/hosts: wg-quick-full-tunnel-own-subnet, openvpn-named-and-worse. In
    wireguard-named-without-a-default-route, no card is hidden.
    """
    if dev == judge.uplinks.hidden_card and judge.devices.is_connected(dev, taken.route):
        return Opinion(Grade.FINE, OWN_SUBNET, f"{dev} (its own network)")
    return None


def by_a_doubtful_device(judge: Judge, dev: str, _: TakenRoute) -> Opinion | None:
    """Doubt a device whose default route may be the wrong one (`Uplinks.doubtful`).

    `allowedDevs` does not end the doubt: it allows a device beside the uplink, and does not say
    which device the uplink is. `expectedDevs` says this, and then nothing is in doubt.

    tests/hosts: two-cards-with-one-metric, wg-quick-full-tunnel, oci-rdma-by-ra.
    """
    doubtful = judge.uplinks.doubtful
    if dev not in doubtful:
        return None
    candidates = sorted(doubtful)
    if len(candidates) == 1:  # a tunnel, and no card has a default route
        candidates.append("a network card")
    return Opinion(Grade.DOUBT, DEFAULT_ROUTES, spoken(candidates, last="or"))


def route_without_a_gateway(judge: Judge, dev: str, taken: TakenRoute) -> Opinion | None:
    """Doubt a route without a gateway if its addresses are probably not on the link of the device,
    so that nobody there answers for them. Such addresses are behind the router of the uplink or, if
    the device is a bridge of pods, on other nodes.

    tests/hosts: on-link-by-mistake, ifupdown-without-the-router, cni0-for-all-pods; on-link-by-ra
    is fine.
    """
    route = taken.route
    # A single address may be a neighbour; and a default route without a gateway is common where a
    # link has one other end, such as PPP.
    if not taken.is_wide or route.prefix.length == 0:
        return None
    if all(hop.gateway is not None for hop in route.next_hops if hop.dev == dev):
        return None
    # Addresses of the device's own networks are on its link, and perhaps all others are, too.
    if judge.devices.is_connected(dev, route) or not _are_other_networks_off_link(judge, dev):
        return None
    # The program that added the route may know what is on the link. So may an operator, who allows
    # the device.
    if route.protocol in PROTOCOLS_THAT_KNOW_THE_LINK or judge.is_allowed(dev):
        return None
    reason = f"[{route}] has no gateway, and {dev} is not in routeOverlap.allowedDevs"
    return Opinion(Grade.DOUBT, DOUBTFUL_ROUTE, reason)


def _are_other_networks_off_link(judge: Judge, dev: str) -> bool:
    """Whether addresses outside the device's own networks are probably not on its link. An uplink
    has a router for them if a default route by it has a gateway. A bridge of pods has only the pods
    of this node, whose network is that of the address on the bridge. Without such an address, and
    for any other device, this is not known, so it is false.
    """
    if dev in judge.uplinks.devs:
        return any(has_gateway(default, dev) for default in judge.uplinks.defaults)
    if not judge.devices.is_used_as(dev, "bridge"):
        return False
    return any(address.dev == dev for address in judge.devices.global_addresses)


def expected(judge: Judge, dev: str, _: TakenRoute) -> Opinion | None:
    """An expected device is fine.

    tests/hosts: aks-secondary-cards, as every healthy node.
    """
    if dev in judge.uplinks.devs:
        return Opinion(Grade.FINE, EXPECTED, dev)
    return None


def allowed_by_configuration(judge: Judge, dev: str, _: TakenRoute) -> Opinion | None:
    """A device that the operator has allowed is fine.

    tests/hosts: k3s-over-tailscale, hetzner-pods-in-the-private-network.
    """
    if judge.is_allowed(dev):
        return Opinion(Grade.FINE, ALLOWED, f"{dev} (allowedDevs)")
    return None


def bridge_with_a_card(judge: Judge, dev: str, _: TakenRoute) -> Opinion | None:
    """Doubt a CNI's bridge that has a card as a port: packets may go to pods, or out by the card.
    If the operator has allowed the bridge, `allowed_by_configuration`, which is asked before, has
    decided already.

    tests/hosts: cni0-with-a-rail; cni0-with-a-rail-allowed is fine.
    """
    if not judge.devices.is_used_as(dev, "bridge"):
        return None
    cards = judge.devices.cards_in(dev)
    if not cards:
        return None
    reason = f"{dev} has {cards[0]} as a port, and is not in routeOverlap.allowedDevs"
    return Opinion(Grade.DOUBT, DOUBTFUL_ROUTE, reason)


def device_of_a_cni(judge: Judge, dev: str, taken: TakenRoute) -> Opinion | None:
    """A device of a known CNI is fine. But it is in doubt if it may be left behind by a migration
    from one CNI to another. Two things show this: the route is to addresses in a network of the
    uplink or of another bridge of pods; or the pods of this node are another CNI's.

    There is no opinion if the CNI does not use the device for such a route. A pod's device is for
    routes to single addresses, so not for a wide route (`is_wide`, to several addresses). A device
    for marked packets is only for packets that a rule has selected by their mark or their incoming
    device.

    tests/hosts: calico-ipip, flannel-vxlan, cilium-tunnel and every other node with a CNI;
    cni-ptp-wide, antrea-egress; cilium-pool-is-the-node-subnet; cni0-left-beside-calico,
    flannel-beside-cilium.
    """
    cni_row = judge.devices.cni_row(dev)
    if cni_row is None:
        return None
    cni, row = cni_row
    if (row.use == "pod" and taken.is_wide) or (row.use == "marked" and not taken.by_mark_or_iif):
        return None
    # Is the device left behind, because the addresses are in the network of another device? The
    # route to a single pod may lie in any network.
    if taken.is_wide:
        for owner in judge.devices.devs_with_network_around(taken.route.prefix):
            is_rival = owner in judge.uplinks.devs or judge.devices.is_used_as(owner, "bridge")
            if is_rival and owner != dev:
                return Opinion(Grade.DOUBT, TWO_CNIS, f"{dev} beside the network of {owner}")
    # Is the device left behind, because the pods of this node are another CNI's? A pod's own device
    # leads only to this pod, and a device for marked packets need not lead to pods.
    if row.use in {"network", "bridge"}:
        for pod_dev, pods_cni in judge.devices.pod_devs_with_cni:
            if not _serves(cni, pods_cni):
                reason = f"{dev} beside pods of {pods_cni.name} ({pod_dev})"
                return Opinion(Grade.DOUBT, TWO_CNIS, reason)
    return Opinion(Grade.FINE, ALLOWED, f"{row.pattern} ({cni.name})")


def _serves(cni: Cni, pods_cni: Cni) -> bool:
    """Whether devices of the first CNI can lead to pods of the second. Pods of the plain bridge
    plugin may be those of any CNI, because many attach their pods with it.
    """
    if pods_cni.name in {cni.name, BRIDGE_PLUGIN}:
        return True
    # None: its devices can lead to the pods of every CNI.
    return cni.serves is None or pods_cni.name in cni.serves


def card_that_may_be_meant(judge: Judge, dev: str, _: TakenRoute) -> Opinion | None:
    """Doubt every card while nothing shows which card is the uplink, because a tunnel in doubt or a
    dummy has the only default route (`is_card_unknown`).

    tests/hosts: openvpn-replaced-and-own-subnet, k3s-air-gapped-with-a-static-route.
    """
    uplinks = judge.uplinks
    if not uplinks.is_card_unknown or not judge.devices.may_be_card(dev):
        return None
    return Opinion(Grade.DOUBT, DEFAULT_ROUTES, spoken(sorted({*uplinks.devs, dev}), last="or"))


def escapes_by_the_device(_: Judge, dev: str, __: TakenRoute) -> Opinion:
    """Packets escape: no rule before says that they may leave by the device."""
    return Opinion(Grade.ESCAPE, OVERLAP, dev, devs=(dev,))


RULES_FOR_DEVICES: tuple[Callable[[Judge, str, TakenRoute], Opinion | None], ...] = (
    # Before the next one, because the hidden card may be in doubt.
    connected_route_of_the_hidden_card,
    # These two before the rules that say fine, because they doubt what would be fine.
    by_a_doubtful_device,
    route_without_a_gateway,
    expected,
    # Before the next two, which doubt some devices of CNIs, because the operator knows better.
    allowed_by_configuration,
    bridge_with_a_card,
    device_of_a_cni,
    card_that_may_be_meant,
    escapes_by_the_device,
)
"""In the order in which they are asked; the last always has an opinion."""
