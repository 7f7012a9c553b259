"""Preflight: everything that would make a bootstrap, the start of the next machine or a reboot fail, found beforehand.

Here: the findings, each with its name and severity, as functions from what was read of a host; and the task that reads
the host, and changes nothing. Not here: sentences that exist already (`check.report`, `boot.gate_state`, and the errors
themselves).

An error means that, with the host as it is now, a bootstrap fails, or the next machine does not start, now or after a
reboot. A warning means that this can happen, that a machine can start unchecked, or that something is not known. What
Configure would wait for is a warning, because it may come in time.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias, TypeVar

import attrs

from hostrouting.boot import DEFAULT_WAIT
from hostrouting.boot.gate import Gate
from hostrouting.boot.gate_state import (
    UNIT_FOLDERS,
    UNSEEN,
    drop_in_folders,
    find_coming_openings,
    find_gate_state,
    harmful_settings,
)
from hostrouting.check.examine import correction_of, examine_snapshot
from hostrouting.check.report import (
    finding_sentence,
    flaw_line,
    foreseen_line,
    note_line,
    range_name,
    repair_sentence,
    unsafe_lines,
)
from hostrouting.config import needs_config
from hostrouting.errors import (
    BackendError,
    FileError,
    HostRoutingError,
    ManagerError,
    NotPermitted,
    PreflightFailed,
    is_denied,
)
from hostrouting.host.fileset import OURS, Changes
from hostrouting.host.host import Host, needs_host
from hostrouting.routes.plan import RoutePlan
from hostrouting.tasks.azure_vnet.task import CleanStaleAzureVnet
from hostrouting.tasks.base import HostTask, removals_of, valid_wait
from hostrouting.tasks.configure import Configure
from hostrouting.tasks.guard.service import InstallGuard
from hostrouting.tasks.probe_rewrite.task import RewriteProbeSource
from hostrouting.tasks.results import PreflightResult, Preview, refusals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    import phases
    from hostrouting.boot.gate import Part
    from hostrouting.boot.gate_state import GateState
    from hostrouting.check.examine import Correction, Examination
    from hostrouting.check.overlap import Finding
    from hostrouting.config import HostRoutingConfig
    from hostrouting.host import Rights
    from hostrouting.model import Prefix
    from hostrouting.routes.uplink import DesiredRoute
    from hostrouting.tasks.azure_vnet import CleanupPlan
    from hostrouting.tasks.results import Removal

__all__ = [
    "TOOLS",
    "Name",
    "Preflight",
    "PreflightFinding",
    "Severity",
    "UnitDropIn",
    "cleanup_findings",
    "file_findings",
    "folder_findings",
    "gate_findings",
    "lock_findings",
    "machine_findings",
    "overlap_findings",
    "program_findings",
    "removal_findings",
    "replacement_findings",
    "rights_findings",
    "route_findings",
    "systemd_findings",
    "task_findings",
    "tool_findings",
    "unit_findings",
    "unread",
    "worst_first",
]

T = TypeVar("T")
Name: TypeAlias = Literal[
    "azure-vnet",
    "files",
    "folders",
    "gate",
    "kernel",
    "lock",
    "overlap",
    "probes",
    "removal",
    "routes",
    "systemd",
    "tools",
    "units",
]
Severity: TypeAlias = Literal["error", "warning", "info"]

_SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")

TOOLS = {
    "awk": (("mawk", "awk"), "mawk"),
    "bash": (("bash",), "bash"),
    "flock": (("flock",), "util-linux"),
    "ip": (("ip",), "iproute2"),
    "nft": (("nft",), "nftables"),
    "sed": (("sed",), "sed"),
    "sort": (("sort",), "coreutils"),
    "systemctl": (("systemctl",), "systemd"),
}
"""Each tool with the programs that can be used as it, and the Debian package that has one of them."""

_OLDEST_SYSTEMD = 247
_SHOWN = 5  # errors in the message of a failure

_SUBJECTS: tuple[tuple[type[HostRoutingError], Name], ...] = (
    (FileError, "files"),
    (ManagerError, "systemd"),
    (BackendError, "kernel"),
)
"""What an error is about, whoever met it: so one cause that several tasks meet is one finding."""


@attrs.frozen
class PreflightFinding:
    """One thing that a preflight found, and what to do about it."""

    name: Name
    """What kind of thing it is about."""
    severity: Severity
    message: str
    """The thing, what is wrong with it, and the remedy."""
    target: str = ""
    """The path, unit, program, device or range that it is about."""
    can_retry: bool = attrs.field(default=False, kw_only=True)
    """Whether it may be gone later although nobody does anything about it."""
    repair: tuple[DesiredRoute, ...] = attrs.field(default=(), kw_only=True)
    """For the finding that says which routes repair the escapes: these routes."""

    def to_mapping(self) -> dict[str, str]:
        """The same as plain values."""
        return {"name": self.name, "severity": self.severity, "message": self.message, "target": self.target}

    def __str__(self) -> str:
        return f"{self.severity}: {self.name}: {self.message}"


@attrs.frozen
class UnitDropIn:
    """A drop-in that systemd applies to units of ours."""

    path: str
    text: str
    units: tuple[str, ...]
    is_meant: bool
    """Whether its folder is that of one unit, and not of many."""


def worst_first(found: Iterable[PreflightFinding]) -> tuple[PreflightFinding, ...]:
    """Each finding once, errors before warnings before the rest."""
    return tuple(sorted(dict.fromkeys(found), key=lambda finding: _SEVERITIES.index(finding.severity)))


def unread(name: Name, target: str, error: HostRoutingError, *, is_root: bool) -> PreflightFinding:
    """Something could not be read: an error, because a bootstrap would meet it.

    A denial is a warning if this process is not root, because a bootstrap, as root, may not meet it.
    """
    severity: Severity = "warning" if is_denied(error) and not is_root else "error"
    subject = next((about for kind, about in _SUBJECTS if isinstance(error, kind)), name)
    if isinstance(error, FileError):
        target = error.path
    elif isinstance(error, ManagerError):
        target = "systemd"
    return PreflightFinding(subject, severity, str(error), target, can_retry=error.can_retry)


def removal_findings(removals: Sequence[Removal]) -> Iterator[PreflightFinding]:
    """What the configuration would take away, and is refused for."""
    yield from (PreflightFinding("removal", "error", str(fault), fault.path) for fault in refusals(removals))


def rights_findings(rights: Rights) -> Iterator[PreflightFinding]:
    """Routes or rules would have to be changed, and this process may not."""
    try:
        rights.require_network()
    except NotPermitted as error:
        yield unread("kernel", "CAP_NET_ADMIN", error, is_root=rights.is_root)


def route_findings(plan: RoutePlan, *, wait: float) -> Iterator[PreflightFinding]:
    """What keeps the configured routes from being installed, now or after the next boot."""
    for step in plan.conflicts:
        prefix = str(step.route.prefix)
        yield PreflightFinding("routes", "error", f"{prefix} cannot be installed: {step.why}", prefix)
    lacking: dict[str, list[DesiredRoute]] = {}
    for pending in plan.pending:
        lacking.setdefault(pending.missing, []).append(pending.desired)
    for missing, wanted in lacking.items():
        routes_need = f"{wanted[0]} needs" if len(wanted) == 1 else f"{len(wanted):,} routes, such as {wanted[0]}, need"
        then = f"apply would wait up to {wait:g} s for it, then fail" if wait else "apply would fail at once"
        told = f"{routes_need} {missing}; {then}; add it, or correct the configuration"
        yield PreflightFinding("routes", _if_awaited(wait), told, str(wanted[0].destination), can_retry=True)
    for coming in plan.foreseen:
        yield PreflightFinding("routes", "warning", foreseen_line(coming), str(coming.wanted.prefix))
    for sentence in plan.beside:
        yield PreflightFinding("routes", "warning", sentence)


def _if_awaited(wait: float) -> Severity:
    """The severity of something that is missing: it may come while Configure waits for it."""
    return "warning" if wait else "error"


def overlap_findings(
    found: Examination,
    *,
    mode: str,
    awaited: Sequence[Prefix] = (),
    correction: Correction | None = None,
    wait: float,
    file: str = "FILE",
) -> Iterator[PreflightFinding]:
    """What the check would find with the configured routes in place; in STRICT the next machine does not start.

    `awaited` are the configured routes that cannot be installed yet; what they cover may be repaired in time. The
    `correction` is that of the configuration, and `file` the name of its file, for the commands to type.
    """
    severity: Severity = "error" if mode == "STRICT" else "warning"
    strict = "in mode STRICT apply fails, and no machine starts after it"
    then = strict if mode == "STRICT" else "in mode WARN machines start all the same"
    for_pods = "apply fails, but machines start, because the boot script does not check pods"
    then_for_pods = for_pods if mode == "STRICT" else then
    for family in found.families:
        if family.verdict == "no-default-route":
            what = f"apply would wait up to {wait:g} s for one; without one, {then}" if wait else then
            told = (
                f"there is no IPv{family.report.family} default route that is in use, so no device is expected; {what}"
            )
            remedy = "add a default route, or name routeOverlap.expectedDevs"
            worst = _if_awaited(wait) if mode == "STRICT" else "warning"
            yield PreflightFinding("overlap", worst, f"{told}; {remedy}", "default route", can_retry=True)
        for finding in family.findings:
            escape, worst = finding_sentence(finding, family.report.expected_devs), severity
            if is_late := _is_covered(finding, awaited):
                escape = f"{escape}, while the configured routes there cannot be installed"
                worst = _if_awaited(wait) if mode == "STRICT" else "warning"
            what = then_for_pods if finding.senders else then
            it_is = range_name(finding.cidr.family, finding.first, finding.last)
            yield PreflightFinding("overlap", worst, f"{escape}; {what}", it_is, can_retry=is_late)
    for text in unsafe_lines(found.unsafe):
        yield PreflightFinding("overlap", severity, f"no static route can repair this: {text}")
    where = f"they are printed by: hostrouting repair --config {file}"
    if action := repair_sentence(found, where=where, correction=correction):
        yield PreflightFinding("overlap", "info", action, repair=found.routes)
    for flaw in (flaw for family in found.families for flaw in family.flaws):
        yield PreflightFinding("overlap", "warning" if flaw.is_serious else "info", flaw_line(flaw), "rules")
    for note in (note for family in found.families for note in family.notes):
        escapes: Severity = "warning" if note.is_open else "info"
        yield PreflightFinding(
            "overlap", escapes, note_line(note, alone=not any(family.pods for family in found.families)), str(note.cidr)
        )


def _is_covered(finding: Finding, prefixes: Iterable[Prefix]) -> bool:
    """Whether each address of the finding is in one of these prefixes."""
    rest = finding.first
    near = (prefix for prefix in prefixes if prefix.family == finding.cidr.family)
    for prefix in sorted(near, key=lambda prefix: prefix.first):
        if prefix.first <= rest <= prefix.last:
            rest = prefix.last + 1
    return rest > finding.last


def task_findings(
    name: Name, *, conflicts: Iterable[str] = (), hindrances: Iterable[str] = (), notes: Iterable[str] = ()
) -> Iterator[PreflightFinding]:
    """What a task says would stop it, what would keep its work from having an effect, and its remarks."""
    yield from (PreflightFinding(name, "error", text) for text in conflicts)
    yield from (PreflightFinding(name, "warning", text) for text in hindrances)
    yield from (PreflightFinding(name, "info", text) for text in notes)


def cleanup_findings(plan: CleanupPlan, *, dry_run: bool) -> Iterator[PreflightFinding]:
    """What would keep the clean-up after azure-vnet from deleting anything."""
    hindrances, notes = plan.hindrances, plan.notes
    if dry_run:
        return task_findings("azure-vnet", hindrances=hindrances, notes=notes)
    return task_findings("azure-vnet", conflicts=hindrances, notes=notes)


def tool_findings(needed: Mapping[str, Sequence[str]], installed: Iterable[str]) -> Iterator[PreflightFinding]:
    """The tools that are not installed; `needed` has what needs each of them."""
    for tool in sorted({*needed} - {*installed}):
        programs, package = TOOLS[tool]
        told = f"{' or '.join(programs)} is not installed, and {' and '.join(needed[tool])} cannot run without it"
        yield PreflightFinding("tools", "error", f"{told}; install the package {package} (Debian's name for it)", tool)


def program_findings(path: str, version: str, needing: Sequence[str]) -> Iterator[PreflightFinding]:
    """Another program than that of iproute2 is the `ip` of this host; the ip of busybox lacks most options."""
    if "iproute2" not in version:
        answer = version.partition("\n")[0] or "nothing"
        told = (
            f"{path} is not the ip of iproute2 (to ip -V it answers: {answer}), and {' and '.join(needing)} need that"
        )
        yield PreflightFinding("tools", "error", f"{told}; install the package iproute2", "ip")


def systemd_findings(version: str | None, *, file: str = "FILE") -> Iterator[PreflightFinding]:
    """Whether systemd can do what the units need; the version is None where systemd does not run.

    `file` is the name of the configuration's file, for the command to type.
    """
    if version is None:
        told = "systemd is not running here, so machines start unchecked until this host has booted with it"
        image = f"to prepare an image: hostrouting render --config {file} --root DIR"
        yield PreflightFinding("systemd", "warning", f"{told}; {image}", "systemd")
        return
    number = "".join(takewhile(str.isdigit, version))
    if not number:
        told = f"the version of systemd is {version!r}, which is not a number"
        yield PreflightFinding("systemd", "warning", f"{told}; look at: systemctl --version", "systemd")
    elif int(number) < _OLDEST_SYSTEMD:
        told = f"systemd {number} is too old for our units, which need {_OLDEST_SYSTEMD} or newer"
        yield PreflightFinding("systemd", "error", f"{told}; upgrade the operating system", "systemd")


def unit_findings(shadows: Iterable[tuple[str, str]], drop_ins: Iterable[UnitDropIn]) -> Iterator[PreflightFinding]:
    """The paths that systemd reads instead of one of ours, each with ours; and the drop-ins that change our units."""
    for path, ours in shadows:
        told = f"systemd reads {path} instead of {ours}, which hostrouting writes"
        yield PreflightFinding("units", "error", f"{told}; remove {path}", path)
    for drop_in in drop_ins:
        path, units = drop_in.path, " and ".join(drop_in.units)
        if settings := dict(harmful_settings(drop_in.text)):
            for setting, meaning in settings.items():
                told = f"{path} has {setting} for {units}, which means that {meaning}"
                yield PreflightFinding("units", "warning", f"{told}; remove that setting", path)
        elif drop_in.is_meant:
            told = f"{path} changes {units}, which hostrouting installs"
            yield PreflightFinding(
                "units", "warning", f"{told}; remove the drop-in, unless it is meant for that unit", path
            )


def machine_findings(state: str, openings: Iterable[str], *, unit: str) -> Iterator[PreflightFinding]:
    """What about the machines' own units keeps them from starting, or lets them start unchecked once there is a gate.

    `state` is that of their template, and `openings` is what `find_coming_openings` found.
    """
    if state == "masked":
        yield PreflightFinding("units", "error", f"{unit} is masked, and no machine starts; unmask it", unit)
    elif state == "not-found":
        told = f"systemd has no {unit}, and no machine starts until it does; install the package systemd-container"
        yield PreflightFinding(
            "units", "warning", f"{told} (Debian's name for it), now or later in the bootstrap", unit
        )
    elif state != "loaded":
        told = f"systemd cannot use {unit} ({state}), and no machine starts; see: systemctl cat {unit}"
        yield PreflightFinding("units", "error", told, unit)
    for opening in openings:
        yield PreflightFinding("units", "warning", f"with the gate installed, {opening}", unit)


def file_findings(errors: Iterable[FileError], *, is_root: bool) -> Iterator[PreflightFinding]:
    """The files that keep ours from being written: masked, not ours, or not a file."""
    yield from (unread("files", error.path, error, is_root=is_root) for error in errors)


def replacement_findings(replaced: Iterable[str], removed: Iterable[str]) -> Iterator[PreflightFinding]:
    """The files of another installer that ours replace."""
    for path in replaced:
        told = f"{path} was not written by this version of hostrouting, and will be replaced"
        yield PreflightFinding("files", "info", f"{told}; save a copy if you need it", path)
    for path in removed:
        told = f"{path} belongs to an earlier installation, and will be removed"
        yield PreflightFinding("files", "info", f"{told}; save a copy if you need it", path)


def folder_findings(errors: Sequence[FileError], *, is_root: bool) -> Iterator[PreflightFinding]:
    """The folders into which nothing can be written; one finding for each reason.

    A denial says nothing about root unless this process is root: then it has another reason, such as an immutable file.
    """
    alike: dict[str, list[FileError]] = {}
    for error in errors:
        alike.setdefault("" if is_denied(error) and not is_root else error.reason or str(error), []).append(error)
    for reason, them in alike.items():
        paths, first = ", ".join(error.path for error in them), them[0]
        if not reason:
            told = f"this user cannot see whether these directories are writable: {paths}"
            yield PreflightFinding("folders", "warning", f"{told}; run preflight as root", first.path)
        else:
            told = f"cannot write into {paths}: {first.reason}" if first.reason else str(first)
            yield PreflightFinding("folders", "error", told, first.path)


def lock_findings(holders: Sequence[str], *, path: str) -> Iterator[PreflightFinding]:
    """The lock is held: a bootstrap would wait for it, for a minute at most."""
    if holders:
        told = (
            f"{' and '.join(holders)} {'have' if len(holders) > 1 else 'has'} locked {path};"
            " a bootstrap would wait for up to a minute, then fail"
        )
        yield PreflightFinding("lock", "warning", told, path, can_retry=True)


def gate_findings(gate: GateState) -> Iterator[PreflightFinding]:
    """What keeps every machine from starting, what lets one start unchecked, and what else was edited."""
    yield from (PreflightFinding("gate", "error", text) for text in gate.bars)
    yield from (PreflightFinding("gate", "warning", text) for text in gate.openings)
    yield from (PreflightFinding("gate", "info", text) for text in gate.edited)


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
    allow_removal: bool = attrs.field(default=True, kw_only=True)
    """Whether Configure would be allowed to take away the gate, what STRICT protects, or the guard."""
    file: str = attrs.field(default="FILE", kw_only=True)
    """The name of the configuration's file, for the commands in messages."""

    def plan(self, ctx: phases.Context) -> PreflightResult:
        """The findings."""
        return PreflightResult(worst_first(self._findings(ctx)))

    def do(self, ctx: phases.Context) -> PreflightResult:
        """See the class."""
        found = self.plan(ctx)
        errors = [finding for finding in found.findings if finding.severity == "error"]
        # Whoever reads of an escape has to read of its repair, at whatever level this is logged.
        escaping = {
            finding.severity for finding in found.findings if finding.name == "overlap" and finding.severity != "info"
        }
        remedies = [finding for finding in found.findings if finding.repair and "error" in escaping]
        for finding in found.findings:
            if finding.severity == "warning" or (finding.repair and finding not in remedies):
                ctx.log.warning("%s: %s", finding.name, finding.message)
            elif finding.severity == "info" and finding not in remedies:
                ctx.log.info("%s: %s", finding.name, finding.message)
        if errors:
            told = [error.message for error in errors[:_SHOWN]]
            told += [f"and {len(errors) - _SHOWN} more"] if len(errors) > _SHOWN else []
            told += [remedy.message for remedy in remedies]
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
        if not self.allow_removal:
            yield from self._asked("removal", "", lambda: removal_findings(removals_of(self.host, tasks)))
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
            awaited = [pending.desired.destination for pending in plan.pending]
            mode = self.config.route_overlap.mode
            correction = correction_of(found, self.config, plan)
            yield from overlap_findings(
                found, mode=mode, awaited=awaited, correction=correction, wait=self.wait, file=self.file
            )

    def _of_files(self, up: list[Part], down: list[Part]) -> Iterator[PreflightFinding]:
        layout, gate = self.host.layout, Gate(self.host)
        obstacles, is_root = gate.obstacles(up), self._rights.is_root
        yield from file_findings(obstacles, is_root=is_root)
        in_the_way = {obstacle.path for obstacle in obstacles}
        folders = {layout.at(layout.state_directory)} if up else set()
        cleanup = self.config.azure_vnet_cleanup
        if cleanup is not None and not cleanup.dry_run:
            folders |= {layout.at(layout.state_directory), layout.at(layout.lasting_directory)}
        changes, unknown = self._answer("files", "", partial(gate.changes, up, down), Changes())
        writes = changes.writes
        yield from unknown
        yield from self._answer("systemd", "systemd", partial(gate.require_reload, changes, up), None)[1] if up else ()
        yield from self._asked(
            "files", "", lambda: self._of_replaced(up, [write for write in writes if write not in in_the_way])
        )
        folders |= {path.rpartition("/")[0] for path in writes}
        yield from folder_findings(list(self._unwritable(sorted(folders))), is_root=is_root)

    def _of_replaced(self, up: list[Part], writes: list[str]) -> Iterator[PreflightFinding]:
        files = self.host.files
        texts = {path: files.read(path) for path in writes}
        # A link that enables a unit is as it should be once it is there; the unit behind it is among the paths.
        links = {path for part in up for path, _ in part.all_files.links}
        replaced = [path for path, text in texts.items() if text and OURS not in text and path not in links]
        removed = tuple(path for part in up for path in part.all_files.differences(files).removes)
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
