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
from collections.abc import Iterator, Sequence
from typing import NamedTuple

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
from hostrouting.finding import ESCAPES, Finding, Remedy
from hostrouting.host.host import Host
from hostrouting.install.host_check import HostCheck
from hostrouting.lines import finding_lines

ARGUMENTS = ("cidrs", "--dev", "--allow", "--config", "--snapshot", "--commands")

_HELD_BY_OURS = "a route of hostrouting has the place of one of these; to repair it for good"


class _Printed(NamedTuple):
    """What is printed, with the exit code, and notes for standard error."""

    code: int
    notes: Sequence[str] = ()
    lines: Sequence[str] = ()


def run(arguments: argparse.Namespace, host: Host) -> Answer:
    config = config_to_repair(find_config(arguments, host), arguments)
    now = check_or_load(arguments, host, config, to_repair=config)
    proposal = propose_configuration(config, now.report.snapshot)
    # Commands repair the host as it is now. A configuration repairs the host as it is after all
    # else in the configuration was applied.
    before_repair = now
    if not arguments.commands:
        options = typed_options(arguments)
        before_repair = HostCheck.of_snapshot(proposal.report, config, repair_options=options)
    findings = _findings(now, before_repair)
    printed = _repair(arguments, now, before_repair, proposal)
    told = [*finding_lines(findings, as_whom(arguments)), *printed.notes]
    if told:
        say(*told)
    document = {
        "schema": "hostrouting/repair/3",
        "verdict": now.report.verdict,
        "config": proposal.config.to_mapping(),
        "commands": list(repair_commands(now.report)),
        "findings": [finding.to_mapping() for finding in (*findings, *proposal.left_out)],
    }
    return Answer(printed.code, document, printed.lines)


def _findings(now: HostCheck, before_repair: HostCheck) -> list[Finding]:
    """What no route repairs, and what else ends that; what is missing or in doubt; what the repair
    costs.
    """
    findings = before_repair.named("unsafe")
    remedies = {finding.remedy for finding in findings}
    if findings:
        escapes = before_repair.named(*ESCAPES)
        findings += [each for each in escapes if each.remedy not in {None, *remedies}]
    findings += before_repair.named("no-default-route")
    findings += before_repair.doubts
    # Only the check of the host as it is now has asked whether the kernel differs from its tables.
    findings += now.named("kernel-differs", "repair-cost", "route-waits")
    return list(dict.fromkeys(findings))


def _repair(
    arguments: argparse.Namespace, now: HostCheck, before_repair: HostCheck, proposal: Proposal
) -> _Printed:
    """The repair until the next boot, or for good; nothing if there is none, or if it is not clear
    whether one is needed.
    """
    report = before_repair.report
    if report.verdict == "no-default-route":
        return _Printed(CANNOT_DECIDE)
    if report.escapes and not report.routes:
        return _Printed(PROBLEM)
    if not report.escapes and (before_repair.doubts or now.named("kernel-differs")):
        return _Printed(CANNOT_DECIDE, ["it is not clear whether a repair is needed"])
    code = FINE
    if before_repair.named("unsafe") or report.missing_defaults:  # that stays wrong
        code = PROBLEM
    if not arguments.commands:
        lines = json.dumps(proposal.config.to_mapping(), indent=2).splitlines()
        return _Printed(code, [*_notes_on(now, before_repair, proposal)], lines)
    commands = repair_commands(now.report)
    if report.verdict == "ok":
        return _Printed(code, [f"no route has to be added: {report}"])
    if not commands:
        for_good = Remedy(_HELD_BY_OURS, now.repair.line())
        return _Printed(PROBLEM, [for_good.line_for(as_whom(arguments))])
    return _Printed(code, lines=commands)


def _notes_on(now: HostCheck, before_repair: HostCheck, proposal: Proposal) -> Iterator[str]:
    """What is new in the configuration, or why nothing is, and what it lacks."""
    if proposal.report.escapes and not now.report.escapes:
        yield "nothing escapes until the next boot; the printed configuration makes that last"
    elif now.report.verdict == "ok":
        yield f"no route has to be added: {now.report}"
    elif proposal.report.verdict == "ok":
        yield (
            "the configuration already asks for these routes, and this host is not like that; "
            "applying the printed one sets them"
        )
    for finding in proposal.left_out:
        yield f"{finding.sentence}; the printed configuration has other routes instead"
    if before_repair.named("unsafe"):  # a pipe to apply hides the exit code
        yield "the printed configuration repairs only a part of what escapes"
