"""What this host drops although its way is right: packets of pods, and answers from the expected CIDRs.

A check proves by which devices packets leave. They still reach nothing if the host does not forward, or if it drops the
answers when they arrive (see `arrival`). Other programs may change these settings later, so they do not change a
verdict; they are reported beside it. Three things are looked for:

- *Forwarding.* What pods send arrives on their devices, the answers on the expected devices: each of them must forward.
- *What pods send.* A pod's device with rp_filter takes only sources to which the way back leaves by that device. It
  drops everything if there is no such source in the pod CIDRs. (A pod with somebody else's address is meant to be
  dropped.)
- *Answers.* They arrive on the device by which the packet left. The way back is looked up like the packet, but without
  its mark and its user, and without the turns that Linux takes between default routes. So an answer can only be dropped
  if one of these led the packet to its device. For each mark and user that a rule names, one packet is followed.

Here: these three, for one family. Not here: the way of the packets (`overlap`, `pods`).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

import attrs

from hostrouting.arrival import DropReason, reason_against, way_back
from hostrouting.fib import PLAIN, Decision, Fib, Flow, paired
from hostrouting.model import IPV4, IPV6, Link, Prefix, prefixes_between, spans_of
from hostrouting.overlap import OverlapReport
from hostrouting.pod_packets import PodPackets, with_devices_of

__all__ = ["Dropped", "DroppedKind", "find_dropped"]

# sent: what pods send. answers: what comes back, to pods or to the host itself.
DroppedKind: TypeAlias = Literal["sent", "answers"]

_OF_FILTER: tuple[DropReason, ...] = ("strict", "loose", "no-address")


@attrs.frozen
class Dropped:
    """Packets that are dropped as they arrive on one of these devices, and why."""

    kind: DroppedKind
    family: int
    devs: tuple[str, ...]
    """Empty for devices that are created later."""
    reason: DropReason
    sources: tuple[Prefix, ...] = ()
    """Where the packets come from; empty if that does not matter."""
    back: Decision | None = None
    """What decides the way back, if it is the reason."""
    mark: int = 0
    """The answers are to packets with this mark, or of this user; neither for those that use default routes in turn."""
    uid: int = 0
    of_pods: bool = False


def find_dropped(fib: Fib, report: OverlapReport, packets: Sequence[PodPackets]) -> tuple[Dropped, ...]:
    """What this host drops of the packets between the expected CIDRs of a report and pods, or the host itself."""
    if not report.expected_devs:
        return ()
    fib = with_devices_of(fib, packets)
    return (
        *_not_forwarded(fib, report, packets),
        *_not_taken(fib, report, packets),
        *_unanswered(fib, report, packets),
    )


def _not_forwarded(fib: Fib, report: OverlapReport, packets: Sequence[PodPackets]) -> Iterator[Dropped]:
    """The devices on which packets of pods, and answers to them, arrive and are not forwarded."""
    if not packets:
        return
    family, links = report.family, {link.name: link for link in fib.snapshot.links}
    there = dict.fromkeys(dev for it in packets if it.exist for dev in it.devs)
    off = tuple(dev for dev in there if _is_off(fib, family, links[dev]))
    if off:
        yield Dropped("sent", family, off, "forwarding")
    elif not there and _is_off(fib, family, fib.snapshot.default_link):
        yield Dropped("sent", family, (), "forwarding")
    off = tuple(dev for dev in report.expected_devs if dev in links and _is_off(fib, family, links[dev]))
    if off:
        yield Dropped("answers", family, off, "forwarding", of_pods=True)


def _is_off(fib: Fib, family: int, link: Link | None) -> bool:
    """Whether it is known that a device does not forward."""
    if family == IPV6:
        return fib.snapshot.ipv6_forwarding is False and not (link is not None and link.ipv6_force_forwarding)
    return link is not None and link.forwarding is False


def _not_taken(fib: Fib, report: OverlapReport, packets: Sequence[PodPackets]) -> Iterator[Dropped]:
    """The pods' devices that take no source in the pod CIDRs, each with the reason for the first one."""
    for link in _filtering(fib, report, {dev for it in packets if it.exist for dev in it.devs}):
        its = [it for it in packets if link.name in it.devs]
        answers: list[tuple[DropReason | None, Decision]] = [
            (reason_against(fib, link, cell.decision), cell.decision)
            for some in its
            for destination, out in _ways(fib, report, some.flow)
            for source in some.sources
            for cell in fib.cells(source, way_back(link, destination.ip, some.flow, out=out))
        ]
        # The pods' gateway may be an address of this host, from which no packet arrives.
        against = [(reason, back) for reason, back in answers if reason in _OF_FILTER]
        if against and None not in [reason for reason, _ in answers]:
            reason, back = against[0]
            sources = tuple(dict.fromkeys(source for some in its for source in some.sources))
            yield Dropped("sent", IPV4, (link.name,), reason, sources, back, of_pods=True)


