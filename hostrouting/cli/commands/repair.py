"""`repair`: the configuration that repairs what check finds, as apply reads it.

The output is the file of --config, or else the installed configuration, with the routes that the
host lacks once it is applied: a route that was added until the next boot becomes permanent. Routes
through the default gateway are written without gateway and dev, so the file fits other nodes with
the same problem. Standard error says what the repair costs, and what it cannot repair.
If nothing escapes, no route is added. If nothing can be repaired, nothing is printed, and the exit
code is 1, or 3 if the check is undecided. With --commands, the commands are printed that repair the
host until its next boot. With --allow, the configuration allows a device instead of repairing what
leaves through it.
"""

import argparse
import json
from collections.abc import Iterable, Iterator
from ipaddress import ip_network
from typing import NamedTuple, TypeAlias

from hostrouting.check.proposal import Proposal, propose_configuration
from hostrouting.check.sentences import repair_commands
from hostrouting.cli.output import Answer, say
from hostrouting.cli.source import (
    as_whom,
    check_or_load,
    config_to_repair,
    find_config,
    typed_options,
)
from hostrouting.codes import CANNOT_DECIDE, FINE, PROBLEM
from hostrouting.command import Operator
from hostrouting.finding import ESCAPES, Finding, Remedy
from hostrouting.host.host import Host
from hostrouting.install.host_check import HostCheck
from hostrouting.lines import way_lines
from hostrouting.model.prefix import Prefix
from hostrouting.routes.steps import held_by
from hostrouting.text import spoken

ARGUMENTS = ("cidrs", "--dev", "--allow", "--config", "--snapshot", "--commands")

_HELD_BY_OURS = "a route of hostrouting has the place of one of these; to repair it for good"
_Remark: TypeAlias = "tuple[str, ...]"
"""What standard error has: a sentence, and perhaps the ways out."""


class _Printed(NamedTuple):
    """What is printed, with the exit code."""

    code: int
    remarks: Iterable[_Remark]
    findings: Iterable[Finding] = ()
    lines: Iterable[str] = ()


def run(arguments: argparse.Namespace, host: Host) -> Answer:
    config = config_to_repair(find_config(arguments, host), arguments)
    who = as_whom(arguments)  # "as root", or "on that host as root"
    now = check_or_load(arguments, host, config, to_repair=config)
    proposal = propose_configuration(config, now.report.snapshot)
    # Commands repair the host as it is now. A configuration repairs the host as it is after all
    # else in the configuration was applied.
    before_repair = now
    if not arguments.commands:
        options = typed_options(arguments)
        before_repair = HostCheck.of_snapshot(proposal.report, config, repair_options=options)
    printed = _without_repair(now, before_repair, who)
    if printed is None and arguments.commands:
        printed = _as_commands(now, who)
    if printed is None:
        printed = _as_configuration(arguments, now, before_repair, proposal)
    for remark in printed.remarks:
        say(*remark)
    document = {
        "schema": "hostrouting/repair/3",
        "verdict": now.report.verdict,
        "config": proposal.config.to_mapping(),
        "commands": list(repair_commands(now.report)),
        "findings": [finding.to_mapping() for finding in printed.findings],
    }
    return Answer(printed.code, document, printed.lines)


def _without_repair(now: HostCheck, before_repair: HostCheck, who: Operator) -> _Printed | None:
    """Why nothing is printed; None if there is a repair, or nothing is wrong."""
    report = before_repair.report
    if report.verdict == "no-default-route":
        missing = before_repair.named("no-default-route", "missing-rule")
        return _Printed(CANNOT_DECIDE, [*_remarks(missing, who)], missing)
    if report.escapes and not report.routes:
        findings = before_repair.named("unsafe")
        remarks = [*_remarks(findings, who), *_ways_out(before_repair, who)]
        return _Printed(PROBLEM, remarks, findings)
    if report.escapes:
        return None
    # Only the check of the host as it is now has asked whether the kernel differs from its tables.
    doubts = before_repair.doubts or now.named("kernel-differs")
    if not doubts:
        return None
    why: _Remark = ("it is not clear whether a repair is needed:",)
    return _Printed(CANNOT_DECIDE, [why, *_remarks(doubts, who)], doubts)


