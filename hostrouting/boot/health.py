"""Whether the gate is in force: what lets gated units start unchecked, and what keeps them from
starting.

Files are compared with what the installed configuration asks for, and systemd is asked what it
would really run: it may have loaded an older text, another drop-in may override ours, and a unit
may count a refusal as a success. Nothing is changed here; `install` repairs the gate.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from hostrouting.boot.files import (
    WRITER,
    files_of,
    foreign_steps,
    open_folders,
    steps_of,
    why_not_run,
    writer_of,
)
from hostrouting.boot.units import DROP_IN as DROP_IN_TEXT
from hostrouting.config.settings import HostRoutingConfig, gated_units
from hostrouting.finding import Finding, Name, Remedy, worst_first
from hostrouting.host.files import Entry, Files
from hostrouting.host.layout import DROP_IN, HostLayout
from hostrouting.text import spoken

if TYPE_CHECKING:
    from hostrouting.host.fileset import File
    from hostrouting.host.host import Host
    from hostrouting.host.systemd import Manager

_ROOTS = ("RootDirectory", "RootImage")
_PROPERTIES = (
    "Id",
    "LoadState",
    "DropInPaths",
    "NeedDaemonReload",
    "ExecCondition",
    "SuccessExitStatus",
    *_ROOTS,
)
_FOLDERS = (HostLayout.unit_directory, "/run/systemd/system", "/usr/lib/systemd/system")
_RESET = re.compile(r"(?m)^\s*ExecCondition\s*=\s*$")
"""An empty value resets the list, so no ExecCondition= of an earlier file is left."""
AGAIN = Remedy(command=f"hostrouting apply --config {HostLayout.config_path}")
"""The remedy where files are not as the installed configuration asks."""
RELOAD = Remedy(command="systemctl daemon-reload")
"""The remedy where systemd has not read its files as they are now."""
_WITHOUT_LINE = RELOAD._replace(words="delete that line, not the file; then")


def find_faults(host: Host, config: HostRoutingConfig) -> tuple[Finding, ...]:
    """What is wrong with the gate of this configuration, which is the installed one. Nothing is
    changed.
    """
    units = gated_units(config)
    openings = [*_of_opening(host, units)]
    faults: list[Finding] = []
    held: list[str] = []
    for unit in units:
        of_unit = [*openings, *_of_unit(host, unit)]
        faults += of_unit
        if all(fault.name != "gate-open" for fault in of_unit):
            held.append(unit)
    return worst_first((*_of_files(host, config, spoken(held)), *faults))


def find_openings(host: Host, units: Sequence[str]) -> tuple[Finding, ...]:
    """The same as far as it can be said without the configuration, which gates these units."""
    openings = [*_of_opening(host, units)]
    for unit in units:
        openings += _of_unit(host, unit)
    return worst_first(openings)


def find_lasting_openings(host: Host, config: HostRoutingConfig) -> tuple[Finding, ...]:
    """What lets the units of this configuration start unchecked, also after it is applied."""
    openings = find_openings(host, gated_units(config))
    of_gate = [finding for finding in openings if finding.name == "gate-open"]
    return tuple(finding for finding in of_gate if finding.remedy not in {AGAIN, RELOAD})


def _of_files(host: Host, config: HostRoutingConfig, units: str) -> Iterator[Finding]:
    """Files that are missing or edited, and files in gate.d that are not ours; only these units run
    the gate.
    """
    files = host.files
    for finding in open_folders(files):  # gate.sh then runs no step
        effect = f", so {units} cannot start" if units else ""
        yield finding._replace(name="gate-shut", sentence=f"{finding.sentence}{effect}")
    for path in foreign_steps(files):
        yield _of_foreign_step(files, path, units, is_gated=bool(gated_units(config)))
    for name in files.names(HostLayout.gate_directory):
        if not name.endswith((".sh", ".sh.new")):  # the second is what a killed writer leaves
            path = f"{HostLayout.gate_directory}/{name}"
            yield Finding(
                "file",
                "note",
                f"{path} is not a step of the gate: the name of a step ends in .sh",
                path,
            )
    writer = writer_of(files)
    if writer != WRITER:
        sentence = (
            f"the files were written by {writer or 'an unknown release'}, but this is {WRITER}"
        )
        yield Finding("file", "note", sentence, HostLayout.config_path, AGAIN)
    vital = [HostLayout.gate_path]
    for step, (_, is_required) in steps_of(config):
        if is_required:
            vital.append(HostLayout.step_path(step))
    for file in files_of(config):
        held = units if file.path in vital else ""
        if not files.look(file.path):
            yield from _of_missing(file.path, held)
        else:
            yield from _of_file(files, file, held, is_current=writer == WRITER)


def _of_missing(path: str, units: str) -> Iterator[Finding]:
    """That a file of ours is missing, without which these units do not start."""
    if path.endswith(DROP_IN):  # see _of_unit
        return
    sentence = f"{path} is missing"
    if units:
        sentence += f", so {units} cannot start"
        yield Finding("gate-shut", "error", sentence, path, AGAIN)
    else:
        yield Finding("file", "error", sentence, path, AGAIN)


def _of_file(files: Files, file: File, units: str, *, is_current: bool) -> Iterator[Finding]:
    """What is wrong with one file of ours, which the gate runs before these units start. If another
    release wrote it, only that it is empty.
    """
    path = file.path
    why_not, _ = why_not_run(files, path)
    is_wrong = files.read(path) == ""
    if is_current:
        is_wrong = file.differs(files)
    if units and path != HostLayout.gate_path and why_not:
        sentence = f"{why_not}, so the gate does not run it, and {units} cannot start"
        yield Finding("gate-shut", "error", sentence, path, AGAIN)
    elif is_wrong:
        yield Finding("file", "error", f"{path} {_how_it_differs(files, file)}", path, AGAIN)


def _how_it_differs(files: Files, file: File) -> str:
    """What is wrong with a file that is there: it need not be this file that somebody edited."""
    if not file.target and files.read(file.path) == file.text:
        return "has another owner or mode"
    if file.path == HostLayout.config_path:
        return "was edited since it was applied"
    return f"is not what {HostLayout.config_path} asks for"


def _of_foreign_step(files: Files, path: str, units: str, *, is_gated: bool) -> Finding:
    """That units wait for a script of somebody else, or why the gate does not run it."""
    theirs = f"{path} was not installed by hostrouting"
    if not is_gated:
        sentence = f"{theirs}; no unit is gated, so nothing runs it"
        return Finding("file", "note", sentence, path)
    why_not, remedy = why_not_run(files, path)
    if why_not and units:
        sentence = f"{why_not}, so the gate does not run it, and {units} cannot start"
        return Finding("gate-shut", "error", sentence, path, remedy)
    if why_not:
        sentence = f"{why_not}, so the gate does not run it, and lets no unit pass"
        return Finding("file", "error", sentence, path, remedy)
    sentence = f"{theirs}: {units or 'a gated unit'} starts only after it succeeds"
    return Finding("file", "note", sentence, path)


def _of_opening(host: Host, units: Sequence[str]) -> Iterator[Finding]:
    """Whether no systemd runs, and whether a file opens the gate; the conditions are those of
    gate.sh.
    """
    if not units:
        return
    held = spoken(units)
    if host.running_manager is None:
        sentence = (
            f"systemd does not run here: nothing holds {held} back, and nothing sets the routes "
            "at boot"
        )
        remedy = Remedy("to prepare an image", "hostrouting render --config FILE --root DIR")
        yield Finding("gate-open", "warning", sentence, "systemd", remedy)
    path = HostLayout.opening_path
    entry = host.files.look(path)
    if entry is None or not host.files.look(HostLayout.gate_path):  # gate.sh reads the file
        return
    reason = ""
    # A file of root that only root can write, that root can read, and that is not a program.
    if entry == Entry("file", entry.mode & 0o644 | 0o400):
        reason = (host.files.read(path) or "").partition("\n")[0].strip()
    if reason:
        sentence = f"{path} lets {held} start unchecked until the next boot: {reason}"
        remedy = Remedy("to end this", f"rm {path}")
        yield Finding("gate-open", "warning", sentence, path, remedy)
        return
    sentence = (
        f"{path} is ignored: it must be a file that only root can write to, with a reason in it"
    )
    to_open = Remedy("to open the gate", f"echo REASON >{path} && chmod 644 {path}")
    remedy = Remedy(command=f"rm {path}", otherwise=to_open)
    yield Finding("file", "warning", sentence, path, remedy)


def _of_unit(host: Host, unit: str) -> Iterator[Finding]:
    """What systemd would do instead of running the gate; a cause that holds for all instances is
    named once.
    """
    path = HostLayout.drop_in_path(unit)
    manager = host.running_manager
    if not host.files.look(path):
        sentence = f"{path} is missing, so {unit} starts unchecked"
        yield Finding("gate-open", "error", sentence, path, AGAIN)
        return
    if manager is None:
        return
    shown = _shown(manager, host, unit)
    yield from _unread_resets(host.files, unit, shown[0])
    causes: set[str] = set()
    is_whole = host.files.read(path) == DROP_IN_TEXT
    for properties in shown:
        name = properties["Id"]
        if name == plain_instance(unit):
            name = unit
        for kind, cause, remedy in _causes(host.files, unit, properties, is_whole=is_whole):
            if cause not in causes:
                yield Finding(kind, "error", f"{name} {cause}", name, remedy)
            causes.add(cause)


def find_unread_resets(host: Host, unit: str) -> Iterator[Finding]:
    """The drop-ins that take the gate's ExecCondition= away as soon as systemd reads them."""
    manager = host.running_manager
    if manager is None:
        return
    [properties] = manager.show(_PROPERTIES, plain_instance(unit))
    yield from _unread_resets(host.files, unit, properties)


