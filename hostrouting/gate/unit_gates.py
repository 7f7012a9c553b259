"""Whether systemd runs the gate when it starts a unit. If it does not, or ignores a refusal, the
gate of this unit is open: the unit starts unchecked.

systemd is asked what it has loaded, of each unit and of each instance of a template; an instance
that has files, but is not loaded, is loaded for that. Nothing is changed here. Of drop-ins that
systemd has not read yet, only one with an empty `ExecCondition=` is looked for. Not judged:
drop-ins in an image; a drop-in that empties `UnsetEnvironment=`; a gate that a signal kills, if the
unit has `SuccessExitStatus=SIGKILL` or the like.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from hostrouting.boot.units import GATE_AS_SHOWN, GATE_MARK
from hostrouting.config.settings import gated_units
from hostrouting.errors import HostError
from hostrouting.finding import Finding, Remedy, Severity, worst_first
from hostrouting.gate.unit_names import instance_pattern, template_of, unused_instance
from hostrouting.host.layout import DROP_IN, HostLayout
from hostrouting.host.ours import is_ours
from hostrouting.text import command_of, spoken

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.host.base import Files
    from hostrouting.host.files import Entry
    from hostrouting.host.host import Host

_PROPERTIES = ("Id", "LoadState", "NeedDaemonReload", "ExecCondition", "SuccessExitStatus")
# The values of LoadState with which systemd does not start a unit.
_NEVER_STARTS = {"masked", "not-found", "bad-setting", "error"}
OTHER_ROOT_SETTINGS = ("RootDirectory", "RootImage")  # refused even if root runs the unit
OTHER_FILES_SETTINGS = (
    *OTHER_ROOT_SETTINGS,
    "BindPaths",
    "BindReadOnlyPaths",
    "ExtensionDirectories",
    "ExtensionImages",
    "MountImages",
)
"""The settings with which systemd runs a command on other files than the host's, even one with a +,
such as the gate (tried with systemd 249 to 257). Their paths are not judged: a folder that a unit's
user may write can have a link in it, and systemd mounts where the link leads. TemporaryFileSystem=
only hides files: a gate that lacks config.json or the program refuses the unit, and one that does
not see /run goes on without the lock.
"""
# The exit statuses of a gate that refuses a start (255; `boot.units` says why), or that systemd
# cannot run (those from 200 on, of which systemd.exec(5) has a list).
_STATUSES_OF_REFUSAL = r"\b(255|2[0-4]\d)\b"
_BLANKS = " \t\r\v\f"  # what `[[:space:]]` means for the shell of the gate, in the C locale
_FOLDERS = (
    "/usr/lib/systemd/system",
    "/usr/local/lib/systemd/system",
    "/run/systemd/system",
    HostLayout.unit_directory,
)
"""The folders of drop-ins. Of several with one name, systemd reads the one in the last folder."""
_RESET = r"(?m)^[ \t]*ExecCondition[ \t]*=[ \t\r]*$"
"""The line that deletes all commands of ExecCondition=. Sections, and backslashes at the end of
lines, are not looked at.
"""
# The remedy if systemd has not read the files as they are now.
RELOAD = Remedy(command="systemctl daemon-reload")


def judge_gates(host: Host, units: Sequence[str]) -> tuple[Finding, ...]:
    """What is wrong with the gates of these gated units, the worst first. The name of a finding
    tells which of these it says.

    - gate-open: why systemd starts a unit unchecked,
    - requirement: which file will open a gate as soon as systemd reads it,
    - file: that the file by which an administrator opens all gates is ignored.
    """
    findings = [*_find_what_opens_all(host, units)]
    for unit in units:
        findings += _judge_unit(host, unit)
    return worst_first(findings)


def find_cancelled_gates(host: Host, config: HostRoutingConfig) -> Iterator[Finding]:
    """Yield a finding for each unit whose gate is cancelled by another program's unit file or
    drop-in. Such a unit starts unchecked, even after an apply of this configuration. The finding is
    an error in STRICT, and a warning in WARN. It is an error in both if systemd has not read that
    file yet: the apply, which reloads systemd, would open the gate.

    What opens all gates at once is left out: the file by which an administrator opens them, and a
    host without systemd.
    """
    severity: Severity = "error" if config.route_overlap.is_strict else "warning"
    for finding in judge_gates(host, gated_units(config)):
        if finding.name == "requirement":  # a file that systemd has not read yet
            yield finding
        # Warnings are left out, such as one about what opens all gates at once. So is what an apply
        # settles: a missing drop-in of ours (without a remedy), or a reload that is due.
        elif finding.severity == "error" and finding.remedy not in {None, RELOAD}:
            yield finding._replace(severity=severity)


def systemd_does_not_run(units: Sequence[str]) -> Finding:
    """The warning that these units start unchecked, because systemd, which runs the gate, does not
    run here.
    """
    return Finding(
        "gate-open",
        "warning",
        f"systemd does not run here: nothing holds {spoken(units)} back, and nothing sets the "
        "routes at boot",
        "systemd",
    )


def _find_what_opens_all(host: Host, units: Sequence[str]) -> Iterator[Finding]:
    """Yield a warning if no systemd runs, because nothing runs the gates then. Yield a warning,
    too, if there is the file by which an administrator opens all gates. This warning says that they
    are open, or that the file is ignored because of its owner, mode or content.
    """
    if not units:
        return
    if host.running_manager is None:
        yield systemd_does_not_run(units)
    path = HostLayout.opening_path
    entry = host.files.look(path)
    if not entry:
        return
    reason = _reason_to_open(host.files, entry)
    if reason:
        yield Finding(
            "gate-open",
            "warning",
            f"{path} lets {spoken(units)} start unchecked until the next boot: {reason}",
            path,
            Remedy("to end this", f"rm {path}"),
        )
        return
    yield Finding(
        "file",
        "warning",
        f"{path} is ignored: it must be a file with a reason in it, and only root may be able to "
        "write to it and its folder",
        path,
        Remedy("to open the gate", HostLayout.opening_command),
    )


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
    # Root has to be able to read it (0o400). Of the other bits, only those by which root may write
    # and others may read are allowed (0o244).
    if (entry.kind, entry.owner, entry.mode & ~0o244) != ("file", 0, 0o400):
        return ""
    try:
        text = files.read(HostLayout.opening_path) or ""
    except HostError:
        return "the reason is in the file, which only root can read"
    return text.partition("\n")[0].strip(_BLANKS)


def _judge_unit(host: Host, unit: str) -> Iterator[Finding]:
    """Yield an error if the gate of the unit is open, so that systemd starts the unit unchecked, or
    will be open once systemd reads its files. Of a template whose own gate is not open, judge each
    instance as well, because a drop-in can open the gate of one instance.
    """
    for name, properties in show_with_instances(host, unit, _PROPERTIES).items():
        finding = _find_gate_fault(name, properties, HostLayout.drop_in_path(unit), host.files)
        if finding:
            yield finding
            if name == unit:
                return  # its instances, which come after it, are open for the same reason


def show_with_instances(
    host: Host, unit: str, names: Sequence[str]
) -> dict[str, Mapping[str, str]]:
    """Ask systemd for the properties with these `names`, such as "Id", of the unit. If the unit is
    a template, also ask for those of its instances that are loaded, or have a file or drop-ins on
    disk: an instance may have settings of its own. Return the properties by unit, the given unit
    first; nothing where systemd does not run.
    """
    manager = host.running_manager
    if not manager:
        return {}
    instances: list[str] = []
    for folder in _FOLDERS:
        for name in host.files.names(folder):
            instance = name.removesuffix(".d")
            if template_of(instance) == unit != instance:
                instances.append(instance)
    # systemd does not show a template, but an instance that nobody uses has its settings. The
    # pattern matches all loaded instances. For any other unit, `unused_instance` and
    # `instance_pattern` return its own name.
    first, *others = manager.show(names, unused_instance(unit), *instances, instance_pattern(unit))
    shown = {properties["Id"]: properties for properties in others}
    shown.pop(first["Id"], None)  # a unit that is not a template is there twice
    return {unit: first, **shown}


def _find_resetting_drop_in(files: Files, unit: str) -> str:
    """The path of a drop-in on disk that takes the gate of this unit away: systemd reads it after
    ours, and its line `ExecCondition=` deletes all earlier commands, such as the gate. Empty if
    there is none, or if this user may not read one of the drop-ins.
    """
    path_of_name: dict[str, str] = {}
    # Of several drop-ins with one name, the last counts: those in service.d, which are for all
    # services, come first, and `_FOLDERS` begins with the weakest folder.
    try:
        for directory in ("service.d", f"{unit}.d"):
            for folder in _FOLDERS:
                for name in files.names(f"{folder}/{directory}"):
                    path_of_name[name] = f"{folder}/{directory}/{name}"
        for name, path in path_of_name.items():
            # systemd reads drop-ins in the order of their names.
            if (
                name > DROP_IN
                and name.endswith(".conf")
                and re.search(_RESET, files.read(path) or "")
            ):
                return path
    except HostError:
        return ""
    return ""


def _find_gate_fault(
    name: str, properties: Mapping[str, str], drop_in: str, files: Files
) -> Finding | None:
    """Return what is wrong with the gate of this unit, or None. `properties` are what systemd has
    loaded; `drop_in` is the path of our drop-in. The name of the finding tells which of
    these it says.

    - gate-open: why systemd starts the unit unchecked. If it has no remedy, an apply is the remedy.
    - requirement: why systemd will start the unit unchecked once it is reloaded. An apply, which
      reloads systemd, must not begin.
    """
    take_line_out = Remedy(
        "take that line out, and reload systemd; to see it",
        command_of("systemctl cat", name),
        needs_root=False,
    )
    if re.search(_STATUSES_OF_REFUSAL, properties["SuccessExitStatus"]):
        return _open_because(
            name,
            "its SuccessExitStatus= has 255, or one of 200 to 249, so a gate that refuses, or "
            "cannot be run, counts as a success",
            take_line_out,
        )
    is_loaded = re.search(GATE_AS_SHOWN, properties["ExecCondition"])
    is_outdated = properties["NeedDaemonReload"] == "yes"
    # systemd does not notice a new drop-in whose folder is new, too. So look at the files anyway.
    resetting = _find_resetting_drop_in(files, name)
    # systemd runs the gate. It does not matter by which file: perhaps by one of the template.
    if is_loaded and not (is_outdated or resetting):
        return None
    # In every release, the command of the gate in our drop-in ends with these words.
    if not (
        resetting
        or (is_ours(files, drop_in) and f"{GATE_MARK} %n\n" in (files.read(drop_in) or ""))
    ):
        return _open_because(name, f"{drop_in} is missing, masked or overwritten")
    # A unit with such a state, such as a masked one, cannot start before systemd loads it again.
    # Then systemd also loads our drop-in.
    if properties["LoadState"] in _NEVER_STARTS:
        return None
    if not resetting:
        if is_loaded:
            return None
        if is_outdated:  # the files are right: systemd need only read them
            return _open_because(name, "systemd still uses the old files", RELOAD)
    cause = f"{resetting or 'another drop-in'} takes the ExecCondition= of the gate away"
    if not is_loaded:
        return _open_because(name, cause, take_line_out)
    return Finding(
        "requirement",
        "error",
        f"once systemd is reloaded, {name} starts unchecked: {cause}",
        name,
        take_line_out,
    )


def _open_because(name: str, reason: str, remedy: Remedy | None = None) -> Finding:
    return Finding("gate-open", "error", f"{name} starts unchecked: {reason}", name, remedy)
