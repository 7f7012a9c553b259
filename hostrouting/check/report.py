"""A check in words: its results as findings, as lines for the markers and the journal, and as a
JSON document.

Every sentence about a check stands here, so all commands and logs say the same, in one order: the
verdict, what escapes, the repair, what cannot be repaired, how to allow it, and what limits the
verdict.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar, cast

from hostrouting.check.judge import SOME_POD, Opinion, Part, ranges_of
from hostrouting.fib.engine import PLAIN, Decision, Packet
from hostrouting.fib.trace import trace_rules
from hostrouting.finding import NAMES, Finding, Name, Severity
from hostrouting.model.prefix import IPV4, LINK_LOCAL, Prefix, extent, ip_at
from hostrouting.model.route import PROTOCOL_KERNEL, Route, protocol_name, table_name
from hostrouting.model.rule import rule_command
from hostrouting.routes.uplink import leads_out
from hostrouting.text import counted, in_plural, spoken

if TYPE_CHECKING:
    from hostrouting.check.check import CheckReport, Escape, FamilyReport
    from hostrouting.config.settings import Mode
    from hostrouting.fib.engine import Fib

T = TypeVar("T")

DOUBTS: dict[str, tuple[str, str]] = {
    "default-routes": (
        "it is unclear whether packets to {where} should leave through {reason}",
        "in routeOverlap.expectedDevs, name the intended devices",
    ),
    "two-cnis": (
        "packets to {where} leave through a device that a CNI may have left behind: {reason}",
        "remove the leftovers of the CNI that is not used",
    ),
    "doubtful-route": (
        "packets to {where} may be lost: {reason}",
        "if this is not intended, correct the route, or delete it",
    ),
    "other-packets": (
        "some packets to {where} are routed differently, by {reason}",
        (
            "if this is intended, add the rule's selectors to routeOverlap.intendedRules: "
            '"{selection}"'
        ),
    ),
    "not-judged": (
        "hostrouting does not judge {reason}",
        "to ask Linux about one address: ip route get ADDRESS",
    ),
    "kernel-differs": ("{where}: the kernel answers {reason}", ""),
}
"""By the name of a doubt: the sentence and the remedy."""
OWN_PODS = "{reason}, even those to pods of this node: {pods}"
"""The reason of a doubt about the default routes, if packets to pods of this node take them as
well.
"""
FATES = {
    "no-route": "has no route",
    "blackhole": "is dropped",
    "unreachable": "is refused as unreachable",
    "prohibit": "is refused as prohibited",
    "own-range": "stays on this host",
    "not-judged": "is not judged",
}
"""What happens to a packet that leaves through no device."""
_OPEN = {
    "destination": "",
    "gateway": "",
    "dev": "",
    "metric": 0,
}  # programs find each key, also of what is left open
_SEVERITIES: dict[Mode, Severity] = {"WARN": "warning", "STRICT": "error"}
"""By mode: how bad it is that something escapes."""
_RANGES = 3  # ranges that are named for one cause; the others are counted


def check_findings(
    report: CheckReport, *, mode: Mode = "WARN", wait: float = 0.0
) -> tuple[Finding, ...]:
    """All findings of a check, in the order in which they are read."""
    severity = _SEVERITIES[mode]
    catching = _catching(report)
    findings: list[Finding] = []
    for family in report.families:
        if family.verdict == "no-default-route":
            findings.append(_no_default_route(family, severity, wait=wait))
        for escape in family.escapes:
            finding = _escape(escape, family, severity)
            if _hides_others(escape, catching):
                finding = finding._replace(remedy="")
            findings.append(finding)
    if routes := [route.to_mapping() for route in report.routes]:
        sentence = (
            f"{counted(len(routes), 'static route')} "
            f"{'repairs' if len(routes) == 1 else 'repair'} it"
        )
        remedy = f"add to staticRoutes.routes: {json.dumps(routes)}"
        findings.append(
            Finding("action", "note", sentence, "staticRoutes.routes", remedy, {"routes": routes})
        )
    for family in report.families:
        findings += (
            *_unsafe(family, severity),
            *_costs(family),
            *family.flaws,
            *family.doubts,
            *_allowances(family),
        )
    return tuple(dict.fromkeys(findings))


def verdict_sentence(family: FamilyReport) -> str:
    """The verdict on one family, in one sentence without the verdict's own word."""
    cidrs, devs = (
        spoken([str(cidr) for cidr in family.cidrs]),
        spoken(family.expected_devs, last="or"),
    )
    if family.verdict == "no-default-route":
        return _no_default_route(family).sentence
    if family.verdict == "overlap":
        escapes = [escape for escape in family.escapes if escape.packet is PLAIN] or family.escapes
        lost_by = _grouped(
            (verb_of(escape), dev) for escape in escapes for dev in escape.devs or ("",)
        )
        ends = {escape.cidr: escape.cidr.first for escape in escapes}  # all before these escapes
        for escape in sorted(escapes, key=attrgetter("first")):
            if escape.first <= ends[escape.cidr]:
                ends[escape.cidr] = max(ends[escape.cidr], escape.last + 1)
        number = str if len(ends) == 1 else in_plural
        ways = [f"{number(verb)} {spoken(names)}".rstrip() for verb, names in lost_by.items()]
        sizes = _grouped(
            ("all" if end > cidr.last else "part", str(cidr)) for cidr, end in ends.items()
        )
        whole = " and ".join(f"{size} of {spoken(names)}" for size, names in sizes.items())
        of_pods = "" if escapes[0].packet is PLAIN else ", for packets of pods,"
        return f"{whole}{of_pods} {spoken(ways, last='or')}; expected: {devs}"
    if family.verdict == "undecided":
        more = len(family.doubts) - 1
        return f"{family.doubts[0].sentence}{f'; and {more} more' if more > 0 else ''}"
    allowed = dict.fromkeys(filter(None, map(_allowance_of, family.parts)))
    beside = f", or through {spoken([*allowed], last='or')}" if allowed else ""
    return f"every address of {cidrs} leaves through {devs}{beside}, or is this host's own"