def _unread_resets(files: Files, unit: str, properties: Mapping[str, str]) -> Iterator[Finding]:
    is_checked = HostLayout.gate_path in properties["ExecCondition"]
    if not is_checked or properties["NeedDaemonReload"] != "yes":
        return
    for folder in _FOLDERS:
        for name in files.names(f"{folder}/{unit}.d"):
            path = f"{folder}/{unit}.d/{name}"
            if name <= DROP_IN or not name.endswith(".conf"):
                continue
            if _RESET.search(files.read(path) or ""):
                sentence = (
                    f"as soon as systemd reads its files, {unit} starts unchecked: {path} takes "
                    "the ExecCondition= of the gate away"
                )
                remedy = Remedy("delete its line ExecCondition= before anything reloads systemd")
                yield Finding("gate-open", "error", sentence, path, remedy)


def plain_instance(unit: str) -> str:
    """The unit; for a template, an instance without settings of its own."""
    return unit.replace("@.", "@hostrouting-probe.")


def _shown(manager: Manager, host: Host, unit: str) -> tuple[Mapping[str, str], ...]:
    """The properties of the unit; for a template, of an instance without settings of its own first,
    and of all that have drop-ins or are loaded.
    """
    before, at, after = unit.partition("@.")
    if not at:
        return manager.show(_PROPERTIES, unit)
    names = [plain_instance(unit)]
    for folder in host.files.names(HostLayout.unit_directory):
        is_instance = folder.startswith(f"{before}@") and folder.endswith(f".{after}.d")
        if is_instance and folder != f"{unit}.d":
            names.append(folder.removesuffix(".d"))
    return manager.show(_PROPERTIES, *names, f"{before}@*.{after}")


