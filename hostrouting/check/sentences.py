"""The findings of a check, in the order in which they are read: what is wrong, what repairs it, and
what limits the verdict.

All commands and logs say what stands here. A report comes in, and its findings go out: no default
route, what escapes, the routes that repair it, what no route repairs, what the repair costs, and
what leaves by an allowed device. Three modules have words of their own: `flaws` and `doubts` make
whole findings, `results` words escapes and verdicts, and `unrepairable` the causes (`Why`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hostrouting.check.doubts import (
    cards_with_address,
    devices_to_name,
    how_to_allow,
    how_to_name_a_device,
    line_allowing,
)
from hostrouting.check.parts import ranges_of
from hostrouting.check.results import (
    OVERLAP,
    CheckReport,
    Escape,
    FamilyReport,
    Repair,
    Why,
    default_route_sentence,
    extents_of,
    phrase_of_extents,
)
from hostrouting.config.settings import is_configurable_dev
from hostrouting.finding import NAMES, Finding, Name, Remedy, Severity, in_turn
from hostrouting.model.link_kinds import BRIDGE, is_card
from hostrouting.model.prefix import Prefix, extent, ip_at
from hostrouting.model.route import (
    OURS,
    PROTOCOL_KERNEL,
    TABLE_LOCAL,
    Route,
    deletion_command,
    devs_of,
    protocol_name,
    table_name,
)
from hostrouting.model.rule import Rule, rule_command
from hostrouting.model.snapshot import ARPHRD_INFINIBAND
from hostrouting.text import agreeing, command_of, counted, spoken

if TYPE_CHECKING:
    from hostrouting.config.settings import Mode, StaticRoute
    from hostrouting.fib.engine import Decision
    from hostrouting.model.snapshot import Link

_TO_KEEP_ATTRIBUTES = Remedy(
    "if they need it, configure these routes in the program that sets the default route, and not "
    "in hostrouting"
)
_SEVERITIES: dict[Mode, Severity] = {"WARN": "warning", "STRICT": "error"}
"""By mode: how bad it is that something escapes."""


def check_findings(
    report: CheckReport, *, mode: Mode = "WARN", wait: float = 0.0
) -> tuple[Finding, ...]:
    """All findings of a check, in the order in which they are read.

    `wait` is how long the check has waited for a default route, in seconds.
    """
    severity = _SEVERITIES[mode]
    findings: list[Finding] = []
    for family in report.families:
        if family.verdict == "no-default-route":
            findings.append(_describe_missing_default(family, severity, wait))
        findings += _describe_escapes(family, mode, report.hiding_routes)
    findings += _describe_repair(report.routes)
    for family in report.families:
        findings += _describe_unrepairable(family, severity)
        findings += _describe_costs(family)
        findings += family.flaws
        findings += family.doubts if mode == "WARN" else map(_without_allowance, family.doubts)
        findings += _describe_allowances(family)
    return tuple(dict.fromkeys(findings))


# No default route.


def _describe_missing_default(family: FamilyReport, severity: Severity, wait: float) -> Finding:
    """That no device is expected, and which devices may be intended."""
    target = f"IPv{family.family} default route"
    return Finding(
        "no-default-route",
        severity,
        default_route_sentence(family, wait=wait),
        target,
        _how_to_add_default(family, target),
        {"family": family.family},
        can_retry=True,
    )


def _how_to_add_default(family: FamilyReport, target: str) -> Remedy | None:
    """How to get an expected device; None if a rule is missing, because that is tried first."""
    if any(flaw.name == "missing-rule" for flaw in family.flaws):
        return None
    words = f"add an {target}, or set routeOverlap.expectedDevs"
    candidates = _candidates(family)
    if candidates:
        words += f", perhaps to {spoken(candidates, last='or')}"
    return Remedy(words)


def _candidates(family: FamilyReport) -> list[str]:
    """The cards by which a default route could lead, each with its address."""
    links = family.snapshot.links_by_name
    candidates: list[str] = []
    for address in cards_with_address(family):
        text = f"{address.ip}/{address.length}"
        if not links[address.dev].up:
            text += ", down"
        candidates.append(f"{address.dev} ({text})")
    return candidates


# What escapes.


def _describe_escapes(
    family: FamilyReport, mode: Mode, hiding_routes: Sequence[Route]
) -> Iterator[Finding]:
    """Each range that escapes, with what to do about it. If it escapes by one of `hiding_routes`,
    which hide those of pods, the finding "unsafe" says what to do.
    """
    for escape in family.escapes:
        where = extent(family.family, escape.first, escape.last)
        facts = _facts_of(escape)
        remedy: Remedy | None = None
        if escape.hidden is not None:
            remedy = _how_to_reach_pods(escape, escape.hidden, family)
        elif escape.decision.route not in hiding_routes:
            if escape.kind == OVERLAP:
                kinds = _kinds_to_allow(escape, family, mode, hiding_routes)
                if kinds:
                    facts["mayAllow"] = kinds
                remedy = _how_to_end_overlap(escape, family, kinds)
            else:
                remedy = _how_to_delete_decider(escape.decision)
        sentence = f"{escape}; expected: {spoken(family.expected_by(escape), last='or')}"
        name = finding_name(escape)
        yield Finding(name, _SEVERITIES[mode], sentence, where, remedy, facts)


def _kinds_to_allow(
    escape: Escape, family: FamilyReport, mode: Mode, hiding_routes: Sequence[Route]
) -> dict[str, str]:
    """The devices of the escape that an operator may want to allow, each with its kind; none if one
    of them is hardware, or has a name that no configuration can have.

    In STRICT, none: a unit that does not start tempts to allow what should be repaired. And where
    a route hides those of pods, to allow its device would only silence the check: packets to these
    pods would still be lost.
    """
    if mode == "STRICT" or not devs_of(hiding_routes).isdisjoint(escape.devs):
        return {}
    links = family.snapshot.links_by_name
    kinds: dict[str, str] = {}
    for dev in escape.devs:
        link = links.get(dev)
        if link is None or not _is_virtual(link) or not is_configurable_dev(dev):
            return {}
        kinds[dev] = link.kind
    return kinds


def _without_allowance(doubt: Finding) -> Finding:
    """The doubt without the way to allow a device, which is the first."""
    if doubt.remedy is None or "mayAllow" not in doubt.facts:
        return doubt
    return doubt._replace(remedy=doubt.remedy.otherwise, facts={})


def _how_to_end_overlap(
    escape: Escape, family: FamilyReport, kinds: Mapping[str, str]
) -> Remedy | None:
    """How to allow these devices, and what to do about a rule that no route can overrule."""
    ways: list[Remedy] = []
    if kinds:
        ways.append(how_to_allow(kinds, line_allowing(kinds, family.cidrs)))
    ways += _ways_around_rule(escape, family.repair)
    if len(ways) > 1:  # the last one is for what is not intended
        ways[-1] = ways[-1]._replace(words=f"if not, {ways[-1].words}")
    return in_turn(ways)


def _is_virtual(link: Link) -> bool:
    """Whether the device is neither hardware, which has no kind, nor a partition of InfiniBand."""
    return bool(link.kind) and link.type != ARPHRD_INFINIBAND


def _ways_around_rule(escape: Escape, repair: Repair) -> Iterator[Remedy]:
    """What to do about a rule that decides before any route that could repair the range; or about
    the route, if it is in table local, because no host can do without that table.
    """
    rule = escape.decision.rule
    route = escape.decision.route
    if rule is None or route is None or not _decides_before_routes(rule, escape, repair):
        return
    if route.table == TABLE_LOCAL:
        yield Remedy(f"delete the route to {route.prefix}", deletion_command(route))
        return
    # Packets of pods: the CNI of AWS has such a rule for each pod of a second card.
    if escape.packet.iif != "lo" and rule.selection:
        intend = f"if rule {rule.priority} is intended, add to routeOverlap.intendedRules"
        yield Remedy(f"{intend}: {json.dumps([rule.selection])}")
    words = f"exclude this network in the program that added rule {rule.priority}; until then"
    yield Remedy(words, rule_command("del", rule))


def _decides_before_routes(rule: Rule, escape: Escape, repair: Repair) -> bool:
    """Whether no route repairs the beginning of this range because of the rule.

    The rest of the range may be repaired, and the same range may be beyond repair for packets of
    pods only, so nothing more than the beginning is compared.
    """
    for each in repair.unrepairable:
        if each.first <= escape.first <= each.last and each.why.rule == rule:
            return True
    return False


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
        return _how_to_delete_routes(hiding)
    if rule.priority == 0:  # nothing comes before it
        return Remedy(f"if rule {rule.priority} is not intended", rule_command("del", rule))
    to_pods = Rule(family.family, rule.priority - 1, table=hidden.table, dst=hidden.prefix)
    if hidden.prefix.is_single:
        longest = hidden.prefix.length - 1
        to_pods = to_pods._replace(dst=escape.cidr, suppress_prefixlength=longest)
    words = f"exclude the pods in the program that added rule {rule.priority}; until then"
    return Remedy(words, rule_command("add", to_pods))


def _comes_before(route: Route, hidden: Route, address: int) -> bool:
    """Whether Linux uses this route for the address, and not the hidden one, in their table."""
    prefix = route.prefix
    if route.table != hidden.table or prefix not in hidden.prefix:
        return False
    is_around = prefix.first <= address <= prefix.last
    return is_around and (prefix != hidden.prefix or route.rank < hidden.rank)


def _how_to_delete_decider(decision: Decision) -> Remedy | None:
    """How to delete what refuses packets, or keeps them on this host."""
    rule = decision.rule
    route = decision.route
    if route is not None:
        return Remedy(f"if the route to {route.prefix} is not intended", deletion_command(route))
    if rule is not None:
        return Remedy(f"if rule {rule.priority} is not intended", rule_command("del", rule))
    return None


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
    way: dict[str, Any] = dict.fromkeys(("dev", "gateway", "route", "table", "protocol", "rule"))
    if escape.devs:
        way["dev"] = escape.devs[0]
    if rule is not None:
        way["rule"] = rule.priority
    if route is None:
        return way
    way["route"] = str(route.prefix)
    way["table"] = table_name(route.table)
    way["protocol"] = protocol_name(route.protocol)
    for hop in route.next_hops:
        if hop.dev == way["dev"] and hop.gateway is not None:
            way["gateway"] = str(hop.gateway)
            break
    return way


# What repairs it.


def _describe_repair(routes: Sequence[StaticRoute]) -> Iterator[Finding]:
    """The routes that repair what escapes."""
    remedy = how_to_configure(routes)
    if remedy is not None:
        sentence = f"{counted(len(routes), 'static route')} would repair it"
        facts = {"routes": [route.to_mapping() for route in routes]}
        yield Finding("action", "note", sentence, "staticRoutes.routes", remedy, facts)


def how_to_configure(routes: Sequence[StaticRoute]) -> Remedy | None:
    """How to configure these routes; None if there are none."""
    if not routes:
        return None
    mappings = [route.to_mapping() for route in routes]
    return Remedy(f"add to staticRoutes.routes: {json.dumps(mappings)}")


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


def _describe_unrepairable(family: FamilyReport, severity: Severity) -> Iterator[Finding]:
    """What no route repairs, all ranges with one cause together."""
    for why, ranges in extents_of(family.family, family.repair.unrepairable).items():
        where = phrase_of_extents(ranges)
        sentence = f"{_claim(why, where)}: {why.cause}"
        facts: dict[str, Any] = {"reason": why.reason, "ranges": ranges}
        if why.devs:
            facts["candidates"] = devices_to_name(why.devs, family)
        yield Finding(
            "unsafe", severity, sentence, where, _remedy_for_unrepairable(why, family), facts
        )


def _claim(why: Why, where: str) -> str:
    """What is wrong with these ranges; the cause follows."""
    if why.devs:
        return f"it is not known through which device packets to {where} should leave"
    if why.reason == "not-proven":
        return f"it is not proven that routes repair {where}"
    return f"no route repairs {where}"


def _remedy_for_unrepairable(why: Why, family: FamilyReport) -> Remedy | None:
    """What repairs these ranges instead of a route, as far as one line can say it."""
    if why.devs:
        return how_to_name_a_device(devices_to_name(why.devs, family), family)
    return _how_to_delete_routes(why.to_delete)


def _how_to_delete_routes(routes: Sequence[Route]) -> Remedy | None:
    """How to delete these routes: an address brings its network's route back."""
    if not routes:
        return None
    commands = " && ".join(map(deletion_command, routes))
    if any(route.protocol == OURS for route in routes):  # the guard brings back a configured one
        words = "if that is not intended, remove hostrouting's route from staticRoutes.routes"
        return Remedy(f"{words}; if it is not there", commands)
    connected = devs_of(route for route in routes if route.protocol == PROTOCOL_KERNEL)
    if not connected:
        return Remedy("if that is not intended", commands)
    lasting = f"give {spoken(sorted(connected))} another network"
    return Remedy(f"{lasting}; this helps until it is set up again", commands)


