"""The findings of a check, in the order in which they are read: what is wrong, what repairs it, and
what limits the verdict.

All commands and logs say what stands here. A report comes in, and its findings go out: no default
route, what escapes, the routes that repair it, what no route repairs, what the repair costs, and
what leaves by an allowed device. Three modules have words of their own: `flaws` and `doubts` make
whole findings, `results` words escapes and verdicts, and `unrepairable` the causes (`Why`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from hostrouting.check.doubts import (
    cards_without_address,
    devices_to_name,
    how_to_allow,
    how_to_delete,
    how_to_name_a_device,
    kinds_of,
    what_to_type,
)
from hostrouting.check.parts import ranges_of
from hostrouting.check.repair_line import RepairLine
from hostrouting.check.results import (
    OVERLAP,
    CheckReport,
    Escape,
    FamilyReport,
    Why,
    extents_of,
    phrase_of_extents,
)
from hostrouting.finding import NAMES, Finding, Name, Remedy, Severity, in_turn
from hostrouting.model.link_kinds import BRIDGE, is_card
from hostrouting.model.prefix import IPV4, IPV6, Prefix, extent, ip_at
from hostrouting.model.route import (
    OURS,
    TABLE_LOCAL,
    Route,
    protocol_name,
    table_name,
)
from hostrouting.model.rule import Rule, priority_before, rule_command
from hostrouting.model.snapshot import ARPHRD_INFINIBAND
from hostrouting.routes.uplink import TO_HAVE_DEFAULT
from hostrouting.text import agreeing, command_of, counted, grouped, spoken

if TYPE_CHECKING:
    from hostrouting.config.settings import Mode, StaticRoute
    from hostrouting.fib.engine import Decision

_TO_KEEP_ATTRIBUTES = Remedy(
    "if they need it, configure these routes in the program that sets the default route, and not "
    "in hostrouting"
)
_GIVES_ADDRESSES = {IPV4: "DHCP", IPV6: "router advertisements"}
"""By family: from where a card has its address, unless somebody has configured it."""
_SEVERITIES: dict[Mode, Severity] = {"WARN": "warning", "STRICT": "error"}
"""By mode: how bad it is that something escapes."""


def check_findings(
    report: CheckReport, *, mode: Mode = "WARN", repair: RepairLine | None = None
) -> tuple[Finding, ...]:
    """All findings of a check, in the order in which they are read.

    They say how a repair is typed: like this line, or for the CIDRs of the report.
    """
    given: object = report  # not every author checks types
    if not isinstance(given, CheckReport):
        raise TypeError(f"report is {given!r:.80}; it must be a CheckReport, of check_kernel")
    if repair is None:
        cidrs = [cidr for family in report.families for cidr in family.cidrs]
        repair = RepairLine("".join(f" {cidr}" for cidr in cidrs))
    severity = _SEVERITIES[mode]
    findings: list[Finding] = []
    for family in report.families:
        if family.verdict == "no-default-route":
            findings.append(_describe_missing_default(family, severity))
        findings += _describe_escapes(family, mode, repair)
    findings += _describe_repair(report.routes)
    for family in report.families:
        findings += _describe_unrepairable(family, severity, repair)
        findings += _describe_costs(family)
        for finding in (*family.flaws, *_describe_other_doubts(family)):
            findings.append(what_to_type(finding, family, repair))
        findings += _describe_allowances(family)
    return tuple(dict.fromkeys(findings))


# No default route.


def _describe_missing_default(family: FamilyReport, severity: Severity) -> Finding:
    """That no device is expected. If a missing rule is the reason, its remedy is that of this."""
    target = f"IPv{family.family} default route"
    sentence = family.sentence
    remedy: Remedy | None = TO_HAVE_DEFAULT
    cards = cards_without_address(family)
    if family.lacks_rule is not None:
        remedy = family.lacks_rule.remedy
    elif cards and not family.snapshot.default_routes(family.family):
        has = agreeing("has", len(cards))
        source = _GIVES_ADDRESSES[family.family]
        sentence += f": {spoken(cards)} {has} no IPv{family.family} address (from {source}?)"
    facts = {"family": family.family}
    return Finding("no-default-route", severity, sentence, target, remedy, facts, can_retry=True)


def _describe_other_doubts(family: FamilyReport) -> list[Finding]:
    """The doubts, without the missing rule that the verdict itself names."""
    if family.verdict != "no-default-route":
        return [*family.doubts]
    return [doubt for doubt in family.doubts if doubt is not family.lacks_rule]


# What escapes.


def _describe_escapes(family: FamilyReport, mode: Mode, repair: RepairLine) -> Iterator[Finding]:
    """Each range that escapes, with what to do about it. While a route hides those of pods, the
    finding "unsafe" says what to do first: to allow its device would only silence the check.
    """
    reasons = {unrepairable.why.reason for unrepairable in family.repair.unrepairable}
    for escape in family.escapes:
        where = extent(family.family, escape.first, escape.last)
        facts = _facts_of(escape)
        remedy: Remedy | None = None
        if escape.hidden is not None:
            remedy = _how_to_reach_pods(escape, escape.hidden, family)
        elif "below-a-cni" not in reasons:
            if escape.kind != OVERLAP:
                remedy = in_turn(_how_to_delete_decider(escape.decision))
            # In STRICT, a unit that does not start tempts to allow what should be repaired.
            elif mode == "WARN" and _may_be_intended(escape.devs, family):
                kinds = kinds_of(escape.devs, family)
                facts["mayAllow"] = kinds
                remedy = how_to_allow(kinds, repair)
        sentence = family.sentence_of(escape)
        name = finding_name(escape)
        yield Finding(name, _SEVERITIES[mode], sentence, where, remedy, facts)


def _may_be_intended(devs: Iterable[str], family: FamilyReport) -> bool:
    """Whether each of these is a tunnel, a dummy or a bridge of guests. To allow a network card or
    InfiniBand would only silence the check: a second card is the outage that it is for.
    """
    links = family.snapshot.links_by_name
    for dev in devs:
        link = links.get(dev)
        if link is None or not link.kind or link.type == ARPHRD_INFINIBAND or is_card(link, links):
            return False
    return True


def _how_to_reach_pods(escape: Escape, hidden: Route, family: FamilyReport) -> Remedy | None:
    """How packets reach the pods that this route leads to: first of all, nothing may come before it
    in its own table.

    A new rule looks up the pods' table before the rule that hides them, only for pods: for a
    network of the bridge, or in the CIDR for routes to single addresses.
    """
    rule = escape.decision.rule
    route = escape.decision.route
    if rule is None or route is None:
        return None
    hiding = [each for each in family.snapshot.routes if _comes_before(each, hidden, escape.first)]
    if route.table == TABLE_LOCAL:
        hiding = [route]
    if hiding:
        return in_turn(how_to_delete(hiding))
    words = f"exclude the pods in the program that added rule {rule.priority}"
    priority = priority_before(rule, family.snapshot.rules)
    if priority is None:
        return Remedy(words)
    to_pods = Rule(family.family, priority, table=hidden.table, dst=hidden.prefix)
    if hidden.prefix.is_single:
        longest = hidden.prefix.length - 1
        to_pods = to_pods._replace(dst=escape.cidr, suppress_prefixlength=longest)
    return Remedy(f"{words}; until the next boot", rule_command("add", to_pods))


def _comes_before(route: Route, hidden: Route, address: int) -> bool:
    """Whether Linux uses this route for the address, and not the hidden one, in their table."""
    prefix = route.prefix
    if route.table != hidden.table or prefix not in hidden.prefix:
        return False
    is_around = prefix.first <= address <= prefix.last
    return is_around and (prefix != hidden.prefix or route.rank < hidden.rank)


def _how_to_delete_decider(decision: Decision) -> list[Remedy]:
    """How to delete what refuses packets, or keeps them on this host."""
    if decision.route is not None:
        return how_to_delete([decision.route])
    rule = decision.rule
    if rule is None:
        return []
    return [Remedy(f"if rule {rule.priority} is not intended", rule_command("del", rule))]


def finding_name(escape: Escape) -> Name:
    """The name of the finding about it; its kind says more, if packets are refused."""
    if escape.kind in NAMES:
        return escape.kind
    return "refused"


def _facts_of(escape: Escape) -> dict[str, Any]:
    """The escape for programs."""
    family = escape.cidr.family
    facts: dict[str, Any] = {
        "cidr": str(escape.cidr),
        "first": str(ip_at(family, escape.first)),
        "last": str(ip_at(family, escape.last)),
        "prefixes": [str(prefix) for prefix in escape.prefixes],
        "kind": escape.kind,
        "devs": list(escape.devs),
        "via": _first_way_out(escape),
    }
    if escape.hidden is not None:
        facts["pods"] = str(escape.hidden.prefix)
    return facts


def _first_way_out(escape: Escape) -> dict[str, Any]:
    """The first device by which packets escape, with what leads there."""
    rule = escape.decision.rule
    route = escape.decision.route
    dev = escape.devs[0] if escape.devs else None
    way: dict[str, Any] = dict.fromkeys(("dev", "gateway", "route", "table", "protocol", "rule"))
    way["dev"] = dev
    if rule is not None:
        way["rule"] = rule.priority
    if route is None:
        return way
    way["route"] = str(route.prefix)
    way["table"] = table_name(route.table)
    way["protocol"] = protocol_name(route.protocol)
    for hop in route.next_hops:
        if hop.dev == dev and hop.gateway is not None:
            way["gateway"] = str(hop.gateway)
            break
    return way


# What repairs it.


def _describe_repair(routes: Sequence[StaticRoute]) -> Iterator[Finding]:
    """The routes that repair what escapes, if there are any."""
    if not routes:
        return
    mappings = [route.to_mapping() for route in routes]
    remedy = Remedy(f"add to staticRoutes.routes: {json.dumps(mappings)}")
    sentence = f"{counted(len(routes), 'static route')} would repair it"
    yield Finding("action", "note", sentence, "staticRoutes.routes", remedy, {"routes": mappings})


def lost_at_boot(destinations: Sequence[str], ranges: Sequence[str], remedy: Remedy) -> Finding:
    """That these ranges will escape after the next boot: routes to these destinations are only on
    the host, and in no configuration.
    """
    routes = "the route" if len(destinations) == 1 else "the routes"
    are = agreeing("is", len(destinations))
    sentence = (
        f"after the next boot, {spoken(ranges)} will escape: {routes} to {spoken(destinations)} "
        f"{are} not in the configuration"
    )
    facts = {"unconfigured": [*destinations], "ranges": [*ranges]}
    return Finding("route-not-configured", "warning", sentence, spoken(destinations), remedy, facts)


def repair_commands(report: CheckReport) -> tuple[str, ...]:
    """The commands that repair this host until the next boot. Their routes have no protocol of
    ours, so nothing takes them away, and `apply` leaves one that leads where ours would.

    None if a route of ours has the place of one: then only a configuration repairs the host.
    """
    ours = {route.key for route in report.snapshot.routes if route.protocol == OURS}
    commands: list[str] = []
    for route in report.resolved:
        if route.key in ours:
            return ()
        commands.append(addition_command(route))
    return tuple(commands)


def addition_command(route: Route) -> str:
    """The command that adds this route, without a protocol."""
    key = str(route.prefix)
    if route.metric:
        key += f" metric {route.metric}"
    return command_of(f"ip route add {key} {route.way}")


# What no route repairs.


def _describe_unrepairable(
    family: FamilyReport, severity: Severity, repair: RepairLine
) -> Iterator[Finding]:
    """What no route repairs, all ranges with one cause together."""
    for why, ranges in extents_of(family.family, family.repair.unrepairable).items():
        where = phrase_of_extents(ranges)
        repairs = "no route repairs"
        if why.devs:
            repairs = "no route is proposed for"
        elif why.reason == "below-a-cni" and why.to_delete:
            repairs = "a deletion repairs"
        sentence = f"{repairs} {where}: {why.cause}"
        facts: dict[str, Any] = {"reason": why.reason, "ranges": ranges}
        if why.devs:
            facts["candidates"] = devices_to_name(why.devs, family)
        remedy = _remedy_for_unrepairable(why, family, repair)
        yield Finding("unsafe", severity, sentence, where, remedy, facts)


def _remedy_for_unrepairable(why: Why, family: FamilyReport, repair: RepairLine) -> Remedy | None:
    """What repairs these ranges instead of a route, as far as one line can say it."""
    if why.devs:
        return how_to_name_a_device(devices_to_name(why.devs, family), family, repair)
    if why.rule is None:
        return in_turn(how_to_delete(why.to_delete))
    words = f"exclude this network in the program that added rule {why.rule.priority}"
    if not why.rules:
        return Remedy(words)
    commands = " && ".join(rule_command("add", rule) for rule in why.rules)
    return Remedy(f"{words}; until the next boot", commands)


# What the repair costs.


def _describe_costs(family: FamilyReport) -> Iterator[Finding]:
    """What the repair costs: attributes of the default route, and the networks that it takes from
    other devices, for all devices at once for which that means the same.
    """
    repair = family.repair
    if repair.lacks:
        where = phrase_of_extents([str(route.prefix) for route in repair.resolved])
        sentence = (
            f'with the repair, packets to {where} leave without "{repair.lacks}", which the '
            "default route has"
        )
        target = str(Prefix(family.family, 0, 0))
        yield Finding("repair-cost", "warning", sentence, target, _TO_KEEP_ATTRIBUTES)
    by_consequence = grouped((_consequence(cost.dev, family), cost) for cost in repair.costs)
    for consequence, costs in by_consequence.items():
        devs = [*dict.fromkeys(cost.dev for cost in costs)]
        extents = [extent(family.family, cost.network.first, cost.network.last) for cost in costs]
        networks = [*dict.fromkeys(extents)]
        where = phrase_of_extents(networks)
        now = spoken(repair.resolved[0].devs, last="or")  # all have the same next hops
        sentence = (
            f"with the repair, this node's IP traffic to {where} moves from {spoken(devs)} to {now}"
            f"{consequence}"
        )
        yield Finding(
            "repair-cost", "warning", sentence, where, facts={"devs": devs, "networks": networks}
        )


def _consequence(dev: str, family: FamilyReport) -> str:
    """What it means that traffic moves from this device."""
    link = family.snapshot.links_by_name.get(dev)
    if link is not None and link.type == ARPHRD_INFINIBAND:
        return "; RDMA uses no routes, except that rdma_cm looks for its peers by them"
    if _leads_to_guests(dev, family):
        return "; containers or virtual machines behind the bridge are no longer reached"
    return ""


def _leads_to_guests(dev: str, family: FamilyReport) -> bool:
    """Whether the device is a bridge that leads only to containers or virtual machines."""
    links = family.snapshot.links_by_name
    link = links.get(dev)
    return link is not None and link.kind == BRIDGE and not is_card(link, links)


def caveat_of_repair(report: CheckReport) -> str:
    """What stands beside the command of the repair, in parentheses: that it repairs only a part, or
    what it cuts off; empty if there is nothing to say.
    """
    caveats: list[str] = []
    if any(family.repair.unrepairable for family in report.families):
        caveats.append("repairs only a part")
    cut_off: dict[str, None] = {}
    for family in report.families:
        for cost in family.repair.costs:
            if _leads_to_guests(cost.dev, family):
                cut_off[cost.dev] = None
    if cut_off:
        caveats.append(f"cuts off what is behind {spoken([*cut_off])}")
    return f" ({', and '.join(caveats)})" if caveats else ""


# What is allowed.


def _describe_allowances(family: FamilyReport) -> Iterator[Finding]:
    """Which ranges leave through a device that is only allowed, by what allows it."""
    allowed = ranges_of((part, part.allowance) for part in family.parts)
    for name, ranges in extents_of(family.family, allowed).items():
        where = phrase_of_extents(ranges)
        yield Finding("allowed", "note", f"packets to {where} leave through {name}", name)
