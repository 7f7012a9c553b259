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

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, ClassVar, cast

import attrs

import phases
from hostrouting.errors import HostError, RequirementError
from hostrouting.gate.unit_gates import find_cancelled_gates
from hostrouting.host.effects import Effects, effects_of, recorded_in_errors
from hostrouting.host.host import Host
from hostrouting.install.plan import Plan
from hostrouting.install.preflight import plan_install, require_possible
from hostrouting.install.write import start_guard, write_files
from phases.context import derived
from phases.execution import raise_together

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.finding import Finding
    from hostrouting.install.part import Part
    from hostrouting.install.wanted import Wanted


# Not attrs.frozen, whose __init__ fails in a subclass that has no slots.
@attrs.define(unsafe_hash=True, on_setattr=attrs.setters.frozen)
class InstallTask(ABC):
    """A task that brings a configuration onto a host, as the module describes."""

    name = ""  # not a ClassVar, which pyright would not accept for a phases.Task
    reason_to_skip: ClassVar[str]
    """The reason of the Skip where nothing is configured, and nothing of ours is there."""
    has_steps: ClassVar[bool] = False
    """Whether each part is a step of its own; or all do their work in the step of this task."""

    config: HostRoutingConfig = attrs.field()
    host: Host = attrs.field(factory=Host.local, kw_only=True)
    wait: float = attrs.field(default=60.0, kw_only=True)
    """The seconds that each part waits for what it needs, such as the default route."""
    allow_removal: bool = attrs.field(default=False, kw_only=True)
    """Whether the configuration may take away what protects the host now: a gated unit, an expected
    CIDR, STRICT or the guard. If not, a ConfigError names it.
    """

    before: dict[str, HostRoutingConfig | None] = attrs.field(
        factory=dict, init=False, eq=False, repr=False
    )
    """By the id of a run that has changed something: what was installed before it; None if that
    could not be read. Undone runs are taken out.
    """

    @abstractmethod
    def wanted(self) -> Wanted:
        """The configuration that the host is to have, and the one that it has."""

    @abstractmethod
    def parts(self) -> tuple[Part, ...]:
        """The tasks that do the work on the kernel, in order."""

    @abstractmethod
    def own_part(self, config: HostRoutingConfig) -> object:
        """What of a configuration is this task's: one section, or all of it."""

    def plan(self, ctx: phases.Context | None = None) -> Plan:
        """What do() would do on this host now, and what would make it fail; changes nothing.

        It is the plan of root: a process without its rights can make a plan, and not carry it out.
        A part that checks the host checks it as the other parts, and the earlier tasks of this dry
        run, would leave it.
        """
        ctx = ctx or phases.Context()
        steps = [] if ctx.root is None else ctx.root.walk()
        earlier = [step.result for step in steps if isinstance(step.result, Plan)]
        parts = self._parts_of_run(ctx)
        return plan_install(self.host, self.wanted(), parts, is_dry_run=True, earlier=earlier)

    def do(self, ctx: phases.Context) -> Effects | phases.Skip:
        return self.install(ctx, self.wanted)

    def install(
        self, ctx: phases.Context, read_wanted: Callable[[], Wanted]
    ) -> Effects | phases.Skip:
        """Make the host what is wanted: the files, the guard, then the work of each part.

        Without a change, the host is still checked: another run may have just changed it.
        """
        host = self.host
        parts = self._parts_of_run(ctx)

        wanted = read_wanted()  # 1
        plan = plan_install(host, wanted, parts)  # 2
        require_possible(wanted, plan)  # 3
        if plan.is_empty and wanted.is_nothing:
            return phases.Skip(self.reason_to_skip)

        errors: list[BaseException] = []
        effects = Effects()
        written: Effects | phases.Skip | None = None
        with ExitStack() as locked:
            try:
                with phases.inner_step("install-files", ctx) as step:
                    if plan.files or plan.systemd:  # 4; a part takes the lock when it acts
                        locked.enter_context(host.locked(step.ctx))
                        wanted = read_wanted()
                        plan = plan_install(host, wanted, parts)
                        require_possible(wanted, plan)
                    # A gate that is cancelled in STRICT is raised after the write.
                    _log(ctx, [each for each in plan.obstacles if each.severity != "error"])
                    if not plan.is_empty:
                        self.before.setdefault(ctx.run_id, wanted.former)
                    written = write_files(host, plan)  # 5
                    effects = self._with_gates(effects_of(written), wanted, plan, ctx)
                    step.result = written
            except phases.TaskFailed as failure:
                if written is None:
                    raise
                errors.append(failure)  # the parts do their work all the same
            if plan.for_systemd("start", "restart"):  # 6
                try:
                    with phases.inner_step("start-guard", ctx) as step:
                        step.result = started = start_guard(host, plan)
                    effects += started
                except phases.TaskFailed as failure:  # the parts do not need it
                    errors.append(failure)

        results: list[object] = []
        try:
            as_steps = self.has_steps or bool(errors)  # so that no failure hides another
            self._carry_out(wanted, results, ctx, as_steps=as_steps)  # 7
        except BaseException as error:  # noqa: BLE001  raised below, with what was done before it
            errors.append(error)
        for result in results:
            effects += effects_of(result)
        with recorded_in_errors(
            effects.changes, effects.files, effects.operations, effects.warnings
        ):
            raise_together(errors)
        return self._result(effects, results)  # 8

    def _with_gates(
        self, effects: Effects, wanted: Wanted, plan: Plan, ctx: phases.Context
    ) -> Effects:
        """These effects with a warning for each gate that another program cancels. In STRICT, this
        is an error instead, but not in an undo.
        """
        with recorded_in_errors(files=effects.files, operations=effects.operations):
            cancelled = tuple(find_cancelled_gates(self.host, wanted.config))
            if cancelled and wanted.config.route_overlap.is_strict and not wanted.is_undo:
                raise RequirementError(findings=cancelled)
        new = tuple(finding for finding in cancelled if finding not in plan.warnings)
        _log(ctx, new)
        return effects + Effects(warnings=new)

    def _parts_of_run(self, ctx: phases.Context) -> list[Part]:
        """The parts that a run does not leave out."""
        return [part for part in self.parts() if part.name not in ctx.skip]

    def _carry_out(
        self, wanted: Wanted, results: list[object], ctx: phases.Context, *, as_steps: bool
    ) -> None:
        """The work of the parts, whose results are appended; perhaps each as a step of its own."""
        if not as_steps:
            for part in self._parts_of_run(ctx):
                _do(part, wanted, results, ctx)
            return
        # One that the run leaves out is a skipped step.
        steps = [
            phases.task(part.name)(partial(_do, part, wanted, results)) for part in self.parts()
        ]
        phases.serial(*steps).do(ctx)

    def _result(self, effects: Effects, results: Sequence[object]) -> Effects | phases.Skip:
        """The result of a run in which nothing failed: a Skip if there was nothing to do or to warn
        of. Its reason is that of the last part, unless each part has a step of its own.
        """
        are_all_skipped = all(isinstance(result, phases.Skip) for result in results)
        if effects.changed or effects.warnings or not are_all_skipped:
            return effects
        if results and not self.has_steps:
            return cast("phases.Skip", results[-1])
        return phases.Skip("everything is as it should be")

    def undo(self, ctx: phases.Context) -> Effects | phases.Skip:
        """Install again what was installed before the run that has just failed; if none has, what
        was installed before the first run. A task about one section restores that section. Where
        nothing was installed, nothing is left.

        HostError if that could not be read, or if another run has installed something else since.
        """
        undone = dict(self.before)
        if ctx.ran is not None:  # the undo of a run that has failed: of that run only
            undone = {run: former for run, former in undone.items() if run == ctx.run_id}
        if not undone:
            return phases.Skip("it has changed nothing, or that is undone")
        former, *_ = undone.values()
        if former is None:
            sentence = (
                "what was installed before could not be read, so it cannot be installed again"
            )
            raise HostError(f"{sentence}; to remove everything, run Remove", what="file")
        restoring = attrs.evolve(self, config=former, wait=0, allow_removal=True)
        ctx = derived(ctx, skip=frozenset())
        result = restoring.install(ctx, partial(self._wanted_for_undo, restoring))
        for run in undone:
            del self.before[run]
        return result

    def _wanted_for_undo(self, restoring: InstallTask) -> Wanted:
        wanted = restoring.wanted()
        # `wanted` of this task has the configuration as its run has installed it.
        ours = (self.own_part(self.wanted().config), self.own_part(restoring.config))
        if wanted.former is not None and self.own_part(wanted.former) not in ours:
            sentence = "another run has installed a different configuration since, which stays"
            raise HostError(sentence, what="file")
        config = wanted.config
        had_work = wanted.former is not None and wanted.former.has_work
        if config.has_work and not had_work:
            # The undone run has taken away all that there was to guard, and with it the guard.
            config = config._replace(guard=restoring.config.guard)
        return attrs.evolve(wanted, config=config, is_undo=True)


def _do(
    part: Part, wanted: Wanted, results: list[object], ctx: phases.Context
) -> Effects | phases.Skip:
    """The work of a part, whose result is appended."""
    result = part.carry_out(ctx, wanted)
    results.append(result)
    return result


def _log(ctx: phases.Context, findings: Iterable[Finding]) -> None:
    for finding in findings:
        ctx.log.log(finding.level, "%s", finding, extra={"finding": finding.name})