# What the repair costs.


def grouped_costs(report: CheckReport) -> list[Finding]:
    """What the repair costs, for a page: what it means for several devices is said once."""
    costs: list[Finding] = []
    for family in report.families:
        costs += _describe_costs(family, is_grouped=True)
    return costs


def _describe_costs(family: FamilyReport, *, is_grouped: bool = False) -> Iterator[Finding]:
    """What the repair costs: attributes of the default route, and the ranges that it takes from
    other devices.
    """
    repair = family.repair
    if repair.lacks:
        sentence = f"with the repair, {_loss_in_words(repair)}"
        target = str(Prefix(family.family, 0, 0))
        facts = {"dev": repair.resolved[0].devs[0]}
        yield Finding("repair-cost", "warning", sentence, target, _TO_KEEP_ATTRIBUTES, facts)
    ranges_by_dev = extents_of(family.family, repair.costs)
    groups: dict[str, list[str]] = {}
    for dev in ranges_by_dev:
        key = _consequence(dev, family) if is_grouped else dev
        groups.setdefault(key, []).append(dev)
    for devs in groups.values():
        ranges: list[str] = []
        for dev in devs:
            ranges += ranges_by_dev[dev]
        sentence = f"with the repair, {_cost_in_words(devs, ranges, repair)}"
        sentence += _consequence(devs[0], family).format(devs=spoken(devs))
        lost: dict[str, Any] = {"dev": devs[0], "ranges": ranges}
        where = phrase_of_extents(ranges)
        yield Finding("repair-cost", "warning", sentence, where, facts=lost)


