"""The results of a check as sentences for operators and as JSON.

Here: sentences and documents about findings, notes, drops, repairs and corrections; and the names of the documents that
a check and a guard write, with their reader. Not here: any decision, writing a document (`tasks`), and what a guard
puts into its own.

Every message about a repair uses the same words, so that all of them ask for the same. A name ends with what is made:
a line or sentence stands alone, a clause, phrase or name is a part of one, and a document is JSON.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import attrs

from hostrouting.check.cni import is_like
from hostrouting.check.examine import Correction, Examination, FamilyExamination
from hostrouting.check.repair import TOO_MANY, Diversion, Filtered, Unsafe, UnsafeReason
from hostrouting.fib import CHOSEN, PLAIN, REACHABLE, Cases, Condition, Decision, Flow
from hostrouting.model import (
    IPV4,
    REFUSING,
    TABLE_MAIN,
    Prefix,
    Route,
    ip_at,
    protocol_name,
    selector_of,
    table_name,
    width_of,
)
from hostrouting.model.constants import LINK_LOCAL, LOOPBACK
from hostrouting.routes.plan import deletion_command
from hostrouting.routes.uplink import bare_leg
from hostrouting.text import spoken

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from datetime import datetime

    from hostrouting.check.exceptions import Known
    from hostrouting.check.overlap import Finding, Kept, Note, Suppressed
    from hostrouting.check.packets import PodPackets
    from hostrouting.check.pods import Dropped
    from hostrouting.check.rules import Flaw
    from hostrouting.config import IntendedRule
    from hostrouting.fib.arrival import Drop, DropReason
    from hostrouting.routes.connected import Foreseen
    from hostrouting.routes.uplink import DesiredRoute

__all__ = [
    "CHECK_SCHEMA",
    "CHECK_SCHEMA_BY_FAMILY",
    "GUARD_SCHEMA",
    "action_sentence",
    "candidates_line",
    "check_document",
    "contested_clause",
    "declaration_line",
    "deletion_lines",
    "diversion_line",
    "document_in",
    "drop_clause",
    "dropped_line",
    "entries_name",
    "expiry_line",
    "expiry_lines",
    "filtered_line",
    "finding_line",
    "finding_sentence",
    "flaw_line",
    "flaw_name",
    "foreseen_line",
    "harmless_lines",
    "intended_clause",
    "kept_line",
    "marked_verdict",
    "no_default_line",
    "note_line",
    "notes_lines",
    "npd_line",
    "owner_name",
    "packets_line",
    "prefix_name",
    "range_name",
    "repair_document",
    "repair_line",
    "repair_sentence",
    "senders_phrase",
    "stays_line",
    "suppressed_line",
    "unexplained_owner",
    "unmatched_line",
    "unsafe_line",
    "unsafe_lines",
]

_PASTED = 20  # the number of routes that are printed as JSON; a line in the journal has a maximum length
_ALTERNATIVES = 3  # at most this many kinds of packets in one sentence
_CONDITIONS = 4  # at most this many conditions for one kind
_UNKNOWN = "an unknown device"
_NAMED = 3  # the number of sources and devices of pods that are named; the others are counted
_CANDIDATES = 20  # the number of devices that are named as perhaps the expected one
_RANGES = 3  # the number of ranges that are named for one cause; the others are counted


def no_default_line(instead: str, *, wait: float, family: int = IPV4) -> str:
    """The line for a missing default route: how long the check waited for it, and what there was instead."""
    lack = f"none appeared within {wait:g} s" if wait else "there is none"
    expected = f"the expected devices are those of the IPv{family} default route"
    return f"NO-DEFAULT-ROUTE: {expected}, and {lack}; last seen: {instead}"


def candidates_line(found: FamilyExamination) -> str:
    """A clause: if there is no default route, the devices that are up and have an address; empty if there is one.

    One of them may be the expected device. Devices that carry a part of the CIDRs rarely are, and come last.
    """
    report, snapshot = found.report, found.fib.snapshot
    if report.verdict != "no-default-route":
        return ""
    first: list[str] = []
    last: list[str] = []
    for link in snapshot.links:
        own = [
            address
            for address in snapshot.addresses
            if address.dev == link.name and address.ip.version == report.family and address.ip not in LINK_LOCAL
        ]
        lenient = is_like(link.name, report.allowed_devs, link.kind)
        if not own or not link.up or lenient or link.name == "lo":
            continue
        inside = any(address.ip in cidr for address in own for cidr in report.cidrs)
        facts = [f"{own[0].ip}/{own[0].length}", *(["InfiniBand"] if link.infiniband else [])]
        facts += [f"in {spoken([str(cidr) for cidr in report.cidrs])}"] if inside else []
        (last if inside or link.infiniband else first).append(f"{link.name} ({', '.join(facts)})")
    if devs := [*first, *last]:
        return f"the device may be {spoken(devs, most=_CANDIDATES, last='or')}"
    return f"no device is up and has an IPv{report.family} address"


def finding_line(finding: Finding, expected_devs: Iterable[str]) -> str:
    """The line for one finding, as written to logs and to the marker file."""
    return f"{finding.kind.upper()}: {finding_sentence(finding, expected_devs)}"


def finding_sentence(finding: Finding, expected_devs: Iterable[str]) -> str:
    """A sentence: where the packets for a range go, and where they should go."""
    what = f"expected CIDR {finding.cidr} ({range_name(finding.cidr.family, finding.first, finding.last)})"
    what += _of_pods(finding)
    expected, holder = ", ".join(expected_devs), _holder(finding.decision)
    if finding.surprise and finding.decision.route is None:
        holder = "the kernel's own answer"
    if finding.kind == "overlap":
        via = ", ".join(finding.devs) or _UNKNOWN
        owner = f"; owner: {owner_name(finding)}" if finding.unexplained else ""
        owner += f"; {intended}" if (intended := intended_clause([finding])) else ""
        return f"{what} routes via {via} [{holder}], expected {expected}{owner}"
    if finding.kind == "no-route":
        return f"{what} has no IPv{finding.cidr.family} route; expected via {expected}"
    how = "is refused" if finding.kind == "prohibit" else f"is {finding.kind}"
    how = "is dropped by a blackhole" if finding.kind == "blackhole" else how
    return f"{what} {how} [{holder}]; expected via {expected}"


def intended_clause(findings: Iterable[Finding]) -> str:
    """A clause: the virtual devices that these leave by, and how to allow them; empty if there are none, or too many.

    Network cards and InfiniBand are left out: they are rarely intended.
    """
    virtual = (finding for finding in findings if all(finding.kinds))
    kinds = {dev: kind for finding in virtual for dev, kind in zip(finding.devs, finding.kinds, strict=False)}
    if not 0 < len(kinds) <= _CANDIDATES:
        return ""
    names, line = spoken([f"{dev} ({kind})" for dev, kind in kinds.items()]), ", ".join(f'"{dev}"' for dev in kinds)
    return f'if {names} {"are" if len(kinds) > 1 else "is"} intended: "allowedDevs": [..., {line}]'


def owner_name(finding: Finding) -> str:
    """The route protocol of a finding's route, with a remark if that protocol is implausible; empty without a route."""
    route = finding.decision.route
    if route is None:
        return ""
    name = protocol_name(route.protocol)
    return unexplained_owner(name, route.devs) if finding.unexplained else name


