"""A run of a task that brings a configuration onto a host: the same way for `Configure`, for
`Remove`, and for a task about one section.

A run first makes a plan, and fails if it must fail. Its step `install-files` makes the plan again
under the lock, and changes the files. Its step `start-guard` starts the guard. Then each part does
its work on the kernel: without the lock while it waits for what it needs, so that units can start
meanwhile. docs/design.md tells this in full ("A run of Configure"), with the modules.

If a part fails, the files are not removed: the gate holds units back until the routing is right,
and the error says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar
from weakref import WeakSet

import attrs

import phases
from hostrouting.boot.on_disk import gated_on_disk
from hostrouting.errors import HostRoutingError
from hostrouting.gate.unit_gates import judge_gates
from hostrouting.host.effects import Effects, effects_of
from hostrouting.install.planning import plan_run, require_possible
from hostrouting.install.steps import never_left_out, raise_both, raise_failure, run_shielded
from hostrouting.install.write import start_guard, write_files
from hostrouting.kernel.base import RouteRequest
from hostrouting.text import spoken

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.host.host import Host
    from hostrouting.install.plan import Plan
    from hostrouting.install.task import InstallTask, SectionTask
    from hostrouting.install.wanted import Wanted
    from hostrouting.model.route import Route

R = TypeVar("R", bound=Effects)


@attrs.define
class Before:
    """What there was before the first change of a run."""

    config: HostRoutingConfig | None
    """What was installed; None if it could not be read."""
    changes: list[RouteRequest] = attrs.field(factory=list)
    """What the run has done with routes, or is about to do, in order."""
    held: WeakSet[HostRoutingError] = attrs.field(factory=WeakSet)
    """The errors of the run that say that the gate holds units back, which undo ends. A report that
    somebody keeps has them; otherwise nobody needs them.
    """

    @property
    def deleted(self) -> list[Route]:
        """The routes that were there before the run, and that it deletes, in that order: undo adds
        them again.

        A route that a rollback has added again counts, too: before undo adds these routes, it
        installs `config`, which deletes every route that is not configured.
        """
        first_verbs: dict[Route, str] = {}
        for change in self.changes:
            first_verbs.setdefault(change.route, change.verb)
        return [route for route, verb in first_verbs.items() if verb == "delete"]


@attrs.define
class TaskRun(Generic[R]):
    """A run of a task, or of its undo: what it wants, and its plan, as of the last look at the
    host.
    """

    task: InstallTask[R]
    ctx: phases.Context
    read_wanted: Callable[[], Wanted]
    """Asked before each plan: another run may have changed what is installed."""
    wanted: Wanted = attrs.field(init=False)
    plan: Plan = attrs.field(init=False)

    def do(self) -> R | phases.Skip:
        """Install the files, start the guard, and have the parts do their work.

        If the guard does not start, the parts work nevertheless, and the run fails at its end.
        """
        self._plan_or_fail()
        if self.plan.is_empty and self.wanted.is_nothing:
            return phases.Skip(self.task.reason_to_skip)
        effects = self._install_files()
        guard = self._start_guard()
        effects += effects_of(guard)
        try:
            result = self.task.do_parts(self, effects)
        except BaseException as error:  # also Cancelled: the guard's failure must not be lost
            if isinstance(guard, phases.TaskFailed):
                raise_both(guard, error, self.ctx)
            raise
        if isinstance(guard, phases.TaskFailed):
            raise_failure(guard, result, self.ctx)
        return result

    def make_plan(self, *, is_dry_run: bool) -> Plan:
        """What the task would do on this host now, and what stands against that."""
        self.wanted = self.read_wanted()
        parts: list[SectionTask] = []
        if self.task.host.backend is not None:  # an image has no kernel
            parts = self.chosen_parts
        return plan_run(
            self.task.host,
            self.wanted,
            parts,
            allow_removal=self.task.allow_removal,
            is_dry_run=is_dry_run,
        )

    @property
    def chosen_parts(self) -> list[SectionTask]:
        """The parts that this run does not leave out. `only` and `skip` know each by its path, such
        as `configure-host-routing/check-route-overlap`.
        """
        path = self.ctx.path
        return [part for part in self.task.parts() if not self.ctx.why_left_out((*path, part.name))]

    def do_part(self, part: SectionTask, ctx: phases.Context) -> Effects | phases.Skip:
        """Have a part do its work on the kernel, and keep what undo needs. An error also says that
        the gate holds units back.
        """
        try:
            result = part.carry_out(ctx, self.wanted)
        except BaseException as error:
            self._keep_changes(error)
            # A "busy" host is left to the run that holds the lock, or came first.
            if isinstance(error, HostRoutingError) and error.kind != "busy":
                consequence = _consequence(self.task.host)
                if consequence and part.holds_units_back(self.wanted.config):
                    error.consequence = consequence
                    if self.ctx.run_id in self.task.before:
                        self.task.before[self.ctx.run_id].held.add(error)
            raise
        self._keep_changes(result)
        return result

    def _plan_or_fail(self) -> None:
        """Look at the host, and plan the run. Raises the error of a run that must fail before its
        first change.
        """
        self.plan = self.make_plan(is_dry_run=False)
        require_possible(self.task.host, self.wanted, self.plan)

    def _install_files(self) -> Effects:
        """Change the files, as a step of the run."""
        # The tasks that `only` and `skip` name need the files, so this step is never left out.
        install = phases.task("install-files")(self._change_files)
        return effects_of(phases.execute(install, never_left_out(self.ctx)))

    def _change_files(self, step: phases.Context) -> Effects | phases.Skip:
        # Without a change of files, this step needs no lock. For the routes, each part takes the
        # lock itself, and looks at the kernel again.
        if not self.plan.changes_files:
            self._warn_and_keep()
            return phases.Skip("the files are as they should be")
        with self.task.host.locked(step):
            self._plan_or_fail()
            self._warn_and_keep()
            return write_files(self.task.host, self.plan)

    def _warn_and_keep(self) -> None:
        """Before the first change: say what has to be known, and keep what undo needs."""
        _warn(self.ctx, self.plan)
        if not self.plan.is_empty:
            # Undo has to know these routes even if the run fails before it deletes them: the former
            # configuration does not have them either, so to go back to it deletes them.
            deletions = [RouteRequest("delete", route) for route in self.plan.deleted_routes]
            self._keep_for_undo(deletions)

    def _start_guard(self) -> Effects | phases.Skip | phases.TaskFailed | None:
        """Start the guard if the plan says so, as a step of the run; None if it does not. A failure
        is returned, for `do` to raise at its end.

        A guard that was stopped for its new files is started even if the run was cancelled since.
        """
        if not self.plan.for_systemd("start", "restart"):
            return None
        start = phases.task("start-guard")(partial(start_guard, self.task.host, self.plan))
        return run_shielded(start, self.ctx)

    def _keep_changes(self, outcome: object) -> None:
        """Keep what undo needs of a part's result or error. The plan may not have had the routes
        that were deleted: they may have been typed while the part waited.
        """
        changes = effects_of(outcome).changes
        if changes:
            self._keep_for_undo(changes)

    def _keep_for_undo(self, changes: Iterable[RouteRequest]) -> None:
        """Keep what was installed before this run, which may have several attempts, and these
        changes. From now on, there is something to undo.
        """
        before = self.task.before.setdefault(self.ctx.run_id, Before(self.wanted.former))
        before.changes.extend(changes)


_LOGGED = {"unit-not-gated", "requirement", "file", "gate-open"}
"""The warnings that are logged: the last three are what an image lacks, and may get later; on a
host, they are errors.
"""


def _warn(ctx: phases.Context, plan: Plan) -> None:
    """Log what has to be known before the run changes anything."""
    for finding in plan.findings:
        if finding.name == "session-at-risk":
            # The command prints a warning with the field `finding` only after the run, on its
            # page. By then, this session may have ended.
            ctx.log.warning("%s", finding)
        elif finding.severity == "warning" and finding.name in _LOGGED:
            ctx.log.warning("%s", finding, extra={"finding": finding.name})


def _consequence(host: Host) -> str:
    """That the gate holds units back until nothing is wrong any more; empty if it does not."""
    with suppress(HostRoutingError):  # of a file or of systemd: the error of the part matters more
        held = judge_gates(host, gated_on_disk(host.files)).held
        if held:
            return f"the gate is installed: {spoken(held)} will not start until this is right"
    return ""