def _causes(
    files: Files, unit: str, properties: Mapping[str, str], *, is_whole: bool
) -> Iterator[tuple[Name, str, Remedy]]:
    """The name of a finding, a predicate to put after the unit's name, and the remedy; `is_whole`
    says whether our drop-in has its text.
    """
    if properties["LoadState"] in {"masked", "not-found"}:
        return
    ours = HostLayout.drop_in_path(unit)
    others = [path for path in properties["DropInPaths"].split() if path != ours]
    where = Remedy("see", f"systemctl cat {properties['Id']}", needs_root=False)
    if others:
        where = Remedy(f"see {', '.join(others)}")
    if HostLayout.gate_path not in properties["ExecCondition"]:
        cause, remedy = _why_unchecked(files, ours, others, properties, is_whole=is_whole)
        yield "gate-open", f"starts unchecked: {cause}", remedy or where
    statuses = properties["SuccessExitStatus"].split()
    if "255" in statuses:
        yield "gate-open", "has SuccessExitStatus=255, so it starts even if the gate refuses", where
    if "KILL" in statuses or "SIGKILL" in statuses:  # systemd prints the first, and reads both
        cause = "has SuccessExitStatus=SIGKILL, so it starts if something kills the gate"
        yield "gate-open", cause, where
    for name in _ROOTS:
        if properties[name]:
            cause = f"has {name}={properties[name]}, where this host's gate cannot run"
            yield "gate-shut", cause, Remedy(f"do not gate {unit}")


def _why_unchecked(
    files: Files, ours: str, others: Sequence[str], properties: Mapping[str, str], *, is_whole: bool
) -> tuple[str, Remedy | None]:
    """Why systemd does not run the gate, and the remedy, if it is not to look at the drop-ins."""
    same_name = [path for path in others if path.endswith(f"/{DROP_IN}")]
    if properties["NeedDaemonReload"] == "yes":
        return "systemd has not read the drop-in", RELOAD
    if not is_whole:
        return f"{ours} was overwritten", AGAIN
    if same_name:
        return f"{same_name[0]} overrides {ours}", Remedy(f"remove {same_name[0]}")
    resets = [path for path in others if _RESET.search(files.read(path) or "")]
    if resets:
        return f'the line "ExecCondition=" in {spoken(resets)} cancels the gate', _WITHOUT_LINE
    return "another drop-in takes the ExecCondition= of the gate away", None