def unexplained_owner(name: str, devs: Iterable[str]) -> str:
    """A route protocol that says that the kernel added a route, which it would not have done."""
    return f"{name} (there is no address on {', '.join(devs)} for which the kernel would add this route)"


def senders_phrase(packets: Collection[PodPackets]) -> str:
    """A phrase that names packets of pods: where they come from, and the devices that they arrive on."""
    sources: dict[tuple[tuple[str, ...], bool], dict[Prefix, None]] = {}
    for sender in packets:
        sources.setdefault((sender.devs, sender.exist), {}).update(dict.fromkeys(sender.sources))
    ways: dict[tuple[Prefix, ...], list[tuple[tuple[str, ...], bool]]] = {}
    for way, ranges in sources.items():
        ways.setdefault(tuple(sorted(ranges)), []).append(way)
    told = [f"from {_some(map(str, ranges), 'range')} that arrive on {_devices(some)}" for ranges, some in ways.items()]
    more = len(told) - _NAMED
    kinds = f", or of {more} more {'kind' if more == 1 else 'kinds'}" if more > 0 else ""
    return f"packets of pods {', or '.join(told[:_NAMED])}{kinds}"


def _devices(ways: Iterable[tuple[tuple[str, ...], bool]]) -> str:
    names = [dev if exist else f"{dev} (which does not exist)" for devs, exist in ways for dev in devs]
    return _some([*names, *("a device that no rule names" for devs, _ in ways if not devs)], "device")


def _some(names: Iterable[str], what: str) -> str:
    """The first few names, and the number of the others."""
    every = list(names)
    rest = len(every) - _NAMED
    if rest > 0:
        return f"{', '.join(every[:_NAMED])} and {rest:,} more {what}{'' if rest == 1 else 's'}"
    return ", ".join(every[:-1]) + (" or " if len(every) > 1 else "") + every[-1]


def _of_pods(found: Finding | Note | Unsafe) -> str:
    """A phrase in commas: which packets of pods it is about; empty if it is about those that the host itself sends."""
    return f", for {senders_phrase(found.senders)}," if found.senders else ""


# Notes: what the verdict does not hold for, and what explains it.

