"""Whether systemd runs the gate when it starts a unit: what lets gated units start unchecked.

systemd is asked what it has loaded: an older text, a drop-in that overrides ours, or a setting that
counts a refusal as a success. And the drop-ins on the disk are looked at, because systemd reads
them sooner or later: at the next reload, at the next boot, or when the unit is loaded again.
Nothing is changed here.

Not judged: a unit with `RootDirectory=` or `RootImage=`, in which the gate cannot run. It does not
start. And a gate that a signal kills, where the unit has `SuccessExitStatus=SIGKILL` or the like;
in an image, any `SuccessExitStatus=`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from hostrouting.boot.units import GATE_MARK
from hostrouting.command import call
from hostrouting.errors import HostError
from hostrouting.finding import Finding, Remedy, worst_first
from hostrouting.gate.drop_ins import (
    CONDITION,
    RESET,
    drop_ins_of,
    instances_with_drop_ins,
    resets_after_ours,
)
from hostrouting.gate.unit_names import instance_pattern, is_template, plain_instance
from hostrouting.host.layout import DROP_IN, HostLayout
from hostrouting.text import command_of, spoken

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.host.base import Files
    from hostrouting.host.files import Entry
    from hostrouting.host.host import Host
    from hostrouting.host.systemd import Manager

_PROPERTIES = (
    "Id",
    "LoadState",
    "NeedDaemonReload",
    "ExecCondition",
    "SuccessExitStatus",
)
_NEVER_STARTS = {"masked", "not-found", "bad-setting", "error"}
"""The states of a unit that systemd does not start. It may become able to start, for example when
it is unmasked, so our drop-in has to be there all the same.
"""
_RUNS_GATE = re.compile(rf"(?m){CONDITION}.*{GATE_MARK}")
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
            if cause.kind in {"drop-in", "accepts-refusal"}:
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

    Where the gate is installed already, a run may still repair something else. So what is open
    there already is said by `judge_gates`, and here only what the reload of this run would open. In
    an image, everything is read at its boot.
    """
    is_image = host.backend is None
    for unit in units:
        is_new = not host.files.look(HostLayout.drop_in_path(unit))
        for instance, cause in _causes_of_unit(host, unit):
            is_opened_by_reload = cause.kind == "drop-in" and (cause.is_pending or is_image)
            # A setting of one instance hinders nothing: the others can be gated.
            accepts_refusals = cause.kind == "accepts-refusal" and instance == unit
            if is_opened_by_reload or (accepts_refusals and is_new):
                yield cause.finding(instance)


