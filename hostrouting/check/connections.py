"""Connections of this host: what becomes of packets once Linux has chosen their source.

Theory of operation. TCP, and UDP with `connect`, look up twice: first as a plain packet, which has
no source, and then with the source that the first route gave. A rule for that source (`from`) may
lead the second lookup elsewhere. IPv4 looks up again at once; IPv6 as soon as any route changes.

If Linux can only choose one source, or was asked which one it chooses (`sources`), and connections
are lost or in doubt where plain packets are not, they are judged as packets of their own kind. If
it may choose any of several, and one of these makes that difference, that is a doubt about the
plain packets.

Not modelled: IPv6 also looks up again where it finds no route without a source, so a rule for a
source of this host may yet lead there. Such addresses count as lost.

Field states: repaired-for-the-first-lookup-only, node-address-into-a-vpn, src-that-has-a-rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostrouting.check.other_packets import opaque
from hostrouting.check.results import (
    EXPECTED,
    UNKNOWN_SOURCE,
    Grade,
    Opinion,
    Part,
)
from hostrouting.check.sources import sources_of
from hostrouting.fib.engine import PacketKind
from hostrouting.model.prefix import Prefix

if TYPE_CHECKING:
    from hostrouting.check.judge import Judge


def connection_of(judge: Judge, plain: Part) -> tuple[PacketKind, Part] | None:
    """The connections to a part whose source is known, if they are lost or in doubt and plain
    packets are not.
    """
    sources = sources_of(judge, plain.decision.route)
    if len(sources) != 1:  # or it is an own address, which no route of type unicast leads to
        return None
    packet = PacketKind(Prefix.of(sources[0]))
    connection = _look_up_again(judge, plain, packet)
    if connection is None or not _is_worse(judge, plain, connection):
        return None
    return packet, connection


def doubt_about_sources(judge: Judge, plain: Part) -> Opinion | None:
    """The doubt about a part whose packets have one of several sources, if that makes a
    difference.
    """
    if not judge.fib.has_rules_by_source:
        return None
    sources = sources_of(judge, plain.decision.route)
    if len(sources) < 2:
        return None
    for source in sources:
        connection = _look_up_again(judge, plain, PacketKind(Prefix.of(source)))
        if connection is not None and _is_worse(judge, plain, connection):
            decision = connection.decision
            reason = f"from {source}, they take [{decision}] by [rule {decision.rule}]"
            return Opinion(Grade.DOUBT, UNKNOWN_SOURCE, reason)
    return None


def _look_up_again(judge: Judge, plain: Part, packet: PacketKind) -> Part | None:
    """The part as connections with this source have it; None if their lookup ends where the first
    did.

    If plain packets belong elsewhere than at the uplink, for example at Flannel's device, a
    connection does, too. Field state: next-hops-by-flannel-first.

    An opinion on a refusal compares it with all routes and addresses: 64 sources and 200 refused
    ranges took 2.8 s, and take 0.5 s without those that change nothing.
    """
    decision, _ = judge.fib.outcomes(plain.first, packet)
    if decision == plain.decision:
        return None
    opinion = judge.opinion_at(plain.first, decision)
    is_diverted = plain.opinion.is_fine_elsewhere and opinion.name == EXPECTED
    if is_diverted and decision.rule is not None:
        opinion = opaque(decision.rule)
    return Part(plain.first, plain.last, decision, opinion)


def _is_worse(judge: Judge, plain: Part, connection: Part) -> bool:
    """Whether connections are lost or in doubt, and plain packets are not.

    Where the rule of either lookup is intended, so are they; but nobody intends to lose the pods of
    this node. Field state: policy-routing-intended.
    """
    if connection.plain_grade <= plain.plain_grade:
        return False
    if judge.devices.routes_to_pods.around(plain.first):
        return True
    rules = (plain.decision.rule, connection.decision.rule)
    return not any(map(judge.is_intended, rules))
