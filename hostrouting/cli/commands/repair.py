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
from typing import NamedTuple

from hostrouting.check.proposal import Proposal, propose_configuration
from hostrouting.check.results import CheckReport
from hostrouting.check.sentences import repair_commands
from hostrouting.cli.output import Answer, say
from hostrouting.cli.source import (
    as_whom,
    check_or_load,
    config_to_repair,
    find_config,
    require_typed_devs,
    typed_options,
)
from hostrouting.codes import CANNOT_DECIDE, FINE, PROBLEM
from hostrouting.command import Operator
from hostrouting.errors import NotReady, RouteOverlapError
from hostrouting.finding import ESCAPES, Finding
from hostrouting.host.host import Host
from hostrouting.install.host_check import HostCheck
from hostrouting.routes.steps import held_by
from hostrouting.text import first_of

ARGUMENTS = ("cidrs", "--dev", "--allow", "--config", "--snapshot", "--commands")

_HELD_BY_OURS = "a route of hostrouting has the place of one of these; to repair it for good"


class _Printed(NamedTuple):
    """What is printed, with the exit code."""

    code: int
    findings: list[Finding]
    remarks: list[str]
    """Each for standard error."""
    lines: Iterable[str] = ()


def run(arguments: argparse.Namespace, host: Host) -> Answer:
    config = config_to_repair(find_config(arguments, host), arguments)
    who = as_whom(arguments)  # "as root", or "on that host as root"
    options = typed_options(arguments)
    now = check_or_load(arguments, host, config, to_repair=config)
    require_typed_devs(arguments, now.report.snapshot)
    proposal = propose_configuration(config, now.report.snapshot)
    # Commands repair the host as it is now. A configuration repairs the host as it is after all
    # else in the configuration was applied.
    before_repair = now
    if not arguments.commands:
        before_repair = HostCheck.of_snapshot(proposal.report, config, repair_options=options)
    _require_repair(before_repair, who)
    doubts = _doubts(now, before_repair)
    if doubts:
        remarks = ["cannot tell whether a repair is needed:", *_texts(doubts, who)]
        printed = _Printed(CANNOT_DECIDE, doubts, remarks)
    elif arguments.commands:
        printed = _as_commands(now, who)
    else:
        printed = _as_configuration(arguments, now, before_repair, proposal)
    for remark in (*printed.remarks, *_other_verdicts(before_repair.report)):
        say(remark)
    document = {
        "schema": "hostrouting/repair/3",
        "verdict": now.report.verdict,
        "config": proposal.config.to_mapping(),
        "commands": list(repair_commands(now.report)),
        "findings": [finding.to_mapping() for finding in printed.findings],
    }
    return Answer(printed.code, document, printed.lines)


def _require_repair(check: HostCheck, who: Operator) -> None:
    """Raise the error that says why there is no repair, if no route repairs what is wrong."""
    report = check.report
    if report.verdict == "no-default-route":
        missing = [str(each) for each in report.families if each.verdict == "no-default-route"]
        ways = _texts(check.named("missing-rule"), who)
        if not ways:
            ways = ["add a default route: a repair uses its gateway"]
        raise NotReady("; ".join([*missing, *ways]))
    if report.escapes and not report.routes:
        reasons = first_of(_texts(check.named("unsafe"), who))
        raise RouteOverlapError("; ".join([*reasons, *_remedies(check, who)]))


def _doubts(now: HostCheck, before_repair: HostCheck) -> list[Finding]:
    """Why nobody knows whether a repair is needed. Only the check of the host as it is now has
    asked whether the kernel differs from its tables.
    """
    if before_repair.report.escapes:
        return []
    return before_repair.doubts or now.named("kernel-differs")


def _other_verdicts(report: CheckReport) -> Iterator[str]:
    """The verdict on a family that no route repairs, where addresses of the other one escape."""
    if not report.escapes:
        return
    for family in report.families:
        if family.verdict not in {"ok", "overlap"}:
            yield str(family)


def _exit_code(check: HostCheck) -> int:
    """PROBLEM if something stays wrong: an escape that no route repairs, or a family without a
    default route.
    """
    stays_wrong = check.named("unsafe") or check.report.missing_defaults
    return PROBLEM if stays_wrong else FINE


def _as_commands(now: HostCheck, who: Operator) -> _Printed:
    """The repair until the next boot."""
    findings = [*now.named("unsafe"), *now.named("repair-cost")]
    remarks = [*_limits(now, now, who), *_remedies(now, who)]
    if now.report.verdict == "ok":
        remarks.append(f"nothing to repair: {now.report}")
    commands = repair_commands(now.report)
    if now.report.resolved and not commands:
        remarks.append(f"{_HELD_BY_OURS}, {who}: {who.line(now.repair_line())}")
        return _Printed(PROBLEM, findings, remarks)
    return _Printed(_exit_code(now), findings, remarks, commands)


def _as_configuration(
    arguments: argparse.Namespace, now: HostCheck, before_repair: HostCheck, proposal: Proposal
) -> _Printed:
    """The configuration that repairs the host for good."""
    who = as_whom(arguments)
    unsafe = before_repair.named("unsafe")
    remarks = [*_limits(now, before_repair, who), *_remedies(before_repair, who)]
    remarks += _remarks_on(arguments, now, proposal)
    if unsafe:  # a pipe to apply hides the exit code
        remarks.append("the printed configuration repairs only a part of what escapes")
    lines = json.dumps(proposal.config.to_mapping(), indent=2).splitlines()
    findings = [*unsafe, *now.named("repair-cost"), *proposal.left_out]
    return _Printed(_exit_code(before_repair), findings, remarks, lines)


def _remarks_on(arguments: argparse.Namespace, now: HostCheck, proposal: Proposal) -> Iterator[str]:
    """What is new in the configuration, or why nothing is, and what it lacks."""
    if proposal.report.escapes and not now.report.escapes:
        yield "nothing escapes until the next boot; the printed configuration makes that last"
    elif proposal.report.verdict == "ok" and now.report.verdict == "ok":
        yield f"nothing to repair: {now.report}"
    elif proposal.report.verdict == "ok":
        source = "installed" if arguments.config is None else "given"
        yield (
            f"the {source} configuration already has these routes, but they are not set on this "
            "host; applying the printed one sets them"
        )
    for finding in proposal.left_out:
        yield f"{finding.target} is left out: {held_by([finding.facts['held']])}"


def _limits(now: HostCheck, before_repair: HostCheck, who: Operator) -> list[str]:
    """What no route repairs, and what the repair costs."""
    return _texts([*before_repair.named("unsafe"), *now.named("repair-cost")], who)


def _texts(findings: Iterable[Finding], who: Operator) -> list[str]:
    return [finding.text_for(who) for finding in findings]


def _remedies(check: HostCheck, who: Operator) -> list[str]:
    """What else can be done, if there is something that no route repairs."""
    if not check.named("unsafe"):
        return []
    remedies = dict.fromkeys(finding.remedy for finding in check.named(*ESCAPES))
    return first_of([remedy.text_for(who) for remedy in remedies if remedy is not None])
