"""What there is to tell about a check: the results as findings, in words and for programs.

Here: findings about escapes, other packets, drops, repairs and corrections; and the names of the documents that a check
and a guard write, with their reader. Not here: any decision, writing a document (`tasks`), and what a guard puts into
its own.

Every message about a repair uses the same words, so that all of them ask for the same. A name ends with what is made: a
sentence stands alone, a clause, phrase or name is a part of one, and a document is JSON.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import attrs

from hostrouting.check.cni import is_like
from hostrouting.check.examine import Correction, Examination, FamilyExamination
from hostrouting.check.repair import TOO_MANY, Diversion, Unsafe, UnsafeReason
from hostrouting.fib import CHOSEN, PLAIN, REACHABLE, Cases, Condition, Decision, Flow
from hostrouting.finding import ESCAPES, Finding
from hostrouting.model import (
    IPV4,
    REFUSING,
    TABLE_MAIN,
    Prefix,
    Route,
    command_adding,
    ip_at,
    protocol_name,
    selector_of,
    table_name,
)
from hostrouting.model.constants import LINK_LOCAL, LOOPBACK
from hostrouting.routes.uplink import bare_leg
from hostrouting.text import spoken

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from hostrouting.check.exceptions import Known
    from hostrouting.check.overlap import Escape, Kept, Note, Suppressed
    from hostrouting.check.packets import PodPackets
    from hostrouting.check.pods import Dropped
    from hostrouting.check.rules import Flaw
    from hostrouting.config import IntendedRule
    from hostrouting.fib.arrival import Drop, DropReason
    from hostrouting.finding import Severity
    from hostrouting.routes.uplink import DesiredRoute

__all__ = [
    "CHECK_SCHEMA",
    "GUARD_SCHEMA",
    "action_finding",
    "action_sentence",
    "candidates_clause",
    "check_document",
    "check_findings",
    "contested_clause",
    "cost_findings",
    "deletion_lines",
    "document_in",
    "drop_clause",
    "entries_name",
    "escape_finding",
    "escape_target",
    "escapes_in",
    "flaw_findings",
    "flaw_name",
    "intended_clause",
    "marked_verdict",
    "npd_line",
    "owner_name",
    "packets_line",
    "prefix_name",
    "range_name",
    "remarks",
    "repair_document",
    "repair_sentence",
    "senders_phrase",
    "unexplained_owner",
    "unsafe_findings",
]

_DASH = "\u2013"  # between two addresses
_PASTED = 20  # the number of routes that are printed as JSON; a line in the journal has a maximum length
_ALTERNATIVES = 3  # at most this many kinds of packets in one sentence
_CONDITIONS = 4  # at most this many conditions for one kind
_UNKNOWN = "an unknown device"
_NAMED = 3  # the number of sources and devices of pods that are named; the others are counted
_CANDIDATES = 20  # the number of devices that are named as perhaps the expected one
_RANGES = 3  # the number of ranges that are named for one cause; the others are counted


def _no_default_route(found: FamilyExamination, severity: Severity, *, wait: float) -> Finding:
    """How long the check waited for a default route, what there was instead, and which device may be meant."""
    family = found.report.family
    lack = f"none appeared within {wait:g} s" if wait else "there is none"
    told = f"the expected devices are those of the IPv{family} default route, and {lack}; last seen: {found.instead}"
    remedy = f"add a default route, or name routeOverlap.expectedDevs: {candidates_clause(found)}"
    remedy = next((_flaw(flaw).remedy for flaw in found.flaws if flaw.is_of_main), remedy)
    facts = {"family": family, "instead": found.instead}
    return Finding("no-default-route", severity, told, f"IPv{family} default route", remedy, facts, can_retry=True)


def candidates_clause(found: FamilyExamination) -> str:
    """A clause for a host without a default route: the devices that are up and have an address. Otherwise empty.

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


def escape_finding(escape: Escape, expected_devs: Iterable[str], severity: Severity) -> Finding:
    """Where the packets for a range go, and where they should go."""
    where = escape_target(escape)
    what = f"expected CIDR {escape.cidr} ({where}){_of_pods(escape)}"
    expected, holder = ", ".join(expected_devs), _holder(escape.decision)
    if escape.surprise and escape.decision.route is None:
        holder = "the kernel's own answer"
    if escape.kind == "overlap":
        via = ", ".join(escape.devs) or _UNKNOWN
        owner = f"; owner: {owner_name(escape)}" if escape.unexplained else ""
        told = f"{what} routes via {via} [{holder}], expected {expected}{owner}"
    elif escape.kind == "no-route":
        told = f"{what} has no IPv{escape.cidr.family} route; expected via {expected}"
    else:
        how = {"prohibit": "is refused", "blackhole": "is dropped by a blackhole"}.get(escape.kind, "is unreachable")
        told = f"{what} {how} [{holder}]; expected via {expected}"
    return Finding(escape.kind, severity, told, where, intended_clause([escape]), _escape_facts(escape))