_KNOWN: dict[Known, str] = {
    "own-address": "replies leave by the device that has the address, so this is right",
    "bound": "the socket asks for this device, so this is right",
    "forwarded": "this host only forwards them: they are judged if podCidrs has their sources",
    "tunnel": "they are the tunnel's own packets, so this is right",
    "intended": "routeOverlap.intendedRules declares this",
}


def note_line(note: Note, *, alone: bool = True) -> str:
    """A sentence: which packets the verdict does not hold for, and where they go.

    It is not `alone` if findings about pods may be about these packets, too.
    """
    where = f"expected CIDR {note.cidr} ({range_name(note.cidr.family, note.first, note.last)})"
    where += _of_pods(note).removesuffix(",")
    told = f"{where}: {packets_line(note.cases)} {_fate(note)}"
    if note.known:
        return f"{told}; {': '.join([_KNOWN[note.known], *note.reasons])}"
    return f"{told}; these packets are not among the findings" if alone else told


def declaration_line(note: Note) -> str:
    """A sentence: how to declare in the configuration that the packets of this note go elsewhere on purpose."""
    import json  # noqa: PLC0415  only an undecided verdict needs it

    rules = dict.fromkeys(condition.rule.selection for condition in note.cases[0])
    entries = [{"rule": rule, "reason": "WHY"} for rule in rules if rule]
    return f"if this is intended, add to routeOverlap.intendedRules: {json.dumps(entries)}" if entries else ""


def _fate(note: Note) -> str:
    """Where the packets of a note go."""
    decision, holder = note.decision, _holder(note.decision)
    if note.more_routes:
        holder += f" and {note.more_routes} more {'route' if note.more_routes == 1 else 'routes'}"
    if decision.goes_out:
        devs = ", ".join(decision.devs) or _UNKNOWN
        return f"{'leave by' if note.escapes else 'leave as expected, by'} {devs} [{holder}]"
    fate = {"no-route": "find no route", "blackhole": "vanish in a blackhole"}.get(decision.kind, "are refused")
    return f"{fate if note.escapes else 'stay on this host'} [{holder}]"


def packets_line(cases: Cases) -> str:
    """A phrase to put before a verb: the first few kinds of packets, and how many more kinds there are."""
    said = [_case(case) for case in cases[:_ALTERNATIVES]]
    more = len(cases) - len(said)
    kinds = ", or ".join(said)
    return f"packets {kinds}, or of {more} more {'kind' if more == 1 else 'kinds'}," if more else f"packets {kinds}"


def _case(case: tuple[Condition, ...]) -> str:
    said = [_condition(condition) for condition in case[:_CONDITIONS]]
    more = len(case) - len(said)
    conditions = " and ".join(said)
    return f"{conditions} and {more} more {'condition' if more == 1 else 'conditions'}" if more else conditions


def _condition(condition: Condition) -> str:
    name, value = condition.selectors[0]
    if name == REACHABLE:  # the state of the host, and not a selector of a rule
        return f"sent while {value} is {'' if condition.holds else 'not '}reachable"
    if name == CHOSEN:
        return f"for which Linux {'chooses' if condition.holds else 'does not choose'} the next hop {value}"
    told = [selector_of(name).packets(value) for name, value in condition.selectors]
    if condition.holds:
        words = ", ".join(phrase for phrase, _ in told)
    elif len(told) > 1:
        words = f"unless {' and '.join(phrase for phrase, _ in told)}"
    else:
        [(_, words)] = told
    return f"{words} (rule {condition.rule.priority})"


def kept_line(kept: Kept) -> str:
    """A sentence: packets to this range never leave the host."""
    where = f"expected CIDR {kept.cidr} ({range_name(kept.cidr.family, kept.first, kept.last)})"
    return f"{where} is this host's own [{_holder(kept.decision)}]: packets for it never leave"


def suppressed_line(suppressed: Suppressed) -> str:
    """A sentence: a rule suppresses this default route, so its devices are not the expected ones."""
    route, rule = suppressed.route, suppressed.rule
    devs = ", ".join(route.devs) or _UNKNOWN
    return (
        f"the default route by {devs} in table {table_name(route.table)} is not used by plain packets:"
        f" rule {rule.priority} suppresses it"
    )


def expiry_line(seconds: int) -> str:
    """A sentence: how long the verdict holds, because one of the routes that decide expires then."""
    return f"the verdict holds for {seconds:,} s: then an IPv6 route that it depends on expires, unless it is renewed"


def unmatched_line(declared: IntendedRule) -> str:
    """A sentence: the configuration declares a rule that this host does not have."""
    return (
        f"routeOverlap.intendedRules: this host has no rule with the selectors {declared.rule!r};"
        " write them as 'ip rule' prints them, or remove the entry"
    )


