"""The ranges of a block of addresses, each with the opinions on where its packets end.

Ranges are cut where the engine's decision can change, and around the addresses of every host or
link: those are fine by any device.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

from hostrouting.check.other_packets import FINE, judge_outcome
from hostrouting.check.results import DOUBTFUL_ROUTE, OWN_ADDRESS, SOME_POD, Grade, Opinion, Part
from hostrouting.check.sources import sources_of
from hostrouting.fib.engine import (
    FROM_HOST,
    Cell,
    Fib,
    PacketKind,
    Sight,
    conditions_of,
    pieces,
)
from hostrouting.model.prefix import IP, IPV4, IPV6, Prefix, borders_of, prefixes_between

if TYPE_CHECKING:
    from hostrouting.check.judge import Judge
    from hostrouting.fib.engine import Outcome

T = TypeVar("T")

EVERYWHERE = {
    4: tuple(map(Prefix.parse, ("0.0.0.0/32", "127.0.0.0/8", "224.0.0.0/4", "255.255.255.255/32"))),
    6: tuple(map(Prefix.parse, ("fe80::/10", "ff00::/8"))),
}
"""By family: multicast, broadcast, and the addresses of every host or link."""
_BORDERS_OF_EVERYWHERE = {family: borders_of(blocks) for family, blocks in EVERYWHERE.items()}


def find_all_parts(judge: Judge, block: Prefix) -> Iterator[tuple[PacketKind, list[Part]]]:
    """The ranges of a block as plain packets have them, then as others that this host sends or
    forwards, by the kind of packets.
    """
    cells = list(_cells(judge.fib, block.first, block.last))
    plain = _judge_each(judge, _by_sight(cells), FROM_HOST)
    parts = list(_parts(cells, plain))
    yield FROM_HOST, parts
    yield from find_connections(judge, parts).items()
    if judge.pods:
        yield from _find_parts_of_pods(judge, cells, plain)


def _find_parts_of_pods(
    judge: Judge, cells: Sequence[tuple[Cell, bool]], plain: Mapping[Sight, Part]
) -> Iterator[tuple[PacketKind, list[Part]]]:
    """These cells as packets of pods have them, by the kind of packets. Those of which a report
    says what it says of plain ones are left out.

    A node may have hundreds of pods, each with rules of its own. So only the cells where packets of
    pods may differ from plain ones are judged for each.
    """
    addresses = _by_sight(cells)
    for sight, part in plain.items():
        if _is_for_all(part):
            del addresses[sight]
    for packet in packets_of_pods(judge):
        of_pods = _judge_each(judge, addresses, packet)
        if any(_label(part) != _label(plain[sight]) for sight, part in of_pods.items()):
            yield packet, list(_parts(cells, {**plain, **of_pods}))


def _label(part: Part) -> Hashable:
    """What a report says of a part, and whether it splits a range (`ranges_of`)."""
    return part.escape, part.doubts, part.is_own


def _is_for_all(part: Part) -> bool:
    """Whether packets of pods have the same decision as plain ones, because no rule up to the one
    that decides looks at anything but the destination, as `to POD lookup main`. An entry of
    intendedRules for that rule changes nothing: what escapes there, plain packets do.
    """
    rule = part.decision.rule
    return not part.others and (rule is None or not conditions_of(rule))


def find_connections(judge: Judge, parts: Sequence[Part]) -> dict[PacketKind, list[Part]]:
    """The parts that are worse for connected sockets, by the kind of packets, in order. Own
    addresses are among them, because they belong to the ranges around them (`ranges_of`).
    """
    worse: dict[PacketKind, list[Part]] = {}
    if judge.fib.family != IPV4 or all(rule.src is None for rule in judge.fib.rules):
        return worse
    for part in parts:
        source = _only_source(judge, part)
        if source is None:
            continue
        packet = PacketKind(Prefix.of(source))
        connection = _second_lookup(judge, part, packet)
        if connection is not None:
            worse.setdefault(packet, []).append(connection)
    own = [part for part in parts if part.is_own]
    for connections in worse.values():
        connections.extend(own)
        connections.sort(key=attrgetter("first"))
    return worse


def _second_lookup(judge: Judge, part: Part, packet: PacketKind) -> Part | None:
    """The part as connections from the source that Linux has chosen have it, if that is worse.

    IPv4 looks up twice for a socket that is connected (TCP, and UDP with `connect`): the second
    time with the source that the first route gave. Where that may be one of several addresses, a
    rule for one of these is a matter of `other_packets`, as it is in IPv6. Where a rule of either
    lookup is intended, the packets are.

    Field states: repaired-for-the-first-lookup-only, node-address-into-a-vpn.
    """
    decision, _ = judge.fib.outcomes(part.first, packet)
    opinion = judge.opinion(decision)
    if opinion.grade <= part.plain_grade:
        return None
    if judge.is_intended(part.decision.rule) or judge.is_intended(decision.rule):
        return None
    return Part(part.first, part.last, decision, opinion)


def _only_source(judge: Judge, part: Part) -> IP | None:
    """The source that Linux writes into packets to these addresses; None if it may be one of
    several, or if the addresses are the host's own.
    """
    if part.is_own:
        return None
    sources = set(sources_of(judge, part.decision))
    if len(sources) == 1:
        return sources.pop()
    return None


def packets_of_pods(judge: Judge) -> Iterator[PacketKind]:
    """A packet of each kind that pods send (`podCidrs`).

    Sources differ only where a `from` selector begins or ends, and devices only where a rule names
    one.
    """
    devs = list(_devs_of_pods(judge))
    for source in _sources_of_pods(judge):
        for dev in devs:
            yield PacketKind(source, dev)


def _devs_of_pods(judge: Judge) -> Iterator[str]:
    yield SOME_POD
    named = {rule.iif for rule in judge.fib.rules}
    for dev in judge.devices.links:
        if dev in named and judge.devices.leads_to_own_pods(dev):
            yield dev


def _sources_of_pods(judge: Judge) -> Iterator[Prefix]:
    borders = borders_of(rule.src for rule in judge.fib.rules if rule.src is not None)
    for cidr in judge.pods:
        for first, last in pieces(cidr.first, cidr.last, borders):
            yield from prefixes_between(judge.fib.family, first, last)


def find_parts(
    judge: Judge, first: int, last: int, packet: PacketKind = FROM_HOST
) -> Iterator[Part]:
    """The ranges of these addresses, in order."""
    cells = list(_cells(judge.fib, first, last))
    return _parts(cells, _judge_each(judge, _by_sight(cells), packet))


def _cells(fib: Fib, first: int, last: int) -> Iterator[tuple[Cell, bool]]:
    """The cells of these addresses, in order, each with whether it has only addresses of every host
    or link.
    """
    for low, high in pieces(first, last, _BORDERS_OF_EVERYWHERE[fib.family]):
        is_everywhere = any(block.first <= low <= block.last for block in EVERYWHERE[fib.family])
        for cell in fib.cells(low, high):
            yield cell, is_everywhere


def _by_sight(cells: Iterable[tuple[Cell, bool]]) -> dict[Sight, int]:
    """By sight: an address in one of these cells, which stands for all of them."""
    return {cell.sight: cell.first for cell, _ in cells}


def _judge_each(
    judge: Judge, addresses: Mapping[Sight, int], packet: PacketKind
) -> dict[Sight, Part]:
    """Each of these addresses as a part, by its sight."""
    return {sight: _judged(judge, address, packet) for sight, address in addresses.items()}


def _parts(cells: Iterable[tuple[Cell, bool]], judged: Mapping[Sight, Part]) -> Iterator[Part]:
    """These cells as parts."""
    for cell, is_everywhere in cells:
        part = judged[cell.sight]
        if is_everywhere and part.decision.devs:
            yield Part(cell.first, cell.last, part.decision, OWN_ADDRESS)
        else:
            yield part._replace(first=cell.first, last=cell.last)


def _judged(judge: Judge, address: int, packet: PacketKind) -> Part:
    """An address as a part, with the opinions on all of its packets."""
    decision, outcomes = judge.fib.outcomes(address, packet)
    opinion = judge.opinion(decision)
    # An entry of intendedRules is about the packets of pods that take the rule, too.
    if packet != FROM_HOST and judge.is_intended(decision.rule):
        opinion = FINE
    if opinion.grade is Grade.ESCAPE and not decision.devs:
        opinion = _opinion_by_source(judge, outcomes) or opinion
    others = dict.fromkeys(judge_outcome(judge, outcome, decision) for outcome in outcomes)
    return Part(address, address, decision, opinion, tuple(others))


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


def ranges_of(labelled: Iterable[tuple[Part, T | None]]) -> Iterator[tuple[T, int, int]]:
    """The ranges of neighbouring parts with one label; those without a label are left out.

    Own addresses without a label belong to the range around them: else they would only split it.
    """
    ranges: list[tuple[Part, T | None]] = []
    for part, label in labelled:
        if not ranges or ranges[-1][0].last + 1 != part.first:
            ranges.append((part, label))
            continue
        before, label_before = ranges[-1]
        if _is_only_own(part, label):
            ranges[-1] = before._replace(last=part.last), label_before
        elif label == label_before or _is_only_own(before, label_before):
            ranges[-1] = part._replace(first=before.first), label
        else:
            ranges.append((part, label))
    for joined, label in ranges:
        if label is not None:
            yield label, joined.first, joined.last


def _is_only_own(part: Part, label: T | None) -> bool:
    return label is None and part.is_own
