"""The findings of a check, in the order in which they are read: what is wrong, what repairs it, and
what limits the verdict.

All commands and logs use these sentences. The findings are made from a report alone; only those of
`flaws` are in the report already. `results` has the sentences of escapes and verdicts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from hostrouting.check.parts import join_by_label
from hostrouting.check.results import OVERLAP, CheckReport, Escape, FamilyReport, Opinion
from hostrouting.config.cni import cni_row
from hostrouting.finding import NAMES, Finding, Name, Remedy, Severity
from hostrouting.model.link_kinds import is_card, leads_out
from hostrouting.model.prefix import IPV4, extent, ip_at, prefixes_between
from hostrouting.model.route import OURS, TABLE_MAIN, Route, deletion_command
from hostrouting.routes.uplink import TO_HAVE_DEFAULT
from hostrouting.text import command_of, counted, grouped, spoken

if TYPE_CHECKING:
    from hostrouting.config.settings import Mode

RangeInDoubt: TypeAlias = tuple[Opinion, int, int]
"""The opinion that is the doubt, and the first and the last address of the range it is about."""
_SEVERITIES: dict[Mode, Severity] = {"WARN": "warning", "STRICT": "error"}
"""By mode: the severity of findings about an escape."""


def check_findings(report: CheckReport, *, mode: Mode = "WARN") -> tuple[Finding, ...]:
    """All findings of a check, in the order in which they are read."""
    severity = _SEVERITIES[mode]
    findings: list[Finding] = []
    for family in report.families:
        if family.missing_default:
            findings.append(_describe_missing_default(family, severity))
        findings += [_describe_escape(escape, family, severity) for escape in family.escapes]
    caveats: list[Finding] = []
    for family in report.families:
        caveats += _describe_unrepairable(family, severity)
        caveats += [*family.flaws, *family.doubts]
    # While it is unclear which device is meant ("default-routes"), a repair could lead through the
    # wrong card, so it is not shown.
    if all(finding.name != "default-routes" for finding in caveats):
        findings += _describe_repair(report)
    findings += caveats
    findings += _describe_allowances(report)
    return tuple(dict.fromkeys(findings))  # a finding of both families is shown once


# What escapes.


def _describe_missing_default(family: FamilyReport, severity: Severity) -> Finding:
    """The finding that a family has no default route, so no device is expected. If no rule looks up
    table main, the default route may be in table main, and the remedy is to add the rule.
    """
    remedy = TO_HAVE_DEFAULT
    if not family.looks_up_main:
        remedy = Remedy(
            "add the rule", _command_for(family.family, "rule add pref 32766 lookup main")
        )
    return Finding(
        "no-default-route",
        severity,
        family.sentence,
        f"IPv{family.family} default route",
        remedy,
        can_retry=True,  # the default route may come later
    )


def _describe_escape(escape: Escape, family: FamilyReport, severity: Severity) -> Finding:
    """The finding about a range that escapes. It says what an operator can do beside the repair.
    One way is to delete the route. The other is to allow the devices, if the escape may be intended
    or the route is a CNI's: then the fact `mayAllow` has them, and commands print a line to type.
    """
    where = extent(family.family, escape.first, escape.last)
    facts = _facts_of(escape)
    remedy: Remedy | None = None
    route = escape.decision.route
    cni = _cni_that_leads_there(escape, family)
    if route is not None and _is_to_be_deleted(route, escape, family):
        remedy = Remedy("if that route is not intended", deletion_command(route))
    elif route is not None and route.protocol == OURS and escape.hidden is not None:
        remedy = Remedy(f"if the pods are right, take {route.prefix} out of staticRoutes.routes")
    elif cni or _may_be_intended(escape, family):
        links = family.snapshot.links_by_name
        facts["mayAllow"] = {dev: links[dev].kind for dev in links if dev in escape.devs}
        if cni:
            remedy = Remedy(
                "the routes of a repair lead to the default gateway, which need not know pods; if "
                f"{cni} reaches them through {spoken(escape.devs)}, allow that"
            )
    # A route or a rule that refuses packets is blackhole, unreachable or prohibit.
    name: Name = escape.kind if escape.kind in NAMES else "refused"
    return Finding(name, severity, family.sentence_of(escape), where, remedy, facts)


def _is_to_be_deleted(route: Route, escape: Escape, family: FamilyReport) -> bool:
    """Whether the remedy for this escape is to delete the route by which packets escape. A route
    that refuses packets or keeps them on this host is always to be deleted.

    A route through devices is to be deleted only if no static route can repair the range
    (`_is_stuck`). Even then, these stay: a default route, a route of ours, and a route in another
    table than main, which may be a VPN's. A route that hides pods of this node (PODS_HIDDEN) and
    has no gateway stays, too: it may be to the network of a card.
    """
    if not escape.devs:  # no packet leaves: the route refuses them or keeps them
        return True
    if route.table != TABLE_MAIN or route.prefix.length == 0 or route.protocol == OURS:
        return False
    if escape.hidden is not None:
        return route.has_gateway
    return escape.kind == OVERLAP and _is_stuck(escape, family)


def _is_stuck(escape: Escape, family: FamilyReport) -> bool:
    """Whether no static route can ever repair this range, even with other rules and gateways on the
    host. Either the escaping route hides a CNI's route ("below-a-cni"), so that a static route
    would be wrong. Or no static route helps there ("not-proven"), such as for a single address.
    """
    why = family.why_unrepaired(escape.first)
    return why is not None and why.reason in {"below-a-cni", "not-proven"}


def _may_be_intended(escape: Escape, family: FamilyReport) -> bool:
    """Whether the operator may have intended this escape, and so may want to allow its devices:
    packets leave only by tunnels or bridges of guests. Packets that leave by a card, InfiniBand or
    a dummy are probably the fault that the check is there to find, so these devices are not
    proposed for `allowedDevs`.

    False if no static route can ever repair the escape (`_is_stuck`): then the route by which the
    packets leave has to go.
    """
    if escape.kind != OVERLAP or _is_stuck(escape, family):
        return False
    links = family.snapshot.links_by_name
    for dev in escape.devs:
        link = links.get(dev)
        # A device without a kind is hardware.
        if link is None or not link.kind or not leads_out(link) or is_card(link, links):
            return False
    return True


def _cni_that_leads_there(escape: Escape, family: FamilyReport) -> str:
    """The name of the CNI that has added the route by which packets leave the wrong way (OVERLAP).
    Empty if no CNI has, or if packets escape in another way. A CNI's route has a gateway, and the
    protocol of a CNI on this host. The route may be right, because the CNI knows how its pods are
    reached, and the default gateway may not know it.

    tests/hosts: calico-routes-by-a-second-card.
    """
    route = escape.decision.route
    if route is None or not route.has_gateway or escape.kind != OVERLAP:
        return ""
    for link in family.snapshot.links:
        row = cni_row(link.name, link.kind)
        if row is not None and route.protocol in row[0].protocols:
            return row[0].name
    return ""


def _facts_of(escape: Escape) -> dict[str, Any]:
    """What the finding about this escape tells programs: the addresses, and how they escape."""
    family = escape.cidr.family
    decision = escape.decision
    return {
        "cidr": str(escape.cidr),
        "first": str(ip_at(family, escape.first)),
        "last": str(ip_at(family, escape.last)),
        "prefixes": [*map(str, prefixes_between(family, escape.first, escape.last))],
        "kind": escape.kind,
        "devs": list(escape.devs),
        "route": str(decision.route or ""),
        "rule": str(decision.rule or ""),
    }


# What repairs it.


def _describe_repair(report: CheckReport) -> Iterator[Finding]:
    """Yield a finding with the routes that repair what escapes, if there are any. The sentence also
    says what the repair costs: hosts behind the devices by which packets escape now are no longer
    reached.
    """
    if not report.routes:
        return
    mappings = [route.to_mapping() for route in report.routes]
    sentence = f"{counted(len(mappings), 'static route')} would repair it"
    remedy = None
    # There are no commands if the new routes would replace routes of ours. An operator may want to
    # keep these, so there is no remedy then.
    if repair_commands(report):
        remedy = Remedy(f"add to staticRoutes.routes: {json.dumps(mappings)}")
    else:
        sentence += ", in place of routes of hostrouting (see hostrouting status)"
    ranges: dict[str, None] = {}
    devs: dict[str, None] = {}
    for family in report.families:
        for escape in family.escapes:
            # Routes mostly repair all of an escape or nothing, so its first address is enough.
            if escape.devs and family.why_unrepaired(escape.first) is None:
                ranges[extent(family.family, escape.first, escape.last)] = None
                devs |= dict.fromkeys(escape.devs)
    if devs:
        where = spoken([*ranges], most=3)
        sentence += f"; hosts in {where} are then no longer reached through {spoken([*devs])}"
    yield Finding("action", "note", sentence, "staticRoutes.routes", remedy, {"routes": mappings})


def repair_commands(report: CheckReport) -> tuple[str, ...]:
    """The commands that add the routes of a repair (`report.resolved`) until the next boot. These
    routes do not get the protocol of hostrouting, so `apply` does not delete them. Where one of
    them leads the same way as a configured route, `apply` does not add that.

    There are no commands if a route to add has the key of a present route of ours: Linux refuses to
    add it beside ours, so only a configuration repairs the host.
    """
    ours = {route.key for route in report.snapshot.routes if route.protocol == OURS}
    if any(route.key in ours for route in report.resolved):
        return ()
    return tuple(map(_addition_command, report.resolved))


def _addition_command(route: Route) -> str:
    """The command that adds this route. It names no protocol, so hostrouting does not take the
    route for one of its own and delete it.
    """
    options = ""
    if route.metric:
        options += f" metric {route.metric}"
    if route.prefsrc:
        options += f" src {route.prefsrc}"
    # Several next hops have to come last.
    return command_of(f"ip route add {route.prefix}{options} {route.way}")


def _describe_unrepairable(family: FamilyReport, severity: Severity) -> Iterator[Finding]:
    """Yield a finding for each reason why no route repairs a range, with all of its ranges."""
    unrepairable = family.repair.unrepairable
    by_why = grouped((item.why, (item.first, item.last)) for item in unrepairable)
    for why, ranges in by_why.items():
        extents = [extent(family.family, *each) for each in ranges]
        where = spoken(extents, most=3)
        sentence = f"no route repairs {where}: {why.cause}"
        facts: dict[str, Any] = {"reason": why.reason, "ranges": extents}
        remedy: Remedy | None = None
        if why.rule is not None:
            # Another program's rule leads the packets away. The command is printed after this text,
            # and adds a rule (`why.rule`) before that rule.
            what_to_do = (
                "exclude this network in the program that added the rule; until the next boot"
            )
            add_rule = f"rule add pref {why.rule.priority} {why.rule.selection} lookup main"
            remedy = Remedy(what_to_do, _command_for(family.family, add_rule))
        yield Finding("unsafe", severity, sentence, where, remedy, facts)


def _command_for(family: int, words: str) -> str:
    """The command `ip`, or `ip -6`, with these words."""
    return command_of("ip" if family == IPV4 else "ip -6", words)


# What is in doubt.


class Wording(NamedTuple):
    """The texts of the finding about a doubt."""

    sentence: str
    """{where} stands for the addresses, and {reason} for `Opinion.reason`."""
    remedy: str
    command: str = ""
    """The words to type after `ip` or `ip -6`, if a command is the remedy."""


DOUBTS = {
    "default-routes": Wording(
        "it is unclear whether packets to {where} should leave through {reason}",
        "write the right devices, of IPv4 and IPv6, into routeOverlap.expectedDevs, or name them "
        "with --dev for check and repair",
    ),
    "two-cnis": Wording(
        "packets to {where} leave through a device that a CNI may have left behind: {reason}",
        "remove the leftovers of the CNI that is not used, or name the device in "
        "routeOverlap.allowedDevs",
    ),
    "doubtful-route": Wording(
        "packets to {where} may be lost: {reason}",
        "if no program needs the first route in brackets, delete it, or take it out of "
        "staticRoutes.routes; if Linux has made it (proto kernel), correct its device's address",
    ),
    "other-packets": Wording(
        "some packets to {where} are routed differently, by rule {reason}",
        "if the rule is intended, write its selectors into routeOverlap.intendedRules",
    ),
    "missing-rule": Wording(
        "this host may answer nobody on {where}: no rule looks up table local first",
        "add this rule, which comes after Cilium's",
        "rule add pref 11 lookup local",
    ),
    "not-judged": Wording(
        "hostrouting does not judge {reason}", "ask Linux about an address: ip route get ADDRESS"
    ),
    "kernel-differs": Wording(
        "{where}: the kernel answers {reason}",
        "run it again; if it stays so, look for programs that redirect packets, such as BPF",
    ),
}
"""The texts by the name of the doubt."""


def describe_doubts(family: int, doubts: Iterable[RangeInDoubt]) -> Iterator[Finding]:
    """Yield a finding for each doubt, with all ranges that it is about."""
    by_opinion = grouped((opinion, (first, last)) for opinion, first, last in doubts)
    for opinion, ranges in by_opinion.items():
        where = spoken([extent(family, *each) for each in ranges], most=3)
        wording = DOUBTS[opinion.name]
        sentence = wording.sentence.format(where=where, reason=opinion.reason)
        remedy = Remedy(wording.remedy)
        if wording.command:
            remedy = Remedy(wording.remedy, _command_for(family, wording.command))
        yield Finding(cast("Name", opinion.name), "warning", sentence, where, remedy)


# What is allowed.


def _describe_allowances(report: CheckReport) -> Iterator[Finding]:
    """Yield one note about all ranges that leave through devices that are allowed but not expected.
    The note says what allows the devices. If there are no such ranges, there is no note.
    """
    allowed: list[tuple[str, str]] = []
    for family in report.families:
        # `join_by_label` leaves out the parts with an empty allowance.
        ranges = join_by_label((part, part.allowance) for part in family.parts)
        allowed += [(allowance, extent(family.family, *ends)) for allowance, *ends in ranges]
    by_allowance = grouped(allowed)
    sentences = [  # an allowance is a text such as "wg0 (allowedDevs)"
        f"packets to {spoken(extents, most=3)} leave through {allowance}"
        for allowance, extents in by_allowance.items()
    ]
    if sentences:
        yield Finding("allowed", "note", "; ".join(sentences), ", ".join(by_allowance))