# What is wrong with the rules and the default routes themselves, and the commands that repair it.


def flaw_line(flaw: Flaw) -> str:
    """A sentence: what is wrong, and the commands that repair it."""
    ip, rule = "ip -6" if flaw.family != IPV4 else "ip", flaw.rule
    if flaw.kind == "competing" or rule is None:
        return _competing_line(flaw, ip)
    lookup = f"lookup {table_name(rule.table)}"
    added = f"with: {ip} rule add pref {rule.priority} {lookup}"
    if flaw.kind == "not-local":
        own = spoken([str(address) for address in flaw.addresses], most=_NAMED)
        return (
            f"this host does not deliver packets for its own {own}, so it does not answer there: no rule looks up table"
            f" local before another rule sends them away; add that rule {added}"
        )
    if flaw.kind == "no-rule":
        return (
            f"no rule looks up table {table_name(rule.table)} for all packets, as on every new host, so its routes are"
            f" not used; add that rule {added}"
        )
    deleted = " ".join(["rule del pref", str(rule.priority), *([rule.selection] if rule.selection else []), lookup])
    return (
        f"rule {rule.priority} has no effect, because table {table_name(rule.table)} has no IPv{flaw.family} routes;"
        f" if no program is to add some, delete the rule with: {ip} {deleted}"
    )


def _competing_line(flaw: Flaw, ip: str) -> str:
    devs = _competing_devs(flaw)
    routes = spoken([f"[{route}]" for route in flaw.routes], most=_NAMED)
    told = (
        f"the next hops of {routes} compete: Linux uses one or the other, so packets leave by {spoken(devs, last='or')}"
    )
    told += f"; if all of them are right, name {spoken(devs)} in routeOverlap.expectedDevs"
    # IPv4 has no command for one next hop of several.
    ways = [(leg, route) for route in flaw.routes if flaw.family != IPV4 or len(route.legs) == 1 for leg in route.legs]
    if not ways:
        return f"{told}; otherwise give one another metric where it comes from"
    leg, moved = max(ways, key=lambda way: way[0].dev or "")
    of = "" if moved.table == TABLE_MAIN else f" table {table_name(moved.table)}"
    way = f"default {bare_leg(leg)} proto {moved.protocol}{of} metric"
    added, deleted = f"{ip} route add {way} {moved.metric + 1}", f"{ip} route del {way} {moved.metric}"
    return f"{told}; otherwise give one another metric where it comes from, and until then with: {added} && {deleted}"


def _competing_devs(flaw: Flaw) -> tuple[str, ...]:
    # Linux may list the next hops in any order.
    return tuple(sorted({dev for route in flaw.routes for dev in route.devs}))


def flaw_name(flaw: Flaw) -> str:
    """A phrase that names a serious flaw."""
    if flaw.kind == "competing":
        return f"IPv{flaw.family} default routes by {spoken(_competing_devs(flaw))} compete"
    return f"own IPv{flaw.family} addresses are not delivered on the host"


# Packets that a host drops as they arrive.


def drop_clause(drop: Drop) -> str:
    """A clause: why a packet is dropped as it arrives on a device."""
    dev, source = drop.dev, drop.source
    match drop.reason:
        case "bad-source":
            return f"{source} is not the address of one host, so no packet may come from it"
        case "loopback" if source.version == IPV4:
            return f"addresses in {LOOPBACK} stay inside a host (net.ipv4.conf.{dev}.route_localnet is 0)"
        case "loopback":
            return "::1 stays inside a host"
        case "forwarding":
            return _forwarding_clause(source.version, (dev,))
        case "own-source":
            return f"{source} is an address of this host (net.ipv4.conf.{dev}.accept_local is 0)"
        case _:
            return _filter_clause(drop.reason, f"the route back to {source}", drop.back)


def dropped_line(dropped: Dropped) -> str:
    """A sentence: which packets this host drops when they arrive, and why."""
    where = f"when they arrive on {_some(dropped.devs, 'device')}" if dropped.devs else "on every new device of a pod"
    sources = f" from {_some(map(str, dropped.sources), 'range')}" if dropped.sources else ""
    is_sent = dropped.kind == "sent"
    what = f"packets of pods{sources}" if is_sent else f"replies{sources} to {_replied(dropped.replies_to)}"
    if dropped.reason == "forwarding":
        return f"{what} are dropped {where}: {_forwarding_clause(dropped.family, dropped.devs)}"
    back = "the route back to these pods" if is_sent else "the route back"
    unless = "; a packet filter that marks the replies prevents this" if dropped.unless_marked else ""
    whose = ("their" if len(dropped.devs) > 1 else "its") if dropped.devs else "the"
    return f"{what} are dropped {where}: {_filter_clause(dropped.reason, back, dropped.back, whose=whose)}{unless}"


