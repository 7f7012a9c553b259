"""A check in words: its results as findings, as lines for the markers and the journal, and as a JSON document.

Every sentence about a check stands here, so all commands and logs say the same, in one order: the verdict, what
escapes, the repair, what cannot be repaired, how to allow it, and what limits the verdict.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from hostrouting.check.judge import ranges_of
from hostrouting.check.pods import phrase_of
from hostrouting.fib.engine import PLAIN
from hostrouting.finding import NAMES, Finding, Severity
from hostrouting.model.prefix import IPV4, LINK_LOCAL, Prefix, extent, ip_at
from hostrouting.model.route import OURS, protocol_name, table_name
from hostrouting.model.rule import command_deleting
from hostrouting.routes.uplink import leads_out
from hostrouting.text import counted, spoken

if TYPE_CHECKING:
    from hostrouting.check.check import CheckReport, Escape, FamilyReport
    from hostrouting.check.judge import Opinion, Part
    from hostrouting.fib.engine import Decision
    from hostrouting.model.route import Route
    from hostrouting.routes.uplink import DesiredRoute

T = TypeVar("T")

CHECK_SCHEMA = "hostrouting/check/3"

_DOUBTS = {
    "default-routes": (
        "packets to {where} should leave by one of {reason}, but it is not known by which",
        "name the devices that are meant in routeOverlap.expectedDevs",
    ),
    "own-network": (
        "packets to {where} do not reach this host's network: {reason}",
        "give pods another network, or delete the route",
    ),
    "on-link": (
        "packets to {where} leave by the right card, but without a gateway: {reason}",
        "if they are behind a router, add it as the gateway; if not, add the device to routeOverlap.allowedDevs",
    ),
    "not-unicast": (
        "packets to {where} leave by the right device, but TCP refuses to connect: {reason}",
        "if these are addresses of single hosts, add the route again without its type",
    ),
    "two-cnis": (
        "packets to {where} leave by a CNI's device that may be left behind, {reason}",
        "remove what the CNI that is not used left behind",
    ),
    "refused-range": (
        "packets to {where} are refused: {reason}",
        "if the range belongs to pods of this node, this is right; otherwise delete the route",
    ),
    "other-packets": (
        "some packets to {where} are routed differently, by {reason}",
        'if this is intended, add the rule\'s selectors to routeOverlap.intendedRules: "{selection}"',
    ),
    "not-judged": ("not judged: {reason}", ""),
    "kernel-differs": ("{where}: the kernel answers {reason}", ""),
}
"""By the name of a doubt: the sentence and the remedy."""
FATES = {
    "no-route": "has no route",
    "blackhole": "is dropped",
    "unreachable": "is refused as unreachable",
    "prohibit": "is refused as prohibited",
    "own-range": "stays on this host",
}
"""What happens to a packet that leaves by no device."""
_REASONS = {
    "earlier-rule": "{cause}",
    "host-route": "a route of another program is as specific as can be, and is never replaced",
    "no-gateway": "a repair needs {cause}",
    "reserved": "a static route cannot have such a destination",
    "too-many": "it would take too many routes",
}
_OWNERS = {
    2: "the kernel, for an address",
    3: "ip route, by hand or a script",
    9: "a router's advertisement",
    16: "the DHCP client",
    OURS: "hostrouting",
}
_RANGES = 3  # ranges that are named for one cause; the others are counted


def check_findings(report: CheckReport, *, mode: str, wait: float = 0.0) -> tuple[Finding, ...]:
    """All findings of a check, in the order in which they are read."""
    severity: Severity = "error" if mode == "STRICT" else "warning"
    findings: list[Finding] = []
    for family in report.families:
        findings += _no_such_device(family)
        if family.verdict == "no-default-route":
            findings.append(_no_default_route(family, severity, wait=wait))
        findings += (_escape(escape, family, severity) for escape in family.escapes)
    if report.routes:
        routes = repair_document(report.routes)
        sentence = f"{counted(len(routes), 'static route')} {'repairs' if len(routes) == 1 else 'repair'} it"
        remedy = f"add to staticRoutes.routes: {json.dumps(routes)}"
        findings.append(Finding("action", "note", sentence, "staticRoutes.routes", remedy, {"routes": routes}))
    for family in report.families:
        findings += _unsafe(family, severity)
        findings += _costs(family)
        findings += family.flaws
        findings += family.doubts
        findings += _allowances(family)
    return tuple(dict.fromkeys(findings))


def verdict_sentence(family: FamilyReport) -> str:
    """The verdict on one family, in one sentence without the verdict's own word."""
    cidrs, devs = spoken([str(cidr) for cidr in family.cidrs]), spoken(family.expected_devs, last="or")
    if family.verdict == "no-default-route":
        route = f"IPv{family.family} default route{_passed_over(family)}"
        return f"there is no {route}, so no device is expected for {cidrs}"
    if family.verdict == "overlap":
        ways = dict.fromkeys(_way(escape) for escape in family.escapes)
        size = "all" if _is_whole(family) else "a part"
        return f"{size} of {cidrs} {spoken([*ways])}; expected: {devs}"
    if family.verdict == "undecided":
        more = len(family.doubts) - 1
        return f"{family.doubts[0].sentence}{f'; and {more} more' if more > 0 else ''}"
    allowed = dict.fromkeys(part.opinion.reason for part in family.parts if part.opinion.name == "allowed")
    beside = f", or by {spoken([*allowed])}" if allowed else ""
    return f"every address of {cidrs} leaves by {devs}{beside}, or is this host's own"


