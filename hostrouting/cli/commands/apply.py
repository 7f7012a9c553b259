"""`apply`: apply the configuration to the host. Progress is printed meanwhile, the changes at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from hostrouting.check.examine import Examination
from hostrouting.cli.changes import Run, run_task
from hostrouting.cli.check import Check
from hostrouting.cli.command import Command, Reply, config_option, removal_option, wait_option
from hostrouting.cli.output import Line, Painted, below, line, named_lines
from hostrouting.cli.remedy import remedy_lines
from hostrouting.cli.source import config_of, wait_of
from hostrouting.cli.standings import Standings, looked_at_gate
from hostrouting.errors import ConfigError, RouteOverlapError, is_denied
from hostrouting.tasks.configure import Configure
from hostrouting.tasks.results import CheckResult, RoutesResult
from hostrouting.text import spoken

if TYPE_CHECKING:
    import argparse

    from hostrouting.boot.gate_state import GateState
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.host.host import Host


class Done:
    """What apply did, the check that followed, and the state of the gate and of the other tasks after the run."""

    def __init__(self, run: Run, config: HostRoutingConfig, host: Host) -> None:
        """Collect it from the results and errors of the tasks, and from the host."""
        self.run, self.gate = run, looked_at_gate(host)
        results = [node.result for node in run.report.walk()]
        plan = next((result.plan for result in results if isinstance(result, RoutesResult) and result.plan), None)
        self.work = run.work(None if plan is None else plan.steps)
        self.foreseen = () if plan is None else plan.foreseen  # the routes that will not last
        found = [result.examination for result in results if isinstance(result, CheckResult)]
        errors = [failure.error for failure in run.report.failures]
        reports = [error.report for error in errors if isinstance(error, RouteOverlapError)]
        found += [report for report in reports if isinstance(report, Examination)]
        self.check = next((Check(examined, config) for examined in found if examined is not None), None)
        self.escapes = self.check is not None and self.check.found.verdict != "ok"
        self.standings = Standings.on(host, config)._replace(troubles=())  # a failure of the run says more


def after_a_failure(gate: GateState) -> Line:
    """The last line after a failed run: whether a gated unit can start now."""
    units = spoken(gate.units)
    if gate.openings or not gate.is_up:
        why = gate.openings[0] if gate.openings else f"the drop-in that makes {units} wait for the check is missing"
        ways = f"to hold back {units}, run: {gate.hold}; or fix this and apply again"
        return line(Painted("A gated unit that is started now is NOT held back:", "bad"), f" {why}; {ways}")
    if gate.bars:
        return line(Painted(f"{units} cannot start now:", "warn"), f" {gate.bars[0]}")
    return line(f"Each start of {units} is still checked; whether it can start now: hostrouting status")


def _options(parser: argparse.ArgumentParser) -> None:
    config_option(parser, required=True)
    wait_option(parser)
    removal_option(parser)


def _answer(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:

    config, here = config_of(arguments), host()
    wait, allow = wait_of(arguments, here), arguments.allow_removal
    configure = Configure(config, host=here, wait=wait, allow_removal=allow)
    run = run_task(configure, here)
    done = Done(run, config, here)
    failed = None if done.escapes else run.failed  # the page explains escapes in detail
    return Reply(run.code, lambda: _document(done), lambda: _page(done, arguments), failed=failed)


def _page(done: Done, arguments: argparse.Namespace) -> Iterator[Line]:

    check = done.check
    verdict = () if check is None else check.answer_lines()
    yield from done.run.lines(done.work, f"the host already matches {arguments.config}", verdict=verdict)
    yield from below(named_lines(done.foreseen))
    yield from done.standings.lines()
    if check is not None and done.escapes:
        yield from check.evidence_lines()
        again = f"hostrouting repair --config {arguments.config}"
        yield from remedy_lines(check, config=arguments.config, again=again)
        name = f"name the outgoing devices as routeOverlap.expectedDevs in {arguments.config}"
        # The log has said already for which packets the verdict does not hold.
        yield from check.limit_lines(advice=f"Wait longer (--wait 300), or {name}.", again="hostrouting check")
        if not done.run.ok and done.gate.is_up and not done.gate.openings and not done.gate.bars:
            yield line()
            yield line(f"The mode is STRICT: {spoken(done.gate.units)} cannot start until the check passes.")
            return
    if done.run.ok:
        yield from below(named_lines(done.gate.findings))
    elif not any(
        is_denied(failure.error) or isinstance(failure.error, ConfigError) for failure in done.run.report.failures
    ):
        yield line()
        yield after_a_failure(done.gate)


def _document(done: Done) -> dict[str, Any]:

    return {
        "schema": COMMAND.schema,
        "ok": done.run.ok,
        "changed": bool(done.work),
        **done.work.document(),
        "findings": [finding.to_mapping() for finding in (*done.foreseen, *done.gate.findings)],
        "standings": done.standings.documents(),
        "check": None if done.check is None else done.check.document(),
        "failures": done.run.failures,
    }


COMMAND = Command(
    name="apply",
    answer=_answer,
    version=2,
    options=_options,
    more="""\
Requires root. The file is complete: installed parts that it does not name are removed. Without --allow-removal, a file
that takes away the gate, the mode STRICT, an address that STRICT protects or the guard is refused: nothing is changed,
and the exit code is 2. Either all routes are applied or none; a running unit is not touched. If an overlap is left
afterwards, the exit code is 1 in mode STRICT; in mode WARN the overlap is only reported.
""",
    examples="""\
# as root: apply it now, and at every boot
hostrouting apply --config agent.json
# for a program, on a host whose default route may take five minutes
hostrouting apply --config agent.json --wait 300 --json
""",
    failing="it failed, or, in mode STRICT, an overlap is left",
)
