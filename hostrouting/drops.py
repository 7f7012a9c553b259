"""What this host drops when it arrives, although its way is right: packets of pods, and answers to them or to the host.

A check proves by which devices packets leave. They still reach nothing if the host does not forward, or if it drops the
answers (see `arrival`). Other programs may change these settings later, so they do not change a verdict; they are
reported beside it. Three things are looked for:

- *Forwarding.* What pods send arrives on their devices, the answers on the devices by which it left: each must forward.
- *What pods send.* A pod's device with rp_filter takes only sources to which the way back leaves by that device. It
  drops everything if there is no such source in the pod CIDRs. (A pod that uses another address is dropped on purpose.)
- *Answers.* They arrive on the device by which the packet left. The way back is looked up like the packet, but without
  its mark, its user and the device that its socket is bound to, and without the turns that Linux takes between default
  routes. So an answer can only be dropped if one of these led the packet to its device. One packet is followed for each
  value that a rule distinguishes.

Here: these three, for one family. Not here: the way of the packets (`overlap`, `pods`).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

import attrs

from hostrouting.arrival import OF_THE_FILTER, DropReason, is_forwarding_off, reason_against, way_back
from hostrouting.fib import PLAIN, Decision, Fib, Flow, paired
from hostrouting.model import (
    IPV4,
    REFUSING,
    RP_FILTER_STRICT,
    Link,
    Prefix,
    Rule,
    prefixes_between,
    spans_of,
    width_of,
)
from hostrouting.overlap import OverlapReport
from hostrouting.pod_packets import PodPackets, with_devices_of

__all__ = ["Dropped", "DroppedKind", "find_dropped"]

# sent: what pods send. answers: what comes back, to pods or to the host itself.
DroppedKind: TypeAlias = Literal["sent", "answers"]


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
    answered: Flow | None = None
    """The packets that the answers are for; None for all that pods send."""
    unless_marked: bool = False
    """Whether a packet filter that marks the answers prevents it: the devices have src_valid_mark."""


def find_dropped(fib: Fib, report: OverlapReport, packets: Sequence[PodPackets]) -> tuple[Dropped, ...]:
    """What this host drops of the packets between the expected CIDRs of a report and pods, or the host itself."""
    if not report.expected_devs:
        return ()
    fib = with_devices_of(fib, packets)
    ways = {its: _ways(fib, report, its.flow) for its in packets}
    return (
        *_not_forwarded(fib, report, ways),
        *_not_taken(fib, report, ways),
        *_unanswered(fib, report, packets),
    )


# By class of packets of pods: the devices by which they leave, each with an address that is reached by it.
_Ways: TypeAlias = dict[PodPackets, dict[str, Prefix]]


def _ways(fib: Fib, report: OverlapReport, flow: Flow) -> dict[str, Prefix]:
    found: dict[str, Prefix] = {}
    for cidr in report.cidrs:
        for cell in fib.cells(cidr, flow):
            for dev in cell.decision.devs if cell.decision.goes_out else ():
                found.setdefault(dev, Prefix.around(cidr.family, cell.first, width_of(cidr.family)))
    return found


def _not_forwarded(fib: Fib, report: OverlapReport, ways: _Ways) -> Iterator[Dropped]:
    """The devices on which packets of pods, and answers to them, arrive and are not forwarded."""
    if not ways:
        return
    family, snapshot = report.family, fib.snapshot
    links = {link.name: link for link in snapshot.links}
    there = dict.fromkeys(dev for its in ways if its.exist for dev in its.devs)
    if not there and is_forwarding_off(snapshot, snapshot.default_link, family):
        yield Dropped("sent", family, (), "forwarding")
        return  # as on every node before its CNI starts
    off = tuple(dev for dev in there if is_forwarding_off(snapshot, links[dev], family))
    if off:
        yield Dropped("sent", family, off, "forwarding")
    leaving = {dev for outs in ways.values() for dev in outs}
    devs = [dev for dev in report.expected_devs if dev in leaving and dev in links]
    off = tuple(dev for dev in devs if is_forwarding_off(snapshot, links[dev], family))
    if off:
        yield Dropped("answers", family, off, "forwarding")


def _not_taken(fib: Fib, report: OverlapReport, ways: _Ways) -> Iterator[Dropped]:
    """The pods' devices that take no source in the pod CIDRs, those together that have the same reason."""
    if report.family != IPV4:
        return
    snapshot = fib.snapshot
    links = {link.name: link for link in snapshot.links if link.rp_filter}
    addressed = {it.dev for it in snapshot.addresses if it.ip.version == IPV4}
    alike: dict[object, Dropped] = {}
    for its, outs in ways.items():
        sample = Link(name="", index=0)
        backs = [
            cell.decision
            for out, destination in outs.items()
            for source in its.sources
            for cell in fib.cells(source, way_back(sample, destination.ip, its.flow, out=out))
        ]
        leading = [it for it in backs if it.route is not None and it.kind not in REFUSING]
        takes = {dev for it in leading if it.kind == "unicast" and it.route for dev in it.route.devs}
        judged = [links[dev] for dev in its.devs if dev in links and dev not in takes] if its.exist else []
        if not its.devs and snapshot.default_link is not None and snapshot.default_link.rp_filter:
            # Without a route to pods it is not known where the CNI will add one.
            backs = [it for it in backs if not set(it.devs) & set(report.expected_devs)]
            judged = [snapshot.default_link]
        for link in judged:
            if link.rp_filter != RP_FILTER_STRICT and link.name in addressed and leading:
                continue
            for back in backs:
                reason = reason_against(fib, link, back)
                if reason in OF_THE_FILTER:
                    devs = () if link is snapshot.default_link else (link.name,)
                    known = alike.get((reason, back.route, its.sources))
                    devs = (*(known.devs if known else ()), *devs)
                    alike[reason, back.route, its.sources] = Dropped("sent", IPV4, devs, reason, its.sources, back)
                    break
    yield from alike.values()