def _replied(flow: Flow | None) -> str:
    """A phrase: which packets the dropped replies are for."""
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


def _forwarding_clause(family: int, devs: Sequence[str]) -> str:
    """A clause: which setting of this host forbids to forward packets; no devices are those that are created later."""
    if family != IPV4:
        return "this host does not forward IPv6 packets (net.ipv6.conf.all.forwarding is 0)"
    if not devs:
        return "this host does not forward packets yet (net.ipv4.conf.default.forwarding is 0)"
    if len(devs) > 1:
        return "these devices do not forward packets (net.ipv4.conf.DEVICE.forwarding is 0)"
    return f"{devs[0]} does not forward packets (net.ipv4.conf.{devs[0]}.forwarding is 0)"


def _filter_clause(reason: DropReason, back: str, decision: Decision | None, *, whose: str = "its") -> str:
    """A clause about the reverse path filter: its setting, and the route back."""
    filters = f"{whose} rp_filter is {1 if reason == 'strict' else 2}"
    filters += ", it has no IPv4 address" if reason == "no-address" else ""
    route = None if decision is None else decision.route
    if route is None:
        return f"{filters}, and {back} does not exist"
    if route.type in REFUSING:
        return f"{filters}, and {back} is [{_route_name(route)}], which sends nothing"
    return f"{filters}, and {back} leaves by {', '.join(route.devs)}"


# The repair: what to change in a configuration, what no route can repair, and what a repair costs.

_REASONS: dict[UnsafeReason | Literal["no-rule"], str] = {
    "earlier-rule": "is decided by {holder} before table main is looked up; no route in table main can change that",
    "no-rule": "is not looked up in table main by any policy rule, so a route there cannot help: see 'ip rule'",
    "longest-prefix": "is matched by {holder}; no prefix can be longer, and that route is not ours, so it is not"
    " replaced",
    "no-way": "cannot be repaired: this needs {missing}",
    "too-many": f"would need more than {TOO_MANY} routes, because of {{holder}}",
    "reserved": "is reserved, and matched by {holder}: no static route there is allowed",
    "surprise": "is routed by {holder} according to the kernel, but not according to its tables; no route is known that"
    " would change that",
    "refused": "cannot be repaired: Linux refuses a route {missing}, because the gateway is matched by {against}",
    "clash": "is matched by {holder}; routes that repair this would divert other packets, which go the right way now",
    "still-open": "would still escape after the repair, because of {holder}; this is a bug, please report it",
}


def repair_line(found: Examination, correction: Correction | None = None) -> str:
    """The line that says what to do about the findings: JSON to paste, or where to find it if it is long.

    The `correction` is that of the configuration, if it is known. Empty if no route can help.
    """
    where = "the repair in route-overlap.json, printed by: hostrouting repair"
    told = repair_sentence(found, where=where, correction=correction)
    return f"ACTION: {told}" if told else ""


def repair_sentence(found: Examination, *, where: str, correction: Correction | None = None) -> str:
    """A sentence: what to change in the configuration; `where` says where the routes are if they are too many to print.

    The `correction` is that of the configuration, if it is known. Empty if no route can help.
    """
    if not found.findings or not found.routes:
        return ""
    needed = Correction(found.routes) if correction is None else correction
    if not needed.is_needed:
        return "the configuration has the routes that repair it, but this host does not; apply the configuration"
    return action_sentence(
        repair_document(needed.add), where=where, replaced=needed.replaced, contested=needed.contested
    )


def action_sentence(
    routes: Sequence[dict[str, Any]],
    *,
    where: str,
    replaced: Sequence[DesiredRoute] = (),
    contested: Sequence[DesiredRoute] = (),
) -> str:
    """A sentence: which routes to add to a configuration, as JSON values, and which entries of it to delete.

    `where` says where the routes are if they are too many to print.
    """
    parts: list[str] = []
    if len(routes) > _PASTED:
        parts.append(f"add {len(routes)} routes to staticRoutes.routes: {where}")
    elif routes:
        import json  # noqa: PLC0415  only a finding needs it

        parts.append(f"add to staticRoutes.routes: {json.dumps(list(routes))}")
    parts += [text[0].lower() + text[1:-1] for text in deletion_lines(replaced, contested, "staticRoutes.routes")]
    return "; ".join(parts)


def deletion_lines(replaced: Sequence[DesiredRoute], contested: Sequence[DesiredRoute], config: str) -> Iterator[str]:
    """Sentences: which entries to delete from a configuration, and why; `config` names it."""
    if replaced:
        takes = "the new one takes its" if len(replaced) == 1 else "the new ones take their"
        yield f"In {config}, delete the present {entries_name(replaced)}: {takes} place."
    if contested:
        yield f"In {config}, delete the {entries_name(contested)}: {contested_clause(contested)}."


