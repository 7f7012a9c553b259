"""Whether systemd runs the gate when it starts a unit: what lets gated units start unchecked.

systemd is asked what it has loaded. A gate is open if that is an older text, if another program's
drop-in takes ours away, or if a setting counts a refusal as a success. Of the files on the disk,
only our own drop-in is looked at. Nothing is changed here.

Not judged: other drop-ins that systemd has not read yet, so also those in an image, and those of
instances that are not loaded; a condition that comes after an empty one; whether systemd ignores a
failure of the gate (`ExecCondition=-`). A unit with `RootDirectory=` or `RootImage=`, in which the
gate cannot run: it does not start. And a gate that a signal kills, where the unit has
`SuccessExitStatus=SIGKILL` or the like; in an image, any `SuccessExitStatus=`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from hostrouting.boot.units import GATE_MARK
from hostrouting.command import call
from hostrouting.errors import HostError
from hostrouting.finding import Finding, Remedy, worst_first
from hostrouting.gate.unit_names import instance_pattern, is_template, plain_instance
from hostrouting.host.fileset import is_ours
from hostrouting.host.layout import DROP_IN, HostLayout
from hostrouting.text import command_of, spoken

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.host.base import Files
    from hostrouting.host.files import Entry
    from hostrouting.host.host import Host

_PROPERTIES = (
    "Id",
    "LoadState",
    "NeedDaemonReload",
    "ExecCondition",
    "SuccessExitStatus",
    "DropInPaths",
)
_NEVER_STARTS = {"masked", "not-found", "bad-setting", "error"}
"""The states of a unit that systemd does not start. It may become able to start, for example when
it is unmasked, so our drop-in has to be there all the same.
"""
_CONDITION = r"^\s*ExecCondition\s*="
"""How the line of a condition begins, for Python and for sed; systemd allows these spaces."""
_RESET = rf"{_CONDITION}\s*$"
"""An empty value resets the list, so no ExecCondition= of an earlier file is left."""
_RUNS_GATE = re.compile(rf"(?m){_CONDITION}.*{GATE_MARK}")
_REFUSAL = "255"
"""The exit status of a gate that refuses a start; `boot.units` says why it is this one."""
_BLANKS = " \t\r\v\f"
"""What a shell takes for space in the C locale, which the gate has."""
APPLY = Remedy(command=call(f"apply --config {HostLayout.config_path}"))
"""The remedy where files are not as the installed configuration asks."""
RELOAD = Remedy(command="systemctl daemon-reload")
"""The remedy where systemd has not read its files as they are now."""

_Kind: TypeAlias = Literal["missing", "outdated", "drop-in", "accepts-refusal"]
"""The next apply mends "missing" and "outdated": it writes our drop-in, and has systemd read it. It
does not mend "drop-in" (another program's drop-in undoes ours) and "accepts-refusal" (a refusal
counts as a success, by `SuccessExitStatus=`).
"""
_LASTING = {"drop-in", "accepts-refusal"}


class _Cause(NamedTuple):
    """Why the gate of a unit, or of one instance of it, is open."""

    kind: _Kind
    predicate: str
    """What follows the name of the unit in the sentence."""
    remedy: Remedy
    is_pending: bool = False
    """Whether this takes effect only when systemd reads its files."""

    def finding(self, unit: str) -> Finding:
        sentence = f"{unit} {self.predicate}"
        if self.is_pending:
            sentence = f"as soon as systemd reads its files, {sentence}"
        return Finding("gate-open", "error", sentence, unit, self.remedy)


class UnitGates(NamedTuple):
    """What systemd makes of the gates of some units."""

    findings: tuple[Finding, ...]
    """Why gates are open, or why an opening is ignored; the worst first, and each once."""
    lasting: tuple[Finding, ...]
    """Those of them that let units start unchecked also after an apply of this configuration."""
    held: tuple[str, ...]
    """The units that are not open: they start only if the gate lets them."""


def judge_gates(host: Host, units: Sequence[str]) -> UnitGates:
    """What there is to say about the gates of these units, which are gated."""
    findings = [*_find_what_opens_all(host, units)]
    # An opening that the gate ignores is there as "file", and opens nothing.
    lasting = [finding for finding in findings if finding.name == "gate-open"]
    opened: set[str] = set()
    if lasting:
        opened.update(units)
    for unit in units:
        for name, cause in _causes_of_unit(host, unit):
            opened.add(unit)
            finding = cause.finding(name)
            findings.append(finding)
            if cause.kind in _LASTING:
                lasting.append(finding)
    held = tuple(unit for unit in units if unit not in opened)
    return UnitGates(worst_first(findings), worst_first(lasting), held)


def starts_unchecked(
    config: HostRoutingConfig, findings: Iterable[Finding], ignored: Collection[str] = ()
) -> bool:
    """Whether, in mode STRICT, a unit starts unchecked that nobody has let start on purpose. Where
    an administrator has opened the gate, the finding is a warning.
    """
    if "gate-open" in ignored or not config.route_overlap.is_strict:
        return False
    return any(finding.name == "gate-open" and finding.severity == "error" for finding in findings)


def find_ineffective_gates(host: Host, units: Sequence[str]) -> Iterator[Finding]:
    """Why the gate of these units would not work, once systemd has read the drop-in that a run
    writes.

    Where the gate is installed already, a run may still repair something else, and `judge_gates`
    says what is open. And what is wrong with one instance hinders nothing: the others can be gated.
    """
    for unit in units:
        if host.files.look(HostLayout.drop_in_path(unit)):
            continue
        for name, cause in _causes_of_unit(host, unit):
            if name == unit and cause.kind in _LASTING:
                yield cause.finding(name)


def _find_what_opens_all(host: Host, units: Sequence[str]) -> Iterator[Finding]:
    """What opens the gates of all units: that no systemd runs, or the file of an administrator."""
    if not units:
        return
    if host.running_manager is None:
        yield systemd_does_not_run(units)
    yield from _find_opening(host.files, units)


def systemd_does_not_run(units: Sequence[str]) -> Finding:
    """The warning that without a systemd, these units are not held back."""
    sentence = (
        f"systemd does not run here: nothing holds {spoken(units)} back, and nothing sets the "
        "routes at boot"
    )
    remedy = Remedy("to prepare an image, see", call("render --help"), needs_root=False)
    return Finding("gate-open", "warning", sentence, "systemd", remedy)


def _find_opening(files: Files, units: Sequence[str]) -> Iterator[Finding]:
    """The file by which an administrator has opened the gates of these units, or why the gate
    ignores it.
    """
    path = HostLayout.opening_path
    entry = files.look(path)
    if entry is None:
        return
    reason = _reason_to_open(files, entry)
    if reason:
        sentence = f"{path} lets {spoken(units)} start unchecked until the next boot: {reason}"
        remedy = Remedy("to end this", f"rm {path}")
        yield Finding("gate-open", "warning", sentence, path, remedy)
        return
    sentence = (
        f"{path} is ignored: it must be a file that only root can write to, with a reason in it"
    )
    to_open = Remedy("to open the gate", HostLayout.opening_command)
    remedy = Remedy(command=f"rm {path}", otherwise=to_open)
    yield Finding("file", "warning", sentence, path, remedy)


def _reason_to_open(files: Files, entry: Entry) -> str:
    """The reason in the file that opens the gate. Empty if the gate does not accept the file: it
    has to be a file of root that root can read, only root can write, and nobody can execute, with
    the reason in its first line. One test holds both to the same cases.
    """
    is_readable = bool(entry.mode & 0o400)
    has_more = bool(entry.mode & ~0o644)
    if entry.kind != "file" or not entry.is_trusted or not is_readable or has_more:
        return ""
    try:
        text = files.read(HostLayout.opening_path) or ""
    except HostError:
        return "why is written in it, and only root can read that"
    return text.partition("\n")[0].strip(_BLANKS)


def _causes_of_unit(host: Host, unit: str) -> Iterator[tuple[str, _Cause]]:
    """Why the gate of this unit is open, each with the name of the unit. Of a template, what holds
    for all instances has the template's name, and the rest an instance's.
    """
    (_, of_all), *of_instances = _causes_by_name(host, unit)
    for cause in of_all:
        yield unit, cause
    # The same words are the same cause, even if it takes effect only later for one instance, and
    # even if the remedy names the instance.
    known = {cause.predicate for cause in of_all}
    for name, causes in of_instances:
        for cause in causes:
            if cause.predicate not in known:
                yield name, cause


def _causes_by_name(host: Host, unit: str) -> Iterator[tuple[str, list[_Cause]]]:
    """First the causes for the unit, or for an instance without settings of its own; then those
    for each instance that is loaded.
    """
    manager = host.running_manager
    if manager is None:
        yield unit, [*_faults_of_our_drop_in(host.files, unit)]
        return
    names = [plain_instance(unit)]
    if is_template(unit):
        names.append(instance_pattern(unit))
    for properties in manager.show(_PROPERTIES, *names):
        yield properties["Id"], [*_causes_of_instance(host.files, unit, properties)]


def _causes_of_instance(files: Files, unit: str, properties: Mapping[str, str]) -> Iterator[_Cause]:
    """Why the gate of this unit, or of this instance of it, is open, or would be after a reload.

    If systemd runs the gate and has nothing to reload, what it has read is what is on the disk. (It
    goes by times, so an edit that keeps an old time, as by `cp -p`, is not seen.)
    """
    if properties["LoadState"] in _NEVER_STARTS:
        yield from _faults_of_our_drop_in(files, unit)
        return
    if GATE_MARK not in properties["ExecCondition"]:
        yield from _why_not_loaded(files, unit, properties)
    elif properties["NeedDaemonReload"] == "yes":
        for cause in _faults_of_our_drop_in(files, unit):
            yield cause._replace(is_pending=True)
    if _REFUSAL in properties["SuccessExitStatus"].split():
        predicate = f"has SuccessExitStatus={_REFUSAL}, so it starts even if the gate refuses"
        yield _Cause("accepts-refusal", predicate, _see_files(unit, properties))


def _why_not_loaded(files: Files, unit: str, properties: Mapping[str, str]) -> Iterator[_Cause]:
    """Why systemd does not run the gate now. While our drop-in is missing, there is nothing yet
    that others could take away: they will when `apply` has written it. Where ours was overwritten,
    they stand beside it already.
    """
    ours = [*_faults_of_our_drop_in(files, unit)]
    against_ours = [*_drop_ins_against_ours(files, unit, properties["DropInPaths"].split())]
    is_missing = any(cause.kind == "missing" for cause in ours)
    yield from ours
    for cause in against_ours:
        yield cause._replace(is_pending=is_missing)
    if ours or against_ours:
        return
    if properties["NeedDaemonReload"] == "yes":
        yield _Cause("outdated", "starts unchecked: systemd still uses the old files", RELOAD)
        return
    predicate = "starts unchecked: another drop-in takes the ExecCondition= of the gate away"
    yield _Cause("drop-in", predicate, _see_files(unit, properties))


def _faults_of_our_drop_in(files: Files, unit: str) -> Iterator[_Cause]:
    """That our drop-in is missing, or does not run the gate."""
    ours = HostLayout.drop_in_path(unit)
    entry = files.look(ours)
    if entry is None:
        yield _Cause("missing", f"starts unchecked: {ours} is missing", APPLY)
    elif not _runs_gate(files, ours, entry):
        remedy = APPLY
        if not is_ours(files, ours):  # `apply` does not replace another program's file
            remedy = Remedy("move that file away")
        yield _Cause("outdated", f"starts unchecked: {ours} was overwritten", remedy)


def _runs_gate(files: Files, drop_in: str, entry: Entry) -> bool:
    if entry.kind != "file":  # which `read` would follow or refuse
        return False
    return _RUNS_GATE.search(files.read(drop_in) or "") is not None


def _drop_ins_against_ours(files: Files, unit: str, drop_ins: Iterable[str]) -> Iterator[_Cause]:
    """Those of these drop-ins, which systemd has read for the unit or for an instance of it, that
    take the gate away: by the name of ours, or by an empty ExecCondition= that comes after ours.
    One that has gone since takes nothing away any more.
    """
    ours = HostLayout.drop_in_path(unit)
    for path in drop_ins:
        entry = files.look(path)
        if entry is None:
            continue
        name = path.rpartition("/")[2]
        if name == DROP_IN and path != ours and not _runs_gate(files, path, entry):
            predicate = f"starts unchecked: {path} overrides {ours}"
            yield _Cause("drop-in", predicate, Remedy(f"remove {path}"))
        elif name > DROP_IN and _has_reset(files, path):
            predicate = f'starts unchecked: the line "ExecCondition=" in {path} cancels the gate'
            yield _Cause("drop-in", predicate, _without_reset(path))


def _has_reset(files: Files, path: str) -> bool:
    """Whether this drop-in has an empty ExecCondition=. Another user than root may not read it."""
    with suppress(HostError):
        return re.search(_RESET, files.read(path) or "", re.MULTILINE) is not None
    return False


def _without_reset(path: str) -> Remedy:
    """How to delete the line of this drop-in that cancels the gate."""
    delete = f"sed -i '/{_RESET}/d' {shlex.quote(path)}"
    return Remedy(
        "to delete that line (its program may write it again)", f"{delete} && {RELOAD.command}"
    )


def _see_files(unit: str, properties: Mapping[str, str]) -> Remedy:
    """Where to look for a setting: in all files of the unit, or of an instance of it."""
    name = properties["Id"]
    if name == plain_instance(unit):
        name = unit
    return Remedy("see", command_of("systemctl cat", name), needs_root=False)
