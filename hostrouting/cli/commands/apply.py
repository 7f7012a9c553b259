"""`apply`: make this host what a configuration asks for, now and at every boot.

Requires root. The file describes the whole installation: afterwards, this host has what the file
says, and nothing else of hostrouting. A file that takes away a route, a CIDR, the mode STRICT, a
gated unit or the guard is refused without --allow-removal, also if it is the installed one after an
edit. So is, in mode STRICT, the deletion of routes that were typed and without which addresses
escape. A running unit is not touched. If an address escapes afterwards, or a drop-in lets a gated
unit start unchecked, the exit code is 1 in mode STRICT, and 0 in mode WARN. It is 3 if a default
route or a device is still missing after --wait.

With --confirm, all of it is taken back if it fails, if nobody presses Enter in time, after a
signal, or when the terminal is closed. Only kill -9 leaves the change in place.
"""

import argparse
from collections.abc import Iterator
from contextlib import suppress

import phases
from hostrouting.boot.health import find_faults
from hostrouting.boot.unit_gates import AGAIN
from hostrouting.boot.unit_states import refused_units, unit_states
from hostrouting.check.results import CheckReport
from hostrouting.cli.check import check_lines, refusal_of, starts_unchecked, what_is_wrong
from hostrouting.cli.confirming import AwaitConfirmation, controlling_terminal
from hostrouting.cli.output import Answer, finding_lines
from hostrouting.cli.running import Run, run_task, told_anyway
from hostrouting.cli.source import bad_input, read_config
from hostrouting.codes import FINE, PROBLEM
from hostrouting.config.settings import HostRoutingConfig, gated_units
from hostrouting.errors import HostRoutingError
from hostrouting.finding import Finding, Remedy
from hostrouting.host.host import Host
from hostrouting.install.host_check import HostCheck, check_host, take_snapshot
from hostrouting.install.installed import installed_or_none
from hostrouting.install.obstacles import find_ungated
from hostrouting.install.typed_commands import with_gate_command
from hostrouting.routes.plan import RoutePlan, plan_static_routes, reply_routes
from hostrouting.tasks.configure import Configure

ARGUMENTS = ("--config required", "--wait", "--allow-removal", "--gate", "--confirm")


def run(arguments: argparse.Namespace, host: Host) -> Answer:
    config = read_config(arguments.config, arguments.gate)
    task = Configure(config, host=host, wait=arguments.wait, allow_removal=arguments.allow_removal)
    if arguments.confirm is None:
        outcome = run_task(task, host)
    else:
        outcome = _run_confirmed(task, host, arguments.confirm)
    if outcome.is_taken_back:
        document = {"schema": "hostrouting/apply/4", **outcome.document()}
        return Answer(outcome.code, document, outcome.lines())
    with told_anyway(outcome):
        return _answer(outcome, config, host)


def _answer(outcome: Run, config: HostRoutingConfig, host: Host) -> Answer:
    """What the run has done, and how the host is now."""
    report = _report_of(outcome)
    check = None if report is None else HostCheck.of_host(report, config, host)
    routes = _routes_now(config, host)
    findings = [*routes.warnings, *_of_the_gate(outcome, config, host)]
    if not outcome.report.ok:  # the remedy would be to apply
        findings = [finding._replace(remedy=None) for finding in findings]
    document = {
        "schema": "hostrouting/apply/4",
        **outcome.document(),
        "findings": [finding.to_mapping() for finding in findings],
        "check": check and check.document(),
    }
    wrong = what_is_wrong(findings, check, config)
    lines = [*outcome.lines(_success(routes, wrong)), *finding_lines(findings)]
    if outcome.report.ok:
        lines += _start_lines(config, host, check)
    else:
        lines += _choice_lines(config, host)
    if not outcome.report.ok and outcome.has_changed:
        lines.append("To see how this host is now, and what to type: hostrouting status")
    if check is not None:
        lines += check_lines(check)
    code = outcome.code
    if code == FINE and starts_unchecked(config, findings):
        code = PROBLEM
    return Answer(code, document, lines, report)


def _run_confirmed(task: Configure, host: Host, seconds: float) -> Run:
    """Apply, and take everything back unless the operator confirms it."""
    if installed_or_none(host) is None:
        rule = "the installed configuration cannot be read, so it could not be installed again"
        raise bad_input("--confirm", rule, "repair that first, or leave the option out")
    with controlling_terminal() as terminal:
        confirmed = phases.serial(task, AwaitConfirmation(terminal, seconds), name="apply")
        return run_task(confirmed, host, undo_on_failure=True)


def _report_of(outcome: Run) -> CheckReport | None:
    """The report of the check; a result and a RouteOverlapError both contain it."""
    for end in (*(node.result for node in outcome.report.walk()), *outcome.errors):
        report = getattr(end, "report", None)
        if isinstance(report, CheckReport):
            return report
    return None


def _routes_now(config: HostRoutingConfig, host: Host) -> RoutePlan:
    """The plan of the routes now: what is not installed, and what would wait after a reboot."""
    with suppress(HostRoutingError):
        if config.static_routes.routes or reply_routes(config):
            return plan_static_routes(config, take_snapshot(host))
    return RoutePlan()


def _success(routes: RoutePlan, wrong: str) -> str:
    """What is true after a run without a failure, and what is wrong all the same."""
    sentence = "this host matches the configuration"
    if routes.reply_findings:
        sentence += ", except for the route for replies to probes"
    return f"{sentence}, but {wrong}" if wrong else sentence


def _of_the_gate(outcome: Run, config: HostRoutingConfig, host: Host) -> list[Finding]:
    """What lets units start unchecked: of the installed configuration if it gates any."""
    installed = installed_or_none(host)
    if not outcome.has_changed and installed == HostRoutingConfig():
        return []  # there was never a gate
    judged = installed if installed and gated_units(installed) else config
    findings: list[Finding] = []
    with suppress(HostRoutingError):
        findings += [fault for fault in find_faults(host, judged) if fault.name == "gate-open"]
    findings += with_gate_command(find_ungated(judged, host), AGAIN.command)
    return findings


def _choice_lines(config: HostRoutingConfig, host: Host) -> Iterator[str]:
    """The commands that name a device, where routes of the configuration wait for that."""
    with suppress(HostRoutingError):
        if config.route_overlap.cidrs and installed_or_none(host) == config:
            check = check_host(config, host)
            choices = [finding for finding in check.findings if "candidates" in finding.facts]
            yield from finding_lines(choices)


def _start_lines(config: HostRoutingConfig, host: Host, check: HostCheck | None) -> Iterator[str]:
    """How to start the units that were refused before, if nothing holds them back now."""
    manager = host.running_manager
    if manager is None or (check is not None and check.is_wrong):
        return
    with suppress(HostRoutingError):
        refused = refused_units(unit_states(manager, gated_units(config)))
        if refused:
            start = Remedy(command=f"systemctl start {' '.join(refused)}")
            yield f"{refusal_of(refused)}; {start}"