def find_doubts(family: int, ranges: Iterable[tuple[Opinion, int, int]]) -> Iterator[Finding]:
    """A finding for all ranges about which there is the same doubt."""
    for opinion, places in _extents(family, ranges).items():
        where, (sentence, remedy) = spoken(places, most=_RANGES), DOUBTS[opinion.name]
        sentence = sentence.format(where=where, reason=opinion.reason)
        name = cast("Name", opinion.name)
        yield Finding(name, "warning", sentence, where, remedy.format(selection=opinion.selection))


def _extents(family: int, ranges: Iterable[tuple[T, int, int]]) -> dict[T, list[str]]:
    return _grouped((label, extent(family, first, last)) for label, first, last in ranges)


def _grouped(pairs: Iterable[tuple[T, str]]) -> dict[T, list[str]]:
    """By label: its texts, each once, in their order."""
    groups: dict[T, dict[str, None]] = {}
    for label, text in pairs:
        groups.setdefault(label, {})[text] = None
    return {label: [*texts] for label, texts in groups.items()}


def verb_of(escape: Escape) -> str:
    """What packets do; if another next hop is as expected, they may leave through these devices."""
    if escape.kind != "overlap":
        return FATES.get(escape.kind, escape.kind)
    return "leaves through" if {*escape.devs} == {*escape.decision.devs} else "may leave through"


def phrase_of(packet: Packet) -> str:
    """The packets of pods, as a phrase that follows "for"."""
    arriving = "" if packet.iif == SOME_POD else f" that arrive on {packet.iif}"
    return f"packets of pods from {packet.source}{arriving}"


def escape_sentence(escape: Escape) -> str:
    """What happens to packets that escape, and the route or the rule that causes it."""
    where, devs = extent(escape.cidr.family, escape.first, escape.last), spoken(escape.devs)
    devs += (
        ""
        if {*escape.devs} <= {*escape.decision.devs}
        else ", whose default route has the same metric as"
    )
    of_pods = "" if escape.packet is PLAIN else f", for {phrase_of(escape.packet)},"
    causes = [f"[{escape.decision.route}]"] if escape.decision.route else []
    # The rule matters where no route of table main helps: that is said of the host's own packets by
    # `_unsafe`.
    causes += (
        [f"[rule {escape.decision.rule}]"]
        if escape.decision.rule and (of_pods or not causes)
        else []
    )
    return " ".join(filter(None, (f"{where}{of_pods}", verb_of(escape), devs, " by ".join(causes))))


