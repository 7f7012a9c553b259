"""The check for packets of pods, once for each class of them; and which of their packets this host drops.

Here: the verdict on each class, as far as it differs from that on the host's own packets; and the packets that this
host drops when they arrive. Not here: the classes (`packets`), the check itself (`overlap`), and what Linux asks of a
packet that arrives (`fib.arrival`).

A check proves by which devices packets leave. They still reach nothing if the host does not forward, or if it drops the
replies. Other programs may change these settings later, so they do not change a verdict; they are reported beside it.
Three things are looked for:

- *Forwarding.* What pods send arrives on their devices, replies on the devices by which it left: each must forward.
- *What pods send.* A pod's device with rp_filter 1 (or 2, if it has no IPv4 address) takes only sources to which the
  route back leaves by that device. It drops everything if there is no such source in the pod CIDRs. (A pod that uses
  another pod's address is dropped on purpose.)
- *Replies.* They arrive on the device by which the packet left. The route back is looked up like the packet, but
  without its mark, its user and the device that its socket is bound to, with the source address that the packet got
  when it was routed, and without the turns that Linux takes between default routes. So a reply can only be dropped if
  one of these led the packet to its device. One packet is followed for each value that a rule distinguishes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import attrs

from hostrouting.check.overlap import Escape, Note, OverlapReport, Verdict, follow_kernel
from hostrouting.check.packets import PodPackets, some_of, with_devices_of
from hostrouting.fib.arrival import (
    RP_FILTER_REASONS,
    DropReason,
    drop_reason,
    filter_clause,
    forwarding_clause,
    is_forwarding_off,
    reverse_flow,
)
from hostrouting.fib.decision import Decision, paired
from hostrouting.fib.engine import Fib
from hostrouting.fib.packet import PLAIN, Flow
from hostrouting.finding import Finding
from hostrouting.model.prefix import IP, IPV4, Prefix, prefixes_between, spans_of, width_of
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Link

Ask: TypeAlias = Callable[[PodPackets], Mapping[int, Decision]]

_NOBODY = 0xFFFFFFFF  # no user has this number


class PodReport(NamedTuple):
    """The verdict on packets of pods: on all classes with equal answers."""

    packets: tuple[PodPackets, ...]
    verdict: Verdict
    escapes: tuple[Escape, ...] = ()
    notes: tuple[Note, ...] = ()

    def escapes_beyond(self, report: OverlapReport) -> tuple[Escape, ...]:
        """The findings of this check that the check of the host's own packets does not have."""
        known: dict[object, list[Escape]] = {}
        for finding in report.escapes:
            known.setdefault(_way(finding), []).append(finding)
        return tuple(
            finding
            for finding in self.escapes
            if not any(
                other.first <= finding.first and finding.last <= other.last for other in known.get(_way(finding), ())
            )
        )

    def notes_beyond(self, report: OverlapReport) -> tuple[Note, ...]:
        """The notes of this check that the check of the host's own packets does not have."""
        known = set(map(_note_key, report.notes))
        return tuple(note for note in self.notes if _note_key(note) not in known)


def check_pods(
    fib: Fib, report: OverlapReport, packets: Sequence[PodPackets], *, ask: Ask | None = None
) -> tuple[PodReport, ...]:
    """Check the expected CIDRs of a report for the packets of pods, on the devices that the report expects.

    `ask` returns the kernel's answers where they differ from the tables, as `follow_kernel` takes them.
    """
    if not report.expected_devs:
        return ()
    fib = with_devices_of(fib, packets)
    alike: dict[object, list[PodPackets]] = {}
    answers: dict[object, OverlapReport] = {}
    for sender in packets:
        own = report.again(fib, sender.flow)
        if ask is not None:
            own = follow_kernel(own, fib, ask(sender), flow=sender.flow)
        ranges = tuple((_way(finding), finding.first, finding.last) for finding in own.escapes)
        answer = (own.verdict, ranges, tuple(map(_note_key, own.notes)))
        answers.setdefault(answer, own)
        alike.setdefault(answer, []).append(sender)
    return tuple(_pod_report(own, tuple(alike[answer])) for answer, own in answers.items())


def _pod_report(report: OverlapReport, senders: tuple[PodPackets, ...]) -> PodReport:
    return PodReport(
        senders,
        report.verdict,
        tuple(finding._replace(senders=senders) for finding in report.escapes),
        tuple(note._replace(senders=senders) for note in report.notes),
    )


def _way(finding: Escape) -> tuple[object, ...]:
    return (finding.cidr, finding.kind, finding.devs, finding.decision.route)


def _note_key(note: Note) -> tuple[object, ...]:
    decision = note.decision
    return (note.cidr, note.first, note.last, note.cases, decision.kind, decision.route, note.escapes, note.known)


# Packets that this host drops when they arrive, although they and the replies are routed correctly.


