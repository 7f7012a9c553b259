"""Packets that rules of the host treat differently from plain ones: marked, bound to a device or to
a source, or forwarded.

Theory of operation. The engine lists, beside the decision for plain packets, each other `Outcome`:
where packets end that differ from plain ones at a rule, with the conditions of the rule that they
are known to meet. Nobody knows whether the cluster sends such packets. So an outcome is fine if it
would be fine for plain packets, or if it is known what packets these are. Of `RULES`, the first one
with an opinion decides. The last one says that the outcome is opaque: the doubt `other-packets`,
with the selectors to write into `intendedRules`. It replaces any doubt about the route itself.

What a node forwards is not judged, unless `podCidrs` names the addresses of pods. Then the packets
of this node's pods are judged like the host's own, with the source and the device that they have,
if rules look at these. Such a packet can have a mark, too, and is one of the other packets then. In
any case, a rule for the device of a CNI (`iif cni0`), or for several addresses where pods are, is
known to select packets of pods: such an outcome is opaque if it would escape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hostrouting.check.results import Grade, Opinion, Packets, first_opinion
from hostrouting.check.sources import sources_of
from hostrouting.fib.engine import Decision, Outcome, selects_all_forwarded
from hostrouting.model.prefix import width_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from hostrouting.check.judge import Judge
    from hostrouting.model.prefix import Prefix

FINE = Opinion(Grade.FINE)
"""Without a name: of packets that are not plain, only what is wrong is shown."""


class OtherPackets(NamedTuple):
    """Packets with another outcome, and what is known about them."""

    outcome: Outcome
    plain: Decision
    """The decision for the plain packet."""
    met: dict[str, str]
    """The selectors of the rule that these packets are known to meet, with their values. Empty if
    they are those that do not meet the selectors (`Outcome.met`).
    """

    @property
    def source(self) -> Prefix | None:
        """The block of sources, if the rule selects packets of this host by their source."""
        if "from" in self.met and "iif" not in self.met:
            return self.outcome.rule.src
        return None

    def opinion_on_route(self, judge: Judge) -> Opinion:
        """What the judge says of their route."""
        packets = Packets.PLAIN
        # A mark says whose packets these are only if the rule selects by nothing else. What a CNI's
        # device brings is from pods in any case; what other devices bring is fine before that.
        if self.met.keys() == {"fwmark"}:
            packets = Packets.MARKED
        elif "iif" in self.met:
            packets = Packets.OF_PODS
        return judge.opinion(self.outcome.decision, packets)


def judge_outcome(judge: Judge, outcome: Outcome, plain: Decision) -> Opinion:
    """What is to be said of packets with this outcome, beside plain ones with that decision."""
    return first_opinion(RULES, judge, OtherPackets(outcome, plain, dict(outcome.met)))


def intended(judge: Judge, other: OtherPackets) -> Opinion | None:
    """The operator knows the rule, and with it both the packets that take it and those that do not.

    Field states: policy-routing-intended, vpn-for-one-user-intended.
    """
    if judge.is_intended(other.outcome.rule):
        return FINE
    return None


def everything_forwarded(judge: Judge, other: OtherPackets) -> Opinion | None:
    """All that this host forwards, which is what `not iif lo` selects, is not judged; but it is if
    a CNI's device brings packets of pods.

    Field state: not-iif-lo-on-a-node-with-pods.
    """
    if not selects_all_forwarded(other.outcome.rule):
        return None
    if any(_brings_pods_packets(judge, dev) for dev in judge.devices.links):
        return None
    return FINE


def forwarded_from_a_device(judge: Judge, other: OtherPackets) -> Opinion | None:
    """What arrives on a device that is not a CNI's is not judged.

    Some of it may be the cluster's: with native routing, or for a NodePort, packets of other nodes'
    pods arrive on a card.

    Field states: iif-docker0-into-a-vpn, iif-eth0-prohibited, iif-docker0-goto.
    """
    dev = other.met.get("iif")
    if dev is None or _brings_pods_packets(judge, dev):
        return None
    return FINE


def hides_pods_from_plain_packets(judge: Judge, other: OtherPackets) -> Opinion | None:
    """Plain packets belong at a CNI's device, and leave by another one once Linux looks up with
    their source. It does not help that the other one is expected: these are packets for pods.

    Field state: policy-routing-hides-pods.
    """
    if not judge.opinion(other.plain).belongs_elsewhere:
        return None
    return captures_a_plain_source(judge, other)


def fine_by_its_route(judge: Judge, other: OtherPackets) -> Opinion | None:
    """The route is right for plain packets, or for what these are: pods' packets, or marked ones.

    Field states: cilium-native and istio-tproxy (a mark), iif-flannel-to-this-nodes-pods.
    """
    if other.opinion_on_route(judge).grade is Grade.FINE:
        return FINE
    return None


def captures_a_plain_source(judge: Judge, other: OtherPackets) -> Opinion | None:
    """A source that Linux may choose for plain packets leads to another device than these take. So
    it is not enough that this is the device of the source.

    IPv4 looks up with the source at once for a connected socket; if the source is certain, `parts`
    judges these connections. IPv6 keeps the first route, and looks up again as soon as any route
    changes. No field state needs the rule, since the route of two-uplinks-by-source is fine.
    """
    block = other.source
    if block is None or set(other.outcome.decision.devs) == set(other.plain.devs):
        return None
    if any(source in block for source in sources_of(judge, other.plain)):
        return opaque(judge, other)
    return None


def from_a_foreign_source(judge: Judge, other: OtherPackets) -> Opinion | None:
    """Packets with a source that this host does not have are forwarded, and not judged; but they
    are if this node's pods have addresses in the block.

    Field states: cilium-eni, aws-vpc-cni-second-interface.
    """
    block = other.source
    if block is None or _devs_with_a_source_in(judge, block) or _has_pods(judge, block):
        return None
    return FINE


def _has_pods(judge: Judge, block: Prefix) -> bool:
    """Whether several pods of this node may have addresses in the block.

    A rule for a single one is its CNI's own. With `podCidrs`, packets of pods are judged source by
    source.
    """
    if judge.pods or block.length == width_of(block.family):
        return False
    for dev, place in judge.devices.places_of_pods:
        if place.overlaps(block) and dev not in judge.uplinks.devs:
            return True
    return False


def wrong_by_any_device(judge: Judge, other: OtherPackets) -> Opinion | None:
    """The route keeps or loses packets, whatever its device: by its type, or without a gateway.

    The later rules only know that its device is right.
    """
    if other.outcome.decision.kind != "unicast":  # the type of the route
        return opaque(judge, other)
    if other.opinion_on_route(judge).name == "doubtful-route":
        return opaque(judge, other)
    return None


def by_the_device_of_the_source(judge: Judge, other: OtherPackets) -> Opinion | None:
    """Packets with a source of this host leave by the device that has this source.

    If several devices have sources in the block, packets may leave by another one than their own.

    Field states: ec2-net-utils, equinix-metal.
    """
    block = other.source
    if block is None:
        return None
    owners = _devs_with_a_source_in(judge, block)
    if len(owners) == 1 and owners == set(judge.fib.possible_devs(other.outcome.decision)):
        return FINE
    return None


def _devs_with_a_source_in(judge: Judge, block: Prefix) -> set[str]:
    """The devices with an address of this host in the block.

    The address of a CNI's device stands for the pods behind it, unless the device is the uplink, or
    the block is the address of a bridge and no more. Cilium has a rule for that of cilium_host.

    Field state: cilium-eni-host-address.
    """
    is_single = block.length == width_of(block.family)
    owners: set[str] = set()
    for address in judge.devices.addresses:
        if address.ip not in block or address.ip.is_loopback:
            continue
        is_bridge_alone = is_single and judge.devices.is_bridge_of_pods(address.dev)
        is_of_pods = judge.devices.cni_rows(address.dev) and address.dev not in judge.uplinks.devs
        if is_bridge_alone or not is_of_pods:
            owners.add(address.dev)
    return owners


def bound_to_its_device(_: Judge, other: OtherPackets) -> Opinion | None:
    """A socket that is bound to a device sends by that device: Linux passes over routes by others.

    No field state needs it; policy routing for several uplinks is full of such rules.
    """
    if "oif" in other.met:
        return FINE
    return None


def of_a_vpn(judge: Judge, other: OtherPackets) -> Opinion | None:
    """A VPN marks its own packets, so that they leave by the network card and not by the tunnel.

    Field states: wg-quick-full-tunnel, tailscale-exit-node; tailscale-named has no default route.
    """
    card = judge.uplinks.card_below_tunnel
    if card is None or other.met.keys() != {"fwmark"}:
        return None
    if judge.fib.possible_devs(other.outcome.decision) == (card,):
        return FINE
    return None


def opaque(_: Judge, other: OtherPackets) -> Opinion:
    """Nothing else is known about these packets. A rule that is not judged is named here, too.

    Field states: vpn-for-one-user, goto-for-marked-packets.
    """
    rule = other.outcome.rule
    return Opinion(Grade.DOUBT, "other-packets", f"rule {rule}", selection=rule.selection)


RULES: tuple[Callable[[Judge, OtherPackets], Opinion | None], ...] = (
    intended,
    everything_forwarded,
    forwarded_from_a_device,
    hides_pods_from_plain_packets,
    fine_by_its_route,
    captures_a_plain_source,
    from_a_foreign_source,
    wrong_by_any_device,
    by_the_device_of_the_source,
    bound_to_its_device,
    of_a_vpn,
    opaque,
)
"""In the order in which they are asked; the last always has an opinion."""


def _brings_pods_packets(judge: Judge, dev: str) -> bool:
    """Whether packets of pods arrive on this device: from this node's, or by a tunnel from others.

    With `podCidrs`, the packets of this node's pods are judged on their own, source by source.
    """
    uses = judge.devices.uses(dev) - {"marked"}
    if judge.pods:
        uses -= {"pod", "bridge"}
    return bool(uses)