def contested_clause(contested: Sequence[DesiredRoute]) -> str:
    """A clause: why these entries of a configuration cannot be installed."""
    if len(contested) == 1:
        return "another program's route has this destination and metric, and hostrouting leaves that route as it is"
    return "other programs' routes have these destinations and metrics, and hostrouting leaves those as they are"


def entries_name(wishes: Sequence[DesiredRoute]) -> str:
    """A phrase that names entries of a configuration: destination, and metric unless it is 0."""
    names = [f"{wish.destination}{f' metric {wish.metric}' if wish.metric else ''}" for wish in wishes]
    return f"{'entry' if len(names) == 1 else 'entries'} for {spoken(names, most=_PASTED)}"


def unsafe_line(unsafe: Unsafe) -> str:
    """A sentence: why a range cannot be repaired, and which route or rule decides there."""
    where = range_name(unsafe.family, unsafe.first, unsafe.last)
    return f"{where}{_of_pods(unsafe)} {_reason(unsafe, _holder(unsafe.decision))}"


def unsafe_lines(unsafe: Iterable[Unsafe]) -> Iterator[str]:
    """The same for many ranges: one sentence for each combination of reason, rule and table."""
    causes: dict[object, list[Unsafe]] = {}
    for lost in unsafe:
        rule, route = lost.decision.rule, lost.decision.route
        which = None if route is None else (route.table, route.type, route.protocol)
        causes.setdefault((lost.reason, lost.missing, rule, which, lost.senders), []).append(lost)
    for alike in causes.values():
        yield unsafe_line(alike[0]) if len(alike) == 1 else _cause_line(alike)


def _reason(unsafe: Unsafe, holder: str) -> str:
    unled = unsafe.reason == "earlier-rule" and unsafe.decision.rule is None
    return _REASONS["no-rule" if unled else unsafe.reason].format(
        holder=holder, missing=unsafe.missing, against="" if unsafe.against is None else _holder(unsafe.against)
    )


def _cause_line(alike: list[Unsafe]) -> str:
    """A sentence: why several ranges cannot be repaired, for one cause."""
    first = alike[0]
    spans: list[Unsafe] = []
    for lost in alike:
        if spans and spans[-1].last + 1 == lost.first:
            spans[-1] = attrs.evolve(spans[-1], last=lost.last)
        else:
            spans.append(lost)
    names = [range_name(span.family, span.first, span.last) for span in spans]
    more, holders = len(names) - _RANGES, len({lost.decision.route for lost in alike})
    where = ", ".join(names[:_RANGES]) + (f" and {more} more {'range' if more == 1 else 'ranges'}" if more > 0 else "")
    holder = _holder(first.decision)
    if holders > 1:
        holder += f" and {holders - 1} more {'route' if holders == 2 else 'routes'}"
    reason = _reason(first, holder)
    where += _of_pods(first)
    return f"{where} {reason.replace('is ', 'are ', 1) if len(spans) > 1 and reason.startswith('is ') else reason}"


def diversion_line(diversion: Diversion, *, of: str = "") -> str:
    """A sentence: what the repair takes from other devices; `of` names the networks if there are several."""
    if diversion.refused is not None:
        route = _route_name(diversion.refused)
        what = f"the repair overrides [{route}], which may be there on purpose: "
        return f"{what}packets for the repaired range are no longer refused"
    devs = ", ".join(diversion.devs)
    networks = of or diversion.prefix
    what = f"the repair diverts addresses of {networks} from {devs}: "
    if diversion.connected:
        return f"{what}neighbours there, in the repaired range, become unreachable over IP"
    return f"{what}packets for the repaired range no longer go there"


def filtered_line(filtered: Filtered) -> str:
    """A sentence: what a device drops once the repair is in place."""
    sources = _some(map(str, filtered.sources), "range")
    return (
        f"after the repair, packets from {sources} that arrive on {filtered.dev} are dropped"
        " (rp_filter 1: the way back leaves by another device then)"
    )


# Routes of ours that will not last, or that stay when ours are deleted.


def foreseen_line(foreseen: Foreseen) -> str:
    """A sentence: why a route will not last, and what to write in its place."""
    wanted, first = foreseen.wanted, foreseen.addresses[0]
    route = " ".join([str(wanted.prefix), *(wanted.ways if len(wanted.legs) == 1 else ())])
    more = len(foreseen.addresses) - 1
    others = "1 more device is" if more == 1 else f"{more:,} more devices are"
    remedy = _way_round(foreseen)
    return (
        f"{route} does not last: {first.dev} has the address {first.ip}/{first.length}"
        f"{f' (and {others} on the same network)' if more else ''}, so the kernel adds its own route to"
        f" {wanted.prefix}; if the kernel adds it first, as it can at the next boot, our route cannot be added, and no"
        f" machine starts; {remedy}"
    )