def _limits(now: HostCheck, before_repair: HostCheck, who: Operator) -> list[_Remark]:
    """What no route repairs, what the repair costs, and what else can be done; and the verdict on a
    family that no route repairs, where addresses of the other one escape.
    """
    limits = [*before_repair.named("unsafe"), *now.named("repair-cost", "route-waits")]
    remarks = [*_remarks(limits, who)]
    remarks += _ways_out(before_repair, who)
    if before_repair.report.escapes:
        for family in before_repair.report.families:
            if family.verdict not in {"ok", "overlap"}:
                remarks.append((str(family),))
    return remarks


def _remarks(findings: Iterable[Finding], who: Operator) -> Iterator[_Remark]:
    for finding in findings:
        yield (finding.sentence, *way_lines(finding.remedy, who))


def _ways_out(check: HostCheck, who: Operator) -> list[_Remark]:
    """What else can be done, if there is something that no route repairs."""
    lines: list[str] = []
    if check.named("unsafe"):
        for remedy in dict.fromkeys(finding.remedy for finding in check.named(*ESCAPES)):
            lines += way_lines(remedy, who)
    return [("what else can be done:", *lines)] if lines else []


def _exit_code(check: HostCheck) -> int:
    """PROBLEM if something stays wrong: an escape that no route repairs, or a family without a
    default route.
    """
    stays_wrong = check.named("unsafe") or check.report.missing_defaults
    return PROBLEM if stays_wrong else FINE


def _as_commands(now: HostCheck, who: Operator) -> _Printed:
    """The repair until the next boot."""
    findings = [*now.named("unsafe"), *now.named("repair-cost")]
    remarks = _limits(now, now, who)
    if now.report.verdict == "ok":
        remarks.append((f"no route has to be added: {now.report}",))
    commands = repair_commands(now.report)
    if now.report.resolved and not commands:
        for_good = Remedy(command=now.repair_line())
        remarks.append((_HELD_BY_OURS, *way_lines(for_good, who)))
        return _Printed(PROBLEM, remarks, findings)
    return _Printed(_exit_code(now), remarks, findings, commands)


def _as_configuration(
    arguments: argparse.Namespace, now: HostCheck, before_repair: HostCheck, proposal: Proposal
) -> _Printed:
    """The configuration that repairs the host for good."""
    unsafe = before_repair.named("unsafe")
    remarks = _limits(now, before_repair, as_whom(arguments))
    remarks += [(remark,) for remark in _remarks_on(arguments, now, proposal)]
    if unsafe:  # a pipe to apply hides the exit code
        remarks.append(("the printed configuration repairs only a part of what escapes",))
    lines = json.dumps(proposal.config.to_mapping(), indent=2).splitlines()
    findings = [*unsafe, *now.named("repair-cost"), *proposal.left_out]
    return _Printed(_exit_code(before_repair), remarks, findings, lines)


def _remarks_on(arguments: argparse.Namespace, now: HostCheck, proposal: Proposal) -> Iterator[str]:
    """What is new in the configuration, or why nothing is, and what it lacks."""
    if proposal.report.escapes and not now.report.escapes:
        yield "nothing escapes until the next boot; the printed configuration makes that last"
    elif proposal.report.verdict == "ok" and now.report.verdict == "ok":
        yield f"no route has to be added: {now.report}"
    elif proposal.report.verdict == "ok":
        source = "installed" if arguments.config is None else "given"
        yield (
            f"the {source} configuration already has these routes, but they are not set on this "
            "host; applying the printed one sets them"
        )
    for finding in proposal.left_out:
        instead = _routes_within(proposal, finding.target)
        change = f"{finding.target} is left out"
        if instead:
            change = f"{spoken(instead)} instead of {finding.target}"
        yield f"{change}: {held_by([finding.facts['held']])}"


def _routes_within(proposal: Proposal, cidr: str) -> list[str]:
    """The destinations of the proposed routes that are more specific than this one."""
    whole = Prefix.of(ip_network(cidr))
    destinations: list[str] = []
    for route in proposal.config.static_routes.routes:
        prefix = Prefix.of(route.destination)
        if prefix.length > whole.length and prefix.overlaps(whole):
            destinations.append(str(prefix))
    return destinations
