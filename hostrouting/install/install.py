"""How a configuration comes onto a host: one function that is read from top to bottom.

1. Read what is installed, and what is wanted.
2. Make the plan.
3. Fail if the run must fail; end if nothing is wanted and nothing is there.
4. Take the lock, and do 1 to 3 again: another run may have come first.
5. Write the files, and ask systemd whether each gate is in force.
6. Start the guard, and release the lock.
7. Make a pass for each part (`upkeep.passes`), which waits for what it needs without the lock.
8. The result.

`Configure`, a task about one section, `Remove`, and the undo of each come here; they differ in the
request. If a part fails, the files stay: the gate holds units back until the routing is right. If
the guard does not start, or a gate is not in force, the parts do their work all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING

import phases
from hostrouting.boot.on_disk import gated_on_disk
from hostrouting.config.settings import HostRoutingConfig, gated_units
from hostrouting.errors import ConfigError, HostError, RequirementError
from hostrouting.gate.unit_gates import find_cancelled_gates
from hostrouting.host.effects import Effects, effects_of, recorded_in_errors
from hostrouting.install.difference import find_file_changes, find_systemd_changes
from hostrouting.install.installed import read_installed
from hostrouting.install.losses import find_losses
from hostrouting.install.plan import ALLOWED_BY, Plan
from hostrouting.install.requirements import find_requirements
from hostrouting.install.results import CheckResult
from hostrouting.install.ungated import find_ungated
from hostrouting.install.wanted import read_wanted
from hostrouting.install.write import start_guard, write_files
from hostrouting.probe.load import find_operation
from hostrouting.probe.obstacles import find_probe_obstacles
from hostrouting.routes.plan import plan_static_routes
from hostrouting.routes.steps import RoutePlan
from hostrouting.upkeep.passes import (
    MOST_FINDINGS_SHOWN,
    Done,
    await_pass,
    markers_removed_on_failure,
    run_pass,
)
from phases.execution import raise_together

if TYPE_CHECKING:
    from hostrouting.config.settings import PassPart
    from hostrouting.errors import Fault
    from hostrouting.finding import Finding
    from hostrouting.host.host import Host
    from hostrouting.host.operation import Operation
    from hostrouting.install.wanted import Request, Wanted
    from hostrouting.kernel.base import RouteBackend
    from hostrouting.upkeep.passes import PassOutcome

STEPS: dict[PassPart, str] = {
    "static_routes": "configure-static-routes",
    "probe_rewrite": "rewrite-probe-source",
    "route_overlap": "check-route-overlap",
}
"""By part of a pass: the name of its step in a run. The task for this part alone has it, too."""
_NOTHING_INSTALLED = "nothing is configured, and nothing is installed"
_NO_PROBE_REWRITE = "no probe rewrite is configured, and none is loaded"
_ALL_RIGHT = "everything is as it should be"
_NO_KERNEL = "an image has no kernel; this is done when it boots"
"""Why a run, or a part of one, is skipped."""
_REPLACED = (
    "another run has installed a different configuration in the meantime; run this again if this "
    "configuration is the right one"
)

_WOULD_REMOVE = f"this would remove protection (to allow it: {ALLOWED_BY}):"
_SHARE_OF_DEADLINE = 0.95
"""The share of the time until the run's deadline in which a part waits. In the rest, it fails with
an error that says what was missing.
"""


def install(  # noqa: C901  the steps of the module's docstring, which are read in one piece
    host: Host,
    request: Request,
    all_parts: Sequence[PassPart],
    ctx: phases.Context,
    *,
    wait: float,
    as_steps: bool,
    former_by_run: dict[str, HostRoutingConfig | None],
) -> CheckResult | phases.Skip:
    """Bring the requested configuration onto the host: write the files, start the guard, then make
    the parts of a pass (set routes, load the table for probes, check). Each part waits for what it
    needs, for up to `wait` seconds; with `as_steps`, it is a step of its own.

    Before the first change, the installed configuration is noted in `former_by_run` under the id of
    the run, for an undo to install again; None if it cannot be read. The error of a run that fails
    records what the run has changed (`effects_of`).
    """
    parts = [part for part in all_parts if STEPS[part] not in ctx.skip]

    wanted = read_wanted(host, request)
    plan = plan_install(host, wanted, parts)
    require_possible(wanted, plan)
    # An empty configuration removes everything, and an empty plan finds nothing to remove.
    if plan.is_empty and wanted.config == HostRoutingConfig():
        return phases.Skip(_NOTHING_INSTALLED)

    results: list[object] = []  # what each step has changed, or why it was skipped
    errors: list[BaseException] = []  # of the steps after the files; raised at the end
    with ExitStack() as locked:  # if the lock is taken, holds it until the guard has started
        with phases.inner_step("install-files", ctx) as step:
            # Only files and systemd need the lock here: each part takes the lock itself.
            if plan.files or plan.systemd:
                locked.enter_context(host.locked(step.ctx))
                # Another run may have changed the host before this one got the lock.
                wanted = read_wanted(host, request)
                plan = plan_install(host, wanted, parts)
                require_possible(wanted, plan)
            _log(ctx, plan.warnings)
            if not plan.is_empty:
                # A retry keeps what its first attempt noted.
                former_by_run.setdefault(ctx.run_id, wanted.former)
            step.result = write_files(host, plan)
        results.append(step.result)
        if gated_units(wanted.config):
            with _raised_later(errors), phases.inner_step("ask-systemd", ctx) as step:
                step.result = _require_gates(host, wanted, plan, ctx)
            results.append(step.result)
        if plan.for_systemd("start", "restart"):  # only the guard is started
            with _raised_later(errors), phases.inner_step("start-guard", ctx) as step:
                step.result = start_guard(host, plan)
            results.append(step.result)

    def make(part: PassPart, ctx: phases.Context) -> object:
        result = _make_part(host, part, wanted, plan, ctx, wait=wait)
        results.append(result)
        return result

    # The parts are made even if nothing has changed so far: another run may have just changed the
    # host.
    try:
        # If there is an error already, each part is a step, too, because `raise_together` below can
        # join only errors of steps.
        if as_steps or errors:
            # Not `parts`: a part that the run leaves out is reported as a skipped step.
            steps = [phases.task(STEPS[part])(partial(make, part)) for part in all_parts]
            phases.serial(*steps).do(ctx)
        else:
            for part in parts:
                make(part, ctx)
    except BaseException as error:  # noqa: BLE001  raised below, with what was done before it
        errors.append(error)
    done = Effects()
    for result in results:
        done += effects_of(result)
    with recorded_in_errors(done.changes, done.files, done.operations, done.warnings):
        raise_together(errors)  # returns if there are no errors
    last = results[-1]  # the check is the last part, and its result has the report
    report = last.report if isinstance(last, CheckResult) else None
    result = done + CheckResult(report=report)  # a CheckResult with all effects
    return phases.Skip(_ALL_RIGHT) if result == CheckResult() else result


# The plan.


def plan_install(
    host: Host,
    wanted: Wanted,
    parts: Sequence[PassPart],
    *,
    is_dry_run: bool = False,
    earlier: Sequence[Plan] = (),
) -> Plan:
    """Return what a run with these parts of a pass would change, and what would make it fail. In a
    dry run with the check as a part, the plan also has a check of the host as it would be
    afterwards: after this plan, or after the plans of the tasks before this one (`earlier`).

    If the run must not take protection away, a config.json that cannot be read is an error, because
    nobody knows what it protects.
    """
    if host.is_image:
        parts = ()  # an image has no kernel
    read_snapshot = cache(host.take_snapshot)  # so that all parts see the same moment
    config = wanted.config
    files = find_file_changes(host, config)
    systemd = tuple(find_systemd_changes(host.running_manager, config, wanted.former, files))
    obstacles = [*find_requirements(host, config, files), *find_ungated(config, host)]
    routes = RoutePlan()
    if "static_routes" in parts:
        routes = plan_static_routes(config, read_snapshot())
    operations: list[Operation] = []
    if "probe_rewrite" in parts:
        operations += _find_table_operation(host, wanted)
        obstacles += find_probe_obstacles(config, read_snapshot())
    losses: list[Fault] = []
    if not wanted.allow_removal:
        # `former` is None if config.json could not be read: read it again, to raise the reason.
        former = wanted.former or read_installed(host)
        losses += find_losses(former, gated_on_disk(host.files), config)
    plan = Plan(files, systemd, routes, tuple(operations), tuple(obstacles), tuple(losses))
    if is_dry_run and "route_overlap" in parts:
        plan = plan.with_check(config, read_snapshot(), earlier)
    return plan


def _find_table_operation(host: Host, wanted: Wanted) -> Iterator[Operation]:
    """Yield what has to be done to the nftables table that rewrites probes, if anything. HostError
    if nft does not answer, though the rewrite is wanted or was installed before.
    """
    try:
        operation = find_operation(host.nftables, wanted.config.probe_rewrite)
    except HostError:
        # Where probes were not rewritten and are not to be, the host need not have nft.
        if any(each and each.probe_rewrite.enabled for each in (wanted.config, wanted.former)):
            raise
        return
    if operation is not None:
        yield operation


def require_possible(wanted: Wanted, plan: Plan) -> None:
    """Raise the error of a run that must fail before its first change. What an operator has to
    solve first is raised first.

    ========================  ================================================
    What the host lacks       raises
    What would be lost        raises, unless that is allowed
    A conflict of routes      raises if it is new on a host that is configured
    ========================  ================================================

    Other conflicts let the run fail at its end: the files are there then, and the gate holds units
    back until the conflict is solved. Two more things fail a run only later, because it looks for
    them when the files are there: a gate that another program cancels, and expected addresses whose
    packets do not leave through an expected device (the overlap check).
    """
    lacking = [
        finding
        for finding in plan.obstacles
        # "gate-open" is a gate that another program cancels.
        if finding.severity == "error" and finding.name != "gate-open"
    ]
    if lacking:
        raise RequirementError(findings=lacking)
    if plan.losses:
        raise ConfigError(plan.losses, headline=_WOULD_REMOVE)
    # A first run has to bring the gate despite a conflict, and an undo brings back what was there,
    # with its conflicts. So a conflict fails such a run only at its end.
    if wanted.former == HostRoutingConfig() or wanted.purpose == "undo":
        return
    former = wanted.former or HostRoutingConfig()  # None if it cannot be read
    # The conflict of a route that the former configuration has is not new.
    former_keys = {route.key for route in former.static_routes.routes}
    if any(step.route.key not in former_keys for step in plan.routes.conflicts):
        plan.routes.require_no_conflict()  # raises all conflicts, not only the new one


# What is done when the files are there.


@contextmanager
def _raised_later(errors: list[BaseException]) -> Iterator[None]:
    """Have a run go on when the step in the block fails: its error goes into `errors`, to be raised
    at the end. The later steps do not need this one, and must be made because files have changed.
    """
    try:
        yield
    # After a cancellation, each later step raises Cancelled at once, and so does nothing.
    except (phases.TaskFailed, phases.Cancelled) as error:
        errors.append(error)


def _require_gates(host: Host, wanted: Wanted, plan: Plan, ctx: phases.Context) -> Effects:
    """Ask systemd, which has read the new files by now, whether each gate is in force. If another
    program cancels a gate, its unit starts unchecked: raise an error in STRICT, and otherwise
    return a warning, unless the plan has it already. An undo only warns, because it restores what
    was there before.
    """
    cancelled = tuple(find_cancelled_gates(host, wanted.config))
    if cancelled and wanted.config.route_overlap.is_strict and wanted.purpose != "undo":
        raise RequirementError(findings=cancelled)
    new = [finding for finding in cancelled if finding not in plan.warnings]
    _log(ctx, new)
    return Effects(warnings=tuple(new))


def _make_part(
    host: Host, part: PassPart, wanted: Wanted, plan: Plan, ctx: phases.Context, *, wait: float
) -> CheckResult | phases.Skip:
    """Make one part of a pass (set routes, load the table for probes, or check), again and again
    while it awaits something, for up to `wait` seconds. Return the effects of all passes and, if
    the part is the check, its report; a Skip if there is neither. Raise the error of the last pass,
    if it has one, with the changes of all passes.
    """
    if host.is_image:
        return phases.Skip(_NO_KERNEL)
    # The operations of a plan are those for the table for probes: to load it, or to delete it.
    if part == "probe_rewrite" and not (wanted.config.probe_rewrite.enabled or plan.operations):
        return phases.Skip(_NO_PROBE_REWRITE)  # a pass would ask nft, which need not be there
    remaining = ctx.remaining()
    if remaining is not None:
        # Give up shortly before the deadline: DeadlineExceeded would not say what was missing.
        wait = min(wait, _SHARE_OF_DEADLINE * remaining)
    done = Done()

    def make_pass(backend: RouteBackend) -> PassOutcome:
        with host.locked(ctx):
            # The markers (files that tell other programs the verdict of the last check) are wrong
            # if the configuration cannot be read any more.
            with markers_removed_on_failure(host.files):
                config = read_installed(host)  # another run may have changed another section
            # The settings of a part are the attribute with the name of the part.
            if getattr(config, part) != getattr(wanted.config, part):
                raise HostError(_REPLACED, what="file")
            return run_pass(
                host,
                backend,
                config,
                done=done,
                parts=[part],
                purpose=wanted.purpose,
                raise_if_cancelled=ctx.check,
            )

    with recorded_in_errors(done.changes, operations=done.operations):
        outcome = await_pass(host, make_pass, clock=_RunClock(ctx), wait=wait, say=ctx.log.info)
        error = outcome.error
        # The findings of the error are raised with it below, so they are not logged here.
        raised = error.findings if error is not None else ()
        _log(ctx, [finding for finding in outcome.to_log if finding not in raised])
        if error is not None:
            raise error
    report = outcome.report
    warnings = outcome.findings if report is None else ()  # else the report has them
    # The files are (), because a pass changes none.
    result = CheckResult(tuple(done.changes), (), tuple(done.operations), warnings, report=report)
    return phases.Skip(_ALL_RIGHT) if result == CheckResult() else result


class _RunClock:
    """The clock of a run, as `await_pass` takes it (`WaitClock`): a cancellation ends a sleep."""

    def __init__(self, ctx: phases.Context) -> None:
        self.for_watch = ctx.clock
        self.now = ctx.clock.now
        self.sleep = ctx.sleep


def _log(ctx: phases.Context, findings: Sequence[Finding]) -> None:
    """Log the first `MOST_FINDINGS_SHOWN` findings as warnings."""
    for finding in findings[:MOST_FINDINGS_SHOWN]:
        ctx.log.warning("%s", finding.line, extra={"finding": finding.name})