def _consequence(dev: str, family: FamilyReport) -> str:
    """What it means that traffic moves from this device, with a hole for the name."""
    links = family.snapshot.links_by_name
    link = links.get(dev)
    if link is not None and link.type == ARPHRD_INFINIBAND:
        return "; RDMA uses no routes, except that rdma_cm looks for its peers by them"
    if link is not None and link.kind == BRIDGE and not is_card(link, links):
        return "; it no longer reaches containers or virtual machines behind {devs}"
    return ""


def _loss_in_words(repair: Repair) -> str:
    where = phrase_of_extents([str(route.prefix) for route in repair.resolved])
    return f'packets to {where} leave without "{repair.lacks}", which the default route has'


def _cost_in_words(devs: Sequence[str], ranges: Sequence[str], repair: Repair) -> str:
    where = phrase_of_extents(ranges)
    now = spoken(repair.resolved[0].devs, last="or")  # all have the same next hops
    return f"this node's IP traffic to {where} moves from {spoken(devs)} to {now}"


# What is allowed.


def _describe_allowances(family: FamilyReport) -> Iterator[Finding]:
    """Which ranges leave through a device that is only allowed, by what allows it."""
    allowed = ranges_of((part, part.allowance) for part in family.parts)
    for name, ranges in extents_of(family.family, allowed).items():
        where = phrase_of_extents(ranges)
        yield Finding("allowed", "note", f"packets to {where} leave through {name}", name)