def _ways(fib: Fib, report: OverlapReport, flow: Flow) -> list[tuple[Prefix, str]]:
    """The devices by which such packets leave, each with an address that is reached by it."""
    found: dict[str, Prefix] = {}
    for cidr in report.cidrs:
        for cell in fib.cells(cidr, flow):
            if cell.decision.goes_out and not cell.decision.own:
                for dev in cell.decision.devs:
                    found.setdefault(dev, Prefix.around(cidr.family, cell.first, 32))
    return [(address, dev) for dev, address in found.items()]


def _filtering(fib: Fib, report: OverlapReport, devs: Iterable[str]) -> Iterator[Link]:
    """Those of the devices that have a reverse path filter."""
    wanted = set(devs)
    if report.family == IPV4:
        yield from (link for link in fib.snapshot.links if link.name in wanted and link.rp_filter)


def _unanswered(fib: Fib, report: OverlapReport, packets: Sequence[PodPackets]) -> Iterator[Dropped]:
    """The answers from the expected CIDRs that are dropped on the device by which the packets left."""
    spans: dict[tuple[bool, str, int, int, DropReason, Decision], list[Prefix]] = {}
    for link in _filtering(fib, report, report.expected_devs):
        for sent, of_pods in _senders(fib, link, packets):
            outs = fib.lookup(sent.source, Flow(iif=link.name)).devs if of_pods and sent.source is not None else ()
            answer = way_back(link, sent.source, sent, out=outs[0] if outs else "lo")
            for cidr in report.cidrs:
                for first, last, forth, back in paired(fib.cells(cidr, sent), fib.cells(cidr, answer)):
                    reason = reason_against(fib, link, back) if forth.goes_out and link.name in forth.devs else None
                    if reason is not None:
                        key = (of_pods, link.name, sent.mark or 0, sent.uid or 0, reason, back)
                        spans.setdefault(key, []).extend(prefixes_between(IPV4, first, last))
    for (of_pods, dev, mark, uid, reason, back), blocks in spans.items():
        sources = tuple(it for span in spans_of(blocks) for it in prefixes_between(*span))
        yield Dropped("answers", IPV4, (dev,), reason, sources, back, mark, uid, of_pods)


def _senders(fib: Fib, link: Link, packets: Sequence[PodPackets]) -> Iterator[tuple[Flow, bool]]:
    """The packets whose answers may arrive on the device and find another way back; and whether pods send them."""
    own = next((it.ip for it in fib.snapshot.addresses if it.dev == link.name and it.ip.version == IPV4), PLAIN.source)
    host = attrs.evolve(PLAIN, source=own)
    rules = [rule for rule in fib.snapshot.rules if rule.family == IPV4]
    if any(entry.in_turn for entry in fib.defaults(IPV4)):
        yield host, False
    for uid in dict.fromkeys(rule.uids[0] for rule in rules if rule.uids is not None):
        yield attrs.evolve(host, uid=uid), False
    for mark in dict.fromkeys(rule.fwmark & rule.fwmask for rule in rules):
        if mark and not link.src_valid_mark:
            yield attrs.evolve(host, mark=mark), False
            for it in packets:
                yield attrs.evolve(it.flow, mark=mark), True
