"""What is right: for each decision of the engine, whether it is fine, in doubt, or an escape.

- A `Decision` is where a lookup ends: a route, a rule that refuses packets, or neither.
- An `Opinion` is what this package says about a decision: a grade (fine, in doubt, or an escape), a
  name, and the thing that it is about, such as a device. An escape has the devices by which packets
  escape, and a doubt about the default route those that may be the intended one. Packets can be
  fine elsewhere than at the uplink, at a CNI's device for example. Then a repair must not lead them
  to the uplink (`is_fine_elsewhere`).
- A verdict is for a whole report: the worst opinion on any address of the cluster's CIDRs, which
  are `expectedCidrs` and `serviceCidrs` in the configuration.

Theory of operation. The engine says by which route and which devices packets leave. Here that is
judged, by lists of rules. Each list has an order; the first rule with an opinion decides, and the
last always has one:

- `RULES_FOR_ROUTES` look at what the route does: it refuses, it keeps packets on this host, or it
  is of a kind that is not judged. The last one asks about each device by which packets may leave.
- `RULES_FOR_DEVICES` look at one such device. The last one says that packets escape by it.
- `RULES_FOR_CNI_DEVICES` look at one that is a CNI's. The last one says that it is fine.

Rules see only the route, never the CIDR that is asked about, so splitting a CIDR cannot make a part
worse, and the verdict of a union is the worst of its parts.

To make something fine or doubtful, write a function with the signature of its neighbours and put it
into a list; its place there says which rules come first. Its docstring names the states of nodes
that need it (tests/hosts, one file for each), and a shape that no node has is a test in
tests/hostrouting/check/test_judge.py. What else a change may need:

1. A device of one more CNI needs no rule. It is a row in `config.cni`, with names and kinds;
   docs/limits.md names each CNI.
2. What a device is (a card, a tunnel, InfiniBand), `devices` and `model.link_kinds` say.
3. Which devices are expected, the module `expected` says. A device that must never be expected is
   left out there, in `devs_that_count`; then only `expectedDevs` can name it.
4. A rule by which a device is never fine returns what `escapes_by_the_device` does. It stands
   before those that say fine: `neighbours_of_the_hidden_card`, `expected`,
   `allowed_by_configuration` and `device_of_a_cni`.
5. `other_packets` has more rules that say fine, for packets with a source, device or mark of their
   own.
6. Which refused ranges are a CNI's, `refusals` says.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from hostrouting.check.devices import Devices, has_gateway
from hostrouting.check.expected import choice_between, find_uplinks
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
from hostrouting.fib.not_judged import lacks_a_source, may_change_destination
from hostrouting.model.prefix import IPV4, Prefix
from hostrouting.model.route import (
    PROTOCOL_DHCP,
    PROTOCOL_KERNEL,
    PROTOCOL_RA,
    REFUSING,
    Route,
)
from hostrouting.text import grouped, spoken

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from hostrouting.config.cni import Cni, Device
    from hostrouting.config.settings import Network, RouteOverlapConfig
    from hostrouting.model.prefix import IP
    from hostrouting.model.rule import Rule

PROTOCOLS_THAT_KNOW_THE_LINK = {PROTOCOL_KERNEL, PROTOCOL_RA, PROTOCOL_DHCP}
"""Protocols whose routes without a gateway are right: their makers know who is on the link.

