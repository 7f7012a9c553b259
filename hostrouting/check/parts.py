"""The ranges of a block of addresses, each with the opinions on where its packets end.

Ranges are cut where the engine's decision can change, and around the addresses of every host or
link: those are fine by any device.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

from hostrouting.check.other_packets import FINE, judge_outcome
from hostrouting.check.results import DOUBTFUL_ROUTE, OWN_ADDRESS, SOME_POD, Grade, Opinion, Part
from hostrouting.check.sources import sources_of
from hostrouting.fib.engine import FROM_HOST, Cell, PacketKind, pieces
from hostrouting.model.prefix import IPV4, IPV6, Prefix, borders_of, prefixes_between

if TYPE_CHECKING:
    from hostrouting.check.judge import Judge
    from hostrouting.fib.engine import Outcome

T = TypeVar("T")

EVERYWHERE = {
    4: tuple(map(Prefix.parse, ("0.0.0.0/32", "127.0.0.0/8", "224.0.0.0/4", "255.255.255.255/32"))),
    6: tuple(map(Prefix.parse, ("fe80::/10", "ff00::/8"))),
}
"""By family: multicast, broadcast, and the addresses of every host or link."""
_EVERYWHERE = {family: borders_of(prefixes) for family, prefixes in EVERYWHERE.items()}
"""By family: where these begin and end, in turn."""


def find_all_parts(judge: Judge, block: Prefix) -> Iterator[tuple[PacketKind, list[Part]]]:
    """The ranges of a block as plain packets have them, then as others that this host sends or
    forwards, by the kind of packets.
    """
    plain = list(find_parts(judge, block.first, block.last))
    yield FROM_HOST, plain
    yield from find_connections(judge, plain).items()
    for packet in packets_of_pods(judge):
        yield packet, list(find_parts(judge, block.first, block.last, packet))


def find_connections(judge: Judge, parts: Sequence[Part]) -> dict[PacketKind, list[Part]]:
    """The parts that are worse for connected sockets, by the kind of packets, in order. Own
    addresses are among them, because they belong to the ranges around them (`ranges_of`).

    IPv4 looks up twice for a socket that is connected (TCP, and UDP with `connect`): the second
    time with the source that the first route gave. Where that may be one of several addresses, a
    rule for one of these is a matter of `other_packets`, as it is in IPv6. Where a rule of either
    lookup is intended, the packets are.

    Field states: repaired-for-the-first-lookup-only, node-address-into-a-vpn.
    """
    worse: dict[PacketKind, list[Part]] = {}
    if judge.fib.family != IPV4 or all(rule.src is None for rule in judge.fib.rules):
        return worse
    for part in parts:
        sources = set(sources_of(judge, part.decision))
        if part.is_own or len(sources) != 1 or judge.is_intended(part.decision.rule):
            continue
        packet = PacketKind(Prefix.of(sources.pop()))
        decision, _ = judge.fib.outcomes(part.first, packet)
        opinion = judge.opinion(decision)
        if opinion.grade > part.plain_grade and not judge.is_intended(decision.rule):
            by_connection = Part(part.first, part.last, decision, opinion, ())
            worse.setdefault(packet, []).append(by_connection)
    own = [part for part in parts if part.is_own]
    for connections in worse.values():
        connections.extend(own)
        connections.sort(key=attrgetter("first"))
    return worse


def packets_of_pods(judge: Judge) -> Iterator[PacketKind]:
    """A packet of each kind that pods send (`podCidrs`).

    Sources differ only where a `from` selector begins or ends, and devices only where a rule names
    one.
    """
    if not judge.pods:
        return
    family = judge.fib.family
    rules = judge.fib.rules
    named = {rule.iif for rule in rules}
    known = [dev for dev in judge.devices.links if dev in named]
    devs = [SOME_POD, *filter(judge.devices.leads_to_own_pods, known)]
    borders = borders_of(rule.src for rule in rules if rule.src is not None)
    for cidr in judge.pods:
        for first, last in pieces(cidr.first, cidr.last, borders):
            for source in prefixes_between(family, first, last):
                for dev in devs:
                    yield PacketKind(source, dev)


def find_parts(
    judge: Judge, first: int, last: int, packet: PacketKind = FROM_HOST
) -> Iterator[Part]:
    """The ranges of these addresses, in order."""
    everywhere = _EVERYWHERE[judge.fib.family]
    for low, high in pieces(first, last, everywhere):
        is_everywhere = bisect_right(everywhere, low) % 2 == 1
        for cell in judge.fib.cells(low, high, packet):
            if is_everywhere and cell.decision.devs:
                yield Part(cell.first, cell.last, cell.decision, OWN_ADDRESS, ())
            else:
                yield _judged(judge, cell, packet)


def _judged(judge: Judge, cell: Cell, packet: PacketKind) -> Part:
    """The cell as a part, with the opinions on all of its packets."""
    decision = cell.decision
    opinion = judge.opinion(decision)
    # An entry of intendedRules is about the packets of pods that take the rule, too.
    if packet != FROM_HOST and judge.is_intended(decision.rule):
        opinion = FINE
    if opinion.grade is Grade.ESCAPE and not decision.devs:
        opinion = _opinion_by_source(judge, cell.others) or opinion
    others = tuple(judge_outcome(judge, outcome, decision) for outcome in cell.others)
    return Part(cell.first, cell.last, decision, opinion, others)


def _opinion_by_source(judge: Judge, others: Iterable[Outcome]) -> Opinion | None:
    """The doubt about packets without a route, if IPv6 may find the right one with a source of this
    host: when a lookup fails, IPv6 chooses a source all the same, and looks up again.

    Which source that is, is not computed.
    """
    if judge.fib.family != IPV6:
        return None
    own = judge.devices.global_addresses
    for outcome in others:
        block = outcome.rule.src
        if block is None or dict(outcome.met).keys() != {"from"}:
            continue
        is_right = judge.opinion(outcome.decision).grade is not Grade.ESCAPE
        if is_right and any(address.ip in block for address in own):
            reason = f"only [rule {outcome.rule}] has a route for them, by their source"
            return Opinion(Grade.DOUBT, DOUBTFUL_ROUTE, reason)
    return None


def ranges_of(labelled: Iterable[tuple[Part, T | None]]) -> list[tuple[T, int, int]]:
    """The ranges of neighbouring parts with one label; those without a label are left out.

    Own addresses without a label belong to the range around them: else they would only split it.
    """
    ranges: list[tuple[T | None, int, int]] = []
    takes_any_label = False  # the last range, because it has only own addresses so far
    for part, label in labelled:
        first = part.first
        joined = label
        is_own = label is None and part.is_own
        is_next = bool(ranges) and ranges[-1][2] + 1 == first
        if is_next and (is_own or takes_any_label or label == ranges[-1][0]):
            before, first, _ = ranges.pop()
            if is_own:
                joined = before
            takes_any_label = takes_any_label and is_own
        else:
            takes_any_label = is_own
        ranges.append((joined, first, part.last))
    return [(label, first, last) for label, first, last in ranges if label is not None]
