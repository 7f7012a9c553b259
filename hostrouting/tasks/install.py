"""How a configuration comes onto a host: one comparison, one writer, one road for every task.

What a host has is compared with what `boot.files.files_of` says about the configuration. The dry run prints that
difference, `install` carries it out, and `status` prints it again. Three callers give a configuration: `Configure` its
own; a task alone the installed one, with its own section replaced; `Remove` one that asks for nothing.

The road of a run:

1. What is installed is read from config.json. Requirements are checked and, if something is installed, conflicts of
   routes: whatever must fail, fails before the first write.
2. Under the lock, which waits for units that are starting: the links of the Go original go, then drop-ins that are not
   wanted any more, then files are written and others removed, with one daemon-reload. From here on the gate holds.
3. Without the lock, each task does its work on the kernel; a task that changes it takes the lock again for that.

If a task fails, the files stay, so the gate holds units back until its steps succeed; the error says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

import phases
from hostrouting.boot.files import files_of, owned_paths
from hostrouting.config.settings import HostRoutingConfig, gated_units, needs_config
from hostrouting.errors import ConfigError, Fault, FileError, HostRoutingError, RequirementError
from hostrouting.finding import of_severity
from hostrouting.host.effects import Effects, having_changed, tell_effects
from hostrouting.host.fileset import FileChanges
from hostrouting.host.host import Host, needs_host
from hostrouting.host.layout import DROP_IN, HostLayout
from hostrouting.tasks.requirements import find_losses, find_requirements
from hostrouting.tasks.results import Plan
from hostrouting.text import spoken
from phases.errors import add_note

if TYPE_CHECKING:
    from typing_extensions import Self

    from hostrouting.host.systemd import Manager

DEFAULT_WAIT = 60.0
"""The default time in seconds for whatever a run waits for, such as the default route."""

_OUR_UNITS = (HostLayout.guard_unit, HostLayout.routes_unit, HostLayout.check_unit, HostLayout.probe_unit)
_UNITS = "/etc/systemd/system/"
_GRACE = 30.0  # seconds for the start of the guard
_A_DAY = 86_400


def valid_wait(instance: object, _attribute: object, value: Any) -> None:
    """A validator for tasks: ValueError if `value` is not a number of seconds from 0 to one day."""
    if not isinstance(value, int | float) or not 0 <= value <= _A_DAY:
        raise ValueError(f"{type(instance).__name__}: wait={value!r} is not a number of seconds from 0 to {_A_DAY}")


def read_installed(host: Host) -> HostRoutingConfig | None:
    """The configuration that is installed on this host; None if nothing is.

    Raises ConfigError if files of ours exist and config.json is missing or unusable: that is not the empty
    configuration, because what is installed would be taken for unwanted.
    """
    path = host.layout.config_path
    text = host.files.read(path)
    remedy = (
        "write everything anew: hostrouting apply --config FILE --allow-removal; or take it away: hostrouting remove"
    )
    if text is None:
        if ours := owned_paths(host.files, host.layout):
            rule = f"is missing, and {ours[0]} is there, so the installed configuration is not known"
            raise ConfigError([Fault(path, "", rule, remedy)])
        return None
    try:
        return HostRoutingConfig.from_json(text, source=path)
    except ConfigError as error:
        rule = f"is not a configuration that this release reads ({error.faults[0]})"
        raise ConfigError([Fault(path, "", rule, remedy)]) from error


def file_changes(host: Host, config: HostRoutingConfig) -> FileChanges:
    """What `install` would write and remove; nothing is changed."""
    files, layout = host.files, host.layout
    wanted = files_of(config, layout)
    paths = {file.path for file in wanted} | {*(layout.markers if config.route_overlap.expected_cidrs else ())}
    links = (path for path in layout.original_links if files.is_there(path)) if wanted else ()
    unwanted = (path for path in owned_paths(files, layout) if path not in paths)
    return FileChanges([file.path for file in wanted if file.differs(files)], [*links, *unwanted])


def install(host: Host, config: HostRoutingConfig) -> tuple[str, ...]:
    """Make the files of the host, which has to be locked, those of the configuration; returns the changed paths.

    A removal goes on after a failure, and raises the first one at the end. The error has what was changed.
    """
    changes, wanted, manager = file_changes(host, config), files_of(config, host.layout), host.running_manager
    is_unread = manager is not None and _is_unread(manager, host, config)
    if not changes and not is_unread:
        return ()
    for file in wanted:
        file.require_room(host.files)
    paths: list[str] = []
    failures: list[FileError] = []
    with having_changed(files=paths):
        first = [path for path in changes.removes if path in host.layout.original_links or path.endswith(f"/{DROP_IN}")]
        _remove(host, first, paths, failures)
        if manager is not None and first:
            manager.reload()  # no unit may start by a drop-in whose gate.sh is about to go
        leaving = [unit for unit in _OUR_UNITS if host.layout.unit_path(unit) in changes.removes]
        if manager is not None:
            for unit in leaving:
                manager.stop(unit)
        paths += [file.path for file in wanted if file.write(host.files)]
        _remove(host, [path for path in changes.removes if path not in first], paths, failures)
        if manager is not None and (is_unread or any(_UNITS in path for path in paths)):
            manager.reload()
        if failures:
            raise failures[0]
        if manager is not None and config.guard.enabled and _is_guard_stale(manager, host, paths):
            manager.start(HostLayout.guard_unit, timeout=_GRACE)
    return tuple(paths)


def _remove(host: Host, paths: Sequence[str], removed: list[str], failures: list[FileError]) -> None:
    for path in paths:
        try:
            removed += [path] if host.files.remove(path) else []
        except FileError as error:
            failures.append(error)
        host.files.remove_empty(path.rpartition("/")[0])
    if paths:
        host.files.remove_empty(host.layout.at(HostLayout.config_directory))


def _is_unread(manager: Manager, host: Host, config: HostRoutingConfig) -> bool:
    """Whether systemd has not read the present text of a file of ours."""
    gated = {path.split("/")[-2].removesuffix(".d") for path in owned_paths(host.files, host.layout) if DROP_IN in path}
    names = [unit.replace("@.", "@*.") for unit in sorted({*gated, *gated_units(config)})]
    shown = manager.show(("NeedDaemonReload",), *_OUR_UNITS, *names)
    return any(properties["NeedDaemonReload"] == "yes" for properties in shown)


def _is_guard_stale(manager: Manager, host: Host, changed: Sequence[str]) -> bool:
    layout = host.layout
    is_new = {layout.guard_path, layout.unit_path(layout.guard_unit)} & {*changed}
    return bool(is_new) or manager.state(layout.guard_unit).active != "active"


def begin(
    ctx: phases.Context,
    host: Host,
    config: HostRoutingConfig,
    tasks: Sequence[SectionTask],
    *,
    allow_removal: bool = True,
) -> tuple[str, ...] | None:
    """The road up to the kernel: what must fail fails, then the files are installed. Returns the changed paths.

    None if nothing is configured, and nothing of ours is on the host.
    """
    plan = planned(host, config, tasks)
    is_installed = bool(owned_paths(host.files, host.layout))
    if not (files_of(config, host.layout) or is_installed or plan.changes_kernel):
        return None
    if errors := tuple(of_severity(find_requirements(host, config), "error")):
        raise RequirementError(errors)
    if not allow_removal and (faults := tuple(find_losses(read_installed(host), config))):
        raise ConfigError(faults)
    if plan.routes is not None and is_installed:
        plan.routes.require_possible()
    if host.backend is not None and not plan.is_empty:
        host.rights().require_network()
    with host.locked(ctx) as locked:
        return install(locked, config)


@contextmanager
def holding(host: Host, config: HostRoutingConfig, paths: Sequence[str]) -> Iterator[None]:
    """Say on an error of a task's work which files were changed before it, and that the gate holds units back."""
    try:
        yield
    except BaseException as error:
        tell_effects(error, files=paths)
        units = gated_units(config)
        if isinstance(error, HostRoutingError) and host.backend is not None and units:
            add_note(error, f"the files are installed: {spoken(units)} will not start before the gate's steps succeed")
        raise