def escape_target(escape: Escape) -> str:
    """The range that escapes: the target of its finding."""
    return range_name(escape.cidr.family, escape.first, escape.last)


def _escape_facts(escape: Escape) -> dict[str, Any]:
    decision, family = escape.decision, escape.cidr.family
    route, dev = decision.route, next(iter(escape.devs), None)
    gateway = next((leg.gateway for leg in decision.legs if dev is not None and leg.dev == dev), None)
    return {
        "cidr": str(escape.cidr),
        **_ends(family, escape.first, escape.last),
        "prefixes": [str(prefix) for prefix in escape.prefixes],
        "devs": list(escape.devs),
        "via": {
            "dev": dev,
            "gateway": None if gateway is None else str(gateway),
            "route": None if route is None else str(route.prefix),
            "table": None if route is None else table_name(route.table),
            "protocol": None if route is None else protocol_name(route.protocol),
            "rule": None if decision.rule is None else decision.rule.priority,
        },
        **_packets(escape.senders),
    }


def _ends(family: int, first: int, last: int) -> dict[str, str]:
    return {"first": str(ip_at(family, first)), "last": str(ip_at(family, last))}


def _packets(senders: Iterable[PodPackets]) -> dict[str, Any]:
    """The packets of pods that a finding is about; empty if it is about those that the host itself sends."""
    packets = [
        {"sources": list(map(str, sender.sources)), "devs": list(sender.devs), "exist": sender.exist}
        for sender in senders
    ]
    return {"packets": packets} if packets else {}


def intended_clause(escapes: Iterable[Escape]) -> str:
    """A clause: the virtual devices that these leave by, and how to allow them; empty if there are none, or too many.

    Network cards and InfiniBand are left out: they are rarely intended.
    """
    virtual = (escape for escape in escapes if all(escape.kinds))
    kinds = {dev: kind for escape in virtual for dev, kind in zip(escape.devs, escape.kinds, strict=False)}
    if not 0 < len(kinds) <= _CANDIDATES:
        return ""
    names, line = spoken([f"{dev} ({kind})" for dev, kind in kinds.items()]), ", ".join(f'"{dev}"' for dev in kinds)
    return f'if {names} {"are" if len(kinds) > 1 else "is"} intended: "allowedDevs": [..., {line}]'


def owner_name(escape: Escape) -> str:
    """The route protocol of an escape's route, with a remark if that protocol is implausible; empty without a route."""
    route = escape.decision.route
    if route is None:
        return ""
    name = protocol_name(route.protocol)
    return unexplained_owner(name, route.devs) if escape.unexplained else name


def unexplained_owner(name: str, devs: Iterable[str]) -> str:
    """A route protocol that says that the kernel added a route, which it would not have done."""
    return f"{name} (but no address on {', '.join(devs)} makes the kernel add this route)"


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


def _of_pods(found: Escape | Note | Unsafe) -> str:
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


def _other_packets(note: Note, *, alone: bool) -> Finding:
    """Which packets the verdict does not hold for, and where they go.

    It is not `alone` if findings about pods may be about these packets, too.
    """
    where = f"expected CIDR {note.cidr} ({range_name(note.cidr.family, note.first, note.last)})"
    where += _of_pods(note).removesuffix(",")
    told = f"{where}: {packets_line(note.cases)} {_fate(note)}"
    if note.known:
        told += f"; {': '.join([_KNOWN[note.known], *note.reasons])}"
    elif alone:
        told += "; the verdict does not hold for these packets"
    facts = {
        "cidr": str(note.cidr),
        **_ends(note.cidr.family, note.first, note.last),
        "known": note.known,
        **_packets(note.senders),
    }
    remedy = _declaration(note) if note.is_open else ""
    return Finding("other-packets", "warning" if note.is_open else "note", told, str(note.cidr), remedy, facts)


def _declaration(note: Note) -> str:
    """A clause: how to declare in the configuration that the packets of this note go elsewhere on purpose."""
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
        words = f"except those {' and '.join(phrase for phrase, _ in told)}"
    else:
        [(_, words)] = told
    return f"{words} (rule {condition.rule.priority})"


