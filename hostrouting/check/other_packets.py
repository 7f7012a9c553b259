"""Packets that rules of the host treat differently from plain ones: marked, bound to a device or to
a source, or forwarded.

Theory of operation. The engine lists, beside the decision for plain packets, each other `Outcome`:
where packets end that differ from plain ones at a rule, with the conditions of the rule that they
are known to meet. Nobody knows whether the cluster sends such packets. So an outcome is fine if it
would be fine for plain packets, or if it is known what packets these are. The functions in
`RULES_FOR_OUTCOMES` are asked in order, and the first opinion decides. The last one says that the
outcome is opaque: the doubt `other-packets`, with the selectors to write into `intendedRules`. This
doubt is shown instead of any about the route itself. Everywhere else in this file, a rule is a
policy rule of the host.

Packets of pods. Nothing is expected of what a node forwards, with two exceptions:

- If `podCidrs` names the addresses of pods, the packets of this node's pods are judged like the
  host's own, in passes of their own: one for each source and device that rules tell apart
  (`parts.packets_of_pods`). Nothing here has to look for them then (`Judge.pods`).
- If not, two kinds of rules are known to select packets of pods: one for the device of a CNI (`iif
  cni0`), and one for several addresses where pods are. Such an outcome is opaque if it would
  escape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hostrouting.check.judge import first_opinion
from hostrouting.check.results import DEFAULT_ROUTES, DOUBTFUL_ROUTE, OTHER_PACKETS, Grade, Opinion
from hostrouting.config.cni import POD_RULES
from hostrouting.fib.engine import Outcome, selects_all_forwarded

if TYPE_CHECKING:
    from collections.abc import Callable

    from hostrouting.check.judge import Judge
    from hostrouting.model.prefix import Prefix
    from hostrouting.model.rule import Rule

FINE = Opinion(Grade.FINE)
"""It has no name, because of other packets, only what is wrong is shown."""


class OtherPackets(NamedTuple):
    """Packets with another outcome, and what is known about them."""

    outcome: Outcome
    address: int
    """An address that they are sent to."""
    met: dict[str, str]
    """The selectors of the rule that these packets are known to meet, with their values; not
    `iif lo`, which all that this host sends meets. Empty if these are the packets that do not meet
    the selectors (`Outcome.met`).
    """

    @property
    def source(self) -> Prefix | None:
        """The block of sources, if the rule selects packets of this host by their source."""
        if "from" in self.met and "iif" not in self.met:
            return self.outcome.rule.src
        return None

    @property
    def is_selected_by_mark_alone(self) -> bool:
        """Whether the mark says whose packets these are: the rule selects by nothing else."""
        return self.met.keys() == {"fwmark"}

    def opinion_on_route(self, judge: Judge) -> Opinion:
        """What the judge says of their route."""
        decision = self.outcome.decision
        if self.is_selected_by_mark_alone:
            return judge.opinion(decision, "marked")
        if "iif" in self.met:  # a CNI's device: `forwarded` has found all others fine
            return judge.opinion(decision, "of pods")
        return judge.opinion_at(self.address, decision)


def judge_outcome(judge: Judge, outcome: Outcome, address: int) -> Opinion:
    """What is to be said of packets to this address with this outcome."""
    other = OtherPackets(outcome, address, dict(outcome.met))
    return first_opinion(RULES_FOR_OUTCOMES, judge, other)


def opaque(rule: Rule) -> Opinion:
    """Nobody can know which packets of the host take this rule."""
    return Opinion(Grade.DOUBT, OTHER_PACKETS, f"rule {rule}", selection=rule.selection)


def intended(judge: Judge, other: OtherPackets) -> Opinion | None:
    """The operator knows the rule, and with it both the packets that take it and those that do not.

    Field states: policy-routing-intended, vpn-for-one-user-intended.
    """
    if judge.is_intended(other.outcome.rule):
        return FINE
    return None


def forwarded(judge: Judge, other: OtherPackets) -> Opinion | None:
    """Nothing is expected of what arrives on a device (`iif`, or `not iif lo` for all of them),
    unless a CNI's device brings packets of pods.

    Some of it may be the cluster's: with native routing, or for a NodePort, packets of other nodes'
    pods arrive on a card.

    Field states: iif-docker0-into-a-vpn, iif-eth0-prohibited, iif-docker0-goto;
    not-iif-lo-on-a-node-with-pods.
    """
    devs: list[str] = []
    if "iif" in other.met:
        devs.append(other.met["iif"])
    elif selects_all_forwarded(other.outcome.rule):
        devs += judge.devices.links
    if not devs or any(_brings_pods_packets(judge, dev) for dev in devs):
        return None
    return FINE


def _brings_pods_packets(judge: Judge, dev: str) -> bool:
    """Whether packets of pods arrive on this device: of this node's, or by a tunnel, of others."""
    if "network" in judge.devices.uses(dev):
        return True
    return judge.devices.leads_to_own_pods(dev) and not judge.pods


def fine_by_its_route(judge: Judge, other: OtherPackets) -> Opinion | None:
    """The route is right for plain packets, or for what these are: pods' packets, or marked ones.

    Field states: cilium-native and istio-tproxy (a mark), iif-flannel-to-this-nodes-pods.
    """
    if other.opinion_on_route(judge).grade is Grade.FINE:
        return FINE
    return None


