"""How a run proceeds: the same way for `Configure`, for `Remove`, and for a task about one section.

The gate is what holds units back: a script that runs inside the start of each gated unit, and lets
it start only after its steps have succeeded. Each step does the work of one task at boot.

`Configure` brings its own configuration onto the host, a task about one section the installed one
with its section replaced, and `Remove` one that asks for nothing. A run goes this way:

1. `wanted` says which configuration that is, and `make_plan` compares the host with it. What must
   fail, fails now: requirements, losses, and conflicts of routes that are new on a host where
   something is installed. On a new host, and if the installed configuration has the conflict
   already, the gate holds units back until it is solved, and the run goes on.
2. The step `install-files` takes the lock, which waits for units that are starting. It makes the
   plan again, because another run may have come first, and changes files as `write` describes. From
   here on the gate is in force.
3. The step `start-guard` starts the guard, if that is in the plan. If this fails, the run goes on,
   and fails at its end.
4. Each task does its work on the kernel: without the lock while it waits for what it needs, so that
   units can start meanwhile. A task that changes the kernel takes the lock again, and goes on only
   if its section is still the installed one.

If a task fails, the files are not removed: the gate holds units back until its steps succeed, and
the error says so.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, ClassVar

import attrs

import phases
from hostrouting.boot.enforced import read_enforced
from hostrouting.boot.files import gated_on_disk, steps_of
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import (
    ConfigError,
    Fault,
    HostError,
    HostRoutingError,
    NotReady,
    RequirementError,
)
from hostrouting.finding import Finding, Remedy
from hostrouting.host.effects import Effects, effects_of, having_changed
from hostrouting.host.host import Host
from hostrouting.install.arguments import IS_CONFIG, IS_FLAG, IS_HOST, is_duration
from hostrouting.install.difference import find_file_changes, find_systemd_changes
from hostrouting.install.host_check import read_host
from hostrouting.install.installed import Wanted, read_installed, readable_installed
from hostrouting.install.losses import find_losses
from hostrouting.install.obstacles import find_ungated
from hostrouting.install.plan import Plan
from hostrouting.install.requirements import find_requirements
from hostrouting.install.session import find_session_at_risk
from hostrouting.install.undo import Before, before_of, restore_routes
from hostrouting.install.write import start_guard, write_files
from hostrouting.text import spoken
from phases.execution import raise_together

if TYPE_CHECKING:
    from hostrouting.model.snapshot import Snapshot

_ALLOWED_BY = "--allow-removal; in Python: allow_removal=True"
_KEEP = Remedy(f"keep this in the configuration, or allow the removal ({_ALLOWED_BY})")

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
    _before: Before | None = attrs.field(
        default=None, init=False, eq=False, repr=False, on_setattr=attrs.setters.NO_OP
    )
    """None until a run comes to its first change, and again after undo()."""

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
        ctx = ctx or phases.Context(observers=[])
        wanted = self.wanted()
        read_snapshot = cache(partial(read_host, self.host))
        plan = self._make_plan(ctx, wanted, read_snapshot)
        losses = [
            Finding("removal", "error", str(loss), loss.path, _KEEP)
            for loss in self._losses(wanted)
        ]
        plan = attrs.evolve(plan, findings=(*plan.findings, *losses))
        if any(part.checks_the_result for part in self._parts_with_work(ctx)):
            return self._checked(plan, wanted, read_snapshot())
        needed = self._needed_routes(plan, wanted, read_snapshot)
        return attrs.evolve(plan, findings=(*plan.findings, *needed))

    def undo(self, ctx: phases.Context) -> object:
        """Install what was there before the task first changed anything, or remove everything if
        nothing was. A task about one section restores that section.

        Routes that somebody had typed, and the run has deleted, are back, too. HostError if what
        was there could not be read, or another run has installed something else since.
        """
        before = self._before
        if before is None:
            return phases.Skip(
                "this object has not run, or has changed nothing; to remove everything, run Remove"
            )
        if before.config is None:
            sentence = (
                "what was installed before could not be read, so it cannot be installed again"
            )
            raise HostError(f"{sentence}; to remove everything: hostrouting remove", what="file")
        installed = readable_installed(self.host)
        if installed is not None:
            known = [self.own_part(self.wanted().config), self.own_part(before.config)]
            if self.own_part(installed) not in known:
                sentence = "another run has installed a different configuration since, which stays"
                raise HostError(sentence, what="file")
        former = attrs.evolve(self, config=before.config, wait=0, allow_removal=True)
        try:
            result = former.do(_without_skips(ctx))
        finally:
            restore_routes(ctx, self.host, before.typed)
        self._before = None
        return result

    def install_files(self, ctx: phases.Context) -> tuple[Effects, Wanted, Plan] | None:
        """Fail if the run must fail; then change the files, as a step of the run.

        Returns what was changed, and what is wanted and planned. None if nothing is to be done, and
        nothing of ours is there.
        """
        wanted = self.wanted()
        plan = self._plan_or_fail(ctx, wanted)
        if plan.is_empty and wanted.former == HostRoutingConfig():
            return None
        _warn(ctx, plan)

        @phases.task("install-files")
        def install(inner: phases.Context) -> Effects | phases.Skip:
            nonlocal wanted, plan
            if not plan.files and not plan.for_systemd("stop", "reload"):
                self._remember(wanted, plan)
                return phases.Skip("the files are as they should be")
            with self.host.locked(inner):
                wanted = self.wanted()
                plan = self._plan_or_fail(ctx, wanted)
                self._remember(wanted, plan)
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
        errors: list[BaseException] = []
        if plan.for_systemd("start", "restart"):
            start = phases.task("start-guard")(partial(start_guard, self.host, plan))
            try:
                effects = effects_of(phases.execute(start, _without_skips(ctx)))
            except phases.TaskFailed as error:
                errors.append(error)
        try:
            yield effects
        except BaseException as error:  # noqa: BLE001  raised with the other one
            errors.append(error)
        raise_together(errors)

    def _remember(self, wanted: Wanted, plan: Plan) -> None:
        """Keep what undo() needs, before the first change."""
        if self._before is None and not plan.is_empty:
            self._before = before_of(wanted, plan)

    def _parts_with_work(self, ctx: phases.Context) -> list[SectionTask]:
        """The parts that this run does not leave out; none for an image, which has no kernel."""
        if self.host.backend is None:
            return []
        return [part for part in self.parts() if not ctx.why_left_out((*ctx.path, part.name))]

    def _make_plan(
        self, ctx: phases.Context, wanted: Wanted, read_snapshot: Callable[[], Snapshot]
    ) -> Plan:
        """What would change in the files, and what the parts would do; nothing is changed."""
        host, config = self.host, wanted.config
        manager = host.running_manager
        files = find_file_changes(host, config)
        plan = Plan(
            files,
            tuple(find_systemd_changes(manager, config, wanted.former, files)),
            findings=(*find_requirements(host, config, files), *find_ungated(config, host)),
        )
        for part in self._parts_with_work(ctx):
            plan = plan.with_part(part.planned(wanted, read_snapshot))
        if not plan.routes.changes:
            return plan
        prefixes = [step.route.prefix for step in plan.routes.changes]
        snapshot = read_snapshot()
        risks = find_session_at_risk(
            host, prefixes, snapshot, after=partial(plan.routes.apply_to, snapshot)
        )
        return attrs.evolve(plan, findings=(*plan.findings, *risks))

    def _plan_or_fail(self, ctx: phases.Context, wanted: Wanted) -> Plan:
        """The plan. Raises the error of a run that must fail before its first change."""
        read_snapshot = cache(partial(read_host, self.host))
        plan = self._make_plan(ctx, wanted, read_snapshot)
        errors = [finding for finding in plan.errors if finding.name != "route-conflict"]
        if errors:
            raise RequirementError(findings=errors)
        losses = self._losses(wanted)
        if losses:
            headline = f"this would remove protection (to allow it: {_ALLOWED_BY}):"
            raise ConfigError(losses, headline=headline)
        needed = self._needed_routes(plan, wanted, read_snapshot)
        if needed:
            raise RequirementError(findings=needed)
        new = [step for step in plan.routes.conflicts if step.route.key not in wanted.former_keys]
        if new and wanted.former != HostRoutingConfig():
            plan.routes.require_possible()
        if self.host.backend is not None and plan.changes_kernel:
            self.host.rights().require_network()
        return plan

    def _checked(self, plan: Plan, wanted: Wanted, snapshot: Snapshot) -> Plan:
        """The plan with the check of the host afterwards."""
        plan = plan.with_check(wanted.config, snapshot)
        if self.allow_removal:
            return plan
        return plan.keeping_routes(is_installed=wanted.is_installed)

    def _needed_routes(
        self, plan: Plan, wanted: Wanted, read_snapshot: Callable[[], Snapshot]
    ) -> list[Finding]:
        """The errors about routes that the plan deletes, although addresses escape without them."""
        if self.allow_removal or not plan.deletes_routes:
            return []
        checked = self._checked(plan, wanted, read_snapshot())
        return [finding for finding in checked.errors if finding.name == "route-not-configured"]

    def _losses(self, wanted: Wanted) -> tuple[Fault, ...]:
        """What this configuration must not take away, and would: of the installed configuration,
        and of what the scripts do, because config.json may have been edited since. Raises the error
        of a config.json that cannot be read.
        """
        if self.allow_removal:
            return ()
        losses = [*find_losses(wanted.former or read_installed(self.host), wanted.config)]
        if gated_on_disk(self.host.files):  # else nothing runs the gate
            losses += find_losses(read_enforced(self.host.files), wanted.config)
        return tuple(dict.fromkeys(losses))


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
        return Wanted(installed.replaced(self.section, self.config), installed)

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
            for part in self.parts():
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
                    f"the files are installed: {spoken(units)} will not start until the steps of "
                    "the gate succeed"
                )
            raise

    def _held_units(self) -> tuple[str, ...]:
        """The units that the gate holds back until this task's step succeeds."""
        installed = readable_installed(self.host)
        if self.host.running_manager is None or installed is None:
            return ()
        for step, (_, is_required) in steps_of(installed):
            if step == self.step and is_required:
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