@attrs.frozen
class SectionTask:
    """A task about one section of the configuration. Alone, it keeps all other sections as they are installed.

    A subclass says what its work on the kernel is: `planned` looks, and `carry_out` does it. Both take `config` for
    the whole configuration.
    """

    name: ClassVar[str]
    section: ClassVar[str]
    """The attribute of the configuration that the task is about."""
    nothing: ClassVar[str]
    """Why there is nothing to do where nothing is configured and nothing of ours is there."""

    config: HostRoutingConfig = attrs.field(validator=needs_config)
    host: Host = attrs.field(factory=Host.local, validator=needs_host, kw_only=True)
    wait: float = attrs.field(default=DEFAULT_WAIT, validator=valid_wait, kw_only=True)
    """The seconds to wait for what the work needs, such as the default route."""

    def planned(self) -> Plan:
        """What would be done to the kernel now; nothing is changed. An image has no kernel."""
        raise NotImplementedError

    def carry_out(self, ctx: phases.Context) -> Effects | phases.Skip:
        """Do it, and wait for what it needs. The files are installed already."""
        raise NotImplementedError

    def plan(self, _ctx: phases.Context | None = None) -> Plan:
        """What do() would do on this host now; changes nothing."""
        task = self.as_whole()
        return planned(self.host, task.config, (task,))

    def do(self, ctx: phases.Context) -> Effects | phases.Skip:
        """See the class."""
        task = self.as_whole()
        paths = begin(ctx, self.host, task.config, (task,))
        if paths is None:
            return phases.Skip(self.nothing)
        with holding(self.host, task.config, paths):
            result = task.carry_out(ctx)
        if isinstance(result, Effects):
            return attrs.evolve(result, files=paths)
        return Effects(files=paths) if paths else result

    def undo(self, ctx: phases.Context) -> Effects | phases.Skip:
        """Take the section away, from the files and from the kernel."""
        return attrs.evolve(self, config=HostRoutingConfig(), wait=0).do(ctx)

    def as_whole(self) -> Self:
        """The task for the installed configuration with this section in its place."""
        installed = read_installed(self.host) or HostRoutingConfig()
        return attrs.evolve(self, config=installed.replaced(self.section, self.config))


def planned(host: Host, config: HostRoutingConfig, tasks: Sequence[SectionTask]) -> Plan:
    """What these tasks would do with this configuration; nothing is changed."""
    manager = host.running_manager
    plan = Plan(file_changes(host, config), manager is not None and _is_unread(manager, host, config))
    for task in tasks:
        plan += task.planned()
    return plan + Plan(findings=tuple(find_requirements(host, config)))
