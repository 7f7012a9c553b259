"""Whether systemd runs the gate when it starts a unit. If it does not, or ignores a refusal, the
gate of this unit is open: the unit starts unchecked.

systemd is asked what it has loaded, of each unit and of each loaded instance of a template. Nothing
is changed here. Not judged: drop-ins that systemd has not read yet, so also those in an image;
whether systemd ignores a failure of the gate (`ExecCondition=-`); a drop-in that empties
`UnsetEnvironment=`; a gate that a signal kills, if the unit has `SuccessExitStatus=SIGKILL` or the
like.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.boot.units import GATE_MARK
from hostrouting.config.settings import gated_units
from hostrouting.errors import HostError
from hostrouting.finding import Finding, Remedy, Severity, worst_first
from hostrouting.gate.unit_names import instance_pattern, is_template, plain_instance
from hostrouting.gate.unit_states import UnitState
from hostrouting.host.layout import HostLayout
from hostrouting.release import call
from hostrouting.text import command_of, spoken

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.host.base import Files
    from hostrouting.host.files import Entry
    from hostrouting.host.host import Host

_PROPERTIES = ("Id", "LoadState", "NeedDaemonReload", "ExecCondition", "SuccessExitStatus")
# The values of LoadState with which systemd does not start a unit.
_NEVER_STARTS = {"masked", "not-found", "bad-setting", "error"}
OTHER_ROOTS = ("RootDirectory", "RootImage")  # refused even if root runs the unit
OTHER_FILES = (
    *OTHER_ROOTS,
    "BindPaths",
    "BindReadOnlyPaths",
    "ExtensionDirectories",
    "ExtensionImages",
    "MountImages",
)
"""The settings with which systemd runs a command on other files than the host's, even one with a +,
such as the gate (tried with systemd 249 to 257). Their paths are not judged: a folder that a unit's
user may write can have a link in it, and systemd mounts where the link leads. TemporaryFileSystem=
only hides files: a gate that lacks one refuses the unit.
"""
_REFUSAL = "255"  # the exit status of a gate that refuses a start (`boot.units` says why)
_BLANKS = " \t\r\v\f"  # what `[[:space:]]` means for the shell of the gate, in the C locale
# The remedy if systemd has not read the files as they are now.
RELOAD = Remedy(command="systemctl daemon-reload")


class UnitGates(NamedTuple):
    """The units whose gates are not open, and why the others' are."""

    findings: tuple[Finding, ...]
    """Why gates are open, or why the file that should open them is ignored; the worst first."""
    held: tuple[str, ...]
    """The units whose gates are not open: they start only if the gate lets them."""


def judge_gates(host: Host, units: Sequence[str]) -> UnitGates:
    """Find out for which of these gated units the gate is open, so that systemd starts the unit
    unchecked, and why. Each finding named gate-open is such a reason. Any other finding is about
    the file by which an administrator opens all gates, if that file is ignored.
    """
    findings: list[Finding] = []
    if units:
        findings += _find_what_opens_all(host, units)
    all_are_open = any(finding.name == "gate-open" for finding in findings)
    held: list[str] = []
    for unit in units:
        reasons = [*_judge_unit(host, unit)]
        findings += reasons
        if not reasons and not all_are_open:
            held.append(unit)
    return UnitGates(worst_first(findings), tuple(held))


def find_cancelled_gates(host: Host, config: HostRoutingConfig) -> Iterator[Finding]:
    """Yield a finding for each unit whose gate another program's unit file or drop-in cancels. Such
    a unit starts unchecked, even after an apply of this configuration. The finding is an error in
    STRICT, and a warning in WARN.

    What opens all gates at once is left out: the file by which an administrator opens them, and a
    host without systemd.
    """
    severity: Severity = "error" if config.route_overlap.is_strict else "warning"
    for finding in judge_gates(host, gated_units(config)).findings:
        # What opens all gates at once is only a warning. An apply mends a gate without a remedy, or
        # with a reload as the remedy: it writes our drop-ins again, and reloads systemd.
        if (
            finding.name == "gate-open"
            and finding.severity == "error"
            and finding.remedy not in {None, RELOAD}
        ):
            yield finding._replace(severity=severity)


def systemd_does_not_run(units: Sequence[str]) -> Finding:
    """The warning that these units start unchecked, because systemd, which runs the gate, does not
    run here.
    """
    sentence = (
        f"systemd does not run here: nothing holds {spoken(units)} back, and nothing sets the "
        "routes at boot"
    )
    remedy = Remedy("to prepare an image, see", call("render --help"), needs_root=False)
    return Finding("gate-open", "warning", sentence, "systemd", remedy)


