"""How a run proceeds: the same way for `Configure`, for `Remove`, and for a task about one section.

The gate is what holds units back: a script that runs inside the start of each gated unit, and lets
it start only after its steps have succeeded. Each step does the work of one task at boot.

`Configure` brings its own configuration onto the host, a task about one section the installed one
with its section replaced, and `Remove` one that asks for nothing. A run goes this way:

1. `wanted` says which configuration that is, and `make_plan` compares the host with it. What must
   fail, fails now: requirements, losses and, where something is installed already, conflicts of
   routes.
2. The step `install-files` takes the lock, which waits for units that are starting, and writes and
   removes files in the order that `write` describes. From here on the gate is in force.
3. Without the lock, each task does its work on the kernel. A task that changes the kernel takes the
   lock again, and goes on only if the configuration is still the installed one.

If a task fails, the files are not removed: the gate holds units back until its steps succeed, and
the error says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import attrs

import phases
from hostrouting.boot.files import is_nothing, owned_paths, steps_of
from hostrouting.config.settings import HostRoutingConfig, gated_units
from hostrouting.errors import (
    ConfigError,
    Fault,
    HostError,
    HostRoutingError,
    NotReady,
    RequirementError,
)
from hostrouting.finding import Finding, Remedy, worst_first
from hostrouting.host.effects import Effects, effects_of, having_changed
from hostrouting.host.host import Host
from hostrouting.host.layout import HostLayout
from hostrouting.install.difference import find_file_changes, find_starts, needs_reload
from hostrouting.install.host_check import read_host
from hostrouting.install.installed import read_installed, readable_installed
from hostrouting.install.losses import find_losses
from hostrouting.install.obstacles import find_ungated
from hostrouting.install.plan import Plan
from hostrouting.install.requirements import find_requirements
from hostrouting.install.session import find_session_at_risk
from hostrouting.install.write import write_files
from hostrouting.kernel.base import RouteRequest
from hostrouting.model.route import OURS, Route, as_stored
from hostrouting.text import spoken
from phases.context import in_range

if TYPE_CHECKING:
    from hostrouting.model.snapshot import Snapshot

_KEEP = "keep this in the configuration, or allow the removal"
_SOLVED_LATER = ("route-conflict",)
"""Errors that do not end a run before its first write: on a new host, the gate holds units back
until they are solved.
"""


@attrs.frozen
class Wanted:
    """What a run brings onto a host."""

    config: HostRoutingConfig
    """The whole configuration."""
    former: HostRoutingConfig
    """What was installed before; empty if nothing was, or if it could not be read."""


class _Before(NamedTuple):
    """What there was before a task first ran, for undo()."""

    config: HostRoutingConfig | None
    """What was installed; None if it could not be read."""
    routes: tuple[Route, ...]
    """The routes of ours, configured or not; empty if the run changes none."""


def _must_be(kind: type[object], remedy: str) -> Callable[[object, object, Any], None]:
    """A validator that raises TypeError for a value of another kind: the task would fail later, and
    not say why.
    """

    def validate(_task: object, _field: object, value: Any) -> None:
        if not isinstance(value, kind):
            raise TypeError(
                f"a task takes a {kind.__name__}, not a {type(value).__name__}: {remedy}"
            )

    return validate


_IS_FLAG = _must_be(bool, "allow_removal is True or False")
IS_CONFIG = _must_be(HostRoutingConfig, "HostRoutingConfig.from_mapping and .load read one")
IS_HOST = _must_be(Host, "Host.local() is this one, and FakeHost(kernel=…) one with a fake kernel")


def _is_duration(_task: object, _field: object, value: Any) -> None:
    in_range(value, "wait", least=0, most=86_400)


@attrs.define(unsafe_hash=True, on_setattr=attrs.setters.frozen)
class InstallTask:
    """A task that brings a configuration onto a host, as the module describes."""

    name = ""  # not a ClassVar, which pyright would not accept for a phases.Task
    nothing: ClassVar[str]
    """The reason for a skip: nothing is configured, and nothing of ours is there."""

    config: HostRoutingConfig = attrs.field(validator=IS_CONFIG)
    host: Host = attrs.field(factory=Host.local, validator=IS_HOST, kw_only=True)
    wait: float = attrs.field(default=60.0, validator=_is_duration, kw_only=True)
    """The seconds that each part waits for what it needs, such as the default route."""
    allow_removal: bool = attrs.field(default=True, validator=_IS_FLAG, kw_only=True)
    """Whether the configuration may take away what protects the host now; if not, a ConfigError
    names it.
    """
    _before: _Before | None = attrs.field(
        default=None, init=False, eq=False, repr=False, on_setattr=attrs.setters.NO_OP
    )
    """None until a run has come as far as its first write, and again after undo()."""

    def wanted(self) -> Wanted:
        """The configuration that the host is to have, and the one that it has."""
        raise NotImplementedError

    def parts(self) -> tuple[SectionTask, ...]:
        """The tasks that do the work on the kernel, in order."""
        raise NotImplementedError

    def plan(self, _ctx: phases.Context | None = None) -> Plan:
        """What do() would do on this host now, and what would make it fail; changes nothing.

        It is the plan of root: a process without its rights can make a plan, and not carry it out.
        """
        wanted = self.wanted()
        read_snapshot = cache(partial(read_host, self.host))
        plan = self._make_plan(wanted, read_snapshot)
        removals = tuple(map(_removal, self._losses(wanted.config)))
        plan = attrs.evolve(plan, findings=worst_first((*plan.findings, *removals)))
        checks = any(part.checks_the_result for part in self.parts())
        if self.host.backend is None or not checks or not wanted.config.route_overlap.cidrs:
            return plan
        return plan.with_check(wanted.config, read_snapshot())

    def do(self, ctx: phases.Context) -> object:
        raise NotImplementedError

    def undo(self, ctx: phases.Context) -> object:
        """Install what was there before the task first ran, or remove everything if nothing was.
        Routes of ours that somebody had typed are back, too.

        A task about one section restores that section. HostError if what was there could not be
        read.
        """
        before = self._before
        if before is None:
            return phases.Skip("it did not run, or changed nothing")
        if before.config is None:
            sentence = (
                "what was installed before could not be read, so it cannot be installed again"
            )
            raise HostError(f"{sentence}; to remove everything: hostrouting remove", what="file")
        former = attrs.evolve(self, config=before.config, wait=0, allow_removal=True)
        # First, because routes that are there need no default route; then again, because those that
        # were never configured have been removed.
        with suppress(HostRoutingError):  # then the second time raises it; the files come first
            self._restore_routes(ctx, before.routes)
        result = former.do(_whole(ctx))
        self._restore_routes(ctx, before.routes)
        self._before = None
        return result

    def check_and_install_files(self, ctx: phases.Context) -> tuple[Effects, Wanted] | None:
        """Fail if the run must fail; then write the files, as a step of the run.

        Returns what was changed, and what is wanted: another run may have changed other sections
        meanwhile. None if nothing is to be done, and nothing of ours is there.
        """
        config_text = self.host.files.read(HostLayout.config_path)
        wanted = self.wanted()
        read_snapshot = cache(partial(read_host, self.host))
        plan = self._plan_or_fail(wanted, read_snapshot)
        if plan is None:
            return None
        before = self._before or self._read_before(plan, read_snapshot)
        _warn(ctx, plan)

        @phases.task("install-files")
        def write(ctx: phases.Context) -> Effects | phases.Skip:
            nonlocal wanted, before
            starts = [operation for operation in plan.operations if operation.verb == "start"]
            if not plan.changes_files and not starts:
                return phases.Skip("the files are as they should be")
            with self.host.locked(ctx):
                if self.host.files.read(HostLayout.config_path) != config_text:
                    wanted = self.wanted()
                    again = cache(partial(read_host, self.host))
                    new_plan = self._plan_or_fail(wanted, again)
                    before = self._before or self._read_before(new_plan or plan, again)
                self._before = before
                return write_files(self.host, wanted.config, wanted.former)

        # The tasks that `only` and `skip` name need the files, so this step is never left out.
        result = phases.execute(write, _whole(ctx))
        self._before = before
        return effects_of(result), wanted

    def _read_before(self, plan: Plan, read_snapshot: Callable[[], Snapshot]) -> _Before:
        """What there is now, before this plan is carried out."""
        routes: list[Route] = []
        if plan.routes.changes:
            routes += [route for route in read_snapshot().routes if route.protocol == OURS]
        return _Before(readable_installed(self.host), tuple(routes))

    def _restore_routes(self, ctx: phases.Context, routes: tuple[Route, ...]) -> None:
        """Add those of these routes that are missing."""
        if self.host.backend is None or not routes:
            return
        entries = [entry for route in routes for entry in as_stored(route)]
        with self.host.locked(ctx), self.host.backend() as kernel:
            for outcome in kernel.change(RouteRequest("append", entry) for entry in entries):
                if outcome.error is not None and not outcome.is_done:
                    raise outcome.error

    def _make_plan(self, wanted: Wanted, read_snapshot: Callable[[], Snapshot]) -> Plan:
        """What would change in the files, and what the parts would do; nothing is changed."""
        host, config = self.host, wanted.config
        manager = host.running_manager
        files = find_file_changes(host, config)
        plan = Plan(
            files,
            needs_reload(manager, config, wanted.former),
            operations=find_starts(manager, config, files),
            findings=(*find_requirements(host, config, files), *find_ungated(config, host)),
        )
        if host.backend is None:
            return plan
        for part in self.parts():
            plan = plan.with_part(part.planned(wanted, read_snapshot))
        if not plan.routes.changes:
            return plan
        prefixes = [step.route.prefix for step in plan.routes.changes]
        before = read_snapshot()
        risks = find_session_at_risk(
            host, prefixes, before, after=partial(plan.routes.apply_to, before)
        )
        return attrs.evolve(plan, findings=worst_first((*plan.findings, *risks)))

    def _plan_or_fail(self, wanted: Wanted, read_snapshot: Callable[[], Snapshot]) -> Plan | None:
        """The plan; None if there is nothing to do. Raises the error of a run that must fail."""
        host = self.host
        plan = self._make_plan(wanted, read_snapshot)
        is_installed = bool(owned_paths(host.files))
        if not (is_installed or plan.files or plan.changes_kernel):
            return None
        errors = [finding for finding in plan.errors if finding.name not in _SOLVED_LATER]
        if errors:
            raise RequirementError(findings=errors)
        losses = self._losses(wanted.config)
        if losses:
            headline = "this would remove protection (to allow it: --allow-removal):"
            raise ConfigError(losses, headline=headline)
        if is_installed:
            plan.routes.require_possible()
        if host.backend is not None and plan.changes_kernel:
            host.rights().require_network()
        return plan

    def _losses(self, config: HostRoutingConfig) -> tuple[Fault, ...]:
        """What this configuration must not take away, and would."""
        if self.allow_removal:
            return ()
        return tuple(find_losses(read_installed(self.host), config))


def _warn(ctx: phases.Context, plan: Plan) -> None:
    """Log what has to be known before the run changes anything."""
    for finding in plan.findings:
        if finding.name == "unit-not-gated":
            ctx.log.warning("%s", finding, extra={"finding": finding.name})
        if finding.name == "session-at-risk":
            # Without the name, so that the command shows it at once: nobody may be there to read
            # its page.
            ctx.log.warning("%s", finding)


def _whole(ctx: phases.Context) -> phases.Context:
    """The context in which no step is left out."""
    return ctx.derive(why_left_out=lambda _path: "")


def _removal(loss: Fault) -> Finding:
    remedy = Remedy(f"{_KEEP} (--allow-removal)")
    return Finding("removal", "error", str(loss), loss.path, remedy)


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

    def carry_out(self, ctx: phases.Context, wanted: Wanted) -> Effects | phases.Skip:
        """Wait for what the task needs, then change the kernel. The files are installed already."""
        raise NotImplementedError

    def wanted(self) -> Wanted:
        """See InstallTask. The installed configuration with this section replaced."""
        installed = read_installed(self.host) or HostRoutingConfig()
        return Wanted(installed.replaced(self.section, self.config), installed)

    def parts(self) -> tuple[SectionTask, ...]:
        """See InstallTask."""
        needed = [kind(self.config, host=self.host, wait=self.wait) for kind in self.needed]
        return (*needed, self)

    def do(self, ctx: phases.Context) -> Effects | phases.Skip:
        installed = self.check_and_install_files(ctx)
        if installed is None:
            return phases.Skip(self.nothing)
        effects, wanted = installed
        result: Effects | phases.Skip = phases.Skip(self.nothing)
        for part in self.parts():
            with having_changed(effects.changes, effects.files, effects.operations):
                result = part.work(ctx, wanted)
            effects += effects_of(result)
        if isinstance(result, Effects):
            return attrs.evolve(
                result, changes=effects.changes, files=effects.files, operations=effects.operations
            )
        return effects if effects.changed else result

    def work(self, ctx: phases.Context, wanted: Wanted) -> Effects | phases.Skip:
        """Call `carry_out`; its error also says that the gate holds units back."""
        try:
            return self.carry_out(ctx, wanted)
        except HostRoutingError as error:
            units = self._held_units(wanted.config)
            if units:
                error.consequence = (
                    f"the files are installed: {spoken(units)} will not start until the steps of "
                    "the gate succeed"
                )
            raise

    def _held_units(self, config: HostRoutingConfig) -> tuple[str, ...]:
        """The units that the gate holds back until this task's step succeeds."""
        if self.host.running_manager is None:
            return ()
        _, is_required = dict(steps_of(config)).get(self.step, ("", False))
        return gated_units(config) if is_required else ()

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
        if installed is None and is_nothing(wanted.config):
            return HostRoutingConfig()
        if installed is None or self._section_of(installed) != self._section_of(wanted.config):
            sentence = "another run has installed a different configuration in the meantime"
            raise NotReady(
                f"{sentence}; run this again if this configuration is the right one", kind="busy"
            )
        return installed

    def _section_of(self, config: HostRoutingConfig) -> object:
        return getattr(config, self.section)
