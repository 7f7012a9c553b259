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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import attrs

import phases
from hostrouting.boot.files import steps_of
from hostrouting.boot.on_disk import gated_on_disk
from hostrouting.errors import HostError, HostRoutingError, NotReady
from hostrouting.host.effects import Effects, effects_of, having_changed
from hostrouting.host.host import Host
from hostrouting.install.arguments import IS_CONFIG, IS_FLAG, IS_HOST, is_duration
from hostrouting.install.installed import installed_or_none, read_installed
from hostrouting.install.plan import Plan
from hostrouting.install.planning import make_plan, require_possible
from hostrouting.install.undo import Before, before_of, restore_routes
from hostrouting.install.wanted import Wanted
from hostrouting.install.write import start_guard, write_files
from hostrouting.text import spoken
from phases.execution import raise_together

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.model.route import Route
    from hostrouting.model.snapshot import Snapshot

own_constructor = attrs.define(slots=False, eq=False, repr=False, on_setattr=attrs.setters.frozen)
"""Above each task: the error of a wrong call names the task, and not the class that all inherit."""


@attrs.define(unsafe_hash=True, on_setattr=attrs.setters.frozen)
class InstallTask(ABC):
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
    """By the id of a run: what there was before its first change. Undone runs are taken out."""
    _replaceable: tuple[object, ...] = attrs.field(
        default=(), init=False, eq=False, repr=False, on_setattr=attrs.setters.NO_OP
    )
    """For an undo: what may be installed of its own part; all else is another run's, and stays.
    Empty for a task that replaces anything.
    """

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
    def do(self, ctx: phases.Context) -> object:
        """Install the files, and do the work of the parts."""

    def plan(self, ctx: phases.Context | None = None) -> Plan:
        """What do() would do on this host now, and what would make it fail; changes nothing.

        It is the plan of root: a process without its rights can make a plan, and not carry it out.
        """
        parts = self._parts_with_work(ctx or phases.Context(observers=[]))
        with_check = any(part.checks_the_result for part in parts)
        return make_plan(
            self.host,
            self.wanted(),
            parts,
            allow_removal=self.allow_removal,
            with_check=with_check,
        )

    def undo(self, ctx: phases.Context) -> object:
        """Install again what was installed before the run that is undone, or before the first one
        if none is named. A task about one section restores that section. Where nothing was
        installed, nothing is left.

        Routes that somebody had typed, and that the run has deleted, are added again. HostError if
        what was installed could not be read, or if another run has installed something else since.
        """
        undone = self._runs_to_undo(ctx)
        if not undone:
            return phases.Skip(
                "this object has not run, or has changed nothing; to remove everything, run Remove"
            )
        before = self._before[undone[0]]
        if before.config is None:
            sentence = (
                "what was installed before could not be read, so it cannot be installed again"
            )
            raise HostError(f"{sentence}; to remove everything: hostrouting remove", what="file")
        former = attrs.evolve(self, config=before.config, wait=0, allow_removal=True)
        former._replaceable = (
            self.own_part(self.wanted().config),
            self.own_part(before.config),
        )
        try:
            result = former.do(_without_skips(ctx))
        finally:
            former._restore_routes(ctx, before.typed)
        for run in undone:
            del self._before[run]
        return result

    def _runs_to_undo(self, ctx: phases.Context) -> list[str]:
        """The ids of the runs that changed something: of the one that is undone, or all of them."""
        if ctx.ran is None or ctx.root is None:
            return list(self._before)
        return [run for run in self._before if run == ctx.root.run]

    def install_files(self, ctx: phases.Context) -> tuple[Effects, Wanted, Plan] | None:
        """Fail if the run must fail; then change the files, as a step of the run.

        Returns what was changed, and what is wanted and planned. None if nothing is to be done, and
        nothing of ours is there.
        """
        parts = self._parts_with_work(ctx)
        wanted = self.wanted()
        plan = self._make_possible_plan(wanted, parts)
        if plan.is_empty and wanted.is_on_new_host:
            return None
        _warn(ctx, plan)

        @phases.task("install-files")
        def install(ctx: phases.Context) -> Effects | phases.Skip:
            nonlocal wanted, plan
            if not plan.changes_files:
                self._keep_for_undo(ctx, wanted, plan)
                return phases.Skip("the files are as they should be")
            with self.host.locked(ctx):
                wanted = self.wanted()
                plan = self._make_possible_plan(wanted, parts)
                self._keep_for_undo(ctx, wanted, plan)
                return write_files(self.host, plan)

        # The tasks that `only` and `skip` name need the files, so this step is never left out.
        result = phases.execute(install, _without_skips(ctx))
        return effects_of(result), wanted, plan

    @contextmanager
    def guard_started(self, ctx: phases.Context, plan: Plan) -> Iterator[Effects]:
        """Start the guard, as a step of the run, before the block. If that fails, the block runs
        nevertheless, and the error comes after it.
        """
        effects = Effects()
        failed: phases.TaskFailed | None = None
        if plan.for_systemd("start", "restart"):
            start = phases.task("start-guard")(partial(start_guard, self.host, plan))
            try:
                # A guard that was stopped for its new files is started, also in a run that has been
                # cancelled since.
                with ctx.shielded() as shielded:
                    effects = effects_of(phases.execute(start, _without_skips(shielded)))
            except phases.TaskFailed as error:
                failed = error
        try:
            yield effects
        except BaseException as error:
            if failed is None:
                raise
            if isinstance(error, HostRoutingError) and ctx.step is not None:
                # The step of a task about one section fails with this; it keeps the other failure.
                # For example, a route conflicts: a caller gets that RouteConflict, and the report
                # has the failure of start-guard, too.
                ctx.step.failures = (*failed.failures, *ctx.step.failures)
            raise_together([failed, error])
        if failed is not None:
            raise failed

    def _parts_of_run(self, ctx: phases.Context) -> list[SectionTask]:
        """The parts that this run does not leave out."""
        return [part for part in self.parts() if not ctx.why_left_out((*ctx.path, part.name))]

    def _parts_with_work(self, ctx: phases.Context) -> list[SectionTask]:
        """The same; none for an image, which has no kernel."""
        if self.host.backend is None:
            return []
        return self._parts_of_run(ctx)

    def _make_possible_plan(self, wanted: Wanted, parts: Sequence[SectionTask]) -> Plan:
        """The plan of a run. Raises the error of a run that must fail before its first change."""
        self._require_replaceable(wanted.former)
        plan = make_plan(self.host, wanted, parts, allow_removal=self.allow_removal)
        require_possible(self.host, wanted, plan)
        return plan

    def _keep_for_undo(self, ctx: phases.Context, wanted: Wanted, plan: Plan) -> None:
        """Keep what undo() needs, before the first change."""
        if ctx.run_id not in self._before and not plan.is_empty:
            self._before[ctx.run_id] = before_of(wanted, plan)

    def _may_replace(self, installed: HostRoutingConfig | None) -> bool:
        """Whether this task may replace what is installed, which None says cannot be read."""
        if installed is None or not self._replaceable:
            return True
        return self.own_part(installed) in self._replaceable

    def _require_replaceable(self, installed: HostRoutingConfig | None) -> None:
        if not self._may_replace(installed):
            sentence = "another run has installed a different configuration since, which stays"
            raise HostError(sentence, what="file")

    def _restore_routes(self, ctx: phases.Context, routes: Sequence[Route]) -> None:
        """Add those of these routes that are missing, unless another run has installed something
        else by now.
        """
        if self.host.backend is None or not routes:
            return
        with self.host.locked(ctx), self.host.backend() as kernel:
            if self._may_replace(installed_or_none(self.host)):
                restore_routes(kernel, routes)


