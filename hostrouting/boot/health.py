"""Whether the gate is in force: what lets gated units start unchecked, and what keeps them from
starting.

Files are compared with what the installed configuration asks for, and systemd is asked what it
would really run: it may have loaded an older text, another drop-in may override ours, and a unit
may count a refusal as a success. Nothing is changed here; `install` repairs the gate.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.boot.files import WRITER, files_of, steps_of
from hostrouting.boot.on_disk import (
    drop_ins_of,
    foreign_steps,
    instances_with_drop_ins,
    open_folders,
    text_at,
    why_not_run,
    writer_of,
)
from hostrouting.boot.unit_names import is_template, loaded_pattern, plain_instance
from hostrouting.boot.units import DROP_IN as DROP_IN_TEXT
from hostrouting.config.settings import HostRoutingConfig, gated_units
from hostrouting.errors import HostError
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
_NOT_LOADED = {"masked", "not-found", "bad-setting", "error"}
"""The states of a unit that systemd does not start, whatever its drop-ins say."""
_RESET = re.compile(r"(?m)^\s*ExecCondition\s*=\s*$")
"""An empty value resets the list, so no ExecCondition= of an earlier file is left."""
AGAIN = Remedy(command=f"hostrouting apply --config {HostLayout.config_path}")
"""The remedy where files are not as the installed configuration asks."""
RELOAD = Remedy(command="systemctl daemon-reload")
"""The remedy where systemd has not read its files as they are now."""
_WITHOUT_LINK = AGAIN._replace(words="remove the link; then")
_WITHOUT_LINE = RELOAD._replace(words="delete that line, not the file; then")


def find_faults(host: Host, config: HostRoutingConfig) -> tuple[Finding, ...]:
    """What is wrong with the gate of this configuration, which is the installed one. Nothing is
    changed.
    """
    units = gated_units(config)
    openings = [*_of_opening(host, units)]
    of_units: list[Finding] = []
    held: list[str] = []
    for unit in units:
        of_unit = [*openings, *_of_unit(host, unit)]
        of_units += of_unit
        if all(fault.name != "gate-open" for fault in of_unit):
            held.append(unit)
    return worst_first((*_of_files(host, config, held=spoken(held)), *of_units))


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


def _of_files(host: Host, config: HostRoutingConfig, *, held: str) -> Iterator[Finding]:
    """Files that are missing or edited, and files in gate.d that are not ours. `held` names the
    units that run the gate, in a sentence.
    """
    files = host.files
    for finding in open_folders(files):  # gate.sh then runs no step
        effect = f", so {held} cannot start" if held else ""
        yield finding._replace(name="gate-shut", sentence=f"{finding.sentence}{effect}")
    for path in foreign_steps(files):
        yield _of_foreign_step(files, path, held, is_gated=bool(gated_units(config)))
    for name in files.names(HostLayout.gate_directory):
        why_no_step = ""
        if not name.endswith((".sh", ".sh.new")):  # the second is what a killed writer leaves
            why_no_step = "the name of a step ends in .sh"
        elif name.startswith("."):
            why_no_step = "the name of a step does not begin with a dot"
        if why_no_step:
            path = f"{HostLayout.gate_directory}/{name}"
            sentence = f"{path} is not a step of the gate: {why_no_step}"
            yield Finding("file", "note", sentence, path)
    writer = writer_of(files)
    if writer != WRITER:
        sentence = (
            f"the files were written by {writer or 'an unknown release'}, but this is {WRITER}"
        )
        yield Finding("file", "note", sentence, HostLayout.config_path, AGAIN)
    required = [step.file.path for step in steps_of(config) if step.is_required]
    vital = [HostLayout.gate_path, *required]
    for file in files_of(config):
        stopped = held if file.path in vital else ""
        if not files.look(file.path):
            yield from _of_missing(file.path, stopped)
        else:
            yield from _of_file(files, file, stopped, is_current=writer == WRITER)


def _of_missing(path: str, stopped: str) -> Iterator[Finding]:
    """That a file of ours is missing; `stopped` names the units that do not start without it."""
    if path.endswith(DROP_IN):  # see _of_unit
        return
    yield _unusable(path, "is missing", stopped, AGAIN)


def _unusable(path: str, why: str, stopped: str, remedy: Remedy) -> Finding:
    """That a file of ours cannot be used, and which units do not start without it."""
    if stopped:
        sentence = f"{path} {why}, so {stopped} cannot start"
        return Finding("gate-shut", "error", sentence, path, remedy)
    return Finding("file", "error", f"{path} {why}", path, remedy)


def _of_file(files: Files, file: File, stopped: str, *, is_current: bool) -> Iterator[Finding]:
    """What is wrong with one file of ours; `stopped` names the units that do not start if the gate
    does not run it. If another release wrote it, only that it is empty, or not a file.
    """
    path = file.path
    if _is_folder(files, path):
        why = "is a directory, where a file of hostrouting has to be"
        yield _unusable(path, why, stopped, Remedy("move it away"))
        return
    remedy = AGAIN
    if _is_wrong_link(files, file):
        remedy = _WITHOUT_LINK
    if stopped and path != HostLayout.gate_path:
        why_not, _ = why_not_run(files, path)
        if why_not:
            sentence = f"{why_not}, so the gate does not run it, and {stopped} cannot start"
            yield Finding("gate-shut", "error", sentence, path, remedy)
            return
    is_wrong = files.read(path) == ""
    if is_current:
        is_wrong = file.differs(files)
    if is_wrong:
        yield Finding("file", "error", f"{path} {_how_it_differs(files, file)}", path, remedy)


def _is_wrong_link(files: Files, file: File) -> bool:
    """Whether a link is in the place of a file."""
    entry = files.look(file.path)
    return entry is not None and entry.kind == "link" and not file.target


def _is_folder(files: Files, path: str) -> bool:
    entry = files.look(path)
    return entry is not None and entry.kind == "directory"


def _how_it_differs(files: Files, file: File) -> str:
    """What is wrong with a file that is there: it need not be this file that somebody edited."""
    if _is_wrong_link(files, file):
        return "is a link, and not a file"
    if not file.target and files.read(file.path) == file.text:
        return "has another owner or mode"
    if file.path == HostLayout.config_path:
        return "was edited since it was applied"
    return f"is not what {HostLayout.config_path} asks for"


def _of_foreign_step(files: Files, path: str, held: str, *, is_gated: bool) -> Finding:
    """That units wait for a script of somebody else, or why the gate does not run it; `held` as in
    _of_files.
    """
    theirs = f"{path} was not installed by hostrouting"
    if not is_gated:
        sentence = f"{theirs}; no unit is gated, so nothing runs it"
        return Finding("file", "note", sentence, path)
    why_not, remedy = why_not_run(files, path)
    if why_not and held:
        sentence = f"{why_not}, so the gate does not run it, and {held} cannot start"
        return Finding("gate-shut", "error", sentence, path, remedy)
    if why_not:
        sentence = f"{why_not}, so the gate does not run it, and lets no unit pass"
        return Finding("file", "error", sentence, path, remedy)
    sentence = f"{theirs}: {held or 'a gated unit'} starts only after it succeeds"
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
        reason = "why is written in it, and only root can read that"
        with suppress(HostError):
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
    """What systemd would do instead of running the gate. Of a template, what holds for all of its
    instances is said once.
    """
    files, manager = host.files, host.running_manager
    path = HostLayout.drop_in_path(unit)
    if not files.look(path):
        sentence = f"{path} is missing, so {unit} starts unchecked"
        yield Finding("gate-open", "error", sentence, path, AGAIN)
        return
    if manager is None:
        return
    plain, *instances = _shown(manager, files, unit)
    if plain["NeedDaemonReload"] == "yes" and HostLayout.gate_path in plain["ExecCondition"]:
        yield from _unread_resets(files, unit)
    of_all = [*_causes(files, unit, plain)]
    for cause in of_all:
        yield cause.finding(unit)
    for properties in instances:
        for cause in _causes(files, unit, properties):
            if cause.predicate not in {known.predicate for known in of_all}:
                yield cause.finding(properties["Id"])


def _shown(manager: Manager, files: Files, unit: str) -> tuple[Mapping[str, str], ...]:
    """The properties of the unit; for a template, of an instance without settings of its own first,
    and of all that have drop-ins or are loaded.
    """
    if not is_template(unit):
        return manager.show(_PROPERTIES, unit)
    known = instances_with_drop_ins(files, unit)
    return manager.show(_PROPERTIES, plain_instance(unit), *known, loaded_pattern(unit))


def find_ineffective_gates(host: Host, units: Sequence[str]) -> Iterator[Finding]:
    """Why the gate of these units would not work, once systemd has read the drop-in that a run
    writes: other files let the unit start unchecked, or the gate cannot run.

    What systemd has read already is not said here, but by find_openings: a run may still repair
    something else.
    """
    manager = host.running_manager
    if manager is None or not units:
        return
    shown = manager.show(_PROPERTIES, *map(plain_instance, units))
    for unit, properties in zip(units, shown, strict=True):
        if properties["LoadState"] in _NOT_LOADED:
            continue
        causes = [*_of_roots(unit, properties)]
        is_new = not host.files.look(HostLayout.drop_in_path(unit))
        if is_new:
            causes += _of_statuses(unit, properties)
        for cause in causes:
            yield cause.finding(unit)
        if is_new or properties["NeedDaemonReload"] == "yes":
            yield from _unread_resets(host.files, unit)


def _unread_resets(files: Files, unit: str) -> Iterator[Finding]:
    """The drop-ins that take the gate's ExecCondition= away as soon as systemd reads them, also
    those of an instance. A condition that comes after the empty one is not judged.
    """
    known: set[str] = set()
    for name in (unit, *instances_with_drop_ins(files, unit)):
        for path in _resets(files, drop_ins_of(files, name)):
            if path in known:
                continue
            known.add(path)
            sentence = (
                f"as soon as systemd reads its files, {name} starts unchecked: {path} takes the "
                "ExecCondition= of the gate away"
            )
            remedy = Remedy("delete its line ExecCondition= before anything reloads systemd")
            yield Finding("gate-open", "error", sentence, path, remedy)


def _resets(files: Files, drop_ins: Iterable[str]) -> list[str]:
    """Those of these drop-ins that have an empty ExecCondition= and come after ours."""
    resets: list[str] = []
    for path in drop_ins:
        if path.rpartition("/")[2] <= DROP_IN:
            continue
        with suppress(HostError):  # systemd cannot read it either
            if _RESET.search(files.read(path) or ""):
                resets.append(path)
    return resets


class _Cause(NamedTuple):
    """Why the gate of a unit is open or shut."""

    name: Name
    predicate: str
    """What follows the name of the unit in the sentence."""
    remedy: Remedy

    def finding(self, unit: str) -> Finding:
        return Finding(self.name, "error", f"{unit} {self.predicate}", unit, self.remedy)


def _causes(files: Files, unit: str, properties: Mapping[str, str]) -> Iterator[_Cause]:
    """Why the gate of this unit, or of this instance of it, is open or shut as systemd has read its
    files.
    """
    if properties["LoadState"] in _NOT_LOADED:
        return
    if HostLayout.gate_path not in properties["ExecCondition"]:
        yield _why_unchecked(files, unit, properties)
    yield from _of_statuses(unit, properties)
    yield from _of_roots(unit, properties)


def _of_statuses(unit: str, properties: Mapping[str, str]) -> Iterator[_Cause]:
    """That a refusal of the gate counts as a success."""
    where = _where(unit, properties)
    statuses = properties["SuccessExitStatus"].split()
    if "255" in statuses:
        predicate = "has SuccessExitStatus=255, so it starts even if the gate refuses"
        yield _Cause("gate-open", predicate, where)
    if "KILL" in statuses or "SIGKILL" in statuses:  # systemd prints the first, and reads both
        predicate = "has SuccessExitStatus=SIGKILL, so it starts if something kills the gate"
        yield _Cause("gate-open", predicate, where)


def _of_roots(unit: str, properties: Mapping[str, str]) -> Iterator[_Cause]:
    """That the unit has another root folder than this host."""
    for name in _ROOTS:
        if properties[name]:
            predicate = f"has {name}={properties[name]}, where this host's gate cannot run"
            yield _Cause("gate-shut", predicate, Remedy(f"do not gate {unit}"))


def _why_unchecked(files: Files, unit: str, properties: Mapping[str, str]) -> _Cause:
    """Why systemd does not run the gate."""
    ours = HostLayout.drop_in_path(unit)
    others = _other_drop_ins(unit, properties)
    same_name = [path for path in others if path.endswith(f"/{DROP_IN}") and files.look(path)]
    resets = _resets(files, others)
    # What is still so after a reload comes first.
    if text_at(files, ours) != DROP_IN_TEXT:
        why, remedy = f"{ours} was overwritten", AGAIN
    elif same_name:
        why, remedy = f"{same_name[0]} overrides {ours}", Remedy(f"remove {same_name[0]}")
    elif resets:
        why, remedy = (
            f'the line "ExecCondition=" in {spoken(resets)} cancels the gate',
            _WITHOUT_LINE,
        )
    elif properties["NeedDaemonReload"] == "yes":
        why, remedy = "systemd still uses the old files", RELOAD
    else:
        why = "another drop-in takes the ExecCondition= of the gate away"
        remedy = _where(unit, properties)
    return _Cause("gate-open", f"starts unchecked: {why}", remedy)


def _where(unit: str, properties: Mapping[str, str]) -> Remedy:
    """Where to look for a setting of the unit."""
    others = _other_drop_ins(unit, properties)
    if others:
        return Remedy(f"see {', '.join(others)}")
    return Remedy("see", f"systemctl cat {properties['Id']}", needs_root=False)


def _other_drop_ins(unit: str, properties: Mapping[str, str]) -> list[str]:
    """The drop-ins of the unit but ours."""
    ours = HostLayout.drop_in_path(unit)
    return [path for path in properties["DropInPaths"].split() if path != ours]
