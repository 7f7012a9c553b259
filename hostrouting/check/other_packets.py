"""Packets that rules treat differently from plain ones: marked, of some users or ports, bound to a
device or a source, or sent by pods of this node.

Theory of operation. The engine lists, beside the decision for plain packets, each other `OtherEnd`:
where packets end that differ from plain ones at a rule. Nobody knows whether the cluster sends such
packets. So an end is fine if it would be fine for plain packets, or if it is known what packets
these are. The functions in `RULES_FOR_OTHER_ENDS` are asked in order, and the first opinion
decides. The last one says that nothing is known: the doubt `other-packets`, with the selectors to
write into `intendedRules`. Everywhere else in this file, a rule is a policy rule of the host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hostrouting.check.judge import first_opinion
from hostrouting.check.results import (
    DEFAULT_ROUTES,
    DOUBTFUL_ROUTE,
    EXPECTED,
    OTHER_PACKETS,
    PODS_HIDDEN,
    Grade,
    Opinion,
)
from hostrouting.fib.engine import conditions_of
from hostrouting.model.prefix import IPV4

if TYPE_CHECKING:
    from collections.abc import Callable

    from hostrouting.check.judge import Judge
    from hostrouting.fib.engine import Decision, OtherEnd
    from hostrouting.model.prefix import IP
    from hostrouting.model.route import NextHop
    from hostrouting.model.snapshot import Address

FINE = Opinion(Grade.FINE)
"""The opinion on other packets that are fine. It has no name: nothing is shown about them."""


class OtherPackets(NamedTuple):
    """Packets that a rule leads elsewhere than plain packets, for example because of their mark,
    and what is known about them.
    """

    end: OtherEnd
    plain: Decision
    """The decision for plain packets to the same address."""
    met_conditions: dict[str, str]
    """The selectors of the rule that these packets meet, with their values. Empty if these are the
    packets that do not meet them (`OtherEnd.met_conditions`).
    """
    opinion_on_route: Opinion
    """The opinion that the judge has on the route that they take."""


def judge_other_end(judge: Judge, plain: Decision, end: OtherEnd, address: int) -> Opinion:
    """The opinion on packets to this address that a rule treats differently from the plain packet,
    such as marked ones. `end` says which packets these are, and where Linux leads them; `plain` is
    the decision for the plain packet.
    """
    met_conditions = dict(end.met_conditions)
    # CNIs have routes that are right only for packets that a rule selects by their mark or by the
    # device on which they arrive.
    if "iif" in met_conditions or met_conditions.keys() == {"fwmark"}:
        opinion_on_route = judge.opinion(end.decision, by_mark_or_iif=True)
    else:
        opinion_on_route = judge.opinion_on_packets_to(address, end.decision)
    packets = OtherPackets(end, plain, met_conditions, opinion_on_route)
    return first_opinion(RULES_FOR_OTHER_ENDS, judge, packets)


def intended(judge: Judge, packets: OtherPackets) -> Opinion | None:
    """Packets are fine if `intendedRules` has the rule by which Linux treats them differently. The
    rule may select these packets, or all except these.

    tests/hosts: policy-routing-intended, vpn-for-one-user-intended.
    """
    is_intended = packets.end.rule.selection in judge.config.intended_rules
    return FINE if is_intended else None


def of_a_connection(judge: Judge, packets: OtherPackets) -> Opinion | None:
    """Judge packets of this host's own connections, if a rule selects by the source alone. TCP
    looks up a route twice: first without a source (`plain`), and then with the source that the
    first route has given (`end`). The second lookup decides where the packets of a connection go,
    so these must not escape. None if the rule selects by anything else, or if no connection has a
    source of these packets.

    tests/hosts: node-address-into-a-vpn, src-that-has-a-rule, next-hops-by-flannel-first,
    clash-with-a-source, repaired-for-the-first-lookup-only; policy-routing-hides-cni0.
    """
    # For each source that a connection may have: whether the rule selects it.
    source_matches = _source_matches(judge, packets)
    # Usual packets do not meet a further condition, such as a mark. If no source is selected, no
    # connection sends these packets.
    if len(conditions_of(packets.end.rule)) > 1 or not any(source_matches):
        return None
    # If the first lookup leads to a CNI's device, and the second one to the uplink, nobody knows
    # whether the network beyond the uplink takes packets that did not go through the CNI's device.
    is_first_by_a_cni = judge.opinion(packets.plain).belongs_elsewhere
    if is_first_by_a_cni and packets.opinion_on_route.name == EXPECTED:
        return doubt_the_packets(judge, packets)
    if packets.opinion_on_route.grade is Grade.DOUBT:
        return by_a_device_in_doubt(judge, packets) or doubt_the_packets(judge, packets)
    if packets.opinion_on_route.grade is Grade.FINE:
        return FINE
    if all(source_matches):
        # The report has to name the decision for connections, not the one for the plain packet.
        return packets.opinion_on_route._replace(decision=packets.end.decision)
    return doubt_the_packets(judge, packets)  # the escape depends on the source that Linux chooses


def from_a_device(judge: Judge, packets: OtherPackets) -> Opinion | None:
    """Packets that arrive on a device are fine, because the check is about what this host sends.
    But packets from pods of this node are in doubt if they escape, because they should reach the
    cluster.

    tests/hosts: iif-cni0-into-a-vpn, iif-cni0-but-pods-stay; iif-docker0-into-a-vpn.
    """
    if "iif" not in packets.met_conditions:  # the rule does not select them by the device
        return None
    are_from_pods = any(
        packets.met_conditions["iif"] in route.devs for route in judge.devices.pod_routes
    )
    if are_from_pods and packets.opinion_on_route.grade is Grade.ESCAPE:
        return doubt_the_packets(judge, packets)
    return FINE


def fine_by_its_route(_: Judge, packets: OtherPackets) -> Opinion | None:
    """Packets are fine if the judge finds their route fine. Some routes of CNIs are right only for
    packets that are marked or arrive on a device; `judge_other_end` has considered that.

    tests/hosts: cilium-native and istio-tproxy (a mark).
    """
    return FINE if packets.opinion_on_route.grade is Grade.FINE else None


def of_a_user_network(judge: Judge, packets: OtherPackets) -> Opinion | None:
    """Packets of a network that a user has defined are fine: a CNI marks them, and keeps the
    network apart from the cluster's own. The network has a table that plain packets never look up,
    and an `unreachable default` in it refuses everything else.

    tests/hosts: ovn-kubernetes-user-network; anycast-address-on-lo-refused has no such table.
    """
    default = packets.end.decision.route
    if packets.met_conditions.keys() != {"fwmark"} or default is None:
        return None
    if default.type != "unreachable" or default.prefix.length:
        return None
    if default.table in judge.fib.tables_for_plain:
        return None
    for route in judge.fib.routes:
        is_in_table = route.table == default.table
        if is_in_table and any(judge.devices.is_used_as(dev, "network") for dev in route.devs):
            return FINE  # so the table is a CNI's
    return None


def wrong_by_any_device(judge: Judge, packets: OtherPackets) -> Opinion | None:
    """Doubt packets that may be lost whatever device they leave by, because no unicast route
    decides for them, or the route is doubtful, for example without a gateway. The functions after
    this one in `RULES_FOR_OTHER_ENDS` look only at the device, and would find such packets fine.

    tests/hosts: anycast-address-on-lo-refused.
    """
    if packets.end.decision.kind != "unicast" or packets.opinion_on_route.name == DOUBTFUL_ROUTE:
        return doubt_the_packets(judge, packets)
    return None


def by_the_device_of_the_source(judge: Judge, packets: OtherPackets) -> Opinion | None:
    """Packets from an address of this host are fine if they leave by the device that has this
    address. From an address of lo, they are fine by any card, because only the service with this
    address sends them.

    None if ordinary connections of this host may have that source: if one is to a pod, its packets
    should not leave by this device.

    tests/hosts: ec2-net-utils, equinix-metal; anycast-address-on-lo.
    """
    sources = packets.end.rule.src
    if (
        "from" not in packets.met_conditions
        or sources is None
        or any(_source_matches(judge, packets))
    ):
        return None
    devs_with_source = {dev for block, dev in judge.fib.own_blocks if sources.overlaps(block)}
    owners = {dev for dev in devs_with_source if judge.devices.cni_row(dev) is None}
    if not owners:  # only pods, and the devices of CNIs that lead to them, have such addresses
        return FINE
    devs = judge.fib.possible_devs(packets.end.decision)
    is_from_lo_by_cards = owners == {"lo"} and all(map(judge.devices.may_be_card, devs))
    is_by_the_owner = len(owners) == 1 and owners == set(devs)
    return FINE if is_by_the_owner or is_from_lo_by_cards else None


def _source_matches(judge: Judge, packets: OtherPackets) -> list[bool]:
    """For each source that connections of this host may have: whether these packets can have it.
    Empty if the rule does not select by the source.

    The sources are those that Linux may choose in the first lookup. But if none of these matches,
    and the packets would not reach pods of this node, the sources are the addresses of the expected
    devices, because the host (kubelet for example) may answer pods from these.
    """
    block = packets.end.rule.src
    if block is None:
        return []
    # The packets are from the block or, if they meet no condition of the rule, from elsewhere.
    is_inside = bool(packets.met_conditions)
    matches = [(ip in block) is is_inside for ip in _sources_of(judge, packets.plain)]
    if any(matches) or packets.opinion_on_route.name != PODS_HIDDEN:
        return matches
    return [
        (address.ip in block) is is_inside
        for address in judge.devices.global_addresses
        if address.dev in judge.uplinks.devs
    ]


def _sources_of(judge: Judge, decision: Decision) -> list[IP]:
    """The source addresses that Linux may give to packets with this decision: that of the route
    (`src`), or else those that Linux may choose for each next hop.
    """
    route = decision.route
    if route is None:
        return []
    if route.prefsrc is not None:
        return [route.prefsrc]
    addresses: list[Address] = []
    for hop in route.next_hops:
        addresses += _addresses_for(hop, judge)
    return [address.ip for address in addresses]


def _addresses_for(hop: NextHop, judge: Judge) -> list[Address]:
    """The addresses that may be the source of packets by this next hop. In IPv4, there is only one:
    the first whose network has the gateway, or else the first of the device, of lo, or of any
    device. In IPv6, all addresses of the device are possible or, if it has none, all of the host:
    the destination decides.

    tests/hosts: unnumbered-fabric-and-a-second-card-ipv6.
    """
    host_addresses = judge.devices.global_addresses
    device_addresses = [address for address in host_addresses if address.dev == hop.dev]
    if judge.fib.family != IPV4:
        return device_addresses or host_addresses
    beside_gateway: list[Address] = []
    if hop.gateway is not None:
        beside_gateway = [address for address in device_addresses if hop.gateway in address.network]
    lo_addresses = [address for address in host_addresses if address.dev == "lo"]
    return (beside_gateway or device_addresses or lo_addresses or host_addresses)[:1]


def bound_to_its_device(_: Judge, packets: OtherPackets) -> Opinion | None:
    """Packets of a socket that is bound to a device (`oif`) are fine: Linux ignores routes by other
    devices for them, so they leave by this device, wherever the rule leads.

    Policy routing for several uplinks is full of such rules, which would otherwise all be in doubt.

    tests/hosts: networkd-oif-rule.
    """
    return FINE if "oif" in packets.met_conditions else None


def of_a_vpn(judge: Judge, packets: OtherPackets) -> Opinion | None:
    """Marked packets are fine if they leave only by the card below the tunnel. They are the VPN's
    own packets: the VPN marks them, so that they do not leave by the tunnel again.

    tests/hosts: wg-quick-full-tunnel, tailscale-exit-node; tailscale-named (no default route).
    """
    if packets.met_conditions.keys() != {"fwmark"}:  # the rule does not select by the mark alone
        return None
    devs = judge.fib.possible_devs(packets.end.decision)
    return FINE if devs == (judge.uplinks.card_below_tunnel,) else None


def by_a_device_in_doubt(_: Judge, packets: OtherPackets) -> Opinion | None:
    """Doubt these packets if the judge doubts their route because several devices may be the
    intended uplink, and the route leads through one of these (`DEFAULT_ROUTES`).

    tests/hosts: second-card-for-root, mihomo-tun.
    """
    return packets.opinion_on_route if packets.opinion_on_route.name == DEFAULT_ROUTES else None


def doubt_the_packets(_: Judge, packets: OtherPackets) -> Opinion:
    """The last of the rules, for packets on which no other has an opinion: doubt them, because
    nothing shows whether they may go where they go. The finding names the host's routing rule that
    leads them there, even one that the engine does not evaluate (`goto`), so that an operator can
    write it into `intendedRules`.

    tests/hosts: vpn-for-one-user, goto-for-marked-packets.
    """
    return Opinion(Grade.DOUBT, OTHER_PACKETS, str(packets.end.rule))


RULES_FOR_OTHER_ENDS: tuple[Callable[[Judge, OtherPackets], Opinion | None], ...] = (
    # Before the next one, because nobody intends to lose the host's own connections.
    of_a_connection,
    intended,
    # Before all that are about packets that this host sends itself.
    from_a_device,
    fine_by_its_route,
    of_a_user_network,
    # Before the three that look only at the device.
    wrong_by_any_device,
    by_the_device_of_the_source,
    bound_to_its_device,
    of_a_vpn,
    # After the one before, which knows that some of these packets are fine.
    by_a_device_in_doubt,
    doubt_the_packets,
)
"""In the order in which they are asked; the last always has an opinion."""