def _dropped(
    what: str,
    family: int,
    devs: tuple[str, ...],
    reason: DropReason,
    *,
    sources: Iterable[Prefix] = (),
    back: Decision | None = None,
    to: Flow | None = None,
    unless_marked: bool = False,
) -> Finding:
    """Packets that are dropped on these incoming devices; without devices, on those that are created later.

    `back` decides the route back, if it is the reason. Replies are those `to` these packets, or to all that pods send.
    """
    ranges, is_sent = tuple(sources), what == "sent"
    facts = {
        "kind": what,
        "family": family,
        "devs": list(devs),
        "reason": reason,
        "sources": list(map(str, ranges)),
        "mark": to.mark if to else 0,
        "uid": to.uid if to else 0,
        "boundTo": to.oif if to else "",
        "ofPods": to is None or to.iif != "lo",
    }
    origin = f" from {some_of(ranges)}" if ranges else ""
    told = f"packets of pods{origin}" if is_sent else f"replies{origin} to {_replied(to)}"
    told += f" are dropped {f'when they arrive on {some_of(devs)}' if devs else 'on every new device of a pod'}: "
    if reason == "forwarding":
        told += forwarding_clause(family, devs)
    else:
        whose = ("their" if len(devs) > 1 else "its") if devs else "the"
        way = "the route back to these pods" if is_sent else "the route back"
        told += filter_clause(reason, way, back, whose=whose)
        # The device has src_valid_mark.
        told += "; a packet filter that marks the replies prevents this" if unless_marked else ""
    return Finding("dropped", "warning" if devs else "note", told, ", ".join(devs), facts=facts)


def _replied(flow: Flow | None) -> str:
    """A phrase for the packets whose replies are dropped."""
    if flow is None:
        return "packets of pods"
    whose = "packets" if flow.iif == "lo" else "packets of pods"
    if flow.mark:
        return f"{whose} with mark {flow.mark:#x}"
    if flow.uid:
        return f"{whose} of user {flow.uid}"
    if flow.oif:
        return f"{whose} of sockets that are bound to {flow.oif}"
    if flow.source == PLAIN.source:
        return f"{whose} of sockets that are bound to no address"
    return f"{whose} that Linux sends by two default routes in turn"