def _unanswered(fib: Fib, report: OverlapReport, packets: Sequence[PodPackets]) -> Iterator[Dropped]:
    """The answers from the expected CIDRs that are dropped on the device by which the packets left."""
    if report.family != IPV4:
        return
    spans: dict[tuple[str, Flow, DropReason, Decision, bool], list[Prefix]] = {}
    for link in (it for it in fib.snapshot.links if it.name in report.expected_devs and it.rp_filter):
        for sent in _senders(fib, link, packets):
            # An answer has no mark by itself.
            answer = way_back(link, sent.source, attrs.evolve(sent, mark=0), out=_answered_by(fib, link, sent))
            for cidr in report.cidrs:
                for first, last, forth, back in paired(fib.cells(cidr, sent), fib.cells(cidr, answer)):
                    reason = reason_against(fib, link, back) if forth.goes_out and link.name in forth.devs else None
                    if reason in OF_THE_FILTER:
                        key = (link.name, sent, reason, back, bool(sent.mark) and link.src_valid_mark)
                        spans.setdefault(key, []).extend(prefixes_between(IPV4, first, last))
    for (dev, sent, reason, back, marked), blocks in spans.items():
        sources = tuple(it for span in spans_of(blocks) for it in prefixes_between(*span))
        yield Dropped("answers", IPV4, (dev,), reason, sources, back, sent, marked)


def _answered_by(fib: Fib, link: Link, sent: Flow) -> str:
    """The device by which an answer to this packet leaves, if it arrives on `link`; lo if it is for this host."""
    if sent.iif == "lo" or sent.source is None:
        return "lo"
    return next(iter(fib.lookup(sent.source, Flow(iif=link.name)).devs), "lo")


def _senders(fib: Fib, link: Link, packets: Sequence[PodPackets]) -> Iterator[Flow]:
    """The packets whose answers may arrive on the device and find another way back."""
    own = next((it.ip for it in fib.snapshot.addresses if it.dev == link.name and it.ip.version == IPV4), PLAIN.source)
    host = attrs.evolve(PLAIN, source=own)
    rules = [rule for rule in fib.snapshot.rules if rule.family == IPV4]
    if any(entry.in_turn for entry in fib.defaults(IPV4)):
        yield host
    if any(rule.oif for rule in rules) or len(list(fib.defaults(IPV4))) > 1:
        yield attrs.evolve(host, oif=link.name)
    for uid in dict.fromkeys(uid for rule in rules for uid in _users(rule)):
        yield attrs.evolve(host, uid=uid)
    for mark in dict.fromkeys(mark for rule in rules for mark in _marks(rule)):
        yield attrs.evolve(host, mark=mark)
        for its in packets:
            yield attrs.evolve(its.flow, mark=mark)


def _users(rule: Rule) -> Iterable[int]:
    """A user that the rule is for, and one that it is not for; root sends plain packets."""
    return () if rule.uids is None else (uid for uid in (rule.uids[1], rule.uids[1] + 1) if 0 < uid < _NOBODY)


def _marks(rule: Rule) -> Iterable[int]:
    """A mark that the rule selects, and one that it does not; plain packets have none."""
    selected = rule.fwmark & rule.fwmask
    other = selected ^ (rule.fwmask & -rule.fwmask)
    return (mark for mark in (selected, other) if mark)


_NOBODY = 0xFFFFFFFF  # no user has this number
