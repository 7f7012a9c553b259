"""`repair`: the configuration that repairs what check finds, as apply reads it.

The output is the file of --config, or else the installed configuration, with the routes that the
host lacks once it is applied: a route that was added until the next boot becomes permanent. A route
that can use the gateway and the device of the default route names neither, so the file fits other
nodes with the same problem. Standard error says what the repair costs, and what it cannot repair.
If nothing escapes, no route is added. If nothing can be repaired, nothing is printed, and the exit
code is 1, or 3 if the check is undecided. With --commands, nothing is printed where hostrouting is
installed, because it would remove these routes again; the exit code is then 1.
"""

import argparse
import json
from collections.abc import Iterable, Iterator

from hostrouting.check.proposal import Proposal, propose_configuration
from hostrouting.check.results import CheckReport
from hostrouting.check.sentences import repair_commands
from hostrouting.cli.check import MANAGED, Check, consent_lines, make_check, repair_pipeline
from hostrouting.cli.output import Answer, say
from hostrouting.cli.source import adding_typed, as_whom, find_config, typed_options
from hostrouting.codes import CANNOT_DECIDE, FINE, PROBLEM
from hostrouting.errors import NotReady, RouteOverlapError
from hostrouting.finding import ESCAPES, Finding, Remedy
from hostrouting.host.host import Host
from hostrouting.text import first_of

ARGUMENTS = ("cidrs", "--dev", "--config", "--snapshot", "--commands")


def run(arguments: argparse.Namespace, host: Host) -> Answer:
    config = adding_typed(find_config(arguments, host), arguments)
    who = as_whom(arguments)
    now = make_check(config, host, arguments.snapshot)
    proposal = propose_configuration(config, now.report.snapshot)
    # Commands repair the host as it is, and a configuration repairs it as it will be after apply.
    check = now if arguments.commands else Check.of(proposal.report, config)
    _require_repair(check, who)
    commands: tuple[str, ...] = ()
    if now.managed is None:
        commands = repair_commands(now.report.resolved)
    printed = proposal.config.to_mapping()
    findings = _doubts(now.report, check.report)
    lines: tuple[str, ...] = ()
    if findings:
        code = CANNOT_DECIDE
        remarks = ["cannot tell whether a repair is needed:", *_texts(findings, who)]
    else:
        findings = _limits(check, now)
        code = PROBLEM if _unsafe(check) else FINE
        remarks = [*_texts(findings, who), *_remedies(check, who)]
        if arguments.commands:
            lines = commands
            remarks += _of_the_commands(now, typed_options(arguments))
            if len(commands) < len(now.report.resolved):  # where hostrouting is installed
                code = PROBLEM
        else:
            lines = tuple(json.dumps(printed, indent=2).splitlines())
            source = "installed" if arguments.config is None else "given"
            remarks += _of_the_configuration(now, proposal, source)
            unconfigured = [_repaired(finding) for finding in proposal.unconfigured]
            remarks += _texts(unconfigured, who)
            if code == PROBLEM:  # a pipe to apply hides the exit code
                remarks.append("the printed configuration repairs only a part of what escapes")
            findings += [*proposal.left_out, *unconfigured]
    for remark in remarks:
        say(remark)
    document = {
        "schema": "hostrouting/repair/3",
        "verdict": now.report.verdict,
        "config": printed,
        "commands": list(commands),
        "findings": [finding.to_mapping() for finding in findings],
    }
    return Answer(code, document, lines)


def _texts(findings: Iterable[Finding], who: str) -> list[str]:
    return [finding.text_for(who) for finding in findings]


def _require_repair(check: Check, who: str) -> None:
    """Raise the error that says why there is no repair, if no route repairs what is wrong."""
    report = check.report
    if report.verdict == "no-default-route":
        rules = [finding for finding in check.findings if finding.name == "missing-rule"]
        ways = _texts(rules, who) or ["add a default route: a repair uses its gateway"]
        raise NotReady("; ".join((str(report), *ways)))
    if report.escapes and not report.routes:
        reasons = first_of(_texts(_unsafe(check), who))
        if not reasons:
            reasons = ["no repair is known for packets of pods alone"]
        raise RouteOverlapError("; ".join((*reasons, *_remedies(check, who))))


def _repaired(finding: Finding) -> Finding:
    """The finding about routes that were typed; its remedy, to configure them, is carried out."""
    if finding.remedy is None:
        return finding
    return finding._replace(remedy=Remedy("the printed configuration repairs that"))


def _unsafe(check: Check) -> list[Finding]:
    return [finding for finding in check.findings if finding.name == "unsafe"]


def _limits(check: Check, now: Check) -> list[Finding]:
    """What no route repairs, and what the repair costs: also configured routes that are missing."""
    findings = (*now.findings, *check.findings)
    costs = [finding for finding in findings if finding.name == "repair-cost"]
    return [*_unsafe(check), *dict.fromkeys(costs)]


def _remedies(check: Check, who: str) -> list[str]:
    """What else can be done, if there is something that no route repairs."""
    if not _unsafe(check):
        return []
    escapes = [finding for finding in check.findings if finding.name in ESCAPES]
    remedies = dict.fromkeys(finding.remedy for finding in escapes)
    return first_of([remedy.text_for(who) for remedy in remedies if remedy is not None])


def _doubts(now: CheckReport, report: CheckReport) -> list[Finding]:
    """Why nobody knows whether a repair is needed; also that the kernel differs from its tables."""
    doubts = list(report.doubts)
    if report.verdict == "ok":
        doubts += [doubt for doubt in now.doubts if doubt.name == "kernel-differs"]
    return [] if report.verdict == "overlap" else doubts


def _of_the_commands(now: Check, options: str) -> Iterator[str]:
    """What there is to say about the repair until the next boot."""
    if now.report.verdict == "ok":
        yield f"nothing to repair: {now.report}"
    if now.managed is None:
        return
    yield from (finding.sentence for finding in now.managed.unconfigured)
    if now.report.resolved or now.managed.unconfigured:
        yield MANAGED
        yield from consent_lines(now.managed)
        part = " (repairs only a part)" if _unsafe(now) else ""
        yield f"permanently, as root{part}: {repair_pipeline(options, now.managed)}"


def _of_the_configuration(now: Check, proposal: Proposal, source: str) -> Iterator[str]:
    """What there is to say about the configuration, beside its limits."""
    if proposal.report.verdict == "ok" and now.report.verdict == "ok":
        yield f"nothing to repair: {now.report}"
    elif proposal.report.verdict == "ok":
        known = "already has these routes, but they are not set on this host; apply sets them"
        yield f"the {source} configuration {known}"
    for finding in proposal.left_out:
        reason = "another program's route has the same destination and metric"
        yield f"{finding.target} is left out: {reason}: [{finding.facts['held']}]"