def find_doubts(family: int, ranges: Iterable[tuple[Opinion, int, int]]) -> Iterator[Finding]:
    """A finding for all ranges about which there is the same doubt."""
    for opinion, places in _extents(family, ranges).items():
        where, (sentence, remedy) = spoken(places, most=_RANGES), _DOUBTS[opinion.name]
        sentence = sentence.format(where=where, reason=opinion.reason)
        name = opinion.name if opinion.name in NAMES else "doubtful-route"
        yield Finding(name, "warning", sentence, where, remedy.format(selection=opinion.selection))


def _extents(family: int, ranges: Iterable[tuple[T, int, int]]) -> dict[T, list[str]]:
    """By label: the ranges as text, each once."""
    extents: dict[T, dict[str, None]] = {}
    for label, first, last in ranges:
        extents.setdefault(label, {})[extent(family, first, last)] = None
    return {label: [*texts] for label, texts in extents.items()}


def _is_whole(family: FamilyReport) -> bool:
    ranges = {(escape.first, escape.last) for escape in family.escapes}
    return all((cidr.first, cidr.last) in ranges for cidr in family.cidrs)


def _way(escape: Escape) -> str:
    if escape.kind == "overlap":
        is_part = not {*escape.decision.devs} <= {*escape.devs}
        return f"leaves by {spoken(escape.devs)}{' for some connections' if is_part else ''}"
    return FATES.get(escape.kind, escape.kind)


def _escape(escape: Escape, family: FamilyReport, severity: Severity) -> Finding:
    decision = escape.decision
    cause = decision.route or (decision.rule and f"rule {decision.rule}")
    of_pods = "" if escape.packet is PLAIN else f", for {phrase_of(escape.packet)},"
    expected = spoken(family.expected_devs, last="or")
    where = extent(family.family, escape.first, escape.last)
    sentence = f"{where}{of_pods} {_way(escape)}{f' [{cause}]' if cause else ''}; expected: {expected}"
    remedy = "" if escape.kind in {"overlap", "no-route"} else _deletion(decision)
    if escape.kind == "overlap" and all(_kind_of(family, dev) for dev in escape.devs):
        devs = spoken([f"{dev} ({_kind_of(family, dev)})" for dev in escape.devs])
        verb = "is" if len(escape.devs) == 1 else "are"
        remedy = f"if {devs} {verb} intended, add to routeOverlap.allowedDevs: {json.dumps(list(escape.devs))}"
    name = escape.kind if escape.kind in NAMES else "refused"
    return Finding(name, severity, sentence, where, remedy, _facts(escape))


