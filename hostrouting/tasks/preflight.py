"""Preflight: everything that would make a bootstrap, the next start of a gated unit or a reboot fail, found beforehand.

Here: the findings, each with its name and severity, as functions from what was read of a host; and the task that reads
the host, and changes nothing. Not here: sentences that exist already (`check.report`, `boot.gate_state`, and the errors
themselves).

An error means that, with the host as it is now, a bootstrap fails, or no gated unit starts, now or after a reboot. A
warning means that this can happen, that a gated unit can start unchecked, or that something is not known. What
Configure would wait for is a warning, because it may come in time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import attrs

from hostrouting.boot.gate import Gate, Part, unseen
from hostrouting.boot.gate_state import (
    UNIT_FOLDERS,
    drop_in_folders,
    find_coming_openings,
    find_gate_state,
    harmful_settings,
)
from hostrouting.boot.scripts import DEFAULT_WAIT
from hostrouting.check.examine import Correction, Examination, correction_of, examine_snapshot
from hostrouting.check.report import check_findings, escape_target
from hostrouting.config.settings import MACHINES, HostRoutingConfig, needs_config
from hostrouting.config.values import Upkeep
from hostrouting.errors import BackendError, FileError, HostRoutingError, ManagerError, PreflightFailed, is_denied
from hostrouting.finding import ESCAPES, Finding, Severity, of_severity, worst, worst_first
from hostrouting.host.files import NO_ROOM
from hostrouting.host.fileset import OURS, Changes
from hostrouting.host.host import Host, needs_host
from hostrouting.routes.plan import RoutePlan
from hostrouting.tasks.base import HostTask, removals_of, valid_wait
from hostrouting.tasks.configure import TASKS, Configure, TaskClasses, classes, make_tasks, unknown_parts
from hostrouting.tasks.keeping import NETWORKD
from hostrouting.tasks.results import Change
from hostrouting.text import counted, spoken

if TYPE_CHECKING:
    import phases
    from hostrouting.check.overlap import Escape
    from hostrouting.model.prefix import Prefix

T = TypeVar("T")
TOOLS = {
    "awk": (("mawk", "awk"), "mawk"),
    "bash": (("bash",), "bash"),
    "flock": (("flock",), "util-linux"),
    "ip": (("ip",), "iproute2"),
    "nft": (("nft",), "nftables"),
    "sed": (("sed",), "sed"),
    "systemctl": (("systemctl",), "systemd"),
}
"""The tools that our scripts need: for each, the programs that will do, and the Debian package with one of them."""

_OLDEST_SYSTEMD = 247
_SHOWN = 5  # errors in the message of a failure


def unread(name: str, target: str, error: HostRoutingError, *, is_root: bool) -> Finding:
    """Something could not be read: an error, because a bootstrap would meet it.

    A denial is a warning if this process is not root, because a bootstrap, as root, may not meet it.
    """
    severity: Severity = "warning" if is_denied(error) and not is_root else "error"
    if isinstance(error, FileError | ManagerError | BackendError):  # one cause that several tasks meet is one finding
        (finding,) = error.findings
        return attrs.evolve(finding, severity=severity, target=finding.target or target)
    return Finding(name, severity, str(error), target, can_retry=error.can_retry)


def overlap_findings(
    found: Examination,
    *,
    mode: str,
    awaited: Sequence[Prefix] = (),
    correction: Correction | None = None,
    wait: float,
    file: str = "FILE",
) -> Iterator[Finding]:
    """The findings of the check with the configured routes in place; in STRICT they keep gated units from starting.

    `awaited` are the configured routes that cannot be installed yet; an escape that they cover may be repaired in time.
    The `correction` is that of the configuration, and `file` the name of its file, for the commands to type.
    """
    strict = "in mode STRICT apply would fail, and gated units could not start"
    then = strict if mode == "STRICT" else "in mode WARN the check keeps no gated unit from starting"
    for_pods = "apply fails, but gated units start, because the boot script does not check pods"
    then_for_pods = for_pods if mode == "STRICT" else then
    late = {escape_target(escape) for escape in found.escapes if _is_covered(escape, awaited)}
    where = f"print them with: hostrouting repair --config {file}"
    in_time: Severity = "error" if mode == "STRICT" and not wait else "warning"  # Configure waits for it
    for finding in check_findings(found, mode=mode, correction=correction, where=where):
        sentence, severity, is_late = finding.sentence, finding.severity, finding.target in late
        if finding.name == "no-default-route":
            sentence = (
                f"there is no IPv{finding.facts['family']} default route that is in use, so no device is expected"
            )
            sentence += f"; apply would wait up to {wait:g} s for one; without one, {then}" if wait else f"; {then}"
            severity = in_time
        elif finding.name in ESCAPES:
            sentence += ", while the configured routes there cannot be installed" if is_late else ""
            sentence += f"; {then_for_pods if 'packets' in finding.facts else then}"
            severity = in_time if is_late else severity
        elif finding.name == "unsafe":
            sentence = f"no static route can repair this: {sentence}"
        elif finding.name == "repair-cost":
            continue
        can_retry = finding.can_retry or is_late
        yield attrs.evolve(finding, severity=severity, sentence=sentence, can_retry=can_retry)


def _is_covered(escape: Escape, prefixes: Iterable[Prefix]) -> bool:
    """Whether each address of the escape is in one of these prefixes."""
    rest = escape.first
    near = (prefix for prefix in prefixes if prefix.family == escape.cidr.family)
    for prefix in sorted(near, key=lambda prefix: prefix.first):
        if prefix.first <= rest <= prefix.last:
            rest = prefix.last + 1
    return rest > escape.last


def gated_findings(state: str, openings: Iterable[str], *, unit: str) -> Iterator[Finding]:
    """Faults of a unit that is to be gated: it cannot start, or starts unchecked in spite of the gate.

    `state` is its LoadState, and `openings` is what `find_coming_openings` found.
    """
    if state == "masked":
        yield Finding("unit", "error", f"{unit} is masked and cannot start", unit, "unmask it")
    elif state == "not-found":
        sentence = f"systemd has no {unit} yet; it is gated as soon as it is there"
        remedy = "install the package systemd-container (Debian's name for it), now or later in the bootstrap"
        other = f"if {unit} is not going to be installed, correct the name in gate.units"
        yield Finding("unit", "warning", sentence, unit, remedy if unit == MACHINES else other)
    elif state != "loaded":
        sentence = f"systemd cannot use {unit} ({state}), so it cannot start; see: systemctl cat {unit}"
        yield Finding("unit", "error", sentence, unit)
    for opening in openings:
        yield Finding("unit", "warning", f"with the gate installed, {opening}", unit)


@attrs.frozen
class PreflightResult:
    """What Preflight found, errors first."""

    findings: tuple[Finding, ...] = ()

    @property
    def worst(self) -> Severity:
        """The worst severity; without findings it is "note"."""
        return worst(self.findings)

    def log_fields(self) -> dict[str, object]:
        """How many errors and warnings there are."""
        severities = [finding.severity for finding in self.findings]
        return {"errors": severities.count("error"), "warnings": severities.count("warning")}

    def to_mapping(self) -> dict[str, object]:
        """The findings as plain values."""
        return {"findings": [finding.to_mapping() for finding in self.findings]}

    def __str__(self) -> str:
        return "\n".join(f"{found.severity}: {found.name}: {found}" for found in self.findings) or "nothing found"


@attrs.frozen
class Preflight:
    """Find what would make Configure, the next start of a gated unit or a reboot fail; change nothing.

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
    allow_removal: bool = attrs.field(default=True, kw_only=True)
    """Whether Configure would be allowed to take away the gate, what STRICT protects, or the guard."""
    tasks: TaskClasses = attrs.field(default=TASKS, kw_only=True, converter=classes)
    """The classes of the tasks that Configure would run."""
    file: str = attrs.field(default="FILE", kw_only=True)
    """The name of the configuration's file, for the commands in messages."""

    def plan(self, ctx: phases.Context) -> PreflightResult:
        """The findings."""
        return PreflightResult(worst_first(dict.fromkeys(self._findings(ctx))))

    def do(self, ctx: phases.Context) -> PreflightResult:
        """See the class."""
        found = self.plan(ctx)
        errors = [finding for finding in found.findings if finding.severity == "error"]
        # Whoever reads of an escape has to read of its repair, at whatever level this is logged.
        is_escaping = any(error.name in ESCAPES for error in errors)
        remedies = [finding for finding in found.findings if finding.name == "action" and is_escaping]
        for finding in found.findings:
            if finding not in (*errors, *remedies):
                level = logging.WARNING if finding.name == "action" else finding.level
                ctx.log.log(level, "%s: %s", finding.name, finding)
        if errors:
            told = [str(error) for error in errors[:_SHOWN]]
            told += [f"and {len(errors) - _SHOWN} more"] if len(errors) > _SHOWN else []
            told += map(str, remedies)
            if not self._is_gated():
                units = spoken(self.config.gate.units)
                told.append(f"no gate is installed, so {units} can start unchecked until Configure has run")
            raise PreflightFailed("; ".join(told), findings=found.findings)
        return found

    def _is_gated(self) -> bool:
        """Whether all gated units wait for a gate now; also True if the configuration needs no gate."""
        tasks = make_tasks(self.tasks, self.config, self.host)
        if not any(task.is_wanted and task.part.step is not None for task in tasks):
            return True
        with suppress(FileError):
            return {*self.config.gate.units} <= {*Gate(self.host).gated}
        return False

    def _findings(self, ctx: phases.Context) -> Iterator[Finding]:
        tasks: list[HostTask[Any]] = []
        for task in Configure(self.config, host=self.host, wait=self.wait, tasks=self.tasks).subtasks:
            settled, unknown = self._answer_or_unknown(task.about, "", partial(task.settled, ctx), task)
            tasks += [] if unknown and task.extension else [settled]
            yield from unknown
        up = [task.full_part for task in tasks if task.is_wanted]
        down = [task.full_part for task in tasks if not task.is_wanted]
        look = Change()
        for task in tasks:
            seen, unknown = self._answer_or_unknown(task.about, "", partial(task.planned, up=task.is_wanted), Change())
            look += seen
            # A task that cannot look at the host, and says so in its change, does not fail because of that.
            nothing: tuple[Finding, ...] = ()
            told, untold = self._answer_or_unknown(task.about, "", partial(_of_standing, task), nothing)
            yield from (*unknown, *told, *(nothing if unknown or seen.others else untold))
        yield from look.others
        may_change = self.host.rights().require_network if look.changes_kernel else tuple
        questions: tuple[tuple[str, str, Callable[[], Iterable[Finding] | None]], ...] = (
            ("removal", "", lambda: () if self.allow_removal else of_severity(removals_of(self.host, tasks), "error")),
            ("task", "", partial(unknown_parts, self.host, tasks)),
            ("kernel", "", partial(self._of_routes, look)),
            ("kernel", "CAP_NET_ADMIN", may_change),
            ("file", "", partial(self._of_files, up, down)),
            ("tool", "", partial(self._of_tools, up)),
            ("systemd", "systemd", partial(self._of_systemd, up)),
            ("networkd", NETWORKD, self._of_networkd),
            ("unit", "", partial(self._of_units, up)),
            ("gate-open", "", lambda: find_gate_state(self.host, self.config.gate.units).findings),
            ("lock", self.host.layout.lock_path, self._of_lock),
        )
        for name, target, question in questions:
            yield from self._findings_or_unknown(name, target, question)

    def _answer_or_unknown(
        self, name: str, target: str, question: Callable[[], T], otherwise: T
    ) -> tuple[T, tuple[Finding, ...]]:
        """The host's answer; a host that gives none is a finding."""
        try:
            return question(), ()
        except HostRoutingError as error:
            return otherwise, (unread(name, target, error, is_root=self.host.rights().is_root),)

    def _findings_or_unknown(
        self, name: str, target: str, question: Callable[[], Iterable[Finding] | None]
    ) -> tuple[Finding, ...]:
        """The answer to the question as findings; if there is none, one that says why."""
        nothing: tuple[Finding, ...] = ()
        found, unknown = self._answer_or_unknown(name, target, lambda: tuple(question() or ()), nothing)
        return found + unknown

    def _of_routes(self, look: Change) -> Iterator[Finding]:
        plan = look.routes or RoutePlan()
        yield from plan.findings(wait=self.wait)
        if look.before is not None and self.config.route_overlap.expected_cidrs:
            # Beside a last good script, a route that cannot be added leaves everything as it is.
            is_kept = look.keeps_script and bool(plan.conflicts)
            after = look.before if is_kept else plan.apply_to(look.before)
            found = examine_snapshot(after, self.config)
            awaited = [pending.desired.destination for pending in plan.pending]
            mode = self.config.route_overlap.mode
            correction = correction_of(found, self.config, plan)
            yield from overlap_findings(
                found, mode=mode, awaited=awaited, correction=correction, wait=self.wait, file=self.file
            )

    def _of_files(self, up: list[Part], down: list[Part]) -> Iterator[Finding]:
        layout, gate = self.host.layout, Gate(self.host, self.config)
        obstacles, is_root = gate.obstacles(up), self.host.rights().is_root
        yield from (unread("file", obstacle.path, obstacle, is_root=is_root) for obstacle in obstacles)
        in_the_way = {obstacle.path for obstacle in obstacles}
        state, runtime = layout.at(layout.state_directory), layout.at(layout.runtime_directory)
        cleanup = self.config.azure_vnet_cleanup
        folders = {runtime} if self.config.probe_rewrite.enabled else set()
        if cleanup is not None and cleanup.repeat:
            folders |= {runtime, layout.at(layout.lasting_directory)}
        changes, unknown = self._answer_or_unknown("file", "", partial(gate.changes, up, down), Changes())
        writes = changes.writes
        yield from unknown
        yield from (
            self._answer_or_unknown("systemd", "systemd", partial(gate.require_reload, changes, up), None)[1]
            if up
            else ()
        )
        yield from self._findings_or_unknown(
            "file", "", lambda: self._of_replaced(up, [write for write in writes if write not in in_the_way])
        )
        folders |= {path.rpartition("/")[0] for path in writes}
        spare = {state, runtime} - folders
        folders |= {state, runtime} if up else set()
        yield from self._of_folders(sorted(folders), spare)

    def _of_replaced(self, up: list[Part], writes: list[str]) -> Iterator[Finding]:
        """The files of another installer that ours replace."""
        files = self.host.files
        texts = {path: files.read(path) for path in writes}
        # A link that enables a unit is as it should be once it is there; the unit behind it is among the paths.
        links = {path for part in up for path, _ in part.all_files.links}
        replaced = [path for path, text in texts.items() if text and OURS not in text and path not in links]
        removed = [path for part in up for path in part.all_files.differences(files).removes]
        sentences = dict.fromkeys(replaced, "was not written by this version of hostrouting, and will be replaced")
        sentences |= dict.fromkeys(removed, "belongs to an earlier installation, and will be removed")
        for path, sentence in sentences.items():
            yield Finding("file", "note", f"{path} {sentence}", path, "save a copy if you need it")

    def _of_folders(self, folders: Iterable[str], spare: Collection[str]) -> Iterator[Finding]:
        """The folders that cannot be written to; one finding for each reason.

        `spare` are folders into which only markers and locks are written: without room there, a bootstrap goes on. A
        denial to another user does not show whether root can write; one to root has another reason, such as an
        immutable file.
        """
        alike: dict[str, list[FileError]] = {}
        for folder in folders:
            try:
                self.host.files.require_writable(folder)
            except FileError as error:
                is_hidden = is_denied(error) and not self.host.rights().is_root
                alike.setdefault("" if is_hidden else error.reason or str(error), []).append(error)
        for reason, errors in alike.items():
            paths, first = ", ".join(error.path for error in errors), errors[0]
            if not reason:
                sentence = f"this user cannot see whether these directories are writable: {paths}"
                yield Finding("file", "warning", sentence, first.path, "run preflight as root")
            else:
                sentence = f"cannot write into {paths}: {first.reason}" if first.reason else str(first)
                is_spare = {error.path for error in errors} <= {*spare} and first.errno in NO_ROOM
                yield Finding("file", "warning" if is_spare else "error", sentence, first.path)

    def _of_lock(self) -> Iterator[Finding]:
        files, path = self.host.files, self.host.layout.lock_path
        if files.holders(path):
            sentence = f"{files.holder(path)}; a bootstrap would wait for up to a minute, then fail"
            yield Finding("lock", "warning", sentence, path, can_retry=True)

    def _of_tools(self, up: list[Part]) -> Iterator[Finding]:
        """The tools that are not installed, and an `ip` that is not that of iproute2: busybox's lacks most options."""
        if not up or (self.host.manager is None and self.host.backend is not None):
            return  # a sandbox never boots
        needed: dict[str, list[str]] = {tool: ["the gate"] for tool in Gate.tools}
        for part in up:
            for tool in part.tools:
                needed.setdefault(tool, []).append(f"{part.name}.sh")
        for tool, users in sorted(needed.items()):
            (programs, package), who = TOOLS.get(tool, ((tool,), tool)), " and ".join(users)
            path = next(filter(None, map(self.host.find_program, programs)), None)
            version = self.host.version_of(path) if path and tool == "ip" and self.host.version_of else None
            if path is None:
                sentence = f"{' or '.join(programs)} is not installed, and {who} cannot run without it"
                remedy = f"install the package {package} (Debian's name for it)"
                yield Finding("tool", "error", sentence, tool, remedy)
            elif version is not None and "iproute2" not in version:
                answer = version.partition("\n")[0] or "nothing"
                sentence = f"{path} is not the ip of iproute2, which {who} need; to ip -V it answers: {answer}"
                yield Finding("tool", "error", sentence, "ip", "install the package iproute2")

    def _of_systemd(self, up: list[Part]) -> Iterator[Finding]:
        """Whether systemd can do what the units need."""
        manager = self.host.manager
        if manager is None or not any(part.step or part.unit for part in up):
            return
        if not manager.is_running():
            sentence = "systemd is not running here, so gated units start unchecked until this host has booted with it"
            image = f"to prepare an image: hostrouting render --config {self.file} --root DIR"
            yield Finding("systemd", "warning", sentence, "systemd", image)
            return
        version = manager.show(("Version",))[0]["Version"]
        number = "".join(takewhile(str.isdigit, version))
        if not number:
            sentence = f"the version of systemd is {version!r}, which is not a number"
            yield Finding("systemd", "warning", sentence, "systemd", "look at: systemctl --version")
        elif int(number) < _OLDEST_SYSTEMD:
            sentence = f"systemd {number} is too old for our units, which need {_OLDEST_SYSTEMD} or newer"
            yield Finding("systemd", "error", sentence, "systemd", "upgrade the operating system")

    def _of_networkd(self) -> Iterator[Finding]:
        """What a restart of systemd-networkd would take away, if it runs and is not told to keep it."""
        manager, routes = self.host.manager, self.config.static_routes.routes
        runs = manager is not None and manager.is_running() and manager.state(NETWORKD).active == "active"
        if not (runs and routes) or self.config.manage_foreign is Upkeep.KEEP:
            return
        lost, has_guard = f"{counted(len(routes), 'static route')} of this configuration", self.config.guard.enabled
        sentence = f"systemd-networkd deletes {lost} when it is restarted or, in some versions, when it configures a"
        back = "they come back with the next start of a gated unit or apply"
        sentence += f" device again, and {'the guard then adds them again' if has_guard else back}"
        remedy = 'to prevent this, add "manageForeign": "keep" to the configuration'
        yield Finding("networkd", "note" if has_guard else "warning", sentence, NETWORKD, remedy)

    def _of_units(self, up: list[Part]) -> Iterator[Finding]:
        """What systemd reads instead of our units or in addition to them, and what is wrong with the gated ones."""
        files, layout, gate = self.host.files, self.host.layout, Gate(self.host)
        if not up:
            return
        ours = (*(part.unit for part in up if part.unit), layout.gate_unit)
        folder = layout.unit_directory
        gated = self.config.gate.units
        paths = (*(f"{folder}/{unit}" for unit in ours), *map(layout.gate_drop_in, gated))
        earlier = UNIT_FOLDERS[: UNIT_FOLDERS.index(folder)] if folder in UNIT_FOLDERS else ()
        for other, path in [(other + path.removeprefix(folder), path) for other in earlier for path in paths]:
            if files.is_there(layout.at(other)):
                sentence = f"systemd reads {other} instead of {path}, which hostrouting writes"
                yield Finding("unit", "error", sentence, other, f"remove {other}")
        yield from self._of_drop_ins(ours)
        if gate.manager is None:
            return
        for fault in Gate(self.host, self.config).ungateable(up):
            yield Finding("unit", "error", str(fault), fault.path)
        for unit in sorted({*gated} - {*gate.gated}):  # what already holds and lets through is asked of systemd
            [found] = gate.manager.show(("LoadState",), unseen(unit))
            yield from gated_findings(found["LoadState"], find_coming_openings(self.host, unit), unit=unit)

    def _of_drop_ins(self, units: Sequence[str]) -> Iterator[Finding]:
        """The drop-ins that change these units, each once; systemd reads the first of those with one name."""
        files, at = self.host.files, self.host.layout.at
        found: dict[str, list[str]] = {}
        for unit in units:
            first: dict[str, str] = {}
            for folder in drop_in_folders(unit):
                for name in files.names(at(folder)):
                    first.setdefault(name, f"{folder}/{name}")
            for path in first.values():
                found.setdefault(path, []).append(unit)
        for path, changed in found.items():
            if not path.endswith(".conf"):
                continue
            names = " and ".join(changed)
            settings = dict(harmful_settings(files.read(at(path)) or ""))
            for setting, meaning in settings.items():
                sentence = f"{path} has {setting} for {names}, which means that {meaning}"
                yield Finding("unit", "warning", sentence, path, "remove that setting")
            if not settings and path.rpartition("/")[0].rpartition("/")[2] == f"{changed[0]}.d":  # not of many units
                sentence = f"{path} changes {names}, which hostrouting installs"
                yield Finding("unit", "warning", sentence, path, "remove the drop-in, unless it is meant for that unit")


def _of_standing(task: HostTask[Any]) -> tuple[Finding, ...]:
    """What would keep the task's work from having an effect."""
    standing = task.standing() if task.is_wanted else None
    return () if standing is None else tuple(of_severity(standing.findings, "warning", "note"))
