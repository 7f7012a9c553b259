"""Preflight: everything that would make a bootstrap, the start of the next machine or a reboot fail, found beforehand.

Here: what is read of a host, and nothing is changed. Not here: what follows from it (`hostrouting.preflight`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

from hostrouting.config import needs_config
from hostrouting.errors import FileError, HostRoutingError, PreflightFailed
from hostrouting.examination import examine_snapshot
from hostrouting.fileset import OURS
from hostrouting.gate import Gate
from hostrouting.host import Host, needs_host
from hostrouting.openings import UNIT_FOLDERS, UNSEEN, find_gate_state
from hostrouting.plan import RoutePlan
from hostrouting.preflight import (
    TOOLS,
    PreflightFinding,
    cleanup_findings,
    file_findings,
    folder_findings,
    gate_findings,
    lock_findings,
    machine_findings,
    overlap_findings,
    replacement_findings,
    route_findings,
    systemd_findings,
    task_findings,
    tool_findings,
    unit_findings,
    unread,
    worst_first,
)
from hostrouting.render import DEFAULT_WAIT
from hostrouting.tasks.azure_cleanup import CleanStaleAzureVnet
from hostrouting.tasks.boot import HostTask, valid_wait
from hostrouting.tasks.configure import Configure
from hostrouting.tasks.probe_rewrite import RewriteProbeSource
from hostrouting.tasks.results import PreflightResult, Preview

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    import phases
    from hostrouting.config import HostRoutingConfig
    from hostrouting.gate import Part
    from hostrouting.preflight import Name

__all__ = ["Preflight"]

_SHOWN = 5  # errors in the message of a failure


@attrs.frozen
class Preflight:
    """Find what would make Configure, the start of the next machine or a reboot fail; change nothing.

    Warnings and remarks are logged. Errors are raised together, as PreflightFailed, so that the tasks behind this one
    do not begin. `plan` returns all findings and raises none of them.
    """

    name: ClassVar[str] = "preflight"
    config: HostRoutingConfig = attrs.field(validator=needs_config)
    host: Host = attrs.field(factory=Host.local, validator=needs_host, kw_only=True)
    wait: float = attrs.field(default=DEFAULT_WAIT, validator=valid_wait, kw_only=True)
    """How many seconds Configure would be told to wait; it is part of the boot files. Preflight does not wait."""

    def plan(self, ctx: phases.Context) -> PreflightResult:
        """The findings."""
        return PreflightResult(worst_first(self._findings(ctx)))

    def do(self, ctx: phases.Context) -> PreflightResult:
        """See the class."""
        found = self.plan(ctx)
        for it in found.findings:
            if it.severity == "warning":
                ctx.log.warning("%s: %s", it.name, it.message)
            elif it.severity == "info":
                ctx.log.info("%s: %s", it.name, it.message)
        if errors := [it.message for it in found.findings if it.severity == "error"]:
            more = f"; and {len(errors) - _SHOWN} more" if len(errors) > _SHOWN else ""
            raise PreflightFailed(f"{'; '.join(errors[:_SHOWN])}{more}", findings=found.findings)
        return found

    def _findings(self, ctx: phases.Context) -> Iterator[PreflightFinding]:
        configure = Configure(self.config, host=self.host, wait=self.wait)
        tasks: list[HostTask[Any]] = []
        for task in configure.subtasks:
            try:
                tasks.append(task.settled(ctx))
            except HostRoutingError as error:
                yield unread(_subject(task), "", error)
                tasks.append(task)
        up = [task.part for task in tasks if task.is_wanted]
        down = [task.part for task in tasks if not task.is_wanted]
        look = Preview()
        for task in tasks:
            try:
                look += task.look(up=task.is_wanted)
                standing = task.standing() if task.is_wanted else None
            except HostRoutingError as error:
                yield unread(_subject(task), "", error)
                continue
            if standing is not None:
                yield from task_findings("probes", hindrances=standing.hindrances, notes=standing.notes)
        yield from task_findings("probes", conflicts=look.conflicts)
        yield from self._of_routes(look)
        yield from self._of_files(up, down)
        yield from self._of_tools(up)
        yield from _asked("systemd", "systemd", self._of_systemd)
        yield from _asked("units", "", lambda: self._of_units(up))
        yield from _asked("gate", "", lambda: gate_findings(find_gate_state(self.host)))
        lock = self.host.layout.lock_path
        yield from _asked("lock", lock, lambda: lock_findings(self.host.files.holders(lock), path=lock))
        yield from _asked("azure-vnet", "", lambda: self._of_cleanup(ctx))

    def _of_routes(self, look: Preview) -> Iterator[PreflightFinding]:
        plan = look.routes or RoutePlan()
        yield from route_findings(plan)
        if look.before is not None and self.config.route_overlap.expected_cidrs:
            found = examine_snapshot(plan.apply_to(look.before), self.config)
            yield from overlap_findings(found, mode=self.config.route_overlap.mode)

    def _of_files(self, up: list[Part], down: list[Part]) -> Iterator[PreflightFinding]:
        files, layout, gate = self.host.files, self.host.layout, Gate(self.host)
        obstacles = gate.obstacles(up)
        yield from file_findings(obstacles)
        in_the_way = {it.path for it in obstacles}
        folders = {layout.at(layout.state_directory)} if up else set()
        cleanup = self.config.azure_vnet_cleanup
        if cleanup is not None and not cleanup.dry_run:
            folders |= {layout.at(layout.state_directory), layout.at(layout.lasting_directory)}
        try:
            writes = gate.changes(up, down).writes
            texts = {path: files.read(path) for path in writes if path not in in_the_way}
            # A link that enables a unit is as it should be once it is there; the unit behind it is among the paths.
            links = {path for part in up for path, _ in part.all_files.links}
            replaced = [path for path, text in texts.items() if text and OURS not in text and path not in links]
            removed = gate.former.present(files) if up else ()
            removed += tuple(path for part in up for path in part.all_files.differences(files).removes)
        except FileError as error:
            yield unread("files", error.path, error)
        else:
            yield from replacement_findings(replaced, removed)
            folders |= {path.rpartition("/")[0] for path in writes}
        yield from folder_findings(list(self._unwritable(sorted(folders))))

    def _unwritable(self, folders: Iterable[str]) -> Iterator[FileError]:
        for folder in folders:
            try:
                self.host.files.require_writable(folder)
            except FileError as error:
                yield error

    def _of_tools(self, up: list[Part]) -> Iterator[PreflightFinding]:
        if not up or (self.host.manager is None and self.host.backend is not None):
            return iter(())  # a sandbox never boots
        needed: dict[str, list[str]] = {tool: ["the gate"] for tool in Gate.tools}
        for part in up:
            for tool in part.tools:
                needed.setdefault(tool, []).append(f"{part.name}.sh")
        find = self.host.find_program
        return tool_findings(needed, [tool for tool in needed if any(map(find, TOOLS[tool][0]))])

    def _of_systemd(self) -> Iterator[PreflightFinding]:
        manager = self.host.manager
        if manager is None:
            return iter(())
        return systemd_findings(manager.show(("Version",))[0]["Version"] if manager.is_running() else None)

    def _of_units(self, up: list[Part]) -> Iterator[PreflightFinding]:
        files, layout, gate = self.host.files, self.host.layout, Gate(self.host)
        if not up:
            return
        ours = (*(part.unit for part in up), layout.gate_unit)
        folder = layout.unit_directory
        paths = (*(f"{folder}/{unit}" for unit in ours), layout.gate_drop_in)
        earlier = UNIT_FOLDERS[: UNIT_FOLDERS.index(folder)] if folder in UNIT_FOLDERS else ()
        shadows = [(other + path.removeprefix(folder), path) for other in earlier for path in paths]
        drop_ins = [(f"{other}/{unit}.d", unit) for other in UNIT_FOLDERS for unit in ours]
        settings = [(f"{at}/{name}", unit) for at, unit in drop_ins for name in files.names(layout.at(at))]
        yield from unit_findings(
            [(path, our) for path, our in shadows if files.is_there(layout.at(path))],
            [(path, unit) for path, unit in settings if path.endswith(".conf")],
        )
        if gate.manager is None or gate.present():
            return  # what an installed gate holds and lets through is asked of systemd
        for machine in gate.manager.show(("LoadState", "DropInPaths"), UNSEEN):
            texts = {path: files.read(layout.at(path)) or "" for path in machine["DropInPaths"].split()}
            unit, drop_in = layout.machine_unit, layout.gate_drop_in
            yield from machine_findings(machine["LoadState"], texts, unit=unit, drop_in=drop_in)

    def _of_cleanup(self, ctx: phases.Context) -> Iterator[PreflightFinding]:
        settings = self.config.azure_vnet_cleanup
        if settings is None:
            return iter(())
        plan = CleanStaleAzureVnet(self.config, host=self.host).plan(ctx)
        return cleanup_findings(plan, dry_run=settings.dry_run)


def _subject(task: HostTask[Any]) -> Name:
    """The name of the finding about what a task could not read."""
    return "probes" if isinstance(task, RewriteProbeSource) else "kernel"


def _asked(name: Name, target: str, question: Callable[[], Iterable[PreflightFinding]]) -> tuple[PreflightFinding, ...]:
    """The findings; if the host does not answer, that is the finding."""
    try:
        return tuple(question())
    except HostRoutingError as error:
        return (unread(name, target, error),)
