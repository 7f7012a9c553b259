"""Preflight: everything that would make a bootstrap, the start of the next machine or a reboot fail, found beforehand.

Here: what is read of a host, and nothing is changed. Not here: what follows from it (`hostrouting.preflight`).
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, ClassVar, TypeVar

import attrs

from hostrouting.config import needs_config
from hostrouting.correction import correction_of
from hostrouting.errors import FileError, HostRoutingError, PreflightFailed
from hostrouting.examination import examine_snapshot
from hostrouting.fileset import OURS, Changes
from hostrouting.gate import Gate
from hostrouting.host import Host, needs_host
from hostrouting.openings import UNIT_FOLDERS, UNSEEN, drop_in_folders, find_coming_openings, find_gate_state
from hostrouting.plan import RoutePlan
from hostrouting.preflight import (
    TOOLS,
    PreflightFinding,
    UnitDropIn,
    cleanup_findings,
    file_findings,
    folder_findings,
    gate_findings,
    lock_findings,
    machine_findings,
    overlap_findings,
    program_findings,
    replacement_findings,
    rights_findings,
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
from hostrouting.tasks.guard_service import InstallGuard
from hostrouting.tasks.probe_rewrite import RewriteProbeSource
from hostrouting.tasks.results import PreflightResult, Preview

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    import phases
    from hostrouting.config import HostRoutingConfig
    from hostrouting.gate import Part
    from hostrouting.preflight import Name
    from hostrouting.system import Rights

__all__ = ["Preflight"]

T = TypeVar("T")

_SHOWN = 5  # errors in the message of a failure


@attrs.frozen
class Preflight:
    """Find what would make Configure, the start of the next machine or a reboot fail; change nothing.

    Warnings and remarks are logged. Errors are raised together, as PreflightFailed, so that the tasks behind this one
    do not begin: neither does Configure, so a host without a gate stays without one. `plan` returns all findings and
    raises none of them.
    """

    name: ClassVar[str] = "preflight"
    config: HostRoutingConfig = attrs.field(validator=needs_config)
    host: Host = attrs.field(factory=Host.local, validator=needs_host, kw_only=True)
    wait: float = attrs.field(default=DEFAULT_WAIT, validator=valid_wait, kw_only=True)
    """How many seconds Configure would be told to wait; it is part of the boot files. Preflight does not wait,
    and what Configure would wait for is a warning; if this is 0, it is an error."""
    file: str = attrs.field(default="FILE", kw_only=True)
    """The name of the configuration's file, for the commands in messages."""

    def plan(self, ctx: phases.Context) -> PreflightResult:
        """The findings."""
        return PreflightResult(worst_first(self._findings(ctx)))

    def do(self, ctx: phases.Context) -> PreflightResult:
        """See the class."""
        found = self.plan(ctx)
        errors = [it for it in found.findings if it.severity == "error"]
        # Whoever reads of an escape has to read of its repair, at whatever level this is logged.
        escaping = {it.severity for it in found.findings if it.name == "overlap" and it.severity != "info"}
        remedies = [it for it in found.findings if it.repair and "error" in escaping]
        for it in found.findings:
            if it.severity == "warning" or (it.repair and it not in remedies):
                ctx.log.warning("%s: %s", it.name, it.message)
            elif it.severity == "info" and it not in remedies:
                ctx.log.info("%s: %s", it.name, it.message)
        if errors:
            told = [it.message for it in errors[:_SHOWN]]
            told += [f"and {len(errors) - _SHOWN} more"] if len(errors) > _SHOWN else []
            told += [it.message for it in remedies]
            told += (
                []
                if self._is_gated()
                else ["no gate is installed, so machines start unchecked until Configure has run"]
            )
            raise PreflightFailed("; ".join(told), findings=found.findings)
        return found

    def _is_gated(self) -> bool:
        """Whether machines wait for a gate now, or would not wait for one after Configure either."""
        tasks = Configure(self.config, host=self.host).subtasks
        if not any(task.is_wanted and task.part.step is not None for task in tasks):
            return True
        with suppress(FileError):
            return self.host.files.is_there(self.host.layout.gate_drop_in_path)
        return False

    def _findings(self, ctx: phases.Context) -> Iterator[PreflightFinding]:
        tasks: list[HostTask[Any]] = []
        for task in Configure(self.config, host=self.host, wait=self.wait).subtasks:
            settled, unknown = self._answer(_subject(task), "", partial(task.settled, ctx), task)
            tasks.append(settled)
            yield from unknown
        up = [task.part for task in tasks if task.is_wanted]
        down = [task.part for task in tasks if not task.is_wanted]
        look = Preview()
        for task in tasks:
            seen, unknown = self._answer(_subject(task), "", partial(task.look, up=task.is_wanted), Preview())
            look += seen
            yield from unknown or self._asked(_subject(task), "", partial(_of_standing, task))
        yield from task_findings("probes", conflicts=look.conflicts)
        yield from self._of_routes(look)
        if look.changes_kernel:
            yield from rights_findings(self._rights)
        yield from self._of_files(up, down)
        yield from self._of_tools(up)
        yield from self._asked("systemd", "systemd", lambda: self._of_systemd(up))
        yield from self._asked("units", "", lambda: self._of_units(up))
        yield from self._asked("gate", "", lambda: gate_findings(find_gate_state(self.host)))
        lock = self.host.layout.lock_path
        yield from self._asked("lock", lock, lambda: lock_findings(self.host.files.holders(lock), path=lock))
        yield from self._asked("azure-vnet", "", lambda: self._of_cleanup(ctx))

    @property
    def _rights(self) -> Rights:
        return self.host.rights()

    def _answer(
        self, name: Name, target: str, question: Callable[[], T], otherwise: T
    ) -> tuple[T, tuple[PreflightFinding, ...]]:
        """The answer of the host; if it gives none, that is a finding."""
        try:
            return question(), ()
        except HostRoutingError as error:
            return otherwise, (unread(name, target, error, is_root=self._rights.is_root),)

    def _asked(
        self, name: Name, target: str, question: Callable[[], Iterable[PreflightFinding]]
    ) -> tuple[PreflightFinding, ...]:
        """The findings that the question has for an answer."""
        nothing: tuple[PreflightFinding, ...] = ()
        found, unknown = self._answer(name, target, lambda: tuple(question()), nothing)
        return found + unknown

    def _of_routes(self, look: Preview) -> Iterator[PreflightFinding]:
        plan = look.routes or RoutePlan()
        yield from route_findings(plan, wait=self.wait)
        if look.before is not None and self.config.route_overlap.expected_cidrs:
            found = examine_snapshot(plan.apply_to(look.before), self.config)
            awaited = [it.desired.destination for it in plan.pending]
            mode = self.config.route_overlap.mode
            correction = correction_of(found, self.config, plan)
            yield from overlap_findings(
                found, mode=mode, awaited=awaited, correction=correction, wait=self.wait, file=self.file
            )

    def _of_files(self, up: list[Part], down: list[Part]) -> Iterator[PreflightFinding]:
        layout, gate = self.host.layout, Gate(self.host)
        obstacles, is_root = gate.obstacles(up), self._rights.is_root
        yield from file_findings(obstacles, is_root=is_root)
        in_the_way = {it.path for it in obstacles}
        folders = {layout.at(layout.state_directory)} if up else set()
        cleanup = self.config.azure_vnet_cleanup
        if cleanup is not None and not cleanup.dry_run:
            folders |= {layout.at(layout.state_directory), layout.at(layout.lasting_directory)}
        changes, unknown = self._answer("files", "", partial(gate.changes, up, down), Changes())
        writes = changes.writes
        yield from unknown
        yield from self._asked(
            "files", "", lambda: self._of_replaced(up, [it for it in writes if it not in in_the_way])
        )
        folders |= {path.rpartition("/")[0] for path in writes}
        yield from folder_findings(list(self._unwritable(sorted(folders))), is_root=is_root)

    def _of_replaced(self, up: list[Part], writes: list[str]) -> Iterator[PreflightFinding]:
        files = self.host.files
        texts = {path: files.read(path) for path in writes}
        # A link that enables a unit is as it should be once it is there; the unit behind it is among the paths.
        links = {path for part in up for path, _ in part.all_files.links}
        replaced = [path for path, text in texts.items() if text and OURS not in text and path not in links]
        removed = Gate(self.host).former.present(files) if up else ()
        removed += tuple(path for part in up for path in part.all_files.differences(files).removes)
        return replacement_findings(replaced, removed)

    def _unwritable(self, folders: Iterable[str]) -> Iterator[FileError]:
        for folder in folders:
            try:
                self.host.files.require_writable(folder)
            except FileError as error:
                yield error

    def _of_tools(self, up: list[Part]) -> Iterator[PreflightFinding]:
        if not up or (self.host.manager is None and self.host.backend is not None):
            return  # a sandbox never boots
        needed: dict[str, list[str]] = {tool: ["the gate"] for tool in Gate.tools}
        for part in up:
            for tool in part.tools:
                needed.setdefault(tool, []).append(f"{part.name}.sh")
        find, ask = self.host.find_program, self.host.version_of
        yield from tool_findings(needed, [tool for tool in needed if any(map(find, TOOLS[tool][0]))])
        path = find("ip") if "ip" in needed else None
        if path is not None and ask is not None:
            yield from program_findings(path, ask(path), needed["ip"])

    def _of_systemd(self, up: list[Part]) -> Iterator[PreflightFinding]:
        manager = self.host.manager
        if manager is None or not up:
            return iter(())
        version = manager.show(("Version",))[0]["Version"] if manager.is_running() else None
        return systemd_findings(version, file=self.file)

    def _of_units(self, up: list[Part]) -> Iterator[PreflightFinding]:
        files, layout, gate = self.host.files, self.host.layout, Gate(self.host)
        if not up:
            return
        ours = (*(part.unit for part in up), layout.gate_unit)
        folder = layout.unit_directory
        paths = (*(f"{folder}/{unit}" for unit in ours), layout.gate_drop_in)
        earlier = UNIT_FOLDERS[: UNIT_FOLDERS.index(folder)] if folder in UNIT_FOLDERS else ()
        shadows = [(other + path.removeprefix(folder), path) for other in earlier for path in paths]
        there = [(path, our) for path, our in shadows if files.is_there(layout.at(path))]
        yield from unit_findings(there, self._drop_ins(ours))
        if gate.manager is None or gate.present():
            return  # what an installed gate holds and lets through is asked of systemd
        [machine] = gate.manager.show(("LoadState",), UNSEEN)
        yield from machine_findings(machine["LoadState"], find_coming_openings(self.host), unit=layout.machine_unit)

    def _drop_ins(self, units: Sequence[str]) -> Iterator[UnitDropIn]:
        """The drop-ins of these units, each once; with one name, systemd reads the one that it finds first."""
        files, at = self.host.files, self.host.layout.at
        found: dict[str, list[str]] = {}
        for unit in units:
            first: dict[str, str] = {}
            for folder in drop_in_folders(unit):
                for name in files.names(at(folder)):
                    first.setdefault(name, f"{folder}/{name}")
            for path in first.values():
                found.setdefault(path, []).append(unit)
        for path, its in found.items():
            if path.endswith(".conf"):
                is_meant = path.rpartition("/")[0].rpartition("/")[2] == f"{its[0]}.d"
                yield UnitDropIn(path, files.read(at(path)) or "", tuple(its), is_meant)

    def _of_cleanup(self, ctx: phases.Context) -> Iterator[PreflightFinding]:
        settings = self.config.azure_vnet_cleanup
        if settings is None:
            return
        plan = CleanStaleAzureVnet(self.config, host=self.host).plan(ctx)
        yield from cleanup_findings(plan, dry_run=settings.dry_run)
        if plan.deletions and not settings.dry_run:
            yield from rights_findings(self._rights)


def _subject(task: HostTask[Any]) -> Name:
    """The name of the finding about what a task could not read."""
    return "probes" if isinstance(task, RewriteProbeSource) else "units" if isinstance(task, InstallGuard) else "kernel"


def _of_standing(task: HostTask[Any]) -> Iterator[PreflightFinding]:
    """What would keep the probe rewrite from having an effect."""
    standing = task.standing() if task.is_wanted and isinstance(task, RewriteProbeSource) else None
    if standing is not None:
        yield from task_findings("probes", hindrances=standing.hindrances, notes=standing.notes)
