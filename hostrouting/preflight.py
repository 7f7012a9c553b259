"""From what was read of a host to the findings of a preflight: what would fail later, and how bad that is.

Here: the findings, their names and their severities, as functions from values to values. Not here: reading the host
(`tasks.preflight`), and sentences that other modules already have (`wording`, `openings`, and the errors themselves).

An error means that, with the host as it is now, a bootstrap fails, or the next machine does not start, now or after a
reboot. A warning means that this can happen, that a machine can start unchecked, or that something is not known.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

from hostrouting.denial import is_denied
from hostrouting.wording import finding_line, foreseen_line, note_line, range_name, repair_line, unsafe_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hostrouting.azure_vnet import CleanupPlan
    from hostrouting.errors import FileError, HostRoutingError
    from hostrouting.examination import Examination
    from hostrouting.openings import GateState
    from hostrouting.plan import RoutePlan
    from hostrouting.uplink import DesiredRoute

__all__ = [
    "TOOLS",
    "Name",
    "PreflightFinding",
    "Severity",
    "cleanup_findings",
    "file_findings",
    "folder_findings",
    "gate_findings",
    "lock_findings",
    "machine_findings",
    "overlap_findings",
    "replacement_findings",
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
    "systemctl": (("systemctl",), "systemd"),
}
"""Each tool with the programs that can be used as it, and the Debian package that has one of them."""

_OLDEST_SYSTEMD = 247


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

    def to_mapping(self) -> dict[str, str]:
        """The same as plain values."""
        return {"name": self.name, "severity": self.severity, "message": self.message, "target": self.target}

    def __str__(self) -> str:
        return f"{self.severity}: {self.name}: {self.message}"


def worst_first(found: Iterable[PreflightFinding]) -> tuple[PreflightFinding, ...]:
    """Each finding once, errors before warnings before the rest."""
    return tuple(sorted(dict.fromkeys(found), key=lambda it: _SEVERITIES.index(it.severity)))


def unread(name: Name, target: str, error: HostRoutingError) -> PreflightFinding:
    """Something could not be read: an error, because a bootstrap would meet it; without the permission, a warning."""
    return PreflightFinding(name, "warning" if is_denied(error) else "error", str(error), target)


def route_findings(plan: RoutePlan) -> Iterator[PreflightFinding]:
    """What keeps the configured routes from being installed, now or after the next boot."""
    for step in plan.conflicts:
        prefix = str(step.route.prefix)
        yield PreflightFinding("routes", "error", f"{prefix} cannot be installed: {step.why}", prefix)
    lacking: dict[str, list[DesiredRoute]] = {}
    for pending in plan.pending:
        lacking.setdefault(pending.missing, []).append(pending.desired)
    for missing, wanted in lacking.items():
        others = f" (nor can {len(wanted) - 1:,} others)" if len(wanted) > 1 else ""
        told = f"{wanted[0]} cannot be installed{others}: this is missing: {missing}"
        target = str(wanted[0].destination)
        yield PreflightFinding("routes", "error", f"{told}; add it, or correct the configuration", target)
    for it in plan.foreseen:
        yield PreflightFinding("routes", "warning", foreseen_line(it), str(it.wanted.prefix))


def overlap_findings(found: Examination, *, mode: str) -> Iterator[PreflightFinding]:
    """What the check would find with the configured routes in place; in STRICT the next machine does not start."""
    report, repair = found.report, found.repair
    severity: Severity = "error" if mode == "STRICT" else "warning"
    then = "in mode STRICT no machine starts" if mode == "STRICT" else "in mode WARN machines start all the same"
    if report.verdict == "no-default-route":
        told = f"there is no IPv4 default route that is in use, so no device is expected, and {then}"
        yield PreflightFinding(
            "overlap", severity, f"{told}; add a default route, or name routeOverlap.expectedDevs", "default route"
        )
    for it in report.findings:
        line = finding_line(it, report.expected_devs)
        told = f"{line}; {then}; to see which routes close this: hostrouting repair"
        yield PreflightFinding("overlap", severity, told, range_name(it.cidr.family, it.first, it.last))
    for text in unsafe_lines(repair.unsafe):
        yield PreflightFinding("overlap", severity, f"no static route can close this: {text}")
    if action := repair_line(report, repair):
        yield PreflightFinding("overlap", "info", action)
    for note in report.notes:
        escapes: Severity = "warning" if note.escapes else "info"
        yield PreflightFinding("overlap", escapes, note_line(note), str(note.cidr))


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
        yield PreflightFinding("tools", "error", f"{told}; install the package {package}", tool)


def systemd_findings(version: str | None) -> Iterator[PreflightFinding]:
    """Whether systemd can do what the units need; the version is None where systemd does not run."""
    if version is None:
        told = "systemd is not running here, so nothing holds a machine back until this host has booted with it"
        yield PreflightFinding("systemd", "warning", f"{told}; to prepare an image: hostrouting render", "systemd")
        return
    number = "".join(takewhile(str.isdigit, version))
    if not number:
        told = f"the version of systemd is {version!r}, which is not a number"
        yield PreflightFinding("systemd", "warning", f"{told}; look at: systemctl --version", "systemd")
    elif int(number) < _OLDEST_SYSTEMD:
        told = f"systemd {number} is too old for our units, which need {_OLDEST_SYSTEMD} or newer"
        yield PreflightFinding("systemd", "error", f"{told}; upgrade the operating system", "systemd")


def unit_findings(
    shadows: Iterable[tuple[str, str]], settings: Iterable[tuple[str, str]]
) -> Iterator[PreflightFinding]:
    """The paths that systemd reads instead of one of ours, and the drop-ins of our units; each with ours."""
    for path, ours in shadows:
        told = f"systemd reads {path} instead of {ours}, which hostrouting writes"
        yield PreflightFinding("units", "error", f"{told}; remove it", path)
    for path, unit in settings:
        told = f"{path} changes {unit}, which hostrouting installs"
        yield PreflightFinding("units", "warning", f"{told}; remove it, unless it is meant for that unit", path)


def machine_findings(state: str, texts: Mapping[str, str], *, unit: str, drop_in: str) -> Iterator[PreflightFinding]:
    """What about the machines' own units keeps them from starting, or from asking the gate once it is installed.

    `texts` are the machines' drop-ins, by path, and `drop_in` is ours.
    """
    if state == "masked":
        yield PreflightFinding("units", "error", f"{unit} is masked, and no machine starts; systemctl unmask it", unit)
    elif state != "loaded":
        told = f"{unit} cannot be used ({state}), and no machine starts"
        yield PreflightFinding("units", "warning", f"{told}; install the package systemd-container", unit)
    name = drop_in.rpartition("/")[2]
    for path, text in texts.items():
        is_emptied = any(line.replace(" ", "") == "ExecStartPre=" for line in text.splitlines())
        if is_emptied and path.rpartition("/")[2] > name:
            told = (
                f"{path} has an empty ExecStartPre=, which removes the question to the gate: machines start unchecked"
            )
            yield PreflightFinding(
                "units", "warning", f"{told}; remove that line, or rename the file so that it sorts before {name}", path
            )


def file_findings(errors: Iterable[FileError]) -> Iterator[PreflightFinding]:
    """The files that keep ours from being written: masked, not ours, or not a file."""
    yield from (unread("files", error.path, error) for error in errors)


def replacement_findings(replaced: Iterable[str], removed: Iterable[str]) -> Iterator[PreflightFinding]:
    """The files of another installer that ours replace."""
    for path in replaced:
        told = f"{path} was not written by this version of hostrouting, and will be replaced"
        yield PreflightFinding("files", "info", f"{told}; save a copy if you need it", path)
    for path in removed:
        told = f"{path} belongs to an earlier installation, and will be removed"
        yield PreflightFinding("files", "info", f"{told}; save a copy if you need it", path)


def folder_findings(errors: Sequence[FileError]) -> Iterator[PreflightFinding]:
    """The folders into which nothing can be written; those that only this user may not write into are one finding."""
    yield from (unread("folders", it.path, it) for it in errors if not is_denied(it))
    if denied := [it.path for it in errors if is_denied(it)]:
        told = f"as this user it is not known whether these folders can be written into: {', '.join(denied)}"
        yield PreflightFinding("folders", "warning", f"{told}; run preflight as root", denied[0])


def lock_findings(holders: Sequence[str], *, path: str) -> Iterator[PreflightFinding]:
    """The lock is held: a bootstrap would wait for it, for a minute at most."""
    if holders:
        told = f"{' and '.join(holders)} {'have' if len(holders) > 1 else 'has'} locked {path}"
        yield PreflightFinding("lock", "warning", f"{told}; a bootstrap would wait for up to a minute, then fail", path)


def gate_findings(gate: GateState) -> Iterator[PreflightFinding]:
    """What keeps every machine from starting, and what lets one start unchecked, with the gate that is installed."""
    yield from (PreflightFinding("gate", "error", text) for text in gate.bars)
    yield from (PreflightFinding("gate", "warning", text) for text in gate.openings)