def find_dropped(fib: Fib, report: OverlapReport, packets: Sequence[PodPackets]) -> tuple[Finding, ...]:
    """The packets that this host drops between the expected CIDRs and its pods, or itself."""
    if not report.expected_devs:
        return ()
    fib = with_devices_of(fib, packets)
    ways = {sender: _ways(fib, report, sender.flow) for sender in packets}
    return (
        *_not_forwarded(fib, report, ways),
        *_dropped_by_rp_filter(fib, report, ways),
        *_dropped_replies(fib, report, packets),
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


def _not_forwarded(fib: Fib, report: OverlapReport, ways: _Ways) -> Iterator[Finding]:
    """The devices that do not forward packets of pods, or replies to them."""
    if not ways:
        return
    family, snapshot = report.family, fib.snapshot
    links = fib.links
    there = dict.fromkeys(dev for sender in ways if sender.exist for dev in sender.devs)
    if not there and is_forwarding_off(snapshot, snapshot.default_link, family):
        yield _dropped("sent", family, (), "forwarding")
        return  # as on every node before its CNI starts
    off = tuple(dev for dev in there if is_forwarding_off(snapshot, links[dev], family))
    if off:
        yield _dropped("sent", family, off, "forwarding")
    leaving = {dev for outs in ways.values() for dev in outs}
    devs = [dev for dev in report.expected_devs if dev in leaving and dev in links]
    off = tuple(dev for dev in devs if is_forwarding_off(snapshot, links[dev], family))
    if off:
        yield _dropped("replies", family, off, "forwarding")


def _dropped_by_rp_filter(fib: Fib, report: OverlapReport, ways: _Ways) -> Iterator[Finding]:
    """The pods' devices that refuse sources in the pod CIDRs, grouped by the reason."""
    if report.family != IPV4:
        return
    links = {link.name: link for link in fib.snapshot.links if link.rp_filter}
    backs = {sender: _routes_back(fib, sender, outs) for sender, outs in ways.items()}
    # A device accepts a source if the route back leaves by it. With many pods, that is so for nearly every device.
    accepting: set[str] = set()
    sent_by_dev: dict[str, list[tuple[PodPackets, list[Decision]]]] = {}
    for sender, backs_of in backs.items():
        ways_back = {dev for back in backs_of if back.kind == "unicast" and back.route for dev in back.route.devs}
        accepting |= ways_back.intersection(sender.devs if sender.exist else ())
        for dev in sender.devs if sender.exist else ():
            sent_by_dev.setdefault(dev, []).append((sender, backs_of))
    alike: dict[tuple[DropReason, Decision, tuple[Prefix, ...]], list[str]] = {}
    for dev, sent in sent_by_dev.items():
        link = links.get(dev)
        if link is None or dev in accepting:
            continue
        every = dict.fromkeys(back for _, backs_of in sent for back in backs_of)
        found = [(drop_reason(fib, link, back), back) for back in every]
        filtered = [(reason, back) for reason, back in found if reason in RP_FILTER_REASONS]
        if filtered and None not in [reason for reason, _ in found]:
            reason, back = filtered[0]
            sources = tuple(dict.fromkeys(source for sender, _ in sent for source in sender.sources))
            alike.setdefault((reason, back, sources), []).append(dev)
    for (reason, back, sources), devs in alike.items():
        yield _dropped("sent", IPV4, tuple(devs), reason, sources=sources, back=back)
    yield from _dropped_on_new_devices(fib, report, backs)


def _routes_back(fib: Fib, sender: PodPackets, outs: dict[str, Prefix]) -> list[Decision]:
    """The decisions about the replies to packets of this class."""
    flows = [reverse_flow(fib, sender.flow, destination.ip, out=out) for out, destination in outs.items()]
    cells = (cell for flow in flows for source in sender.sources for cell in fib.cells(source, flow))
    return list({id(cell.decision): cell.decision for cell in cells}.values())  # equal ones are one object


def _dropped_on_new_devices(
    fib: Fib, report: OverlapReport, backs: dict[PodPackets, list[Decision]]
) -> Iterator[Finding]:
    """The same for devices that are created later, if there are routes to pods but no device of a pod yet."""
    link = fib.snapshot.default_link
    for sender, decisions in backs.items():
        for back in decisions if link is not None and link.rp_filter and not sender.devs else ():
            reason = None if link is None else drop_reason(fib, link, back)
            # The default route leads to addresses for which the CNI adds a route later.
            if reason in RP_FILTER_REASONS and not set(back.devs) & set(report.expected_devs):
                yield _dropped("sent", IPV4, (), reason, sources=sender.sources, back=back)
                break


def _dropped_replies(fib: Fib, report: OverlapReport, packets: Sequence[PodPackets]) -> Iterator[Finding]:
    """The replies from the expected CIDRs that are dropped by the device that sent the packets."""
    if report.family != IPV4:
        return
    spans: dict[tuple[str, Flow, DropReason, Decision, bool], list[Prefix]] = {}
    for link in (link for link in fib.snapshot.links if link.name in report.expected_devs and link.rp_filter):
        for sent in _senders(fib, link, packets):
            # A reply has no mark by itself.
            to = _own_address(fib, link) if sent is PLAIN else sent.source
            reply = reverse_flow(fib, sent, to, out=_reply_leaves_by(fib, link, sent))
            for cidr in report.cidrs:
                for first, last, forth, back in paired(fib.cells(cidr, sent), fib.cells(cidr, reply)):
                    reason = drop_reason(fib, link, back) if forth.goes_out and link.name in forth.devs else None
                    if reason in RP_FILTER_REASONS:
                        key = (link.name, sent, reason, back, bool(sent.mark) and link.src_valid_mark)
                        spans.setdefault(key, []).extend(prefixes_between(IPV4, first, last))
    for (dev, sent, reason, back, marked), blocks in spans.items():
        sources = tuple(block for span in spans_of(blocks) for block in prefixes_between(*span))
        yield _dropped("replies", IPV4, (dev,), reason, sources=sources, back=back, to=sent, unless_marked=marked)


def _reply_leaves_by(fib: Fib, link: Link, sent: Flow) -> str:
    """The device by which the reply to this packet leaves (it arrived on `link`); lo for packets to this host."""
    if sent.iif == "lo" or sent.source is None:
        return "lo"
    return next(iter(fib.lookup(sent.source, Flow(iif=link.name)).devs), "lo")


def _senders(fib: Fib, link: Link, packets: Sequence[PodPackets]) -> Iterator[Flow]:
    """The packets whose replies may arrive on this device, although the route back uses another one."""
    host = attrs.evolve(PLAIN, source=_own_address(fib, link))
    rules = [rule for rule in fib.snapshot.rules if rule.family == IPV4]
    if any(entry.in_turn for entry in fib.defaults(IPV4)):
        yield host
    if any(rule.src for rule in rules):
        yield PLAIN
    if any(rule.oif for rule in rules) or len(list(fib.defaults(IPV4))) > 1:
        yield attrs.evolve(host, oif=link.name)
    for uid in dict.fromkeys(uid for rule in rules for uid in _users(rule)):
        yield attrs.evolve(host, uid=uid)
    for mark in dict.fromkeys(mark for rule in rules for mark in _marks(rule)):
        yield attrs.evolve(host, mark=mark)
        for sender in packets:
            yield attrs.evolve(sender.flow, mark=mark)


def _own_address(fib: Fib, link: Link) -> IP | None:
    """The source address that this host chooses for packets that leave by the device."""
    return next(
        (address.ip for address in fib.snapshot.addresses if address.dev == link.name and address.ip.version == IPV4),
        PLAIN.source,
    )


def _users(rule: Rule) -> Iterable[int]:
    """Two users: one that the rule matches and one that it does not match. Plain packets are root's."""
    return () if rule.uids is None else (uid for uid in (rule.uids[1], rule.uids[1] + 1) if 0 < uid < _NOBODY)


def _marks(rule: Rule) -> Iterable[int]:
    """Two marks: one that the rule matches and one that it does not match. Plain packets have none."""
    selected = rule.fwmark & rule.fwmask
    other = selected ^ (rule.fwmask & -rule.fwmask)
    return (mark for mark in (selected, other) if mark)
