"""`apply`: apply the configuration to the host. Progress is printed meanwhile, the changes at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from hostrouting.boot.health import find_faults
from hostrouting.check.check import CheckReport
from hostrouting.cli.changes import Run, run_task
from hostrouting.cli.check import Check
from hostrouting.cli.command import Command, Reply, config_option, removal_option, wait_option
from hostrouting.cli.output import Line, Painted, below, line, named_lines
from hostrouting.cli.source import config_of
from hostrouting.config.settings import gated_units
from hostrouting.errors import ConfigError, FileError, ManagerError, RouteOverlapError, is_denied
from hostrouting.finding import Finding
from hostrouting.tasks.configure import Configure
from hostrouting.tasks.results import CheckResult, RoutesResult
from hostrouting.text import spoken

if TYPE_CHECKING:
    import argparse

    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.host.host import Host


class Done:
    """What apply did, the check that followed, and whether gated units are held back after the run."""

    def __init__(self, run: Run, config: HostRoutingConfig, host: Host) -> None:
        """Collect it from the results and errors of the tasks, and from the host."""
        self.run, self.units = run, spoken(gated_units(config))
        results = [node.result for node in run.report.walk()]
        plan = next((result.plan for result in results if isinstance(result, RoutesResult) and result.plan), None)
        self.work = run.work(None if plan is None else plan.steps)
        self.left_out = () if plan is None else plan.left_out
        self.errors = [failure.error for failure in run.report.failures]
        reports: list[object] = [result.report for result in results if isinstance(result, CheckResult)]
        reports += [error.report for error in self.errors if isinstance(error, RouteOverlapError)]
        report = next((report for report in reports if isinstance(report, CheckReport)), None)
        self.check = None if report is None else Check(report, config)
        self.escapes = report is not None and report.verdict != "ok"
        self.faults = self._faults(config, host)

    def _faults(self, config: HostRoutingConfig, host: Host) -> tuple[Finding, ...]:
        """What is wrong with the hold; after a failure, what lets units start unchecked."""
        if any(is_denied(error) or isinstance(error, ConfigError) for error in self.errors):
            return ()  # nothing was changed
        try:
            faults = find_faults(host, config)
        except (FileError, ManagerError) as error:
            faults = (Finding("not-known", "warning", f"whether units are held back is not known: {error}"),)
        return faults if self.run.ok else tuple(fault for fault in faults if fault.name in {"gate-open", "not-known"})

    def hold_line(self) -> Line:
        """After a failed run: whether a gated unit can start now."""
        for fault in self.faults:
            known = "" if fault.name == "not-known" else "A gated unit that is started now is NOT held back: "
            return line(Painted(f"{known}{fault.sentence}", "bad"), "; correct this and apply again")
        start = f"{self.units} can start only once the steps of the gate succeed"
        return line(Painted(start, "warn"), "; see: hostrouting status")


def _options(parser: argparse.ArgumentParser) -> None:
    config_option(parser, required=True)
    wait_option(parser)
    removal_option(parser)


def _answer(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:
    config, here = config_of(arguments), host()
    configure = Configure(config, host=here, wait=arguments.wait, allow_removal=arguments.allow_removal)
    run = run_task(configure, here)
    done = Done(run, config, here)
    failed = None if done.escapes else run.failed  # the page explains escapes in detail
    return Reply(run.code, lambda: _document(done), lambda: _page(done, arguments), failed=failed)


def _page(done: Done, arguments: argparse.Namespace) -> Iterator[Line]:
    check = done.check
    verdict = () if check is None else check.answer_lines()
    yield from done.run.lines(done.work, f"the host already matches {arguments.config}", verdict=verdict)
    yield from below(named_lines(done.left_out))
    if check is not None and done.escapes:
        yield from check.evidence_lines()
        yield from check.repair_lines(f"--config {arguments.config}")
        yield from check.finding_lines()
        yield from check.allowing_lines()
    if done.run.ok:
        yield from below(named_lines(done.faults))
    elif done.units and not any(is_denied(error) or isinstance(error, ConfigError) for error in done.errors):
        yield line()
        yield done.hold_line()


def _document(done: Done) -> dict[str, Any]:
    return {
        "schema": COMMAND.schema,
        "ok": done.run.ok,
        "changed": bool(done.work),
        **done.work.document(),
        "findings": [finding.to_mapping() for finding in (*done.left_out, *done.faults)],
        "check": None if done.check is None else done.check.document(),
        "failures": done.run.failures,
    }


COMMAND = Command(
    name="apply",
    answer=_answer,
    version=3,
    options=_options,
    more="""\
Requires root. The file is complete: installed parts that it does not name are removed. Without --allow-removal, a file
that takes away a route, a CIDR, the mode STRICT, a gated unit or the guard is refused: nothing is changed, and the exit
code is 2. Either all routes are applied or none; a running unit is not touched. If an overlap is left afterwards, the
exit code is 1 in mode STRICT; in mode WARN the overlap is only reported.
""",
    examples="""\
# as root: apply it now, and at every boot
hostrouting apply --config agent.json
# for a program, on a host whose default route may take five minutes
hostrouting apply --config agent.json --wait 300 --json
""",
    failing="it failed, or, in mode STRICT, an overlap is left",
)
