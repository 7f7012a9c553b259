"""From what was read of a host to the findings of a preflight: what would fail later, and how bad that is.

Here: the findings, their names and their severities, as functions from values to values. Not here: reading the host
(`tasks.preflight`), and sentences that other modules already have (`wording`, `openings`, and the errors themselves).

An error means that, with the host as it is now, a bootstrap fails, or the next machine does not start, now or after a
reboot. A warning means that this can happen, that a machine can start unchecked, or that something is not known. What
Configure would wait for is a warning, because it may come in time.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

from hostrouting.denial import is_denied
from hostrouting.errors import BackendError, FileError, HostRoutingError, ManagerError, NotPermitted
from hostrouting.openings import harmful_settings
from hostrouting.wording import (
    finding_sentence,
    foreseen_line,
    note_line,
    range_name,
    repair_sentence,
    unsafe_lines,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hostrouting.azure_vnet import CleanupPlan
    from hostrouting.correction import Correction
    from hostrouting.examination import Examination
    from hostrouting.model import Prefix
    from hostrouting.openings import GateState
    from hostrouting.overlap import Finding
    from hostrouting.plan import RoutePlan
    from hostrouting.system import Rights
    from hostrouting.uplink import DesiredRoute

__all__ = [
    "TOOLS",
    "Name",
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

Name: TypeAlias = Literal[
    "azure-vnet",
    "files",
    "folders",
    "gate",
    "kernel",
    "lock",
    "overlap",
    "probes",
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
    return tuple(sorted(dict.fromkeys(found), key=lambda it: _SEVERITIES.index(it.severity)))


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
    for it in plan.foreseen:
        yield PreflightFinding("routes", "warning", foreseen_line(it), str(it.wanted.prefix))


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
    for it in found.families:
        if it.verdict == "no-default-route":
            what = f"apply would wait up to {wait:g} s for one; without one, {then}" if wait else then
            told = f"there is no IPv{it.report.family} default route that is in use, so no device is expected; {what}"
            remedy = "add a default route, or name routeOverlap.expectedDevs"
            worst = _if_awaited(wait) if mode == "STRICT" else "warning"
            yield PreflightFinding("overlap", worst, f"{told}; {remedy}", "default route", can_retry=True)
        for finding in it.findings:
            escape, worst = finding_sentence(finding, it.report.expected_devs), severity
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
    for note in (note for it in found.families for note in it.notes):
        escapes: Severity = "warning" if note.escapes else "info"
        yield PreflightFinding(
            "overlap", escapes, note_line(note, alone=not any(it.pods for it in found.families)), str(note.cidr)
        )


def _is_covered(finding: Finding, prefixes: Iterable[Prefix]) -> bool:
    """Whether each address of the finding is in one of these prefixes."""
    rest = finding.first
    near = (it for it in prefixes if it.family == finding.cidr.family)
    for it in sorted(near, key=lambda it: it.first):
        if it.first <= rest <= it.last:
            rest = it.last + 1
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
    for it in drop_ins:
        path, units = it.path, " and ".join(it.units)
        if settings := dict(harmful_settings(it.text)):
            for setting, meaning in settings.items():
                told = f"{path} has {setting} for {units}, which means that {meaning}"
                yield PreflightFinding("units", "warning", f"{told}; remove that setting", path)
        elif it.is_meant:
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
    for it in errors:
        alike.setdefault("" if is_denied(it) and not is_root else it.reason or str(it), []).append(it)
    for reason, them in alike.items():
        paths, first = ", ".join(it.path for it in them), them[0]
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
        yield PreflightFinding("lock", "warning", told, path)


def gate_findings(gate: GateState) -> Iterator[PreflightFinding]:
    """What keeps every machine from starting, and what lets one start unchecked, with the gate that is installed."""
    yield from (PreflightFinding("gate", "error", text) for text in gate.bars)
    yield from (PreflightFinding("gate", "warning", text) for text in gate.openings)