def _find_what_opens_all(host: Host, units: Sequence[str]) -> Iterator[Finding]:
    """Yield a warning if no systemd runs, because nothing runs the gates then. Yield a warning,
    too, if there is the file by which an administrator opens all gates. This warning says that they
    are open, or that the file is ignored because of its owner, mode or content.
    """
    if host.running_manager is None:
        yield systemd_does_not_run(units)
    path = HostLayout.opening_path
    entry = host.files.look(path)
    if not entry:
        return
    reason = _reason_to_open(host.files, entry)
    if reason:
        sentence = f"{path} lets {spoken(units)} start unchecked until the next boot: {reason}"
        yield Finding("gate-open", "warning", sentence, path, Remedy("to end this", f"rm {path}"))
        return
    sentence = (
        f"{path} is ignored: it must be a file with a reason in it, and only root may be able to "
        "write to it and its folder"
    )
    remedy = Remedy(
        command=f"rm {path}",
        otherwise=Remedy("to open the gate", HostLayout.opening_command),
    )
    yield Finding("file", "warning", sentence, path, remedy)


def _reason_to_open(files: Files, entry: Entry) -> str:
    """The reason that is written in the file by which an administrator opens the gate. Empty if the
    gate ignores the file.

    The file counts only if root owns it and may read it, if nobody else may write it and nobody may
    execute it, if its first line has the reason, and if its folder is not a link, and only root can
    write to it. The shell command of the gate has the same rule, and a test compares the two.
    """
    folder = files.look(HostLayout.run_directory)
    if not folder or folder.kind != "directory" or folder.is_open_to_others:
        return ""
    # The mode has no bits but that for root to read it, and perhaps these three.
    if (entry.kind, entry.owner, entry.mode & ~0o244) != ("file", 0, 0o400):
        return ""
    try:
        text = files.read(HostLayout.opening_path) or ""
    except HostError:
        return "why is written in it, and only root can read that"
    return text.partition("\n")[0].strip(_BLANKS)


def _judge_unit(host: Host, unit: str) -> Iterator[Finding]:
    """Yield an error if the gate of the unit is open, so that systemd starts the unit unchecked. Of
    a template whose own gate is not open, judge each loaded instance as well, because a drop-in can
    open the gate of one instance.
    """
    drop_in = HostLayout.drop_in_path(unit)
    runs_gate = _runs_gate(host.files, drop_in)
    manager = host.running_manager
    if manager is None:
        if not runs_gate:
            yield _open(unit, f"{drop_in} is missing, masked or overwritten")
        return
    names = [plain_instance(unit)]
    if is_template(unit):
        names.append(instance_pattern(unit))
    for properties in manager.show(_PROPERTIES, *names):
        name = properties["Id"]
        # systemd does not show a template. So it was asked for an instance that nobody uses, and
        # what it shows of this instance is true of the template (`unit`).
        if name == plain_instance(unit):
            name = unit
        finding = _why_open(name, properties, drop_in, runs_gate=runs_gate)
        if finding:
            yield finding
            if name == unit:
                return  # its instances are open for the same reason


def _runs_gate(files: Files, drop_in: str) -> bool:
    """Whether the drop-in at this path has systemd run the gate. A drop-in that an earlier release
    of ours wrote counts, too.
    """
    entry = files.look(drop_in)
    if not entry or entry.kind != "file":
        return False
    # In every release, the command of the gate ends with these words.
    return f"{GATE_MARK} %n\n" in (files.read(drop_in) or "")


def _why_open(
    name: str, properties: Mapping[str, str], drop_in: str, *, runs_gate: bool
) -> Finding | None:
    """Return why the gate of this unit is open, so that systemd starts the unit unchecked; None if
    it is not open. The finding has no remedy if an apply is the remedy. If our drop-in is missing
    and systemd does not know the unit, the finding says this instead, because the name may be
    wrong.

    `properties` are what systemd has loaded; `runs_gate` says whether our drop-in on disk runs the
    gate.
    """
    see = Remedy("see", command_of("systemctl cat", name), needs_root=False)
    is_loaded = GATE_MARK in properties["ExecCondition"]
    is_outdated = properties["NeedDaemonReload"] == "yes"
    never_starts = properties["LoadState"] in _NEVER_STARTS
    # Without our drop-in, another file may run the gate: then systemd shows the gate and needs no
    # reload. Of a unit that never starts, such as a masked one, systemd shows no gate in any case.
    if not runs_gate and (never_starts or not is_loaded or is_outdated):
        if properties["LoadState"] == "not-found":
            return Finding("unit", "warning", UnitState(name, "unknown").sentence, name)
        return _open(name, f"{drop_in} is missing, masked or overwritten")
    # Before a masked unit, for example, can start, systemd has to load it again, and then also
    # loads our drop-in.
    if never_starts:
        return None
    if not is_loaded:
        if is_outdated:
            return _open(name, "systemd still uses the old files", RELOAD)
        return _open(name, "another drop-in takes the ExecCondition= of the gate away", see)
    if _REFUSAL in properties["SuccessExitStatus"].split():
        reason = f"it has SuccessExitStatus={_REFUSAL}, so a refusal counts as a success"
        return _open(name, reason, see)
    return None


def _open(name: str, reason: str, remedy: Remedy | None = None) -> Finding:
    sentence = f"{name} starts unchecked: {reason}"
    return Finding("gate-open", "error", sentence, name, remedy)