def _deletion(decision: Decision) -> str:
    """How to take away what refuses packets, or keeps them here."""
    rule, route = decision.rule, decision.route
    if route is None:
        return "" if rule is None else f"if it is not intended, as root: {command_deleting(rule)}"
    ip = "ip" if route.prefix.family == IPV4 else "ip -6"
    place = f"table {table_name(route.table)}{f' metric {route.metric}' if route.metric else ''} proto {route.protocol}"
    return f"if it is not intended, as root: {ip} route del {route.prefix} {place}"


def _kind_of(family: FamilyReport, dev: str) -> str:
    """The kind of a device; empty for hardware."""
    link = family.judge.fib.snapshot.link(dev)
    return "" if link is None else link.kind


def owner_of(route: Route) -> str:
    """Who has added a route, as far as its protocol says."""
    return _OWNERS.get(route.protocol) or f"{protocol_name(route.protocol)} (route protocol {route.protocol})"


def _facts(escape: Escape) -> dict[str, Any]:
    decision, family = escape.decision, escape.cidr.family
    rule, route, dev = decision.rule, decision.route, next(iter(escape.devs), None)
    gateway = route and next((leg.gateway for leg in route.legs if leg.dev == dev), None)
    return {
        "cidr": str(escape.cidr),
        "first": str(ip_at(family, escape.first)),
        "last": str(ip_at(family, escape.last)),
        "prefixes": [str(prefix) for prefix in escape.prefixes],
        "devs": list(escape.devs),
        "via": {
            "dev": dev,
            "gateway": gateway and str(gateway),
            "route": route and str(route.prefix),
            "table": route and table_name(route.table),
            "protocol": route and protocol_name(route.protocol),
            "rule": rule and rule.priority,
        },
    }


def _no_default_route(family: FamilyReport, severity: Severity, *, wait: float) -> Finding:
    """That no device is expected, how long the check waited, and which devices may be meant."""
    when, target = f" within {wait:g} s" if wait else "", f"IPv{family.family} default route"
    sentence = f"no {target} was there{when}{_passed_over(family)}, so no device is expected"
    remedy = f"add one, or name routeOverlap.expectedDevs{_candidates(family)}"
    return Finding("no-default-route", severity, sentence, target, remedy, {"family": family.family}, can_retry=True)


def _no_such_device(family: FamilyReport) -> Iterator[Finding]:
    """That the configuration names only devices that this host does not have."""
    named = family.judge.named
    if named and not any(link.name in named for link in family.judge.fib.snapshot.links):
        sentence = f"this host has no device {spoken(sorted(named), last='or')}, so nothing leaves as expected"
        remedy = f"correct routeOverlap.expectedDevs{_candidates(family)}"
        yield Finding("expected-device", "error", sentence, "routeOverlap.expectedDevs", remedy)


def _passed_over(family: FamilyReport) -> str:
    """The default routes that do not count, and why, as the end of a clause; empty if there are none."""
    fib = family.judge.fib
    links, reasons = {link.name: link for link in fib.snapshot.links}, []
    for route in fib.snapshot.routes:
        if route.prefix == Prefix(family.family, 0, 0) and route.type == "unicast":
            used = [links[dev] for dev in route.devs if dev in links]
            kinds = {
                "InfiniBand" if link.infiniband else f"a device of kind {link.kind or 'loopback'}" for link in used
            }
            if route.table not in fib.tables:
                reasons.append(f"[{route}] in a table that plain packets do not use")
            elif not any(map(leads_out, used)):
                reasons.append(f"[{route}] by {spoken(sorted(kinds))}")
    return f" but {spoken(reasons)}" if reasons else ""


