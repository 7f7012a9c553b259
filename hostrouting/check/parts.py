"""The ranges of a block of addresses, each with the opinions on where its packets end.

Theory of operation. The engine cuts the block into cells. All plain packets to a cell have one
decision, and packets that rules treat differently, such as marked ones, have other outcomes. Cells
with the same sight (`Cell.sight`) have the same decision and outcomes. So one of them is judged,
and the opinions on it hold for all, because an opinion is not about the address. A cell with its
opinions is a part. The addresses of every host or link are parts of their own, because they are
fine by any device (`_OF_EVERY_HOST`).

This is done for plain packets. It is done again for those that may be lost where plain ones are
not: connections from the source that Linux has chosen, and packets of pods. What a report says of a
range, it says of several neighbouring parts at once (`ranges_of`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from hostrouting.check.connections import connection_of, doubt_about_sources
from hostrouting.check.other_packets import FINE, judge_outcome
from hostrouting.check.results import DEFAULT_ROUTES, OWN_ADDRESS, SOME_POD, Part
from hostrouting.fib.engine import (
    FROM_HOST,
    Cell,
    PacketKind,
    Sight,
    conditions_of,
    pieces,
)
from hostrouting.model.prefix import Prefix, borders_of, outermost, prefixes_between

if TYPE_CHECKING:
    from hostrouting.check.judge import Judge

T = TypeVar("T")

_OF_EVERY_HOST = {
    4: tuple(map(Prefix.parse, ("0.0.0.0/32", "127.0.0.0/8", "224.0.0.0/4", "255.255.255.255/32"))),
    6: tuple(map(Prefix.parse, ("fe80::/10", "ff00::/8"))),
}
"""By family: multicast, broadcast, and the addresses of every host or link. The link-local ones of
IPv4 are not among these, because clouds have services there behind a router (169.254.169.254).
"""
_BORDERS_OF_EVERY_HOST = {family: borders_of(blocks) for family, blocks in _OF_EVERY_HOST.items()}


def find_parts(judge: Judge, first: int, last: int) -> Iterator[Part]:
    """The parts of these addresses as plain packets have them, in order."""
    cells = list(judge.fib.cells(first, last))
    judged = _judge_each(judge, _one_of_each_sight(cells), FROM_HOST)
    return _parts(judge, cells, judged)


def find_all_parts(judge: Judge, block: Prefix) -> Iterator[tuple[PacketKind, list[Part]]]:
    """The parts of a block as plain packets have them, then as others that this host sends or
    forwards, by the kind of packets.
    """
    cells = list(judge.fib.cells(block.first, block.last))
    plain = _judge_each(judge, _one_of_each_sight(cells), FROM_HOST)
    parts = list(_parts(judge, cells, plain))
    yield FROM_HOST, parts
    yield from _find_connections(judge, cells, plain)
    if judge.pods:
        yield from _find_parts_of_pods(judge, cells, plain)


# From cells to parts.


def _one_of_each_sight(cells: Iterable[Cell]) -> list[Cell]:
    """One cell for all that have the same outcomes."""
    return list({cell.sight: cell for cell in cells}.values())


def _judge_each(judge: Judge, cells: Iterable[Cell], packet: PacketKind) -> dict[Sight, Part]:
    """By the sight of each of these cells: an address in it as a part."""
    return {cell.sight: _judge_address(judge, cell.first, packet) for cell in cells}


def _judge_address(judge: Judge, address: int, packet: PacketKind) -> Part:
    """An address as a part, with the opinions on all packets of this kind."""
    decision, outcomes = judge.fib.outcomes(address, packet)
    opinion = judge.opinion_at(address, decision)
    # intendedRules is about packets that rules tell from plain ones, and all of a pod's are such.
    # Plain packets are judged wherever they go.
    if packet != FROM_HOST and judge.is_intended(decision.rule):
        opinion = FINE
    others = dict.fromkeys(judge_outcome(judge, outcome, address) for outcome in outcomes)
    if opinion.name == DEFAULT_ROUTES:  # said once
        others = {other: None for other in others if other.name != DEFAULT_ROUTES}
    part = Part(address, address, decision, opinion, tuple(others))
    if packet != FROM_HOST:
        return part
    doubt = doubt_about_sources(judge, part)
    if doubt is None:
        return part
    return part._replace(other_opinions=(*others, doubt))


def _parts(judge: Judge, cells: Iterable[Cell], judged: Mapping[Sight, Part]) -> Iterator[Part]:
    """These cells as parts, with the addresses of every host or link cut out."""
    family = judge.fib.family
    for cell in cells:
        part = judged[cell.sight]
        for first, last in pieces(cell.first, cell.last, _BORDERS_OF_EVERY_HOST[family]):
            if part.decision.devs and _is_of_every_host(family, first):
                yield Part(first, last, part.decision, OWN_ADDRESS)
            else:
                yield part._replace(first=first, last=last)


def _is_of_every_host(family: int, address: int) -> bool:
    return any(block.first <= address <= block.last for block in _OF_EVERY_HOST[family])


# Connections of this host.


def _find_connections(
    judge: Judge, cells: Sequence[Cell], plain: Mapping[Sight, Part]
) -> Iterator[tuple[PacketKind, list[Part]]]:
    """The parts that are worse for connected sockets, by the kind of packets. Own addresses are
    among them, because they belong to the ranges around them (`ranges_of`).
    """
    if not judge.fib.has_rules_by_source:
        return
    own = {sight: part for sight, part in plain.items() if part.is_own}
    worse: dict[PacketKind, dict[Sight, Part]] = {}
    for sight, part in plain.items():
        connection = connection_of(judge, part)
        if connection is not None:
            packet, connected = connection
            worse.setdefault(packet, {**own})[sight] = connected
    for packet, judged in worse.items():
        yield packet, list(_parts(judge, [cell for cell in cells if cell.sight in judged], judged))


# Packets of pods.


def _find_parts_of_pods(
    judge: Judge, cells: Sequence[Cell], plain: Mapping[Sight, Part]
) -> Iterator[tuple[PacketKind, list[Part]]]:
    """These cells as packets of pods have them, by the kind of packets: only the kinds of which a
    report says something else than of plain packets.

    A node may have hundreds of pods, each with rules of its own. So only the cells where packets of
    pods may differ from plain ones are judged for each.
    """
    may_differ = [cell for cell in _one_of_each_sight(cells) if _may_differ(plain[cell.sight])]
    for packet in packets_of_pods(judge):
        of_pods = _judge_each(judge, may_differ, packet)
        if any(_is_said_otherwise(part, plain[sight]) for sight, part in of_pods.items()):
            yield packet, list(_parts(judge, cells, {**plain, **of_pods}))


def _may_differ(part: Part) -> bool:
    """Whether packets of pods may have another decision than plain ones: a rule up to the one that
    decides looks at more than the destination (`to POD lookup main` does not).

    Otherwise an entry of intendedRules changes nothing either: where packets of pods escape, plain
    ones do, too.
    """
    if part.other_opinions:  # of such a rule; also if all are fine: those of pods may not be
        return True
    rule = part.decision.rule
    return rule is not None and bool(conditions_of(rule))


def _is_said_otherwise(part: Part, other: Part) -> bool:
    """Whether a report says something else of one part than of the other, or joins only one of
    them with its neighbours, as an own address.
    """
    if part.escape != other.escape or part.doubts != other.doubts:
        return True
    return part.is_own != other.is_own


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
    for cidr in outermost(judge.pods):
        for first, last in pieces(cidr.first, cidr.last, borders):
            yield from prefixes_between(judge.fib.family, first, last)


# Ranges.


def ranges_of(labelled: Iterable[tuple[Part, T | None]]) -> Iterator[tuple[T, int, int]]:
    """The ranges of neighbouring parts with one label, which is what is said of them, such as how
    they escape. Those without a label, or with an empty one, are left out.

    Own addresses without a label go with the range before them, or else with the one after them:
    they would only split it.
    """
    # Each range as one part, whose decision and opinions are those of one of its parts.
    ranges: list[tuple[Part, T | None]] = []
    for part, label in labelled:
        if not ranges or ranges[-1][0].last + 1 != part.first:  # not a neighbour
            ranges.append((part, label))
            continue
        before, label_before = ranges[-1]
        if _is_unlabelled_own(part, label):  # it goes with the range before it
            ranges[-1] = before._replace(last=part.last), label_before
        elif label == label_before or _is_unlabelled_own(before, label_before):
            ranges[-1] = part._replace(first=before.first), label
        else:
            ranges.append((part, label))
    for joined, label in ranges:
        if label:
            yield label, joined.first, joined.last


def _is_unlabelled_own(part: Part, label: T | None) -> bool:
    return part.is_own and not label
