"""Packets that a rule of the host tells from the others: marked ones, bound ones, those with a
source or from a device.

Theory of operation. The engine lists, beside the end of plain packets, each *other end*: where
packets end that meet a condition which plain packets do not meet. Nobody knows whether the cluster
sends such packets. So another end is fine where a plain packet would be, and where it is known what
packets these are: `RULES`, of which the first with an opinion decides. Each other one is opaque:
the doubt `other-packets`, with the selectors to write into `intendedRules`.

What a node forwards is not judged, unless `podCidrs` names the addresses of pods. Then their
packets are judged like the host's own, with the source and the device that they have, as far as
rules tell these apart. Without it, a rule for the device of a CNI (`iif cni0`) is known to select
packets of pods: such an end is opaque if it would escape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hostrouting.check.results import Grade, Opinion
from hostrouting.check.sources import sources_of
from hostrouting.fib.engine import (
    FORWARDED,
    NOT_JUDGED,
    PLAIN,
    Decision,
    Outcome,
    Packet,
    conditions_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from hostrouting.check.judge import Judge
    from hostrouting.model.prefix import Prefix

_FINE = Opinion(Grade.FINE)


class Other(NamedTuple):
    """Another end, and what is known about the packets that end there."""

    outcome: Outcome
    plain: Decision
    """Where the plain packet ends."""
    conditions: dict[str, str]
    """What the rule selects by, except the destination."""
    is_met: bool
    """Whether the packets are the host's own, and meet the conditions.

    Of packets of pods (`podCidrs`), source and device are known.
    """

    is_all_forwarded: bool = False
    """Whether they are all packets that this host forwards (`not iif lo`), also for its pods."""

    @property
    def source(self) -> Prefix | None:
        """The sources of the packets, if the rule selects packets of this host by these."""
        if not self.is_met or "iif" in self.conditions:
            return None
        return self.outcome.rule.src


def judge_other_end(judge: Judge, outcome: Outcome, plain: Decision, packet: Packet) -> Opinion:
    """What is to be said of packets that differ from the others of this kind at a rule."""
    conditions = dict(conditions_of(outcome.rule))
    if conditions.get("iif") == "lo":  # the host's own packets come from there
        del conditions["iif"]
    is_of_not_iif_lo = (
        conditions_of(outcome.rule) == FORWARDED.conditions and not outcome.meets_conditions
    )
    other = Other(
        outcome,
        plain,
        conditions,
        is_met=packet is PLAIN and outcome.meets_conditions,
        is_all_forwarded=packet is PLAIN and is_of_not_iif_lo,
    )
    for rule in RULES:
        opinion = rule(judge, other)
        if opinion is not None:
            return opinion
    return opaque(other)


def opaque(other: Other) -> Opinion:
    """The doubt about packets of which nothing is known."""
    rule = other.outcome.rule
    return Opinion(Grade.DOUBT, "other-packets", f"rule {rule}", rule.selection)


def not_judged(_: Judge, other: Other) -> Opinion | None:
    """The engine does not judge the rule, and names it for that.

    Field states: goto-for-marked-packets, istio-ambient.
    """
    if other.outcome.decision.kind == NOT_JUDGED:
        return Opinion(Grade.DOUBT, NOT_JUDGED)
    return None


def intended(judge: Judge, other: Other) -> Opinion | None:
    """The operator knows the rule.

    Field states: policy-routing-intended, vpn-for-one-user-intended.
    """
    if other.outcome.rule.selection in judge.config.intended_rules:
        return _FINE
    return None


def forwarded(judge: Judge, other: Other) -> Opinion | None:
    """Packets that arrive on a device that is not a CNI's: nothing of the cluster's. Of all that is
    forwarded, pods may have sent some if this node has a device of a CNI.

    Field states: iif-docker0-into-a-vpn, iif-eth0-prohibited, not-iif-lo-on-a-node-with-pods.
    """
    if other.is_all_forwarded and not any(
        _brings_pods_packets(judge, dev) for dev in judge.devices.links
    ):
        return _FINE
    is_forwarded = other.is_met and "iif" in other.conditions
    if is_forwarded and not _are_pods_packets(judge, other):
        return _FINE
    return None


def led_elsewhere_by_source(judge: Judge, other: Other) -> Opinion | None:
    """TCP looks up twice, the second time with the source that Linux chose for the plain route.

    If that source takes the connection to another device, plain connections are meant.

    Field states: policy-routing-hides-pods, pods-through-a-vpn.
    """
    block = other.source
    if block is None:
        return None
    is_chosen = any(source in block for source in sources_of(judge, other.plain))
    if is_chosen and set(other.outcome.decision.devs) != set(other.plain.devs):
        return opaque(other)
    return None


def by_the_device_of_the_source(judge: Judge, other: Other) -> Opinion | None:
    """Packets with a source of this host leave by the device that has it, and others are forwarded.

    Field states: ec2-net-utils, cilium-eni, aws-vpc-cni-second-interface.
    """
    block = other.source
    if block is None:
        return None
    owners = _devs_with_a_source_in(judge, block)
    if not owners:
        return _FINE
    decision = other.outcome.decision
    leaves_there = decision.kind == "unicast" and set(decision.devs) == owners
    if leaves_there and len(owners) == 1:
        return _FINE
    return None


def _devs_with_a_source_in(judge: Judge, block: Prefix) -> set[str]:
    """The devices with an address of this host in the block; a CNI's devices are the pods'."""
    owners: set[str] = set()
    for address in judge.devices.addresses:
        is_own = address.ip in block and not address.ip.is_loopback
        if is_own and not judge.devices.cni_rows(address.dev):
            owners.add(address.dev)
    return owners


def bound_to_its_device(_: Judge, other: Other) -> Opinion | None:
    """A socket that is bound to a device sends by that device: `oif eth1 lookup 7`.

    No field state needs it; policy routing for several uplinks is full of such rules.
    """
    decision = other.outcome.decision
    is_there = decision.kind == "unicast" and decision.devs == (other.conditions.get("oif"),)
    if other.outcome.meets_conditions and is_there:
        return _FINE
    return None


def of_a_vpn(judge: Judge, other: Other) -> Opinion | None:
    """A VPN marks its own packets, so that they leave by the network card whose route it hides.

    Field states: wg-quick-full-tunnel, tailscale-exit-node.
    """
    decision = other.outcome.decision
    is_by_nic = decision.kind == "unicast" and decision.devs == (judge.uplinks.hidden_nic,)
    if is_by_nic and _is_marked(other):
        return _FINE
    return None


def right_for_any_packet(judge: Judge, other: Other) -> Opinion | None:
    """A plain packet would be right there, so this one is.

    Field states: cilium-native and istio-tproxy (a mark), iif-flannel-to-this-nodes-pods.
    """
    is_selected = _is_marked(other) or _are_pods_packets(judge, other)
    opinion = judge.opinion(other.outcome.decision, is_selected=is_selected)
    if opinion.grade is Grade.FINE:
        return _FINE
    return None


RULES: tuple[Callable[[Judge, Other], Opinion | None], ...] = (
    not_judged,
    intended,
    forwarded,
    led_elsewhere_by_source,
    by_the_device_of_the_source,
    bound_to_its_device,
    of_a_vpn,
    right_for_any_packet,
)
"""In the order in which they are asked. What none of them decides is opaque."""


def _is_marked(other: Other) -> bool:
    """Whether a mark, and nothing else, makes the packets differ."""
    rule = other.outcome.rule
    has_mark = bool(rule.fwmark & rule.fwmask)
    return other.conditions.keys() == {"fwmark"} and has_mark is other.outcome.meets_conditions


def _are_pods_packets(judge: Judge, other: Other) -> bool:
    """Whether the packets arrive on a device by which a known CNI brings packets of pods."""
    if not other.is_met or "iif" not in other.conditions:
        return False
    return _brings_pods_packets(judge, other.conditions["iif"])


def _brings_pods_packets(judge: Judge, dev: str) -> bool:
    """Whether packets of pods arrive on this device.

    With `podCidrs`, what arrives from this node's pods is judged on its own, source by source.
    """
    uses = judge.devices.uses(dev) - {"marked"}
    if judge.pods:
        uses -= {"pod", "bridge"}
    return bool(uses)
