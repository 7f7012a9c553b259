"""A task that brings a configuration onto a host: the same way for `Configure`, for `Remove`, and
for a task about one section.

The gate is what holds units back: a script that runs inside the start of each gated unit, and lets
it start only after its steps have succeeded. Each step does the work of one task at boot.

A run first makes a plan, and fails if it must fail. Its step `install-files` makes the plan again
under the lock, and changes the files. Its step `start-guard` starts the guard. Then each task does
its work on the kernel: without the lock while it waits for what it needs, so that units can start
meanwhile. docs/design.md tells this in full ("A run of Configure"), with the modules.

If a task fails, the files are not removed: the gate holds units back until its steps succeed, and
the error says so.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

import attrs

import phases
from hostrouting.boot.on_disk import gated_on_disk, optional_step_paths
from hostrouting.boot.unit_gates import judge_gates
from hostrouting.errors import HostRoutingError
from hostrouting.host.effects import Effects, effects_of
from hostrouting.host.host import Host
from hostrouting.host.layout import HostLayout
from hostrouting.install.arguments import IS_CONFIG, IS_FLAG, IS_HOST, is_duration
from hostrouting.install.planning import make_plan, require_possible
from hostrouting.install.steps import never_left_out, raise_both, raise_failure, run_to_the_end
from hostrouting.install.undo import Before, Undo
from hostrouting.install.write import start_guard, write_files
from hostrouting.kernel.base import RouteRequest
from hostrouting.text import spoken

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.finding import Finding
    from hostrouting.install.plan import Plan
    from hostrouting.install.section import SectionTask
    from hostrouting.install.wanted import Wanted

R = TypeVar("R", bound=Effects)

own_constructor = attrs.define(slots=False, eq=False, repr=False, on_setattr=attrs.setters.frozen)
"""Above each class of tasks, which then has an __init__ of its own: the error of a wrong call names
that class, and not the one from which it would inherit __init__.
"""


@attrs.define
class _Run:
    """A run of a task: what it wants, and its plan, as of the last look at the host."""

    ctx: phases.Context
    read_wanted: Callable[[], Wanted]
    wanted: Wanted = attrs.field(init=False)
    plan: Plan = attrs.field(init=False)


# Not attrs.frozen, whose __init__ fails in a subclass that has no slots.
@attrs.define(unsafe_hash=True, on_setattr=attrs.setters.frozen)
class InstallTask(ABC, Generic[R]):
    """A task that brings a configuration onto a host, as the module describes."""

    name = ""  # not a ClassVar, which pyright would not accept for a phases.Task
    nothing: ClassVar[str]
    """The reason for a skip: nothing is configured, and nothing of ours is there."""

    config: HostRoutingConfig = attrs.field(validator=IS_CONFIG)
    host: Host = attrs.field(factory=Host.local, validator=IS_HOST, kw_only=True)
    wait: float = attrs.field(default=60.0, validator=is_duration, kw_only=True)
    """The seconds that each part waits for what it needs, such as the default route."""
    allow_removal: bool = attrs.field(default=True, validator=IS_FLAG, kw_only=True)
    """Whether the configuration may take away what protects the host now. If not, a ConfigError
    names it, or a RequirementError the routes that somebody has typed.
    """
    _before: dict[str, Before] = attrs.field(factory=dict, init=False, eq=False, repr=False)
    """By the id of a run: what undo needs of it. Undone runs are taken out."""

    @abstractmethod
    def wanted(self) -> Wanted:
        """The configuration that the host is to have, and the one that it has."""

    @abstractmethod
    def parts(self) -> tuple[SectionTask, ...]:
        """The tasks that do the work on the kernel, in order."""

    @abstractmethod
    def own_part(self, config: HostRoutingConfig) -> object:
        """What this task is about in a configuration: one section, or all of it."""

    @abstractmethod
    def carry_out_parts(
        self, ctx: phases.Context, wanted: Wanted, effects: Effects
    ) -> R | phases.Skip:
        """Have the parts do their work, one after the other. The result also has these effects,
        which are those of the run so far.
        """

    def plan(self, ctx: phases.Context | None = None) -> Plan:
        """What do() would do on this host now, and what would make it fail; changes nothing.

        It is the plan of root: a process without its rights can make a plan, and not carry it out.
        If a part judges what the others have done, the plan also has that check of the host as it
        would be; a run does it at its end.
        """
        return self._make_plan(ctx or phases.Context(observers=[]), self.wanted(), is_dry_run=True)

    def do(self, ctx: phases.Context) -> R | phases.Skip:
        return self.do_wanted(ctx, self.wanted)

    def undo(self, ctx: phases.Context) -> object:
        """Install again what was installed before the run that is undone, or before the first one
        if none is named. A task about one section restores that section. Where nothing was
        installed, nothing is left.

        Routes that somebody had typed, and that a run has deleted, are added again. HostError if
        what was installed could not be read, or if another run has installed something else since.
        """
        undone = [*self._before]
        if ctx.ran is not None and ctx.root is not None:  # phases undoes one run, and no other
            undone = [run for run in undone if run == ctx.root.run]
        if not undone:
            return phases.Skip(
                "this object has not run, or has changed nothing; to remove everything, run Remove"
            )
        result = Undo.of(self, [self._before[run] for run in undone]).do(ctx)
        for run in undone:
            del self._before[run]
        return result

    def do_wanted(self, ctx: phases.Context, read_wanted: Callable[[], Wanted]) -> R | phases.Skip:
        """Install the files, start the guard, and have the parts do their work.

        A run plans twice, and asks what is wanted for each plan. If the guard does not start, the
        parts work nevertheless, and the run fails at its end.
        """
        run = _Run(ctx, read_wanted)
        self._look(run)
        if run.plan.is_empty and run.wanted.is_on_new_host:
            return phases.Skip(self.nothing)
        effects = self._install_files(run)
        guard = self._start_guard(run)
        effects += effects_of(guard)
        try:
            result = self.carry_out_parts(ctx, run.wanted, effects)
        except BaseException as error:  # also Cancelled, beside which a failure has to be raised
            raise_both(guard, error, ctx)
            raise
        raise_failure(guard, result, ctx)
        return result

    def _look(self, run: _Run) -> None:
        """Look at the host, and plan the run. Raises the error of a run that must fail before its
        first change.
        """
        run.wanted = run.read_wanted()
        run.plan = self._make_plan(run.ctx, run.wanted, is_dry_run=False)
        require_possible(self.host, run.wanted, run.plan)

    def _make_plan(self, ctx: phases.Context, wanted: Wanted, *, is_dry_run: bool) -> Plan:
        parts: list[SectionTask] = []
        if self.host.backend is not None:  # an image has no kernel
            parts = self.parts_of_run(ctx)
        return make_plan(
            self.host,
            wanted,
            parts,
            allow_removal=self.allow_removal,
            is_dry_run=is_dry_run,
        )

    def _install_files(self, run: _Run) -> Effects:
        """Change the files, as a step of the run."""

        @phases.task("install-files")
        def install(step: phases.Context) -> Effects | phases.Skip:
            # This needs no lock: each part looks at the kernel again when it has the lock.
            if not run.plan.changes_files:
                self._begin(run)
                return phases.Skip("the files are as they should be")
            with self.host.locked(step):
                self._look(run)
                self._begin(run)
                return write_files(self.host, run.plan)

        # The tasks that `only` and `skip` name need the files, so this step is never left out.
        return effects_of(phases.execute(install, never_left_out(run.ctx)))

    def _begin(self, run: _Run) -> None:
        """Before the first change: say what has to be known, and keep what undo needs."""
        _warn(run.ctx, run.plan)
        if not run.plan.is_empty:
            # The run may fail before it deletes these routes. Its undo deletes them all the same,
            # because the former configuration does not have them either.
            deletions = [RouteRequest("delete", route) for route in run.plan.deleted_routes]
            self._before_run(run.ctx, run.wanted).keep(deletions)

    def _start_guard(self, run: _Run) -> object:
        """Start the guard if the plan says so, as a step of the run; its result or failure. A guard
        that was stopped for its new files is started also in a run that was cancelled since.
        """
        if not run.plan.for_systemd("start", "restart"):
            return None
        start = phases.task("start-guard")(partial(start_guard, self.host, run.plan))
        return run_to_the_end(start, run.ctx)

    def carry_out_part(
        self, part: SectionTask, wanted: Wanted, ctx: phases.Context
    ) -> Effects | phases.Skip:
        """Have a part do its work on the kernel, and keep what undo needs. An error also says that
        the gate holds units back.
        """
        outcome: object = None
        try:
            result = part.carry_out(ctx, wanted)
            outcome = result
        except BaseException as error:
            outcome = error
            # If it is "busy", whoever holds the lock, or came first, goes on.
            if isinstance(error, HostRoutingError) and error.kind != "busy":
                error.consequence = _consequence(self.host, part.step) or error.consequence
            raise
        finally:
            # The plan of the run may not have had the routes that were deleted: they may have been
            # typed while the part waited.
            changes = effects_of(outcome).changes
            if changes:
                self._before_run(ctx, wanted).keep(changes)
        return result

    def _before_run(self, ctx: phases.Context, wanted: Wanted) -> Before:
        """What undo needs of this run, which may have several attempts."""
        return self._before.setdefault(ctx.run_id, Before(wanted.former))

    def parts_of_run(self, ctx: phases.Context) -> list[SectionTask]:
        """The parts that this run does not leave out. `only` and `skip` know each by its path, such
        as `configure-host-routing/check-route-overlap`.
        """
        return [part for part in self.parts() if not ctx.why_left_out((*ctx.path, part.name))]


def _warn(ctx: phases.Context, plan: Plan) -> None:
    """Log what has to be known before the run changes anything."""
    for finding in plan.findings:
        if finding.name == "unit-not-gated" or _is_for_later(finding):
            ctx.log.warning("%s", finding, extra={"finding": finding.name})
        if finding.name == "session-at-risk":
            # Without the field, so that the command prints it now, and not only after the run: by
            # then, this session may have ended.
            ctx.log.warning("%s", finding)


def _is_for_later(finding: Finding) -> bool:
    """Whether an image lacks something that it may get later; on a host, a run must fail then."""
    return finding.name in {"requirement", "file"} and finding.severity == "warning"


def _consequence(host: Host, step: str) -> str:
    """That the gate holds units back until this step succeeds; empty if it does not."""
    with suppress(HostRoutingError):  # of a file or systemd, which says nothing about the part
        if HostLayout.step_path(step) in optional_step_paths(host.files):
            return ""
        held = judge_gates(host, gated_on_disk(host.files)).held
        if held:
            return f"the gate is installed: {spoken(held)} will not start until its steps succeed"
    return ""
