"""How a configuration comes onto a host: one function that is read from top to bottom.

1. Read what is installed, and what is wanted.
2. Make the plan.
3. Fail if the run must fail; end if nothing is wanted and nothing is there.
4. Take the lock, and do 1 to 3 again: another run may have come first.
5. Write the files, and ask systemd whether each gate is in force.
6. Start the guard, and release the lock.
7. Each part does its work on the kernel. It waits for what it needs without the lock.
8. The result.

`Configure`, a task about one section, `Remove`, and the undo of each come here; they differ in the
configuration that they want. If a part fails, the files stay: the gate holds units back until the
routing is right. If the guard does not start, or a gate is not in force, the parts do their work
all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import phases
from hostrouting.errors import RequirementError
from hostrouting.gate.unit_gates import find_cancelled_gates
from hostrouting.host.effects import Effects, effects_of, recorded_in_errors
from hostrouting.install.preflight import plan_install, require_possible
from hostrouting.install.write import start_guard, write_files
from phases.execution import raise_together

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.finding import Finding
    from hostrouting.host.host import Host
    from hostrouting.install.part import Part
    from hostrouting.install.plan import Plan
    from hostrouting.install.wanted import Wanted

Keep: TypeAlias = "Callable[[HostRoutingConfig | None], object]"
"""Keeps what undo needs: what is installed before the first change; None if it cannot be read."""


def install(
    host: Host,
    read_wanted: Callable[[], Wanted],
    all_parts: Sequence[Part],
    ctx: phases.Context,
    *,
    as_steps: bool,
    keep: Keep,
    nothing: str,
) -> Effects | phases.Skip:
    """Make the host what is wanted: the files, the guard, then the work of each part.

    With `as_steps`, each part is a step of its own. The result is a Skip with the reason `nothing`
    if nothing is wanted and nothing of ours is there. Without a change, the host is still checked:
    another run may have just changed it.
    """
    parts = parts_of_run(all_parts, ctx)

    wanted = read_wanted()  # 1
    plan = plan_install(host, wanted, parts)  # 2
    require_possible(wanted, plan)  # 3
    if plan.is_empty and wanted.is_nothing:
        return phases.Skip(nothing)

    errors: list[BaseException] = []
    with ExitStack() as locked:
        with phases.inner_step("install-files", ctx) as step:
            if plan.needs_lock:  # 4
                locked.enter_context(host.locked(step.ctx))
                wanted = read_wanted()
                plan = plan_install(host, wanted, parts)
                require_possible(wanted, plan)
            _begin(ctx, plan, wanted, keep)
            step.result = write_files(host, plan)  # 5
        effects = effects_of(step.result)
        cancelled = [*find_cancelled_gates(host, wanted.config)]
        if cancelled and wanted.config.route_overlap.is_strict:
            errors.append(RequirementError(findings=cancelled))
        else:
            new = tuple(finding for finding in cancelled if finding not in plan.obstacles)
            _log(ctx, new)
            effects += Effects(warnings=new)
        try:
            effects += _start_guard(host, plan, ctx)  # 6
        except phases.TaskFailed as failure:  # the parts do not need it
            errors.append(failure)

    results: list[object] = []
    try:
        if as_steps:  # 7
            # One that the run leaves out is a skipped step.
            _do_as_steps(all_parts, wanted, ctx, results)
        else:
            for part in parts:
                _do(part, wanted, results, ctx)
    except BaseException as error:  # noqa: BLE001  raised below, with what was done before it
        errors.append(error)
    for result in results:
        effects += effects_of(result)
    with recorded_in_errors(effects.changes, effects.files, effects.operations, effects.warnings):
        raise_together(errors)
    return _result(effects, results, as_steps=as_steps)  # 8


def parts_of_run(parts: Iterable[Part], ctx: phases.Context) -> list[Part]:
    """The parts that a run does not leave out."""
    return [part for part in parts if part.name not in ctx.skip]


def _begin(ctx: phases.Context, plan: Plan, wanted: Wanted, keep: Keep) -> None:
    """Before the first change: say what has to be known, and keep what undo needs."""
    # A gate that is cancelled in STRICT is raised at the end.
    _log(ctx, [finding for finding in plan.obstacles if finding.severity != "error"])
    if not plan.is_empty:
        keep(wanted.former)


def _log(ctx: phases.Context, findings: Iterable[Finding]) -> None:
    for finding in findings:
        ctx.log.log(finding.level, "%s", finding, extra={"finding": finding.name})


def _start_guard(host: Host, plan: Plan, ctx: phases.Context) -> Effects:
    """Start the guard if the plan says so, as a step."""
    if not plan.for_systemd("start", "restart"):
        return Effects()
    with phases.inner_step("start-guard", ctx) as step:
        started = step.result = start_guard(host, plan)
    return started


def _do_as_steps(
    parts: Iterable[Part], wanted: Wanted, ctx: phases.Context, results: list[object]
) -> None:
    """The work of these parts, each as a step of its own."""
    steps = [phases.task(part.name)(partial(_do, part, wanted, results)) for part in parts]
    phases.serial(*steps).do(ctx)


def _do(
    part: Part, wanted: Wanted, results: list[object], ctx: phases.Context
) -> Effects | phases.Skip:
    """The work of a part, whose result is appended."""
    result = part.carry_out(ctx, wanted)
    results.append(result)
    return result


def _result(
    effects: Effects, results: Sequence[object], *, as_steps: bool
) -> Effects | phases.Skip:
    """The result of a run in which nothing failed: a Skip if there was nothing to do or to warn of,
    with the reason of the last part where these are not steps of their own.
    """
    skips = [result for result in results if isinstance(result, phases.Skip)]
    are_all_skipped = len(skips) == len(results)
    if effects.changed or effects.warnings or not are_all_skipped:
        return effects
    if as_steps or not skips:
        return phases.Skip("everything is as it should be")
    return skips[-1]