def from_a_foreign_source(judge: Judge, other: OtherPackets) -> Opinion | None:
    """Packets with a source that this host does not have are forwarded. Nothing is expected of
    them, unless this node's pods have addresses in the block.

    Field states: cilium-eni, aws-vpc-cni-second-interface.
    """
    block = other.source
    if block is None or _devs_with_a_source_in(judge, block) or _may_hold_pods(judge, block):
        return None
    return FINE


def _may_hold_pods(judge: Judge, block: Prefix) -> bool:
    """Whether several pods of this node may have addresses in the block.

    A rule for a single one is its CNI's own. Behind a bridge that has the default route there may
    be pods, too, unless `expectedDevs` names it.
    """
    if judge.pods or block.is_single:
        return False
    return any(route.prefix.overlaps(block) for route in judge.devices.pod_routes)


def wrong_by_any_device(judge: Judge, other: OtherPackets) -> Opinion | None:
    """The route keeps or loses packets, whatever its device: by its type, or without a gateway. The
    functions after this one only know that its device is right.

    A route that `fib.not_judged` names puts the verdict in doubt anyway.
    """
    if other.outcome.decision.kind != "unicast":  # the type of the route
        return opaque(other.outcome.rule)
    if other.opinion_on_route(judge).name == DOUBTFUL_ROUTE:
        return opaque(other.outcome.rule)
    return None


def by_the_device_of_the_source(judge: Judge, other: OtherPackets) -> Opinion | None:
    """Packets with a source of this host leave by the device that has this source.

    If several devices have sources in the block, packets may leave by another one than their own.
    If pods have addresses in it, their packets take this device, too. An address of lo may leave by
    any card: only a service that has this address sends from it.

    Field states: ec2-net-utils, equinix-metal; anycast-address-on-lo.
    """
    block = other.source
    if block is None or _may_hold_pods(judge, block):
        return None
    owners = _devs_with_a_source_in(judge, block)
    devs = judge.fib.possible_devs(other.outcome.decision)
    if len(owners) == 1 and owners == set(devs):
        return FINE
    if owners == {"lo"} and all(map(judge.devices.may_be_card, devs)):
        return FINE
    return None


def _devs_with_a_source_in(judge: Judge, block: Prefix) -> set[str]:
    """The devices with an address of this host in the block."""
    owners: set[str] = set()
    for address in judge.devices.addresses_in(block):
        if address.ip.is_loopback:
            continue
        if _is_source_of_host(judge, address.dev, block):
            owners.add(address.dev)
    return owners


def _is_source_of_host(judge: Judge, dev: str, block: Prefix) -> bool:
    """Whether a rule for this block is about the host's own address on the device, and not about
    the pods behind the device.

    Cilium has a rule for the address of cilium_host alone. Field state: cilium-eni-host-address.
    """
    if dev in judge.uplinks.devs or not judge.devices.cni_rows(dev):
        return True
    return block.is_single and judge.devices.is_bridge_of_pods(dev)


def bound_to_its_device(_: Judge, other: OtherPackets) -> Opinion | None:
    """A socket that is bound to a device sends by that device: Linux passes over routes by others,
    and asks the next rule. So this is right whatever device the outcome has.

    Policy routing for several uplinks is full of such rules, which would all be in doubt.
    """
    if "oif" in other.met:
        return FINE
    return None


def of_a_vpn(judge: Judge, other: OtherPackets) -> Opinion | None:
    """A VPN marks its own packets, so that they leave by the network card and not by the tunnel; by
    any of several with equal default routes.

    Field states: wg-quick-full-tunnel, tailscale-exit-node; tailscale-named has no default route.
    """
    devs = judge.fib.possible_devs(other.outcome.decision)
    has_card = other.is_selected_by_mark_alone and judge.uplinks.card_below_tunnel in devs
    if has_card and all(map(judge.devices.may_be_card, devs)):
        return FINE
    return None


def of_a_pod(judge: Judge, other: OtherPackets) -> Opinion | None:
    """What one pod sends leaves by the card that has the pods' addresses, as its CNI's rule says.

    Field state: terway-eni.
    """
    rule = other.outcome.rule
    is_of_cni = rule.priority in POD_RULES and rule.src is not None and rule.src.is_single
    devs = judge.fib.possible_devs(other.outcome.decision)
    if is_of_cni and "iif" in other.met and all(map(judge.devices.may_be_card, devs)):
        return FINE
    return None


def by_a_doubtful_default(judge: Judge, other: OtherPackets) -> Opinion | None:
    """They leave by a default route in doubt: which one is meant has to be said first.

    Field state: second-card-for-root.
    """
    opinion = other.opinion_on_route(judge)
    if opinion.name == DEFAULT_ROUTES:
        return opinion
    return None


def anything_else(_: Judge, other: OtherPackets) -> Opinion:
    """Nothing else is known about these packets. A rule that is not judged is named here, too.

    Field states: vpn-for-one-user, goto-for-marked-packets.
    """
    return opaque(other.outcome.rule)


RULES_FOR_OUTCOMES: tuple[Callable[[Judge, OtherPackets], Opinion | None], ...] = (
    intended,
    # Nothing is expected of these packets, whatever their route.
    forwarded,
    fine_by_its_route,
    from_a_foreign_source,
    # Before the three that look only at the device.
    wrong_by_any_device,
    by_the_device_of_the_source,
    bound_to_its_device,
    of_a_vpn,
    of_a_pod,
    by_a_doubtful_default,
    anything_else,
)
"""In the order in which they are asked; the last always has an opinion."""
