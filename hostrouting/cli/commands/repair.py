"""`repair`: the configuration that repairs what check finds, as apply reads it.

The output is the file of --config, or else the installed configuration, with
the routes that the host lacks once it is applied. Routes through the default
gateway are written without gateway and dev, so the file fits other nodes
with the same problem. Standard error says what it cannot repair. If nothing
escapes, no route is added. If nothing can be repaired, nothing is printed,
and the exit code is 1, or 3 if the check is undecided. With --allow, the
configuration allows a device instead of repairing what leaves through it.
"""

import argparse
import json

from hostrouting.check.proposal import propose_configuration
from hostrouting.cli.output import Page, say
from hostrouting.cli.source import check_host_or_snapshot, config_to_repair, find_config
from hostrouting.codes import CANNOT_DECIDE, FINE, PROBLEM
from hostrouting.finding import ESCAPES
from hostrouting.host.host import Host
from hostrouting.install.host_check import HostCheck
from hostrouting.lines import finding_lines


def run(arguments: argparse.Namespace, host: Host) -> Page:
    # Print a configuration that repairs the host. Standard error says what it cannot repair.
    config = config_to_repair(find_config(arguments, host), arguments)
    check_now = check_host_or_snapshot(arguments, host, config)
    proposal = propose_configuration(config, check_now.report.snapshot)
    # The check of the host as it will be once `config` is applied, but not yet the repair. Its
    # `report.routes` are the routes that the repair adds.
    check_with_config = HostCheck.of_report(
        proposal.report, config, repair_options=check_now.repair_options
    )
    # What the routes of the repair do not settle: escapes with a remedy of their own (to delete a
    # route, or to allow a device), ranges without a repair, and doubts.
    findings = [
        finding for finding in check_with_config.named(*ESCAPES) if finding.remedy is not None
    ]
    findings += [*check_with_config.named("unsafe", "no-default-route"), *check_with_config.doubts]
    # Only `check_now` has asked the kernel whether it decides otherwise than its tables say.
    findings += check_now.named("kernel-differs")
    # Add what the repair is ("action"), and which default route Linux prefers. The remedy of both
    # is to type this command, so it is left out.
    for finding in check_with_config.named("action", "default-routes"):
        if finding not in findings:  # a doubt named "default-routes" is there, and keeps its remedy
            findings.append(finding._replace(remedy=None))
    if findings:
        say("what to know about this repair:", *finding_lines(findings))
    if check_now.report.verdict == "ok" and not check_with_config.report.routes:
        say(
            "with this configuration, nothing escapes now, so no route is added; a route that was "
            "typed by hand is gone after the next boot"
        )
    proposed = proposal.config.to_mapping()
    document = {
        "schema": "hostrouting/repair/1",
        "verdict": check_now.report.verdict,
        "config": proposed,
        "findings": [finding.to_mapping() for finding in findings],
    }
    code = _exit_code(check_with_config, check_now)
    # If something is wrong or in doubt, a configuration without new routes is not printed.
    is_printed = check_with_config.report.routes or code == FINE
    lines = [json.dumps(proposed, indent=2)]
    return Page(code, document, lines if is_printed else ())


def _exit_code(check_with_config: HostCheck, check_now: HostCheck) -> int:
    """The exit code of the command: FINE if nothing is wrong once the repair is applied.
    `check_now` is the check of the host as it is. `check_with_config` is the check of the host as
    it will be with the configuration, but without the routes of the repair (`report.routes`).
    """
    report = check_with_config.report
    if report.verdict == "no-default-route":  # the default route may still come
        return CANNOT_DECIDE
    if report.escapes and not report.routes:  # nothing can be repaired
        return PROBLEM
    # A doubt counts only if nothing escapes: an escape is certain, and so is its repair. Only
    # `check_now` has asked the kernel whether it decides otherwise than its tables say.
    if not report.escapes and (check_with_config.doubts or check_now.named("kernel-differs")):
        return CANNOT_DECIDE
    # "unsafe": no route can repair a range. If one family has escapes, the verdict does not say
    # that the other lacks a default route.
    return PROBLEM if check_with_config.named("unsafe") or report.missing_defaults else FINE
