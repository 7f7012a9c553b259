"""Packets that a rule of the host tells from plain ones: marked, bound to a device or to a source,
or forwarded.

Theory of operation. The engine lists, beside the decision for plain packets, each other `Outcome`:
where packets end that differ from plain ones at a rule (its table has the four ways in which they
can). Nobody knows whether the cluster sends such packets. So an outcome is fine if it would be fine
for plain packets, or if it is known what packets these are. Of `RULES`, the first one with an
opinion decides. The last one says that the outcome is opaque: the doubt `other-packets`, with the
selectors to write into `intendedRules`. It replaces any doubt about the route itself.

What a node forwards is not judged, unless `podCidrs` names the addresses of pods. Then the packets
of this node's pods are judged like the host's own, with the source and the device that they have,
as far as rules tell these apart. In any case, a rule for the device of a CNI (`iif cni0`) is known
to select packets of pods: such an outcome is opaque if it would escape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hostrouting.check.results import Grade, Opinion, Packets, first_opinion
from hostrouting.check.sources import sources_of
from hostrouting.fib.engine import FORWARDED, PLAIN, Decision, Outcome, Packet, conditions_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from hostrouting.check.judge import Judge
    from hostrouting.model.prefix import Prefix

_FINE = Opinion(Grade.FINE)
"""It has no name, because only doubts about other packets are shown, and not what makes them fine.
"""


class OtherPackets(NamedTuple):
    """Packets with another outcome, and what is known about them."""

    outcome: Outcome
    plain: Decision
    """The decision for the plain packet."""
    are_known: bool
    """Whether the engine knows their source and device, as it does those of pods (`podCidrs`)."""
    met: dict[str, str]
    """The conditions of the rule that these packets meet and plain ones do not. Without any, the
    packets are those that do not meet the rule's conditions, or their source and device are known.
    """

    @property
    def source(self) -> Prefix | None:
        """The block of sources, if the rule selects packets of this host by their source."""
        if "from" in self.met and "iif" not in self.met:
            return self.outcome.rule.src
        return None


def judge_outcome(judge: Judge, outcome: Outcome, plain: Decision, packet: Packet) -> Opinion:
    """What is to be said of the packets of this kind with this outcome."""
    met: dict[str, str] = {}
    if outcome.meets_conditions and packet == PLAIN:
        met.update(conditions_of(outcome.rule))
        if met.get("iif") == "lo":  # as for plain packets
            del met["iif"]
    return first_opinion(RULES, judge, OtherPackets(outcome, plain, packet != PLAIN, met))


def intended(judge: Judge, other: OtherPackets) -> Opinion | None:
    """The operator knows the rule, and with it both the packets that take it and those that do not.

    Field states: policy-routing-intended, vpn-for-one-user-intended.
    """
    if judge.is_intended(other.outcome.rule):
        return _FINE
    return None


def everything_forwarded(judge: Judge, other: OtherPackets) -> Opinion | None:
    """What `not iif lo` selects, which is all that this host forwards, is not judged; but it is if
    a CNI's device brings packets of pods.

    Field state: not-iif-lo-on-a-node-with-pods.
    """
    outcome = other.outcome
    if other.are_known or outcome.meets_conditions:
        return None
    if conditions_of(outcome.rule) != FORWARDED.conditions:
        return None
    if any(_brings_pods_packets(judge, dev) for dev in judge.devices.links):
        return None
    return _FINE


def forwarded_from_a_device(judge: Judge, other: OtherPackets) -> Opinion | None:
    """What arrives on a device that is not a CNI's is not judged.

    Some of it may be the cluster's: with native routing, or for a NodePort, packets of other nodes'
    pods arrive on a card.

    Field states: iif-docker0-into-a-vpn, iif-eth0-prohibited, iif-docker0-goto.
    """
    dev = other.met.get("iif")
    if dev is None or _brings_pods_packets(judge, dev):
        return None
    return _FINE


def led_elsewhere_by_source(judge: Judge, other: OtherPackets) -> Opinion | None:
    """A source that Linux may choose for plain packets leads to another device than these take.

    IPv4 looks up again for a connected socket, with the source that it has chosen; `parts` judges
    these connections where the source is certain. IPv6 keeps the first route, but looks up with the
    source as soon as any route changes. So the device of the source is not enough here. The outcome
    has to be fine by its route, and plain packets must not be what a CNI's device is for.

    Field states: policy-routing-hides-pods; two-uplinks-by-source.
    """
    block = other.source
    decision = other.outcome.decision
    if block is None or set(decision.devs) == set(other.plain.devs):
        return None
    if not any(source in block for source in sources_of(judge, other.plain)):
        return None
    if judge.opinion(other.plain).is_elsewhere:
        return opaque(judge, other)
    return fine_by_its_route(judge, other) or opaque(judge, other)


def from_a_foreign_source(judge: Judge, other: OtherPackets) -> Opinion | None:
    """A source that this host does not have is that of packets which it forwards.

    Field states: cilium-eni, aws-vpc-cni-second-interface.
    """
    block = other.source
    if block is None or _devs_with_a_source_in(judge, block):
        return None
    return _FINE


def by_the_device_of_the_source(judge: Judge, other: OtherPackets) -> Opinion | None:
    """Packets with a source of this host leave by the device that has this source.

    If several devices have sources in the block, packets may leave by another one than their own.

    Field states: ec2-net-utils, equinix-metal.
    """
    block = other.source
    if block is None:
        return None
    owners = _devs_with_a_source_in(judge, block)
    if len(owners) == 1 and owners == set(judge.possible_devs(other.outcome.decision)):
        return _FINE
    return None


def _devs_with_a_source_in(judge: Judge, block: Prefix) -> set[str]:
    """The devices with an address of this host in the block.

    The address of a CNI's device stands for the pods behind it, unless the device is the uplink.
    """
    owners: set[str] = set()
    for address in judge.devices.addresses:
        is_own = address.ip in block and not address.ip.is_loopback
        is_of_pods = judge.devices.cni_rows(address.dev) and address.dev not in judge.uplinks.devs
        if is_own and not is_of_pods:
            owners.add(address.dev)
    return owners


def bound_to_its_device(_: Judge, other: OtherPackets) -> Opinion | None:
    """A socket that is bound to a device sends by that device: Linux passes over routes by others.

    No field state needs it; policy routing for several uplinks is full of such rules.
    """
    if "oif" in other.met and other.outcome.decision.kind == "unicast":
        return _FINE
    return None


def of_a_vpn(judge: Judge, other: OtherPackets) -> Opinion | None:
    """A VPN marks its own packets, so that they leave by the network card whose route it hides.

    Field states: wg-quick-full-tunnel, tailscale-exit-node.
    """
    card = judge.uplinks.hidden_card
    if card is None or other.met.keys() != {"fwmark"}:
        return None
    if judge.possible_devs(other.outcome.decision) == (card,):
        return _FINE
    return None


def fine_by_its_route(judge: Judge, other: OtherPackets) -> Opinion | None:
    """The route is right for plain packets, or for what these are: pods' packets, or marked ones.

    Field states: cilium-native and istio-tproxy (a mark), iif-flannel-to-this-nodes-pods.
    """
    packets = Packets.PLAIN
    if other.met.keys() == {"fwmark"}:
        packets = Packets.MARKED
    elif "iif" in other.met:  # on a CNI's device: otherwise, nothing is expected of them
        packets = Packets.OF_PODS
    if judge.opinion(other.outcome.decision, packets).grade is Grade.FINE:
        return _FINE
    return None


def opaque(_: Judge, other: OtherPackets) -> Opinion:
    """Nothing else is known about these packets, also not what a rule does that is not judged.

    Field states: vpn-for-one-user, goto-for-marked-packets.
    """
    rule = other.outcome.rule
    return Opinion(Grade.DOUBT, "other-packets", f"rule {rule}", selection=rule.selection)


RULES: tuple[Callable[[Judge, OtherPackets], Opinion | None], ...] = (
    intended,
    everything_forwarded,
    forwarded_from_a_device,
    led_elsewhere_by_source,
    from_a_foreign_source,
    by_the_device_of_the_source,
    bound_to_its_device,
    of_a_vpn,
    fine_by_its_route,
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