def _own_range(kept: Kept) -> Finding:
    """Packets to this range never leave the host."""
    where = range_name(kept.cidr.family, kept.first, kept.last)
    told = f"expected CIDR {kept.cidr} ({where}) is this host's own [{_holder(kept.decision)}]"
    return Finding("own-range", "note", f"{told}: packets for it never leave", where)


def _unused_default_route(suppressed: Suppressed) -> Finding:
    """A rule suppresses this default route, so its devices are not the expected ones."""
    route, rule = suppressed.route, suppressed.rule
    devs = ", ".join(route.devs) or _UNKNOWN
    told = f"the default route by {devs} in table {table_name(route.table)} is not used by plain packets"
    return Finding("unused-default-route", "note", f"{told}: rule {rule.priority} suppresses it", devs)


def _expiry(seconds: int) -> Finding:
    """How long the verdict holds, because one of the routes that decide expires then."""
    told = f"the verdict holds for {seconds:,} s: then an IPv6 route that it depends on expires, unless it is renewed"
    return Finding("expiry", "note", told, facts={"seconds": seconds})


def _unmatched_rule(declared: IntendedRule) -> Finding:
    """The configuration declares a rule that this host does not have."""
    told = f"routeOverlap.intendedRules: this host has no rule with the selectors {declared.rule!r}"
    remedy = "write them as 'ip rule' prints them, or remove the entry"
    return Finding("unmatched-rule", "note", told, declared.rule, remedy)


# What is wrong with the rules and the default routes themselves, and the commands that repair it.


def flaw_findings(found: FamilyExamination) -> tuple[Finding, ...]:
    """What is wrong in a family, and the commands that repair it."""
    return tuple(map(_flaw, found.flaws))


def _flaw(flaw: Flaw) -> Finding:
    ip, rule = "ip -6" if flaw.family != IPV4 else "ip", flaw.rule
    severity: Severity = "warning" if flaw.is_serious or flaw.is_of_main else "note"
    if flaw.kind == "competing" or rule is None:
        return _competing(flaw, ip, severity)
    lookup = f"lookup {table_name(rule.table)}"
    added = f"add the rule for table {table_name(rule.table)} with: {command_adding(rule)}"
    if flaw.kind == "not-local":
        own = spoken([str(address) for address in flaw.addresses], most=_NAMED)
        told = f"this host does not deliver packets for its own {own}, so it does not answer there"
        why = "no rule looks up table local before another rule sends them away"
        return Finding("local-rule", severity, f"{told}: {why}", own, added)
    if flaw.kind == "no-rule":
        told = f"no rule looks up table {table_name(rule.table)} for all packets, as on every new host"
        return Finding("missing-rule", severity, f"{told}, so its routes are not used", table_name(rule.table), added)
    deleted = " ".join(["rule del pref", str(rule.priority), *([rule.selection] if rule.selection else []), lookup])
    told = f"rule {rule.priority} has no effect, because table {table_name(rule.table)} has no IPv{flaw.family} routes"
    remedy = f"if no program is to add some, delete the rule with: {ip} {deleted}"
    return Finding("empty-table", severity, told, f"rule {rule.priority}", remedy)


def _competing(flaw: Flaw, ip: str, severity: Severity) -> Finding:
    devs = _competing_devs(flaw)
    routes = spoken([f"[{route}]" for route in flaw.routes], most=_NAMED)
    told = (
        f"the next hops of {routes} compete: Linux uses one or the other, so packets leave by {spoken(devs, last='or')}"
    )
    remedy = f"if all of them are right, name {spoken(devs)} in routeOverlap.expectedDevs"
    remedy += "; otherwise give one another metric where it comes from"
    # IPv4 has no command for one next hop of several.
    ways = [(leg, route) for route in flaw.routes if flaw.family != IPV4 or len(route.legs) == 1 for leg in route.legs]
    if ways:
        leg, moved = max(ways, key=lambda way: way[0].dev or "")
        of = "" if moved.table == TABLE_MAIN else f" table {table_name(moved.table)}"
        way = f"default {bare_leg(leg)} proto {moved.protocol}{of} metric"
        added, deleted = f"{ip} route add {way} {moved.metric + 1}", f"{ip} route del {way} {moved.metric}"
        remedy += f", and until then with: {added} && {deleted}"
    return Finding("default-routes", severity, told, spoken(devs), remedy)


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