def _way_round(foreseen: Foreseen) -> str:
    prefix, instead = foreseen.wanted.prefix, foreseen.instead
    names = " and ".join(str(wish.destination) for wish in instead)
    if not instead and prefix.length == width_of(prefix.family):
        return "no prefix can be longer and no metric better: remove either the route or the address"
    if not instead:
        left, right = prefix.halves()
        return f"instead, configure longer prefixes that are free ({left} and {right} are not both free)"
    one = len(instead) == 1
    take = "takes" if one else "take"
    if instead[0].destination == prefix:
        names = f"one with metric {instead[0].metric}"
    if not foreseen.lacking:
        return f"remove it: {names} {'is' if one else 'are'} configured too, and {take} precedence"
    return f"instead, configure {names}, which {take} precedence"


def stays_line(route: Route) -> str:
    """A sentence: a route stays when our routes are deleted, and how to delete it."""
    command = deletion_command(route)
    return (
        f"[{route}] stays: the configuration asked for this route, but hostrouting did not install it;"
        f" if nothing else needs it, delete it with: {command}"
    )


# Documents, written and read again.

CHECK_SCHEMA = "hostrouting/check/1"
"""The result of a check whose expected CIDRs are all IPv4."""
CHECK_SCHEMA_BY_FAMILY = "hostrouting/check/2"
"""The result of a check with IPv6 CIDRs: the devices and the verdict of each family have a key of their own."""
GUARD_SCHEMA = "hostrouting/guard/1"
"""What a guard knows after a look."""


def document_in(text: str | None, *schemas: str) -> dict[str, Any]:
    """The JSON document in this text; empty if there is none, or if it has none of these schemas."""
    import json  # noqa: PLC0415  most commands read none of them

    with suppress(ValueError, RecursionError):
        found = json.loads(text or "{}")
        if isinstance(found, dict) and found.get("schema") in schemas:
            return found
    return {}


def marked_verdict(marker: str) -> str:
    """The verdict in a marker of a check (route-overlap.ok or route-overlap.detected); empty if it has none."""
    first = marker.partition("\n")[0]
    return first if first in {"", "ok", "undecided", "no-default-route"} else "overlap"


def npd_line(answer: str, until: datetime) -> str:
    """What the plugin of node-problem-detector prints until this moment: an exit status and a sentence, in ASCII.

    NPD cuts a sentence in the middle of a character. A name of a device can have any other character.
    """
    plain = "".join(char if " " <= char <= "~" else "?" for char in answer.replace("–", "-"))  # noqa: RUF001  ranges have it
    return f"{int(until.timestamp())} {plain}\n"