systemd-networkd and NetworkManager name DHCP. dhclient does not, so its routes count as made by
hand.
"""

Packets: TypeAlias = Literal["plain", "marked", "of pods"]
"""What has selected the packets whose route is judged: their mark alone (marked), the CNI's device
on which they arrive (of pods), or nothing that says whose they are (plain).
"""
CniRows: TypeAlias = "list[tuple[Cni, Device]]"
"""Rows of the table of CNIs, each with its CNI."""


class TakenRoute(NamedTuple):
    """A route, and what is known of the packets that take it."""

    route: Route
    devs: tuple[str, ...]
    """The devices by which they may leave (`Fib.possible_devs`)."""
    packets: Packets

    @property
    def is_wide(self) -> bool:
        """Whether the route is for more than one address."""
        return not self.route.prefix.is_single


class Judge:
    """Judges the decisions of one host, for one family."""

    def __init__(
        self,
        fib: Fib,
        config: RouteOverlapConfig,
        known_sources: Mapping[Route, IP] = MappingProxyType({}),
    ) -> None:
        """Use these tables, what the configuration says about them, and the sources that Linux, if
        it was asked, writes into packets that leave by these routes.
        """
        self.fib = fib
        self.config = config
        self.known_sources = known_sources
        self.configured_devs = frozenset(config.expected_devs)
        self.services = of_family(config.service_cidrs, fib.family)
        self.pods = of_family(config.pod_cidrs, fib.family)
        """The addresses of pods, for `parts` and `other_packets`."""
        self.devices = Devices(fib)
        self.uplinks = find_uplinks(fib, self.devices, self.configured_devs)
        self.refusals = Refusals(fib, self.devices, self.uplinks.devs, self.services)

    def opinion(self, decision: Decision, packets: Packets = "plain") -> Opinion:
        """What is to be said of these packets with this decision."""
        route = decision.route
        if decision.kind == NOT_JUDGED:
            return Opinion(Grade.DOUBT, NOT_JUDGED)
        if route is None:  # no route at all, or a rule that refuses
            return Opinion(Grade.ESCAPE, decision.kind)
        taken = TakenRoute(route, self.fib.possible_devs(decision), packets)
        return first_opinion(RULES_FOR_ROUTES, self, taken)

    def opinion_at(self, address: int, decision: Decision) -> Opinion:
        """The same for plain packets to this address, which may be that of a pod of this node."""
        opinion = self.opinion(decision)
        route = decision.route
        if route is None or opinion.name == NOT_JUDGED:
            return opinion
        for pods in self.devices.routes_to_pods.around(address):
            if opinion.grade is Grade.ESCAPE and route.table == pods.table:
                continue  # `hiding` proposes to delete this route
            if _misses(self, route, pods):
                devs = decision.devs if route.type == "unicast" else ()
                return Opinion(Grade.ESCAPE, PODS_HIDDEN, devs=devs, hidden=pods)
        return opinion

    def with_routes(self, added: Iterable[Route]) -> Judge:
        """The judge of the same host with more routes."""
        return Judge(self.fib.with_routes(added), self.config, self.known_sources)

    def with_rules(self, added: Iterable[Rule]) -> Judge:
        """The judge of the same host with more rules."""
        snapshot = self.fib.snapshot.with_rules(added)
        return Judge(Fib(snapshot, self.fib.family), self.config, self.known_sources)

    def is_intended(self, rule: Rule | None) -> bool:
        """Whether the configuration says that the rule is right (`intendedRules`)."""
        intended = self.config.intended_rules
        return bool(intended) and rule is not None and rule.selection in intended

    def is_allowed(self, dev: str) -> bool:
        """Whether the configuration allows the device (`allowedDevs`)."""
        return any(fnmatchcase(dev, pattern) for pattern in self.config.allowed_devs)


def of_family(cidrs: Iterable[Network], family: int) -> tuple[Prefix, ...]:
    """The CIDRs of this family."""
    return tuple(Prefix.of(cidr) for cidr in cidrs if cidr.version == family)


def first_opinion(rules: Iterable[Callable[..., Opinion | None]], *subject: Any) -> Opinion:
    """The opinion of the first rule that has one about this subject: what these rules take."""
    for rule in rules:
        opinion = rule(*subject)
        if opinion is not None:
            return opinion
    raise AssertionError("the last rule of each list always has an opinion")


def _misses(judge: Judge, route: Route, pods: Route) -> bool:
    """Whether packets for pods of this node miss them by this route. Some table has a route to the
    pods (`pods`); a rule looks up another table before that one, or this route comes before it
    there.

    A device of a CNI is trusted to bring packets to pods, unless it is an expected one. An address
    of this host hides only a pod that has the same address.

    Field states: rule-before-main-hides-calico-pods, rule-before-main-hides-cni0,
    tailscale-exit-node-hides-cni0, address-of-a-pod-on-lo.
    """
    if route.type == "local":
        return route.prefix == pods.prefix
    if route.type != "unicast":
        return route.type in REFUSING
    for dev in {*route.usable_devs}.difference(pods.devs):
        if dev in judge.uplinks.devs or not judge.devices.cni_rows(dev):
            return True
    return False


# The rules for a route, by what it does with packets.


def refused(judge: Judge, taken: TakenRoute) -> Opinion | None:
    """A route that refuses packets is fine only if it is a CNI's; `refusals` has the rules.

    Field states: calico-services-refused, bird-aggregate, flannel-stale-block.
    """
    if taken.route.type not in REFUSING:
        return None
    return judge.refusals.opinion(taken.route)


def local_route(_: Judge, taken: TakenRoute) -> Opinion | None:
    """A `local` route keeps packets on this host: right for one address, an escape for a network.

    A network that is made this host's own (AnyIP) answers for others. It is right only for packets
    with a mark, because a proxy takes them in like that: `local default dev lo`, on every node with
    Cilium.

    Field states: anyip-services, anyip-one-service; istio-tproxy; iif-cni0-stays-here.
    """
    if taken.route.type != "local":
        return None
    if taken.is_wide and taken.packets != "marked":
        return Opinion(Grade.ESCAPE, OWN_RANGE)
    return OWN_ADDRESS


def broadcast_or_anycast_route(_: Judge, taken: TakenRoute) -> Opinion | None:
    """The broadcast address of a network, and an anycast address, belong to an address of the host.

    Linux adds these routes itself, for single addresses. With a prefix that is longer than that of
    its network, this can be the address of a neighbour, which is not noticed: 10.0.0.5/30 has the
    broadcast address 10.0.0.7, and in 10.0.0.0/24, that is another host.

    Field states: azure-nd-one-subnet, calico-ipip.
    """
    if taken.is_wide or taken.route.protocol != PROTOCOL_KERNEL:
        return None
    if taken.route.type in {"broadcast", "anycast"}:
        return OWN_ADDRESS
    return None


def route_not_judged(judge: Judge, taken: TakenRoute) -> Opinion | None:
    """Where packets go cannot be told from the devices of the route. There may be none, because
    Linux does not list the next hops of a nexthop object. An encapsulation (seg6, ioam6, rpl, bpf)
    may give packets another destination. Or Linux refuses them, for lack of a source.
    `fib.not_judged` names the route.

    Field states: segment-routing-by-objects, segment-routing, cni-ptp-lost-its-address.
    """
    route = taken.route
    if not taken.devs or may_change_destination(route) or lacks_a_source(judge.fib, route):
        return Opinion(Grade.DOUBT, NOT_JUDGED, str(route))
    return None


def by_its_devices(judge: Judge, taken: TakenRoute) -> Opinion:
    """Packets may leave by each device of the route, so the worst of the opinions on them decides.
    It is at least a doubt if TCP does not connect by the route.

    Field states: next-hops-by-flannel-first, next-hops-by-the-uplink-first;
    multicast-type-by-the-uplink.
    """
    opinions: list[Opinion] = []
    if judge.fib.family == IPV4 and taken.route.type in {"broadcast", "multicast"}:
        # First, because it is certain, and of equal opinions the first decides.
        reason = f"TCP does not connect by [{taken.route}]"
        opinions.append(Opinion(Grade.DOUBT, DOUBTFUL_ROUTE, reason, route=taken.route))
    opinions += [first_opinion(RULES_FOR_DEVICES, judge, dev, taken) for dev in taken.devs]
    return _worst_of(opinions)


def _worst_of(opinions: list[Opinion]) -> Opinion:
    """The worst opinion, and of equal ones one that belongs elsewhere than at the uplink, or else
    the first. An escape names the devices of all escapes.
    """
    worst = max(opinions, key=lambda opinion: (opinion.grade, opinion.is_fine_elsewhere))
    devs: list[str] = []  # an opinion has some only if it is an escape
    for opinion in opinions:
        devs += opinion.devs
    return worst._replace(devs=tuple(devs))


RULES_FOR_ROUTES: tuple[Callable[[Judge, TakenRoute], Opinion | None], ...] = (
    # What a route does decides, whatever its devices; it does only one of these things.
    refused,
    local_route,
    broadcast_or_anycast_route,
    # Before the next one, because its devices say nothing.
    route_not_judged,
    by_its_devices,
)
"""In the order in which they are asked; the last always has an opinion."""


# The rules for one device of a route.


def neighbours_of_the_hidden_card(judge: Judge, dev: str, taken: TakenRoute) -> Opinion | None:
    """The hidden card is the one whose default route a tunnel hides. Its connected routes are fine.

    A VPN takes what went to the router, and not what goes to neighbours: wg-quick says so with
    `suppress_prefixlength 0`. Those of another card are not fine: a rail with a connected /16 is
    the outage that the check is for. While the tunnel has no default route, and only a part of the
    networks, no card is hidden.

    Field states: wg-quick-full-tunnel-own-subnet, openvpn-named-and-worse; escapes in
    wireguard-named-without-a-default-route.
    """
    if dev == judge.uplinks.hidden_card and judge.devices.is_connected(dev, taken.route):
        return Opinion(Grade.FINE, OWN_SUBNET, f"{dev} (its own network)")
    return None


def by_a_doubtful_device(judge: Judge, dev: str, taken: TakenRoute) -> Opinion | None:
    """The default route may be on the wrong device; `expected` says why.

    `allowedDevs` does not settle that. It allows a device beside the uplink, and does not say which
    device the uplink is; `expectedDevs` does, and then nothing is in doubt.

    Field states: two-cards-with-one-metric, wg-quick-full-tunnel, oci-rdma-by-ra.
    """
    doubtful = judge.uplinks.doubtful
    if dev not in doubtful:
        return None
    return _doubt_between(doubtful, taken)


def _doubt_between(devs: Iterable[str], taken: TakenRoute) -> Opinion:
    """The doubt by which of these devices packets should leave, and by which they leave now."""
    candidates = tuple(sorted(devs))
    now = spoken(sorted(taken.devs), last="or")
    reason = f"{choice_between(candidates)}; they leave through {now} now"
    return Opinion(Grade.DOUBT, DEFAULT_ROUTES, reason, candidates=candidates)


def without_its_gateway(judge: Judge, dev: str, taken: TakenRoute) -> Opinion | None:
    """A route without a gateway asks the link of its device for addresses that are probably not
    there, but behind a router.

    Field states: on-link-by-mistake, ifupdown-without-the-router; on-link-by-ra is fine.
    """
    route = taken.route
    # A single address may be a neighbour, and a default route is not for neighbours.
    if not taken.is_wide or route.prefix.length == 0:
        return None
    if all(hop.gateway is not None for hop in route.next_hops if hop.dev == dev):
        return None
    if not _are_others_behind_routers(judge, dev):
        return None
    if dev in judge.devices.devs_with_network_around(route.prefix):
        return None
    # Whoever made the route may know the link, and the operator may know that all are neighbours.
    if route.protocol in PROTOCOLS_THAT_KNOW_THE_LINK or judge.is_allowed(dev):
        return None
    reason = f"[{route}] has no gateway, and {dev} is not in routeOverlap.allowedDevs"
    return Opinion(Grade.DOUBT, DOUBTFUL_ROUTE, reason, route=route, may_allow=dev)


def _are_others_behind_routers(judge: Judge, dev: str) -> bool:
    """Whether addresses outside the networks of the device are behind routers: for the uplink, if a
    default route by it has a gateway; for a CNI's bridge, whose network is that of this node's
    pods, if it has an address. Without one, its network is not known.

    Field state: cni0-for-all-pods.
    """
    if dev in judge.uplinks.devs:
        return any(has_gateway(default, dev) for default in judge.uplinks.defaults)
    if not judge.devices.is_bridge_of_pods(dev):
        return False
    return bool(judge.devices.addresses_on(dev))


def expected(judge: Judge, dev: str, _: TakenRoute) -> Opinion | None:
    """Packets leave by an expected device, as on every healthy node (aks-secondary-cards)."""
    if dev in judge.uplinks.devs:
        return Opinion(Grade.FINE, EXPECTED, dev)
    return None


def allowed_by_configuration(judge: Judge, dev: str, _: TakenRoute) -> Opinion | None:
    """The operator has allowed the device.

    Field states: k3s-over-tailscale, hetzner-pods-in-the-private-network.
    """
    if judge.is_allowed(dev):
        return Opinion(Grade.FINE, ALLOWED, f"{dev} (allowedDevs)")
    return None


def device_of_a_cni(judge: Judge, dev: str, taken: TakenRoute) -> Opinion | None:
    """A device of a known CNI has rules of its own: it is fine, unless the CNI may be gone."""
    rows = _fitting_rows(judge, dev, taken)
    if not rows:
        return None
    return first_opinion(RULES_FOR_CNI_DEVICES, judge, dev, taken, rows)


def card_that_may_be_meant(judge: Judge, dev: str, taken: TakenRoute) -> Opinion | None:
    """Where a tunnel or a dummy has the only default route, any card may be the uplink that is
    meant. So what leaves by a router on a card, or stays in a network of the card, is in doubt and
    not an escape.

    Field states: openvpn-replaced-and-own-subnet, k3s-air-gapped-with-a-static-route.
    """
    if not judge.uplinks.is_card_unknown or not judge.devices.may_be_card(dev):
        return None
    if not has_gateway(taken.route, dev) and not judge.devices.is_connected(dev, taken.route):
        return None
    # The tunnel or the dummy, and this card.
    return _doubt_between({*judge.uplinks.devs, dev}, taken)


def escapes_by_the_device(_: Judge, dev: str, __: TakenRoute) -> Opinion:
    """Nothing says that packets may leave by the device."""
    return Opinion(Grade.ESCAPE, OVERLAP, dev, devs=(dev,))


RULES_FOR_DEVICES: tuple[Callable[[Judge, str, TakenRoute], Opinion | None], ...] = (
    # Before the next one, because the hidden card may be in doubt.
    neighbours_of_the_hidden_card,
    # These two before those that say fine, because they doubt what would be fine.
    by_a_doubtful_device,
    without_its_gateway,
    expected,
    # Before the next one, which doubts some devices of CNIs: the operator knows better.
    allowed_by_configuration,
    device_of_a_cni,
    # What no rule has found fine.
    card_that_may_be_meant,
    escapes_by_the_device,
)
"""In the order in which they are asked; the last always has an opinion."""


# The rules for a device of a CNI.


def _fitting_rows(judge: Judge, dev: str, taken: TakenRoute) -> CniRows:
    """The CNIs' rows for the device that fit these packets.

    A pod's device is for single addresses, and a device for marked packets only for those that a
    rule has selected by their mark, or as packets of pods. Field states: cni-ptp-wide,
    dual-stack-wide-route-by-a-pod; antrea-egress.
    """
    rows: CniRows = []
    for cni, row in judge.devices.cni_rows(dev):
        if row.use == "pod" and taken.is_wide:
            continue
        if row.use == "marked" and taken.packets == "plain":
            continue
        rows.append((cni, row))
    return rows


def bridge_with_a_card(judge: Judge, dev: str, taken: TakenRoute, _: CniRows) -> Opinion | None:
    """A CNI's bridge has a network card as a port: packets may reach pods, or the network
    of the card.

    Field states: cni0-with-a-rail; cni0-with-a-rail-allowed is fine.
    """
    card = judge.devices.card_in_bridge.get(dev)
    if card is None:
        return None
    reason = f"{dev} has {card} as a port, and is not in routeOverlap.allowedDevs"
    return Opinion(Grade.DOUBT, DOUBTFUL_ROUTE, reason, route=taken.route, may_allow=dev)


def inside_another_network(judge: Judge, dev: str, taken: TakenRoute, _: CniRows) -> Opinion | None:
    """A CNI's device has a route into a network of the uplink, or of the bridge of pods.

    The CNI is gone, or its networks were chosen badly: the neighbours there are lost. A route for a
    single address is not in doubt: pods may have addresses of the uplink's network, and Calico can
    lead to other nodes by wireguard.cali, one by one.

    Field states: flannel-stale-route-over-cni0, cilium-pool-is-the-node-subnet.
    """
    if not taken.is_wide:
        return None
    for owner in judge.devices.devs_with_network_around(taken.route.prefix):
        is_rival = owner in judge.uplinks.devs or judge.devices.is_bridge_of_pods(owner)
        if is_rival and owner != dev:
            reason = f"{dev} beside the network of {owner}"
            return Opinion(Grade.DOUBT, TWO_CNIS, reason)
    return None


def beside_another_cni(judge: Judge, dev: str, _: TakenRoute, rows: CniRows) -> Opinion | None:
    """A CNI's device leads to many pods, while the pods of this node are another CNI's.

    A migration leaves such devices behind. A device is not left behind if one of the CNIs that may
    have made it leads to the pods of the other (`_leads_to_pods_of`).

    Field states: cni0-left-beside-calico, flannel-beside-cilium; canal-own-block is fine.
    """
    makers = [(cni, row) for cni, row in rows if row.use in {"network", "bridge"}]
    if not makers:
        return None
    for pod_dev, pods_cni in judge.devices.pod_devs_with_cni:
        if not any(_leads_to_pods_of(cni, row, pods_cni) for cni, row in makers):
            reason = f"{dev} beside pods of {pods_cni.name} ({pod_dev})"
            return Opinion(Grade.DOUBT, TWO_CNIS, reason)
    return None


def _leads_to_pods_of(cni: Cni, row: Device, pods_cni: Cni) -> bool:
    """Whether this device of a CNI can lead to the pods of the other one.

    Every CNI may have attached its own pods with the plain bridge plugin. A CNI that serves any
    other (`serves` is None) does so by its tunnels, and not by its bridge.
    """
    if pods_cni.name in {cni.name, BRIDGE_PLUGIN}:
        return True
    if cni.serves is None:
        return row.use == "network"
    return pods_cni.name in cni.serves


def fine_by_the_cni(_: Judge, __: str, ___: TakenRoute, rows: CniRows) -> Opinion:
    """The CNI knows what to do with the packets.

    Field states: calico-ipip, flannel-vxlan, cilium-tunnel and every other node with a CNI.
    """
    return Opinion(Grade.FINE, ALLOWED, _named(rows))


def _named(rows: CniRows) -> str:
    """The patterns of these rows with the names of the CNIs."""
    by_pattern = grouped((row.pattern, cni.name) for cni, row in rows)
    allowances: list[str] = []
    for pattern, names in by_pattern.items():
        allowances.append(f"{pattern} ({spoken(names, last='or')})")
    return spoken(allowances, last="or")


RULES_FOR_CNI_DEVICES: tuple[Callable[[Judge, str, TakenRoute, CniRows], Opinion | None], ...] = (
    bridge_with_a_card,
    inside_another_network,
    beside_another_cni,
    fine_by_the_cni,
)
"""In the order in which they are asked; the last always has an opinion."""