def _escape(escape: Escape, family: FamilyReport, severity: Severity) -> Finding:
    decision, links = escape.decision, family.judge.links
    where = extent(family.family, escape.first, escape.last)
    tried = (
        trace_rules(family.judge.fib, ip_at(family.family, escape.first))
        if escape.kind == "no-route"
        else ()
    )
    thrown = "".join(
        f" [{step.route}]" for step in tried if step.result == "thrown" and escape.packet is PLAIN
    )
    sentence = (
        f"{escape_sentence(escape)}{thrown}; expected: {spoken(family.expected_devs, last='or')}"
    )
    remedy = "" if escape.kind == "overlap" else _deletion(decision)
    kinds = {dev: links[dev].kind for dev in escape.devs if dev in links and links[dev].kind}
    if escape.kind == "overlap" and len(kinds) == len(escape.devs):  # hardware is not proposed
        devs, verb = (
            spoken([f"{dev} ({kind})" for dev, kind in kinds.items()]),
            "is" if len(kinds) == 1 else "are",
        )
        remedy = (
            f"if {devs} {verb} intended, add to routeOverlap.allowedDevs: {json.dumps([*kinds])}"
        )
    name = escape.kind if escape.kind in NAMES else "refused"
    return Finding(name, severity, sentence, where, remedy, _facts(escape))


def _catching(report: CheckReport) -> list[Route]:
    """The routes that hide others, which have to be deleted: the findings `unsafe` say so."""
    routes: list[Route] = []
    for family in report.families:
        for unsafe in family.repair.unsafe:
            routes += unsafe.catching
    return routes


def _hides_others(escape: Escape, catching: list[Route]) -> bool:
    """Whether `unsafe` says what to do about this escape, or its device may not be allowed because
    the pods that the device hides would then be lost without a word.
    """
    if escape.decision.route in catching:
        return True
    devs = {dev for route in catching for dev in route.devs}
    return not devs.isdisjoint(escape.devs)


def _deletion(decision: Decision) -> str:
    rule, route = decision.rule, decision.route
    if route is None:
        return (
            ""
            if rule is None
            else f"if rule {rule.priority} is not intended, as root: {rule_command('del', rule)}"
        )
    return f"if this route is not intended, as root: {_deletion_command(route)}"


def _deletion_command(route: Route) -> str:
    """The command that deletes just this route."""
    words = ["ip" if route.prefix.family == IPV4 else "ip -6", "route del", str(route.prefix)]
    if route.type == "unicast" and len(route.next_hops) == 1:
        words.append(f"dev {route.next_hops[0].dev}")
    words.append(f"table {table_name(route.table)}")
    if route.metric:
        words.append(f"metric {route.metric}")
    words.append(f"proto {route.protocol}")
    return " ".join(words)


def _removal(routes: Sequence[Route]) -> str:
    """What to do about routes that catch packets; an address brings its network's route back."""
    commands = " && ".join(map(_deletion_command, routes))
    connected: dict[str, None] = {}
    for route in routes:
        if route.protocol == PROTOCOL_KERNEL:
            connected |= dict.fromkeys(route.devs)
    if not connected:
        return f"if that is not intended, as root: {commands}"
    lasting = f"give {spoken([*connected])} another network"
    return f"{lasting}; this helps until it is set up again, as root: {commands}"