def _dropped(dropped: Dropped) -> Finding:
    """Which packets this host drops when they arrive, and why."""
    facts = {
        "kind": dropped.kind,
        "family": dropped.family,
        "devs": list(dropped.devs),
        "reason": dropped.reason,
        "sources": list(map(str, dropped.sources)),
        "mark": dropped.replies_to.mark if dropped.replies_to else 0,
        "uid": dropped.replies_to.uid if dropped.replies_to else 0,
        "boundTo": dropped.replies_to.oif if dropped.replies_to else "",
        "ofPods": dropped.replies_to is None or dropped.replies_to.iif != "lo",
    }
    target = ", ".join(dropped.devs)
    return Finding("dropped", "warning" if dropped.devs else "note", _dropped_sentence(dropped), target, facts=facts)


def _dropped_sentence(dropped: Dropped) -> str:
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


def action_finding(found: Examination, *, where: str, correction: Correction | None = None) -> Iterator[Finding]:
    """What to do about the escapes, as in `repair_sentence`; none if no route can help."""
    if told := repair_sentence(found, where=where, correction=correction):
        facts = {"routes": repair_document(found.routes)}
        yield Finding("action", "note", told, "staticRoutes.routes", facts=facts)


def repair_sentence(found: Examination, *, where: str, correction: Correction | None = None) -> str:
    """A sentence: what to change in the configuration; `where` says where the routes are if they are too many to print.

    The `correction` is that of the configuration, if it is known. Empty if no route can help.
    """
    if not found.escapes or not found.routes:
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


def unsafe_findings(unsafe: Iterable[Unsafe], severity: Severity = "warning") -> Iterator[Finding]:
    """Why ranges cannot be repaired: one finding for each combination of reason, rule and table."""
    causes: dict[object, list[Unsafe]] = {}
    for lost in unsafe:
        rule, route = lost.decision.rule, lost.decision.route
        which = None if route is None else (route.table, route.type, route.protocol)
        causes.setdefault((lost.reason, lost.missing, rule, which, lost.senders), []).append(lost)
    for alike in causes.values():
        where, told = _cause(alike)
        ranges = [_ends(lost.family, lost.first, lost.last) for lost in alike]
        facts = {"reason": alike[0].reason, "ranges": ranges, **_packets(alike[0].senders)}
        yield Finding("unsafe", severity, told, where, facts=facts)


def _reason(unsafe: Unsafe, holder: str) -> str:
    unled = unsafe.reason == "earlier-rule" and unsafe.decision.rule is None
    return _REASONS["no-rule" if unled else unsafe.reason].format(
        holder=holder, missing=unsafe.missing, against="" if unsafe.against is None else _holder(unsafe.against)
    )


def _cause(alike: list[Unsafe]) -> tuple[str, str]:
    """The ranges that cannot be repaired for one cause, and a sentence that says why."""
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
    if len(spans) > 1 and reason.startswith("is "):
        reason = reason.replace("is ", "are ", 1)
    return where, f"{where}{_of_pods(first)} {reason}"


def cost_findings(found: Examination) -> Iterator[Finding]:
    """What the repair takes from other devices, and what devices drop once it is in place; alike ones together."""
    alike: dict[object, list[Diversion]] = {}
    for diversion in found.diverted:
        alike.setdefault((diversion.devs, diversion.connected, diversion.refused), []).append(diversion)
    for them in alike.values():
        networks = spoken([str(diversion.prefix) for diversion in them])
        yield Finding("repair-cost", "warning", _diversion(them[0], networks), networks)
    for filtered in found.filtered:
        sources = _some(map(str, filtered.sources), "range")
        told = f"after the repair, packets from {sources} that arrive on {filtered.dev} are dropped"
        why = "rp_filter 1: the route back then leaves by another device"
        yield Finding("repair-cost", "warning", f"{told} ({why})", filtered.dev)


def _diversion(diversion: Diversion, networks: str) -> str:
    """A sentence: what the repair takes from other devices."""
    if diversion.refused is not None:
        route = _route_name(diversion.refused)
        what = f"the repair overrides [{route}], which may be there on purpose: "
        return f"{what}packets for the repaired range are no longer refused"
    what = f"the repair diverts addresses of {networks} from {', '.join(diversion.devs)}: "
    if diversion.connected:
        return f"{what}neighbours there, in the repaired range, become unreachable over IP"
    return f"{what}packets for the repaired range no longer go there"


# Documents, written and read again.