def _warn(ctx: phases.Context, plan: Plan) -> None:
    """Log what has to be known before the run changes anything."""
    for finding in plan.findings:
        if finding.name == "unit-not-gated":
            ctx.log.warning("%s", finding, extra={"finding": finding.name})
        if finding.name == "session-at-risk":
            # Without the field, so that the command prints it now, and not only after the run: by
            # then, this session may have ended.
            ctx.log.warning("%s", finding)


def _without_skips(ctx: phases.Context) -> phases.Context:
    """The context in which no step is left out."""
    return ctx.derive(why_left_out=lambda _path: "")


class SectionTask(InstallTask):
    """A task about one section of the configuration. Alone, it keeps all other sections as they are
    installed.

    A subclass says what its work on the kernel is: `planned` says what would change, and
    `carry_out` changes it.
    """

    section: ClassVar[str]
    """The attribute of the configuration that the task is about."""
    step: ClassVar[str]
    """The step of the gate that does the same work at boot."""
    checks_the_result: ClassVar[bool] = False
    """Whether the task judges what the others have done, so that a dry run judges the host as it
    would be.
    """
    needed: ClassVar[tuple[type[SectionTask], ...]] = ()
    """The tasks whose work is part of this task's work: when this task runs alone, it does their
    work first.
    """

    def planned(self, wanted: Wanted, read_snapshot: Callable[[], Snapshot]) -> Plan:  # noqa: ARG002  for those that have work
        """What would be done to the kernel: nothing, unless the task says otherwise.

        All parts of a run get the same snapshot, which is read when the first of them needs it.
        """
        return Plan()

    @abstractmethod
    def carry_out(self, ctx: phases.Context, wanted: Wanted) -> Effects | phases.Skip:
        """Wait for what the task needs, then change the kernel. The files are installed already."""

    def wanted(self) -> Wanted:
        """See InstallTask. The installed configuration with this section replaced."""
        installed = read_installed(self.host)
        config = installed.replaced(self.section, self.config)
        if self._replaceable and config.has_step and not installed.has_step:
            # The run that is undone has left nothing to guard, and turned the guard off.
            config = config._replace(guard=self.config.guard)
        return Wanted(config, installed)

    def parts(self) -> tuple[SectionTask, ...]:
        """See InstallTask."""
        needed = [kind(self.config, host=self.host, wait=self.wait) for kind in self.needed]
        return (*needed, self)

    def own_part(self, config: HostRoutingConfig) -> object:
        """See InstallTask."""
        return getattr(config, self.section)

    def do(self, ctx: phases.Context) -> Effects | phases.Skip:
        installed = self.install_files(ctx)
        if installed is None:
            return phases.Skip(self.nothing)
        effects, wanted, plan = installed
        result: Effects | phases.Skip = effects
        with self.guard_started(ctx, plan) as started:
            effects += started
            for part in self._parts_of_run(ctx):
                with having_changed(effects.changes, effects.files, effects.operations):
                    result = part.carry_out_or_explain(ctx, wanted)
                effects += effects_of(result)
        if isinstance(result, phases.Skip) and not effects.changed:
            return result
        return effects

    def carry_out_or_explain(self, ctx: phases.Context, wanted: Wanted) -> Effects | phases.Skip:
        """Call `carry_out`; its error also says that the gate holds units back."""
        try:
            return self.carry_out(ctx, wanted)
        except HostRoutingError as error:
            units = self._held_units()
            if units and error.kind != "busy":  # whoever holds the lock, or came first, goes on
                error.consequence = (
                    f"the gate is installed: {spoken(units)} will not start until its steps succeed"
                )
            raise

    def _held_units(self) -> tuple[str, ...]:
        """The units that the gate holds back until this task's step succeeds."""
        installed = installed_or_none(self.host)
        if self.host.running_manager is None or installed is None:
            return ()
        for step in steps_of(installed):
            if step.name == self.step and step.is_required:
                return gated_on_disk(self.host.files)
        return ()

    @contextmanager
    def changing(self, ctx: phases.Context, wanted: Wanted) -> Iterator[HostRoutingConfig]:
        """Hold the lock while the kernel is changed; yields the configuration that is installed
        then.
        """
        with self.host.locked(ctx):
            yield self.require_installed(wanted)

    def require_installed(self, wanted: Wanted) -> HostRoutingConfig:
        """The installed configuration; NotReady if another run has replaced this section of it."""
        installed = read_installed(self.host)
        if self.own_part(installed) != self.own_part(wanted.config):
            sentence = "another run has installed a different configuration in the meantime"
            raise NotReady(
                f"{sentence}; run this again if this configuration is the right one", kind="busy"
            )
        return installed