def _find_what_opens_all(host: Host, units: Sequence[str]) -> Iterator[Finding]:
    """What opens the gates of all units: that no systemd runs, or the file of an administrator."""
    if not units:
        return
    if host.running_manager is None:
        sentence = (
            f"systemd does not run here: nothing holds {spoken(units)} back, and nothing sets the "
            "routes at boot"
        )
        remedy = Remedy("to prepare an image, see", call("render --help"), needs_root=False)
        yield Finding("gate-open", "warning", sentence, "systemd", remedy)
    yield from _find_opening(host.files, units)


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
    for each known instance. Where no systemd runs, the drop-ins tell them.
    """
    files = host.files
    manager = host.running_manager
    if manager is not None:
        for properties in _properties_of(manager, files, unit):
            yield properties["Id"], [*_causes_of_instance(files, unit, properties)]
        return
    names = [unit]
    if is_template(unit):
        names += instances_with_drop_ins(files, unit)
    for name in names:
        yield name, [*_causes_on_the_disk(files, unit, name)]


def _properties_of(manager: Manager, files: Files, unit: str) -> tuple[Mapping[str, str], ...]:
    """The properties of the unit. For a template: first those of an instance without settings of
    its own, then those of each instance that has drop-ins, and of each that is loaded. One that has
    drop-ins and is loaded is there twice.
    """
    if not is_template(unit):
        return manager.show(_PROPERTIES, unit)
    known = instances_with_drop_ins(files, unit)
    return manager.show(_PROPERTIES, plain_instance(unit), *known, instance_pattern(unit))


def _causes_of_instance(files: Files, unit: str, properties: Mapping[str, str]) -> Iterator[_Cause]:
    """Why the gate of this unit, or of this instance of it, is open, or would be after a reload.

    If systemd runs the gate and has nothing to reload, what it has read is what is on the disk. (It
    goes by times, so an edit that keeps an old time, as by `cp -p`, is not seen.)
    """
    if properties["LoadState"] in _NEVER_STARTS:
        yield from _causes_on_the_disk(files, unit, properties["Id"])
        return
    # Not judged: whether systemd ignores a failure of the gate (ExecCondition=-...).
    if GATE_MARK not in properties["ExecCondition"]:
        yield from _why_not_loaded(files, unit, properties)
    elif properties["NeedDaemonReload"] == "yes":
        for cause in (
            *_faults_of_our_drop_in(files, unit),
            *_drop_ins_against_ours(files, unit, properties["Id"]),
        ):
            yield cause._replace(is_pending=True)
    if _REFUSAL in properties["SuccessExitStatus"].split():
        predicate = f"has SuccessExitStatus={_REFUSAL}, so it starts even if the gate refuses"
        yield _Cause("accepts-refusal", predicate, _see_files(unit, properties))


def _why_not_loaded(files: Files, unit: str, properties: Mapping[str, str]) -> Iterator[_Cause]:
    """Why systemd does not run the gate now."""
    on_the_disk = [*_causes_on_the_disk(files, unit, properties["Id"])]
    yield from on_the_disk
    if on_the_disk:
        return
    if properties["NeedDaemonReload"] == "yes":
        yield _Cause("outdated", "starts unchecked: systemd still uses the old files", RELOAD)
        return
    predicate = "starts unchecked: another drop-in takes the ExecCondition= of the gate away"
    yield _Cause("drop-in", predicate, _see_files(unit, properties))


def _causes_on_the_disk(files: Files, unit: str, name: str) -> Iterator[_Cause]:
    """Why the drop-ins on the disk do not run the gate. While ours is missing, there is nothing yet
    that the others could override: they will when `apply` has written it. Where ours was
    overwritten, they stand beside it already. The name is that of the unit or, for a template, of
    one of its instances.
    """
    ours = [*_faults_of_our_drop_in(files, unit)]
    yield from ours
    is_missing = any(cause.kind == "missing" for cause in ours)
    for cause in _drop_ins_against_ours(files, unit, name):
        yield cause._replace(is_pending=is_missing)


def _faults_of_our_drop_in(files: Files, unit: str) -> Iterator[_Cause]:
    """That our drop-in is missing, or does not run the gate."""
    ours = HostLayout.drop_in_path(unit)
    if not files.look(ours):
        yield _Cause("missing", f"starts unchecked: {ours} is missing", APPLY)
    elif not _runs_gate(files, ours):
        yield _Cause("outdated", f"starts unchecked: {ours} was overwritten", APPLY)


def _runs_gate(files: Files, drop_in: str) -> bool:
    entry = files.look(drop_in)
    if entry is None or entry.kind != "file":  # which `read` would follow or refuse
        return False
    return _RUNS_GATE.search(files.read(drop_in) or "") is not None


def _drop_ins_against_ours(files: Files, unit: str, name: str) -> Iterator[_Cause]:
    """The drop-ins on the disk that take the gate away. If the gated unit is an alias, the name is
    another one (Id): the drop-ins in its folder are compared with ours by their file names.
    """
    ours = HostLayout.drop_in_path(unit)
    drop_ins = drop_ins_of(files, name)
    for path in drop_ins:
        if path.endswith(f"/{DROP_IN}") and path != ours and not _runs_gate(files, path):
            predicate = f"starts unchecked: {path} overrides {ours}"
            yield _Cause("drop-in", predicate, Remedy(f"remove {path}"))
    for path in resets_after_ours(files, drop_ins):
        predicate = f'starts unchecked: the line "ExecCondition=" in {path} cancels the gate'
        yield _Cause("drop-in", predicate, _without_reset(path))


def _without_reset(path: str) -> Remedy:
    """How to delete the line of this drop-in that cancels the gate."""
    delete = f"sed -i '/{RESET}/d' {shlex.quote(path)}"
    return Remedy(
        "to delete that line (its program may write it again)", f"{delete} && {RELOAD.command}"
    )


def _see_files(unit: str, properties: Mapping[str, str]) -> Remedy:
    """Where to look for a setting: in all files of the unit, or of an instance of it."""
    name = properties["Id"]
    if name == plain_instance(unit):
        name = unit
    return Remedy("see", command_of("systemctl cat", name), needs_root=False)