def _facts(escape: Escape) -> dict[str, Any]:
    decision, family = escape.decision, escape.cidr.family
    rule, route, dev = decision.rule, decision.route, next(iter(escape.devs), None)
    gateway = route and next((hop.gateway for hop in route.next_hops if hop.dev == dev), None)
    return {
        "cidr": str(escape.cidr),
        "first": str(ip_at(family, escape.first)),
        "last": str(ip_at(family, escape.last)),
        "prefixes": [*map(str, escape.prefixes)],
        "kind": escape.kind,
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


def _no_default_route(
    family: FamilyReport, severity: Severity = "error", *, wait: float = 0.0
) -> Finding:
    """That no device is expected, how long the check waited, and which routes and devices may be
    intended.
    """
    when, target = f" within {wait:g} s" if wait else "", f"IPv{family.family} default route"
    every = [
        route
        for route in family.judge.fib.snapshot.routes
        if route.prefix == Prefix(family.family, 0, 0)
    ]
    routes = [f"[{route}]" for route in every if route.type == "unicast"]
    was, counts = ("was", "counted") if wait else ("is", "counts")
    do = "does" if len(routes) == 1 else "do"
    passed_over = f"no {target} {counts}{when} ({spoken(routes)} {do} not)"
    sentence = (
        f"{passed_over if routes else f'there {was} no {target}{when}'}, so no device is expected"
    )
    downs = {
        dev: "" if link.up else ", down"
        for dev, link in family.judge.links.items()
        if leads_out(link)
    }
    held = [
        address
        for address in family.judge.addresses
        if address.dev in downs and address.ip not in LINK_LOCAL
    ]
    candidates = [
        f"{address.dev} ({address.ip}/{address.length}{downs[address.dev]})" for address in held
    ]
    perhaps = f", perhaps to {spoken(candidates, last='or')}" if candidates else ""
    lacks_a_rule = any(
        flaw.name == "missing-rule" for flaw in family.flaws
    )  # its remedy is to be tried first
    remedy = "" if lacks_a_rule else f"add an {target}, or set routeOverlap.expectedDevs{perhaps}"
    return Finding(
        "no-default-route",
        severity,
        sentence,
        target,
        remedy,
        {"family": family.family},
        can_retry=True,
    )


def _unsafe(family: FamilyReport, severity: Severity) -> Iterator[Finding]:
    ranges_by_why = (
        ((unsafe.reason, unsafe.cause, unsafe.catching), unsafe.first, unsafe.last)
        for unsafe in family.repair.unsafe
    )
    for (reason, cause, catching), ranges in _extents(family.family, ranges_by_why).items():
        where = spoken(ranges, most=_RANGES)
        claim = (
            "it is not proven that routes repair" if reason == "not-proven" else "no route repairs"
        )
        facts = {"reason": reason, "ranges": ranges}
        remedy = _removal(catching) if catching else ""
        yield Finding("unsafe", severity, f"{claim} {where}: {cause}", where, remedy, facts)


def _costs(family: FamilyReport) -> Iterator[Finding]:
    """What the repair costs: the networks of other devices that it takes addresses from."""
    judge, routes = family.judge, family.repair.resolved
    devs = {dev for escape in family.escapes for dev in escape.decision.devs}
    networks = dict.fromkeys(
        (address.dev, address.network) for address in judge.addresses if address.dev in devs
    )
    if not routes or not networks:
        return
    repaired = judge.fib.with_routes(routes)
    for dev, network in networks:
        is_taken = any(_takes(route, judge.fib, repaired, dev, network) for route in routes)
        if is_taken and network.length < judge.fib.width:
            cost = (
                f"the repair takes over addresses of {network}, so {dev} no longer reaches "
                "neighbours there over IP"
            )
            yield Finding("repair-cost", "warning", cost, str(network))


def _takes(route: Route, before: Fib, after: Fib, dev: str, network: Prefix) -> bool:
    """Whether the new route takes packets to this network, which left through the device before."""
    if route.prefix not in network and network not in route.prefix:
        return False
    common = max(route.prefix, network, key=attrgetter("length"))
    for cell in after.cells(common.first, common.last):
        was = before.lookup(ip_at(common.family, cell.first))
        if cell.decision.route == route and dev in was.devs:
            return True
    return False


def _allowances(family: FamilyReport) -> Iterator[Finding]:
    """Which ranges leave through a device that is only allowed, by what allows it."""
    for name, places in _extents(family.family, ranges_of(family.parts, _allowance_of)).items():
        yield Finding(
            "allowed",
            "note",
            f"packets to {spoken(places, most=_RANGES)} leave through {name}",
            name,
        )


def _allowance_of(part: Part) -> str | None:
    return part.opinion.reason if part.opinion.name == "allowed" else None


def check_document(
    report: CheckReport, *, mode: Mode, findings: Iterable[Finding] | None = None
) -> dict[str, Any]:
    """The check as the JSON document `hostrouting/check/3`."""
    every = check_findings(report, mode=mode) if findings is None else findings
    return {
        "schema": "hostrouting/check/3",
        "verdict": report.verdict,
        "verdicts": {f"ipv{family.family}": family.verdict for family in report.families},
        "mode": mode,
        "expectedDevs": {
            f"ipv{family.family}": list(family.expected_devs) for family in report.families
        },
        "nodeIps": {f"ipv{family}": str(ip) for family, ip in report.node_ips.items()},
        "findings": [finding.to_mapping() for finding in every],
        "repair": [{**_OPEN, **route.to_mapping()} for route in report.routes],
    }


def repair_commands(routes: Iterable[Route]) -> tuple[str, ...]:
    """The commands that add these routes until the next boot."""
    keys = (
        (route, f"{route.prefix} metric {route.metric}" if route.metric else str(route.prefix))
        for route in routes
    )
    return tuple(
        f"ip route replace {key} proto {route.protocol} {route.way}" for route, key in keys
    )
