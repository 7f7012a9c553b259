"""How a configuration is installed on a host: the same comparison, writer and order of steps for
every task.

A host is compared with what `boot.files.files_of` returns for the configuration. The dry run prints
the difference, `install` carries it out, and `status` prints it again. `Configure` uses its own
configuration, a single task uses the installed one with its section replaced, and `Remove` uses one
that asks for nothing. The steps of an `InstallTask`:

1. What is installed is read from config.json. Requirements are checked and, if something is
   installed, conflicts of routes: whatever must fail, fails before the first write.
2. Under the lock, which waits for units that are starting, the links of the Go original are removed
   first, then the drop-ins and units that are not wanted any more, and systemd reads its files
   again. Then the other files are written or removed, and systemd reads again. From here on the
   gate holds.
3. Without the lock, each task does its work on the kernel. A task that changes the kernel takes the
   lock again, and goes on only if the configuration is still the installed one.

If a task fails, the files are not removed: the gate holds units back until its steps succeed, and
the error says so. A run that is killed anywhere leaves a host that the next run completes:
config.json is written first and removed last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import attrs

import phases
from hostrouting.boot.files import files_of, gated_on_disk, is_nothing, owned_paths, steps_of
from hostrouting.boot.units import UNITS
from hostrouting.config.settings import HostRoutingConfig, gated_units
from hostrouting.errors import (
    ConfigError,
    Fault,
    HostError,
    HostRoutingError,
    NotReady,
    RequirementError,
)
from hostrouting.finding import Finding
from hostrouting.host.effects import Effects, Operation, effects_of, having_changed
from hostrouting.host.fileset import FileChanges
from hostrouting.host.host import Host
from hostrouting.host.layout import DROP_IN, HostLayout
from hostrouting.tasks.obstacles import find_ungated
from hostrouting.tasks.requirements import find_losses, find_requirements
from hostrouting.tasks.restoring import remedy_without_config
from hostrouting.tasks.results import Plan
from hostrouting.text import spoken
from phases.context import in_range

if TYPE_CHECKING:
    from hostrouting.host.systemd import Manager

Parts: TypeAlias = "tuple[SectionTask, ...]"

_LOADED = "/systemd/system/"  # the folder from which systemd loads units and drop-ins
_GRACE = 30.0  # seconds for the start of the guard
_KEEP = "keep this in the configuration, or allow the removal"
_AWAITED = ("route-conflict", "route-waits")  # on a new host the gate holds until these are solved


def read_installed(host: Host) -> HostRoutingConfig | None:
    """The configuration that is installed on this host; None if nothing is.

    Raises ConfigError if files of ours exist, but config.json is missing or unusable. An empty
    configuration would be wrong then: `install` would remove all that is installed.
    """
    path = HostLayout.config_path
    if (text := host.files.read(path)) is None:
        if not (ours := owned_paths(host.files)):
            return None
        if (
            text := host.files.read(path)
        ) is None:  # another run may have installed it meanwhile, as the first file
            rule = (
                f"is missing, although {ours[0]} is still there, so the installed configuration "
                "is unknown"
            )
            raise ConfigError(
                [Fault("", "", rule, remedy_without_config(gated_on_disk(host.files)))], path
            )
    try:
        return HostRoutingConfig.from_json(text, required=True)
    except ConfigError as error:
        *others, last = error.faults
        last = last._replace(remedy=remedy_without_config(gated_on_disk(host.files)))
        raise ConfigError([*others, last], path) from error


def readable_installed(host: Host) -> HostRoutingConfig | None:
    """The installed configuration, an empty one if nothing is installed, or None if it cannot be
    read.
    """
    with suppress(HostRoutingError):
        return read_installed(host) or HostRoutingConfig()
    return None


def file_changes(host: Host, config: HostRoutingConfig) -> FileChanges:
    """What `install` would write and remove; nothing is changed."""
    files, wanted = host.files, files_of(config)
    differing = tuple(file for file in wanted if file.differs(files))
    kept = {file.path for file in wanted}
    if wanted:
        kept.add(HostLayout.opening_path)
    if config.route_overlap.cidrs:
        kept.update(HostLayout.markers)  # the check writes them
    # The Go original ties running machines to its units by these links.
    ties = HostLayout.original_links if wanted else ()
    unwanted = (path for path in owned_paths(files) if path not in kept)
    return FileChanges(differing, [*filter(files.look, ties), *unwanted])


def install(host: Host, config: HostRoutingConfig, former: HostRoutingConfig) -> Effects:
    """Make the files of the host match the configuration; the host has to be locked.

    `former` is what was installed. The first failure is raised, with the effects so far. Another
    call does the rest.
    """
    changes, manager, paths = file_changes(host, config), host.running_manager, list[str]()
    loaded = [path for path in changes.removes if _LOADED in path]
    rest = [path for path in changes.removes if path not in loaded]
    starts, read = _starts(manager, config, changes), 0
    is_opening = HostLayout.gate_path in rest or any(
        path.endswith(f"/{DROP_IN}") for path in loaded
    )
    with having_changed(files=paths):
        for unit in UNITS:
            if manager is not None and HostLayout.unit_path(unit) in loaded:
                manager.stop(unit)
        _remove(host, loaded, paths)
        # Until systemd has read that a drop-in is gone, its unit runs gate.sh, and config.json
        # names the unit.
        if manager is not None and (is_opening or is_unread(manager, config, former)):
            manager.reload()
            read = len(paths)
        for file in changes.files:
            paths += [file.path] if file.write(host.files) else []
        _remove(host, rest, paths)
        if HostLayout.config_path in changes.writes:
            _remove_markers(host)
        if manager is not None:
            if any(_LOADED in path for path in paths[read:]):
                manager.reload()
            for start in starts:
                manager.start(start.object, timeout=_GRACE)
    return Effects(files=paths, operations=starts)


def _remove(host: Host, unwanted: list[str], removed: list[str]) -> None:
    for path in unwanted:
        # A marker that cannot be removed stops nothing: only the routes decide, and the next boot
        # removes it.
        with suppress(HostError) if path in HostLayout.markers else nullcontext():
            removed += [path] if host.files.remove(path) else []
        folder = path.rpartition("/")[0]
        if folder.endswith(".d"):
            host.files.remove_empty(folder)
    host.files.remove_empty(HostLayout.config_directory)


def _remove_markers(host: Host) -> None:
    """Remove the verdict on another configuration; the check that follows writes a new one."""
    for path in HostLayout.markers:
        with suppress(HostError):  # see _remove
            host.files.remove(path)


def is_unread(manager: Manager, *configs: HostRoutingConfig) -> bool:
    """Whether a file of ours has changed or gone since systemd last read it."""
    units = {unit for config in configs for unit in gated_units(config)}
    names = [unit.replace("@.", "@*.") for unit in sorted(units)]
    return any(
        shown["NeedDaemonReload"] == "yes"
        for shown in manager.show(("NeedDaemonReload",), *UNITS, *names)
    )


def _starts(
    manager: Manager | None, config: HostRoutingConfig, changes: FileChanges
) -> tuple[Operation, ...]:
    unit = HostLayout.guard_unit
    if manager is None or not config.guard.enabled:
        return ()
    is_new = {HostLayout.guard_path, HostLayout.unit_path(unit)} & {*changes.writes}
    if not is_new and manager.show(("ActiveState",), unit)[0]["ActiveState"] == "active":
        return ()
    return (Operation("start", unit, "its files are new" if is_new else "it is not running"),)


def planned(parts: Parts) -> Plan:
    """What would change in the files, and what these tasks would do; nothing is changed."""
    host, config = parts[0].host, parts[0].config
    changes, manager = file_changes(host, config), host.running_manager
    findings = (*find_requirements(host, config, changes), *find_ungated(config, host))
    needs_reload = manager is not None and is_unread(manager, config, parts[0].former)
    plan = Plan(
        changes, needs_reload, operations=_starts(manager, config, changes), findings=findings
    )
    for part in parts:
        plan += part.planned()
    return plan


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


@attrs.frozen
class InstallTask:
    """A task that brings a configuration onto a host, in the steps that the module describes."""

    name = ""  # not a ClassVar, which pyright would not accept for a phases.Task
    nothing: ClassVar[str]
    """The reason for a skip: nothing is configured, and nothing of ours is there."""

    config: HostRoutingConfig = attrs.field(validator=IS_CONFIG)
    host: Host = attrs.field(factory=Host.local, validator=IS_HOST, kw_only=True)
    wait: float = attrs.field(
        default=60.0,
        validator=lambda _task, _field, value: in_range(value, "wait", least=0, most=86_400),
        kw_only=True,
    )
    """The seconds that each part waits for what it needs, such as the default route."""
    allow_removal: bool = attrs.field(default=True, validator=_IS_FLAG, kw_only=True)
    """Whether the configuration may take away what protects the host now; if not, a ConfigError
    names it.
    """
    _replaced: list[HostRoutingConfig | None] = attrs.field(
        factory=list, init=False, eq=False, repr=False
    )
    """What was installed before the first run of this task, for undo(); None if it could not be
    read.
    """

    def parts(self) -> Parts:
        """The tasks that do the work, in order, each with the whole wanted configuration."""
        raise NotImplementedError

    def plan(self, _ctx: phases.Context | None = None) -> Plan:
        """What do() would do on this host now, and what would make it fail; changes nothing.

        It is the plan of root: a process without its rights can make a plan, and not carry it out.
        """
        parts, backend = self.parts(), self.host.backend
        config = parts[0].config
        plan = planned(parts) + Plan(findings=tuple(map(_removal, self._losses(config))))
        is_checked = parts[-1].section == "route_overlap" and bool(config.route_overlap.cidrs)
        if not is_checked or backend is None:
            return plan
        with backend() as kernel:
            snapshot = kernel.snapshot()._replace(name_servers=self.host.name_servers)
        return plan.with_check(config, snapshot)

    def do(self, ctx: phases.Context) -> object:
        raise NotImplementedError

    def undo(self, ctx: phases.Context) -> object:
        """Install what was there before the task first ran, or remove everything if nothing was.

        A task about one section restores that section. HostError if what was there could not be
        read.
        """
        if not self._replaced:
            return phases.Skip("it did not run")
        if (former := self._replaced[0]) is None:
            sentence = (
                "what was installed before could not be read, so it cannot be installed again"
            )
            raise HostError(f"{sentence}; to remove everything: hostrouting remove", what="file")
        result = attrs.evolve(self, config=former, wait=0, allow_removal=True).do(ctx)
        self._replaced.clear()
        return result

    def begin(self, ctx: phases.Context) -> tuple[Effects, Parts] | None:
        """The steps before the kernel is changed: what must fail fails, then the files are
        installed.

        Returns the effects so far, and the parts. None if nothing is to be done, and nothing of
        ours is there.
        """
        host, path = self.host, HostLayout.config_path
        if not self._replaced:
            self._replaced.append(readable_installed(host))
        before, parts = host.files.read(path), self.parts()
        plan = self._possible_plan(parts)
        if plan is None:
            return None
        for finding in plan.findings:
            if finding.name == "unit-not-gated":
                ctx.log.warning("%s", finding, extra={"finding": finding.name})
        if not (
            plan.files
            or plan.needs_reload
            or any(operation.verb == "start" for operation in plan.operations)
        ):
            return Effects(), parts
        with host.locked(ctx):
            if host.files.read(path) != before:  # another run was faster: use its sections
                parts = self.parts()
                if self._possible_plan(parts) is None:
                    return None
            return install(host, parts[0].config, parts[0].former), parts

    def _possible_plan(self, parts: Parts) -> Plan | None:
        """The plan of these parts; None if there is nothing to do. Raises the error of a run that
        must fail.
        """
        host, config = self.host, parts[0].config
        plan, is_installed = planned(parts), bool(owned_paths(host.files))
        if not (is_installed or plan.files or plan.changes_kernel):
            return None
        if errors := tuple(finding for finding in plan.errors if finding.name not in _AWAITED):
            raise RequirementError(findings=errors)
        if losses := self._losses(config):
            headline = "this would remove protection (to allow it: --allow-removal):"
            raise ConfigError([loss._replace(remedy=_KEEP) for loss in losses], headline=headline)
        if is_installed:
            plan.routes.require_possible()
        if host.backend is not None and plan.changes_kernel:
            host.rights().require_network()
        return plan

    def _losses(self, config: HostRoutingConfig) -> tuple[Fault, ...]:
        """What this configuration must not take away, and would."""
        return () if self.allow_removal else tuple(find_losses(read_installed(self.host), config))


def _removal(loss: Fault) -> Finding:
    return Finding("removal", "error", str(loss), loss.path, f"{_KEEP} (--allow-removal)")


@attrs.frozen
class SectionTask(InstallTask):
    """A task about one section of the configuration. Alone, it keeps all other sections as they are
    installed.

    A subclass says what its work on the kernel is: `planned` says what would change, and
    `carry_out` changes it. For both, `config` is the whole configuration.
    """

    section: ClassVar[str]
    """The attribute of the configuration that the task is about."""
    step: ClassVar[str]
    """The step of the gate that does the same work at boot."""
    needed: ClassVar[tuple[type[SectionTask], ...]] = ()
    """The tasks whose work is part of this task's work: when this task runs alone, it does their
    work first.
    """

    former: HostRoutingConfig = attrs.field(
        factory=HostRoutingConfig, kw_only=True, eq=False, repr=False
    )
    """The configuration that was installed before, if known: the work may have to undo it."""

    def planned(self) -> Plan:
        """What would be done to the kernel now: nothing, unless the task says otherwise. An image
        has no kernel.
        """
        return Plan()

    def carry_out(self, ctx: phases.Context) -> Effects | phases.Skip:
        """Wait for what the task needs, then change the kernel. The files are installed already."""
        raise NotImplementedError

    def parts(self) -> Parts:
        """See InstallTask. The wanted configuration is the installed one with this section
        replaced.
        """
        former = read_installed(self.host) or HostRoutingConfig()
        whole = former.replaced(self.section, self.config)
        kinds = (*self.needed, type(self))
        return tuple(kind(whole, host=self.host, wait=self.wait, former=former) for kind in kinds)

    def do(self, ctx: phases.Context) -> Effects | phases.Skip:
        if (begun := self.begin(ctx)) is None:
            return phases.Skip(self.nothing)
        effects, parts = begun
        result: Effects | phases.Skip = phases.Skip(self.nothing)
        for part in parts:
            with having_changed(effects.changes, effects.files, effects.operations):
                result = part.work(ctx)
            effects += effects_of(result)
        if isinstance(result, Effects):
            return attrs.evolve(
                result, changes=effects.changes, files=effects.files, operations=effects.operations
            )
        return result if effects == Effects() else effects

    def work(self, ctx: phases.Context) -> Effects | phases.Skip:
        """Call `carry_out`; its error also says that the gate holds units back."""
        try:
            return self.carry_out(ctx)
        except HostRoutingError as error:
            units, (_, is_required) = (
                gated_units(self.config),
                dict(steps_of(self.config)).get(self.step, ("", False)),
            )
            if is_required and units and self.host.running_manager is not None:
                kept = (
                    f"the files are installed: {spoken(units)} will not start until the steps of "
                    "the gate succeed"
                )
                error.args = (f"{error}; {kept}",)
            raise

    @contextmanager
    def changing(self, ctx: phases.Context) -> Iterator[HostRoutingConfig]:
        """Hold the lock while the kernel is changed; yields the configuration that is installed
        then.
        """
        with self.host.locked(ctx):
            yield self.require_installed()

    def require_installed(self) -> HostRoutingConfig:
        """The installed configuration; NotReady if another run has replaced this section of it."""
        installed = read_installed(self.host)
        is_same = not installed or getattr(installed, self.section) == getattr(
            self.config, self.section
        )
        if not is_same or (installed is None and not is_nothing(self.config)):
            sentence = "another run has installed a different configuration in the meantime"
            raise NotReady(
                f"{sentence}; run this again if this configuration is the right one", kind="busy"
            )
        return installed or HostRoutingConfig()