CHECK_SCHEMA = "hostrouting/check/3"
"""The result of a check: the verdict, and what there is to tell about it."""
GUARD_SCHEMA = "hostrouting/guard/2"
"""What a guard knows after a look."""


def document_in(text: str | None, *schemas: str) -> dict[str, Any]:
    """The JSON document in this text; empty without a document of one of these schemas."""
    import json  # noqa: PLC0415  most commands read none of them

    with suppress(ValueError, RecursionError):
        found = json.loads(text or "{}")
        if isinstance(found, dict) and found.get("schema") in schemas:
            return found
    return {}


def escapes_in(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The escapes in a document of a check. Its other findings change by themselves: a route expires in less time."""
    found = document.get("findings")
    known = found if isinstance(found, list) else []
    return [finding for finding in known if isinstance(finding, dict) and finding.get("name") in ESCAPES]


def marked_verdict(marker: str) -> str:
    """The verdict in a marker of a check (route-overlap.ok or route-overlap.detected); empty if it has none."""
    first = marker.partition("\n")[0]
    return first if first in {"", "ok", "undecided", "no-default-route"} else "overlap"


def npd_line(answer: str, until: datetime) -> str:
    """What the plugin of node-problem-detector prints until this moment: an exit status and a sentence, in ASCII.

    NPD cuts a sentence in the middle of a character. A name of a device can have any other character.
    """
    plain = "".join(char if " " <= char <= "~" else "?" for char in answer.replace(_DASH, "-"))
    return f"{int(until.timestamp())} {plain}\n"


def check_document(
    found: Examination, *, mode: str, findings: Iterable[Finding] | None = None, more: Iterable[Finding] = ()
) -> dict[str, Any]:
    """The check as the JSON value `hostrouting/check/3`, with its findings if they are known, and those of others."""
    told = check_findings(found, mode=mode) if findings is None else findings
    return {
        "schema": CHECK_SCHEMA,
        "verdict": found.verdict,
        "verdicts": {f"ipv{family.report.family}": family.verdict for family in found.families},
        "mode": mode,
        "expectedDevs": {f"ipv{family.report.family}": list(family.report.expected_devs) for family in found.families},
        "findings": [finding.to_mapping() for finding in (*told, *more)],
        "repair": repair_document(found.routes),
    }


_REPORT = "the repair in route-overlap.json, printed by: hostrouting repair"


def check_findings(
    found: Examination, *, mode: str, wait: float = 0, correction: Correction | None = None, where: str = _REPORT
) -> tuple[Finding, ...]:
    """Everything to tell about a check: what escapes, what repairs it, what a repair costs, and what else is so.

    `wait` is how long a default route was waited for, `correction` that of the configuration if it is known, and
    `where` where the routes are if they are too many to print.
    """
    severity: Severity = "error" if mode == "STRICT" else "warning"
    escapes: list[Finding] = []
    notes: list[Finding] = []
    for family in found.families:
        if family.verdict == "no-default-route":
            escapes.append(_no_default_route(family, severity, wait=wait))
        escapes += (escape_finding(escape, family.report.expected_devs, severity) for escape in family.escapes)
        notes += remarks(family)
    action = action_finding(found, where=where, correction=correction)
    unsafe = unsafe_findings(found.unsafe, severity)
    return tuple(dict.fromkeys([*escapes, *action, *unsafe, *cost_findings(found), *notes]))


def remarks(found: FamilyExamination) -> Iterator[Finding]:
    """What limits or explains the verdict on a family."""
    report = found.report
    yield from flaw_findings(found)
    yield from map(_dropped, found.dropped)
    yield from map(_unused_default_route, report.suppressed)
    yield from map(_own_range, report.kept)
    yield from (_other_packets(note, alone=not found.pods) for note in found.notes)
    yield from map(_unmatched_rule, found.unmatched)
    yield from () if report.holds_for is None else [_expiry(report.holds_for)]
    yield from (Finding("kernel-differs", "warning", text) for text in found.surprises)


def repair_document(routes: Iterable[DesiredRoute]) -> list[dict[str, Any]]:
    """The routes as written under staticRoutes.routes in the configuration."""
    return [route.to_mapping() for route in routes]


# Names of ranges, routes and rules.


def range_name(family: int, first: int, last: int) -> str:
    """A range of addresses, as its first and last address."""
    if first == last:
        return str(ip_at(family, first))
    return f"{ip_at(family, first)}{_DASH}{ip_at(family, last)}"


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