def check_document(found: Examination, *, mode: str, remarks: Iterable[str] = ()) -> dict[str, Any]:
    """The check as the JSON value `hostrouting/check/1`; with IPv6 CIDRs as `hostrouting/check/2`.

    The notes include the kernel's contradicting answers, and end with the `remarks`.
    """
    devs = {f"ipv{family.report.family}": list(family.report.expected_devs) for family in found.families}
    by_family = any(family.report.family != IPV4 for family in found.families)
    verdicts = {f"ipv{family.report.family}": family.verdict for family in found.families}
    return {
        "schema": CHECK_SCHEMA_BY_FAMILY if by_family else CHECK_SCHEMA,
        "verdict": found.verdict,
        **({"verdicts": verdicts} if by_family else {}),
        "mode": mode,
        "expectedDevs": devs if by_family else devs["ipv4"],
        "findings": [_finding(finding) for family in found.families for finding in family.report.findings],
        **_pods_document(found),
        **_dropped_document(found),
        "repair": repair_document(found.routes),
        "unsafe": [
            {
                "first": str(ip_at(unsafe.family, unsafe.first)),
                "last": str(ip_at(unsafe.family, unsafe.last)),
                "reason": unsafe.reason,
                "text": unsafe_line(unsafe),
                **({"packets": _packets(unsafe.senders)} if unsafe.senders else {}),
            }
            for unsafe in found.unsafe
        ],
        "notes": [*notes_lines(found), *remarks],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    decision, family = finding.decision, finding.cidr.family
    route, dev = decision.route, next(iter(finding.devs), None)
    gateway = next((leg.gateway for leg in decision.legs if dev is not None and leg.dev == dev), None)
    return {
        "cidr": str(finding.cidr),
        "first": str(ip_at(family, finding.first)),
        "last": str(ip_at(family, finding.last)),
        "prefixes": [str(prefix) for prefix in finding.prefixes],
        "kind": finding.kind,
        "via": {
            "dev": dev,
            "gateway": None if gateway is None else str(gateway),
            "route": None if route is None else str(route.prefix),
            "table": None if route is None else table_name(route.table),
            "protocol": None if route is None else protocol_name(route.protocol),
            "rule": None if decision.rule is None else decision.rule.priority,
        },
    }


def _pods_document(found: Examination) -> dict[str, Any]:
    """The part of the document about what pods send; empty if no pod CIDRs are configured."""
    reports = [report for family in found.families for report in family.pods]
    if not reports:
        return {}
    return {
        "pods": [
            {
                "verdict": report.verdict,
                "packets": _packets(report.packets),
                "findings": [_finding(finding) for finding in report.findings],
            }
            for report in reports
        ]
    }


def _packets(packets: Iterable[PodPackets]) -> list[dict[str, Any]]:
    return [
        {"sources": list(map(str, sender.sources)), "devs": list(sender.devs), "exist": sender.exist}
        for sender in packets
    ]


def _dropped_document(found: Examination) -> dict[str, Any]:
    """The part of the document about what this host drops; empty if it drops nothing."""
    if not found.dropped:
        return {}
    return {
        "dropped": [
            {
                "kind": dropped.kind,
                "family": dropped.family,
                "devs": list(dropped.devs),
                "reason": dropped.reason,
                "sources": list(map(str, dropped.sources)),
                "mark": dropped.replies_to.mark if dropped.replies_to else 0,
                "uid": dropped.replies_to.uid if dropped.replies_to else 0,
                "boundTo": dropped.replies_to.oif if dropped.replies_to else "",
                "ofPods": dropped.replies_to is None or dropped.replies_to.iif != "lo",
                "text": dropped_line(dropped),
            }
            for dropped in found.dropped
        ]
    }


def notes_lines(found: Examination) -> list[str]:
    """The notes on a verdict: what the repair costs, and which packets and what time the verdict holds for."""
    return list(dict.fromkeys(note for family in found.families for note in _notes_of(family)))


def _notes_of(found: FamilyExamination) -> Iterator[str]:
    report = found.report
    yield from map(flaw_line, found.flaws)
    yield from map(diversion_line, found.repair.diverted)
    yield from map(filtered_line, found.repair.filtered)
    yield from (dropped_line(dropped) for dropped in found.dropped if dropped.devs)
    yield from map(suppressed_line, report.suppressed)
    yield from map(kept_line, report.kept)
    yield from (note_line(note, alone=not found.pods) for note in found.notes)
    yield from map(unmatched_line, found.unmatched)
    if report.holds_for is not None:
        yield expiry_line(report.holds_for)
    yield from found.surprises


def harmless_lines(found: Examination) -> list[str]:
    """The notes that nobody has to look into: flaws without an effect, known packets, and how long verdicts hold."""
    flaws = [flaw_line(flaw) for family in found.families for flaw in family.flaws if not flaw.is_serious]
    known = [note_line(note) for family in found.families for note in family.notes if note.known]
    return [*flaws, *known, *expiry_lines(found)]


def expiry_lines(found: Examination) -> list[str]:
    """How long the verdicts hold, if they do not hold until something changes."""
    seconds = (family.report.holds_for for family in found.families)
    return [expiry_line(left) for left in seconds if left is not None]


def repair_document(routes: Iterable[DesiredRoute]) -> list[dict[str, Any]]:
    """The routes as written under staticRoutes.routes in the configuration."""
    return [
        {
            "destination": str(route.destination),
            "gateway": str(route.gateway) if route.gateway else "",
            "dev": route.dev or "",
            "metric": route.metric,
        }
        for route in routes
    ]


# Names of ranges, routes and rules.


def range_name(family: int, first: int, last: int) -> str:
    """A range of addresses, as its first and last address."""
    if first == last:
        return str(ip_at(family, first))
    return f"{ip_at(family, first)}–{ip_at(family, last)}"  # noqa: RUF001  a dash between addresses, not a minus


def _holder(decision: Decision) -> str:
    """What decides: a route with its route protocol, or a rule."""
    route, rule = decision.route, decision.rule
    if route is None:
        return f"rule {rule}" if rule else "no rule"
    away = route.table != TABLE_MAIN and rule is not None
    table = f" table {table_name(route.table)}, rule {rule.priority}" if away and rule else ""
    # A route by a device without a carrier still wins, but its packets are lost.
    lost = " linkdown" if decision.legs and all(leg.linkdown for leg in decision.legs) else ""
    return f"{_route_name(route)}{table}{lost}"


def _route_name(route: Route) -> str:
    kind = "" if route.type == "unicast" else f"{route.type} "
    return f"{kind}{prefix_name(route.prefix)} proto {protocol_name(route.protocol)}"


def prefix_name(prefix: Prefix) -> str:
    """A route's prefix as `ip route` prints it."""
    return "default" if prefix.length == 0 else str(prefix)
