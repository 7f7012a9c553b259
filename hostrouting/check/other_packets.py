"""Packets that a rule of the host tells from the others: marked ones, bound ones, those with a
source or from a device.

Theory of operation. The engine lists, beside the decision for plain packets, each other `Outcome`:
the decision for packets that meet a condition which plain packets do not meet, or that do not meet
one which plain packets meet. Nobody knows whether the cluster sends such packets. So an outcome is
fine where a plain packet would be, and where it is known what packets these are: `RULES`, of which
the first with an opinion decides. Each other one is opaque: the doubt `other-packets`, with the
selectors to write into `intendedRules`.

What a node forwards is not judged, unless `podCidrs` names the addresses of pods. Then the packets
of this node's pods are judged like the host's own, with the source and the device that they have,
as far as rules tell these apart. Without it, a rule for the device of a CNI (`iif cni0`) is known
to select packets of pods: such an outcome is opaque if it would escape.
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
"""It has no name, because only doubts about other packets are shown, and not what makes them fine.
"""


class Other(NamedTuple):
    """Another outcome, and what is known about its packets."""

    outcome: Outcome
    plain: Decision
    """The decision for the plain packet."""
    conditions: dict[str, str]
    """What the rule selects by, except `to` and `iif lo`, which plain packets have as well."""
    is_of_pods: bool
    """Whether the packets are pods' (`podCidrs`). The engine knows their source and device."""

    @property
    def met(self) -> dict[str, str]:
        """The conditions that are known to be true of these packets, and not of plain ones.

        Packets that do not meet the rule's conditions have none. Neither have those of pods, whose
        source and device are known without the rule.
        """
        if self.is_of_pods or not self.outcome.meets_conditions:
            return {}
        return self.conditions

    @property
    def source(self) -> Prefix | None:
        """The sources of the packets, if the rule selects packets of this host by these."""
        if "from" in self.met and "iif" not in self.met:
            return self.outcome.rule.src
        return None


def judge_outcome(judge: Judge, outcome: Outcome, plain: Decision, packet: Packet) -> Opinion:
    """What is to be said of packets that differ from the others of this kind at a rule."""
    conditions = dict(conditions_of(outcome.rule))
    if conditions.get("iif") == "lo":
        del conditions["iif"]
    other = Other(outcome, plain, conditions, is_of_pods=packet != PLAIN)
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


def everything_forwarded(judge: Judge, other: Other) -> Opinion | None:
    """All that this host forwards: nothing is expected of it, unless this node's pods have sent
    some.

    Field state: not-iif-lo-on-a-node-with-pods.
    """
    if not _is_forwarded_side(other):
        return None
    if any(_brings_pods_packets(judge, dev) for dev in judge.devices.links):
        return None
    return _FINE


def _is_forwarded_side(other: Other) -> bool:
    """Whether the packets are all that this host forwards, also for its pods (`not iif lo`).

    With further conditions (`iif lo fwmark 0x1`), the packets are this host's own. The engine
    follows forwarded ones only for `not iif lo`, for a rule that names another device, and with
    `podCidrs`.
    """
    is_iif_lo = conditions_of(other.outcome.rule) == FORWARDED.conditions
    return is_iif_lo and not other.outcome.meets_conditions and not other.is_of_pods


def forwarded_from_a_device(judge: Judge, other: Other) -> Opinion | None:
    """Packets that arrive on a device that is not a CNI's are not judged: nothing is expected of
    what a node forwards.

    Some may be the cluster's: with native routing, or for a NodePort, packets of other nodes' pods
    arrive on a card.

    Field states: iif-docker0-into-a-vpn, iif-eth0-prohibited.
    """
    if "iif" in other.met and not _are_pods_packets(judge, other):
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
    """Packets with a source of this host leave by the device that has it; with a source that this
    host does not have, they are forwarded.

    Field states: ec2-net-utils, cilium-eni, aws-vpc-cni-second-interface.
    """
    block = other.source
    if block is None:
        return None
    owners = _devs_with_a_source_in(judge, block)
    if not owners:  # this host has no such source, so it only forwards these packets
        return _FINE
    if len(owners) > 1:  # a packet may leave by another one than that of its source
        return None
    [owner] = owners
    if _leaves_by(other.outcome.decision, owner):
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
    dev = other.met.get("oif")
    if dev is not None and _leaves_by(other.outcome.decision, dev):
        return _FINE
    return None


def of_a_vpn(judge: Judge, other: Other) -> Opinion | None:
    """A VPN marks its own packets, so that they leave by the network card whose route it hides.

    Field states: wg-quick-full-tunnel, tailscale-exit-node.
    """
    nic = judge.uplinks.hidden_nic
    if nic is not None and _is_marked(other) and _leaves_by(other.outcome.decision, nic):
        return _FINE
    return None


def _leaves_by(decision: Decision, dev: str) -> bool:
    """Whether packets leave by this device, and by no other."""
    return decision.kind == "unicast" and decision.devs == (dev,)


def right_for_any_packet(judge: Judge, other: Other) -> Opinion | None:
    """The route is right for plain packets, or for the pods' and marked packets that these are.

    Field states: cilium-native and istio-tproxy (a mark), iif-flannel-to-this-nodes-pods.
    """
    is_special = _is_marked(other) or _are_pods_packets(judge, other)
    opinion = judge.opinion(other.outcome.decision, is_marked_or_of_pods=is_special)
    if opinion.grade is Grade.FINE:
        return _FINE
    return None


RULES: tuple[Callable[[Judge, Other], Opinion | None], ...] = (
    not_judged,
    intended,
    everything_forwarded,
    forwarded_from_a_device,
    led_elsewhere_by_source,
    by_the_device_of_the_source,
    bound_to_its_device,
    of_a_vpn,
    right_for_any_packet,
)
"""In the order in which they are asked. What none of them decides is opaque."""


def _is_marked(other: Other) -> bool:
    """Whether the packets differ from plain ones in one thing: they have a mark.

    Either the rule is for a mark (`fwmark 0x1`), and they meet it; or it is for packets without one
    (`fwmark 0x0/0x1`), as plain ones are, and they do not. The latter may also say `iif lo`. What
    this host forwards is on the same side then, and is not judged.
    """
    if other.conditions.keys() != {"fwmark"}:
        return False
    rule = other.outcome.rule
    is_for_a_mark = bool(rule.fwmark & rule.fwmask)
    if is_for_a_mark:
        return other.outcome.meets_conditions
    return not other.outcome.meets_conditions


def _are_pods_packets(judge: Judge, other: Other) -> bool:
    """Whether the packets arrive on a device by which a known CNI brings packets of pods."""
    dev = other.met.get("iif")
    return dev is not None and _brings_pods_packets(judge, dev)


def _brings_pods_packets(judge: Judge, dev: str) -> bool:
    """Whether packets of pods arrive on this device.

    With `podCidrs`, what arrives from this node's pods is judged on its own, source by source.
    """
    uses = judge.devices.uses(dev) - {"marked"}
    if judge.pods:
        uses -= {"pod", "bridge"}
    return bool(uses)