def _candidates(family: FamilyReport) -> str:
    """The devices that may be meant: those that are up and have an address, other than InfiniBand."""
    candidates, snapshot = [], family.judge.fib.snapshot
    for link in snapshot.links:
        addresses = [address for address in snapshot.addresses if address.dev == link.name]
        own = [address for address in addresses if address.ip.version == family.family and address.ip not in LINK_LOCAL]
        if own and link.up and leads_out(link):
            candidates.append(f"{link.name} ({own[0].ip}/{own[0].length})")
    return f": it may be {spoken(candidates, last='or')}" if candidates else ""


def _unsafe(family: FamilyReport, severity: Severity) -> Iterator[Finding]:
    """Why ranges cannot be repaired: one finding for each reason."""
    unsafe = (((unsafe.reason, unsafe.cause), unsafe.first, unsafe.last) for unsafe in family.repair.unsafe)
    for (reason, cause), ranges in _extents(family.family, unsafe).items():
        where = spoken(ranges, most=_RANGES)
        sentence = f"no route repairs {where}: {_REASONS[reason].format(cause=cause)}"
        yield Finding("unsafe", severity, sentence, where, facts={"reason": reason, "ranges": ranges})


def _costs(family: FamilyReport) -> Iterator[Finding]:
    for dev, network in family.repair.diverted:
        sentence = f"the repair takes a part of {network}: neighbours there are no longer reached by {dev} over IP"
        yield Finding("repair-cost", "warning", sentence, str(network))
    if family.repair.lacks:
        sentence = f"the repair's routes do not have the {spoken(family.repair.lacks)} of the default route"
        yield Finding("repair-cost", "warning", sentence, "staticRoutes.routes")


def _allowances(family: FamilyReport) -> Iterator[Finding]:
    """Which ranges leave by a device that is only allowed, by what allows it; and tunnels that are named."""
    for dev in family.expected_devs if family.judge.named else ():
        if family.judge.is_tunnel(dev):
            sentence = f"{dev} is a tunnel ({_kind_of(family, dev)}), and routeOverlap.expectedDevs names it"
            yield Finding("allowed", "note", sentence, dev)
    for name, places in _extents(family.family, ranges_of(family.parts, _allowed_in)).items():
        sentence = f"{spoken(places, most=_RANGES)} {'leaves' if len(places) == 1 else 'leave'} by {name}"
        yield Finding("allowed", "note", sentence, name)


def _allowed_in(part: Part) -> str | None:
    return part.opinion.reason if part.opinion.name == "allowed" else None


def check_document(report: CheckReport, *, mode: str, findings: Iterable[Finding] | None = None) -> dict[str, Any]:
    """The check as the JSON document `hostrouting/check/3`."""
    every = check_findings(report, mode=mode) if findings is None else findings
    return {
        "schema": CHECK_SCHEMA,
        "verdict": report.verdict,
        "verdicts": {f"ipv{family.family}": family.verdict for family in report.families},
        "mode": mode,
        "expectedDevs": {f"ipv{family.family}": list(family.expected_devs) for family in report.families},
        "nodeIps": {f"ipv{ip.version}": str(ip) for ip in report.node_ips},
        "findings": [finding.to_mapping() for finding in every],
        "repair": repair_document(report.routes),
    }


def repair_document(routes: Iterable[DesiredRoute]) -> list[dict[str, Any]]:
    """The routes as written under staticRoutes.routes in the configuration."""
    return [route.to_mapping() for route in routes]


def repair_commands(routes: Iterable[Route]) -> tuple[str, ...]:
    """The commands that add these routes until the next boot."""
    commands = []
    for route in routes:
        ways = zip(route.ways, route.legs, strict=True)
        hops = [f" nexthop {way} weight {leg.weight}" for way, leg in ways] if route.legs[1:] else [f" {route.ways[0]}"]
        metric = f" metric {route.metric}" if route.metric else ""
        commands.append(f"ip route replace {route.prefix}{metric} proto {route.protocol}{''.join(hops)}")
    return tuple(commands)
