"""What lets gated units start unchecked although the gate's files exist, and what prevents every start.

Here: the checks, the sentence for each finding, and the openings. With an opening, an administrator lets a unit start
unchecked until a certain time. Not here: changing anything (`gate`), and what a start does with the file of the
openings, in host-routing-gate.sh; a test runs both on the same files.

That a file exists does not prove much: it may have been edited, systemd may have loaded an older text of it, another
drop-in may remove our command, and a setting of our unit may let it succeed without running the script. So each file is
compared with what was written, and systemd is asked what it would run.

An opening has an absolute end, so it ends by itself, also over a reboot. If the clock was set back, the file is newer
than the clock and does not open the gate. A clock that is ahead ends an opening early. If the clock stands still while
the host is off, the time that is left is counted from the boot.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING, NamedTuple

import attrs

from hostrouting.boot.gate import Gate, pattern_of, unseen
from hostrouting.boot.gate_files import parse_gate_steps
from hostrouting.errors import FileError
from hostrouting.finding import Finding, worst_first
from hostrouting.host.layout import DROP_IN, HostLayout
from hostrouting.host.systemd import Manager, find_ungated
from hostrouting.text import spoken
from phases.text import moment_as_text

if TYPE_CHECKING:
    from hostrouting.host.fileset import File
    from hostrouting.host.host import Host

ALL = "all"
"""In place of a unit: each gated unit."""


class Opening(NamedTuple):
    """One unit, or all, that may start unchecked for a time."""

    until: int
    """In seconds since 1970."""
    unit: str
    who: str
    why: str

    def __str__(self) -> str:
        return f"{self.until} {self.unit} {self.who} {self.why}"

    @property
    def finding(self) -> Finding:
        """The finding that the gate is open."""
        whose = "each gated unit" if self.unit == ALL else self.unit
        moment = moment_as_text(datetime.fromtimestamp(self.until, timezone.utc))
        told = f"{whose} may start unchecked until {moment}; {self.who} opened the gate: {self.why}"
        end = "hostrouting gate --close" + ("" if self.unit == ALL else f" --unit {self.unit}")
        facts = {"unit": self.unit, "until": self.until}
        return Finding("gate-open", "warning", told, self.unit, f"to end this, run as root: {end}", facts)


def render_openings(openings: Iterable[Opening]) -> str:
    """The text of the file."""
    return "".join(f"{opening}\n" for opening in openings)


def parse_openings(text: str) -> tuple[Opening, ...]:
    """The openings in the file. If a line is not an opening, ValueError with that line: then none counts."""
    found = []
    for line in text.removesuffix("\n").split("\n") if text else ():
        until, unit, who, why = (*line.split(" ", 3), "", "", "", "")[:4]
        if not (until.isascii() and until.isdigit() and len(until) <= 11 and unit and who and why):
            raise ValueError(f"the line {line!r} does not have the form UNTIL UNIT WHO WHY")
        found.append(Opening(int(until), unit, who, why))
    return tuple(found)


def openings_in_force(host: Host, now: datetime) -> tuple[Opening, ...]:
    """The openings that have not ended.

    FileError if the file cannot be read; ValueError if it does not open the gate for another reason.
    """
    path, files = host.layout.opening_path, host.files
    if not files.is_there(path):
        return ()
    if not files.is_protected(path):
        files.read(path)  # a fifo, a folder or a device is another fault
        raise ValueError("it has to be a file that only root can write")
    found = tuple(opening for opening in parse_openings(files.read(path) or "") if now.timestamp() < opening.until)
    if found and int(now.timestamp()) < int(files.modified(path) or 0):
        raise ValueError("it is newer than this host's clock, which may be wrong")
    return found


def opening_findings(host: Host, now: datetime) -> tuple[Finding, ...]:
    """A finding for each opening in force, or one that says why the file does not open the gate or cannot be read."""
    path = host.layout.opening_path
    try:
        return tuple(opening.finding for opening in openings_in_force(host, now))
    except FileError as error:
        return (Finding("not-known", "warning", f"whether a unit may start unchecked: {error}", path),)
    except ValueError as error:
        told = f"{path} does not open the gate: {error}"
        remedy = "remove it; to open the gate again, run: hostrouting gate --open-for 2h --reason TEXT"
        return (Finding("edited-file", "note", told, path, remedy),)


UNIT_FOLDERS = (
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/run/systemd/transient",
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
)
"""The folders in which systemd looks for units and drop-ins, without those of generators; the first wins."""

# Settings that can make a unit run other files than those that are installed.
_PLACES = ("BindPaths", "BindReadOnlyPaths")
_ROOTS = ("RootDirectory", "RootImage", "MountImages", "ExtensionImages", "ExtensionDirectories")
_HIDDEN = "it can run other files than the installed ones"

# What lets the gate's unit succeed without running the whole script: a property, its harmless value, and the effect.
_UNIT = (
    ("Type", "oneshot", "systemd does not wait for the script"),
    ("RemainAfterExit", "no", "the script runs only when the first gated unit starts"),
    ("SuccessExitStatus", "", "a refusal can count as a success"),
    ("ExecCondition", "", "systemd skips the unit if that command fails, and counts this as a success"),
    ("NetworkNamespacePath", "", "it checks the routing of another network namespace"),
    ("PrivateNetwork", "no", "it checks the routing of another network namespace"),
    *((name, "", _HIDDEN) for name in (*_PLACES, *_ROOTS)),
)
_SKIPPED = "systemd skips the unit if it does not hold, and counts this as a success"
_PROPERTIES = ("LoadState", "FragmentPath", "DropInPaths", "NeedDaemonReload")
_OF_THE_UNIT = (*_PROPERTIES, "ExecStart", *(name for name, _, _ in _UNIT))
_BARS_OF_THE_UNIT = ("RefuseManualStart", "AssertResult", "AssertTimestampMonotonic")
_OF_A_GATED_UNIT = (*_PROPERTIES, "Id", "ActiveState", "ExecStartPre", "SuccessExitStatus", *_PLACES, *_ROOTS)

# The exit statuses of the command in our drop-in, if the gate refuses or it cannot run; from 200 they are systemd's.
_REFUSALS = {1, 2, 126, 127, *range(200, 256)}


class GatedUnit(NamedTuple):
    """One unit that the gate holds back, as systemd knows it."""

    name: str
    load: str
    """Its LoadState; for a template, that of an instance without settings of its own; empty without systemd."""
    active: tuple[str, ...]
    """The unit, or those instances of a template, that run now."""
    is_checked: bool
    """Whether each start is checked."""

    def __str__(self) -> str:
        checked = "checked before each start" if self.is_checked else "starts unchecked"
        if not self.load:
            return f"{checked} from the next boot on" if self.is_checked else checked
        if self.load != "loaded":
            return f"{checked}; {'not here yet' if self.load == 'not-found' else self.load}"
        running = spoken([name for name in self.active if name != self.name])
        return f"{checked}; {f'{running} active' if running else 'active' if self.active else 'not active'}"


@attrs.frozen
class GateState:
    """Whether the gated units start only after a successful check."""

    is_up: bool = False
    """Whether a drop-in exists that makes a unit run the gate."""
    findings: tuple[Finding, ...] = ()
    """What lets a unit start unchecked, what keeps every gated unit from starting, and what else was edited."""
    hold: str = f"systemctl mask --runtime {HostLayout.machine_unit}"
    """The command with which an operator keeps the gated units from starting, with or without a gate.

    Masking machines.target instead would only keep those machines from starting that are started at boot.
    """
    units: tuple[str, ...] = (HostLayout.machine_unit,)
    """The gated units; without a gate, those that would be."""
    gated: tuple[GatedUnit, ...] = attrs.field(default=(), eq=False)
    """The state of each gated unit; empty without a gate."""

    @property
    def bars(self) -> tuple[Finding, ...]:
        """What keeps every gated unit from starting, whatever the routes are."""
        return tuple(finding for finding in self.findings if finding.name == "gate-shut")

    @property
    def openings(self) -> tuple[Finding, ...]:
        """What lets a gated unit start unchecked."""
        return tuple(finding for finding in self.findings if finding.name == "gate-open")


def find_gate_state(host: Host, coming: Collection[str] = ()) -> GateState:
    """The state of the gate; nothing is changed. The units `coming` are about to be gated.

    ManagerError if systemd does not answer, FileError if a file is unreadable.
    """
    gate, files, layout = Gate(host), host.files, host.layout
    units = gate.units_after(())
    nothing = GateState(units=units, hold=_hold(host, units))
    if not gate.present():
        # The template is gated by default, so nobody asked for it, and the hint leaves it out.
        asked = {*coming} - {layout.machine_unit}
        return attrs.evolve(nothing, findings=find_ungated(gate.manager, asked))
    is_up = any(files.is_there(layout.at(layout.gate_drop_in(unit))) for unit in units)
    states = gate.manager.show((*_OF_THE_UNIT, *_BARS_OF_THE_UNIT), layout.gate_unit) if gate.manager else ()
    openings: list[str] = []
    bars: list[str] = []
    gated: list[GatedUnit] = []
    for unit in units:
        found = () if gate.manager is None else _unit_properties(host, gate.manager, unit)
        before, load = len(openings), found[0]["LoadState"] if found else ""
        if found and all(one["LoadState"] == "masked" for one in found):
            bars.append(f"{unit} is masked; allow its start with: {_unmask(unit, found[0]['FragmentPath'])}")
        else:
            asks = _installed(gate, gate.drop_ins((unit,)).files[0], "ExecStartPre")
            openings += [*_missing(host, unit)] or [*_of_gated(host, unit, found, asks)]
        active = dict.fromkeys(one["Id"] for one in found if one["ActiveState"] == "active")
        gated.append(GatedUnit(unit, load, tuple(active), len(openings) == before))
    findings: list[Finding] = []
    if is_up:
        findings += opening_findings(host, datetime.now(timezone.utc))
        unchecked = [text for state in states if state["LoadState"] == "loaded" for text in _unit(gate, state)]
        openings += unchecked
        opened = {finding.target for finding in findings if finding.name == "gate-open"}
        if unchecked or ALL in opened:
            opened |= {*units}
        gated = [one._replace(is_checked=one.is_checked and one.name not in opened) for one in gated]
        bars += [*_bars(gate, units), *(text for state in states for text in _unstartable(host, state, units))]
    openings += _absent(gate, units)
    findings += [Finding("gate-shut", "error", text) for text in bars]
    findings += [
        *find_ungated(gate.manager, {*units, *coming}),
        *find_edits(gate),
        *_losses(gate),
        *(Finding("gate-open", "warning", text) for text in openings),
    ]
    return attrs.evolve(nothing, is_up=is_up, findings=worst_first(findings), gated=tuple(gated))


def find_edits(gate: Gate) -> tuple[Finding, ...]:
    """The edited files; those that decide whether a gated unit starts come first. Nothing is changed."""
    folder = gate.layout.at(gate.layout.config_directory)
    deciding = {*gate.own_paths, *(f"{folder}/{step.name}.sh" for step in gate.steps)}
    masked = {*gate.own_paths, *gate.lost}
    edited = [path for path in gate.edited if path not in masked or gate.files.read(path)]
    told, whose = "is not as hostrouting wrote it", spoken(gate.units_after(()))
    again = "save a copy if the edit is wanted, then write it again with: hostrouting apply --config FILE"
    return worst_first(
        Finding("gate-open", "warning", f"{path} {told}, so {whose} may start unchecked", path, again)
        if path in deciding
        else Finding("edited-file", "note", f"{path} {told}", path, again)
        for path in edited
    )


def _losses(gate: Gate) -> Iterator[Finding]:
    """Missing or masked files and links of our units. An error if the unit then does not run at boot."""
    again = "write it again with: hostrouting apply --config FILE"
    for path in gate.lost:
        unit = _file_name(path)
        if not unit.endswith(".service"):
            yield Finding("edited-file", "note", f"{path} is missing", path, again)
        elif path.endswith(f".wants/{unit}"):
            yield Finding("unit", "error", f"{path} is missing, so {unit} does not start at boot", unit, again)
        elif gate.files.read(path) == "":
            yield Finding(
                "unit", "error", f"{path} is masked, so {unit} does not run", unit, f"as root: systemctl unmask {unit}"
            )
        else:
            yield Finding("unit", "error", f"{path} is missing, so {unit} does not run", unit, again)


def _settings(text: str) -> Iterator[tuple[str, str]]:
    """The names and values in the text of a unit file or drop-in."""
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals:
            yield name.strip(), value.strip()


def _file_name(path: str) -> str:
    return path.rpartition("/")[2]


def _installed(gate: Gate, file: File, name: str) -> str:
    """The command in an installed file of the gate, which may be another version's; not in an edited file."""
    text = None if file.path in gate.edited else gate.files.read(file.path)
    return _command_in(text or file.text, name)


def _command_in(text: str, wanted: str) -> str:
    command = next((value for name, value in _settings(text) if name == wanted), "").replace("'", "").removeprefix("+")
    return f"argv[]={command} ; ignore_errors=no "


def _hold(host: Host, units: Sequence[str]) -> str:
    """The command that masks the units. A unit file in /etc overrides a mask in /run, so such a unit needs a link."""
    layout, folder = host.layout, "/run/systemd/system.control"
    own = [unit for unit in units if host.files.is_there(layout.at(f"{layout.unit_directory}/{unit}"))]
    others = [unit for unit in units if unit not in own]
    masks = [f"systemctl mask --runtime {' '.join(others)}"] if others else []
    links = [f"ln -s /dev/null {folder}/{unit}" for unit in own]
    return " && ".join([*masks, *([f"mkdir -p {folder}", *links, "systemctl daemon-reload"] if own else [])])


def _unmask(unit: str, path: str) -> str:
    """The command that unmasks the unit."""
    known = {"/etc": f"systemctl unmask {unit}", "/run": f"systemctl unmask --runtime {unit}"}
    return known.get(path.removesuffix(f"/systemd/system/{unit}"), f"rm {path} && systemctl daemon-reload")


def _missing(host: Host, unit: str) -> Iterator[str]:
    path = host.layout.at(host.layout.gate_drop_in(unit))
    if not host.files.is_there(path):
        yield f"{path} is missing, so {unit} starts unchecked; write it again with: hostrouting apply --config FILE"
    elif not host.files.read(path):
        yield f"{path} is empty or a link to /dev/null, so {unit} starts unchecked; remove it"


def _unit_properties(host: Host, manager: Manager, unit: str) -> Sequence[Mapping[str, str]]:
    """The properties of the unit as systemd would use them; for a template, those of its instances, loaded or not.

    The instances with a unit or drop-ins of their own are included, which systemd may not have loaded.
    """
    names, (before, at, after) = [unseen(unit)], unit.partition("@.")
    if at:
        folders = map(host.layout.at, UNIT_FOLDERS)
        found = {name.removesuffix(".d") for folder in folders for name in host.files.names(folder)}
        special = (name for name in found if name.startswith(f"{before}@") and name.endswith(f".{after}"))
        names += [*sorted(name for name in special if name != unit), pattern_of(unit)]
    return manager.show(_OF_A_GATED_UNIT, *names)


def _of_gated(host: Host, unit: str, found: Iterable[Mapping[str, str]], asks: str) -> Iterator[str]:
    """What lets the unit, or instances of a template, start without the command `asks`.

    Each cause once: a cause that affects every instance is not repeated for a single one.
    """
    told: set[str] = set()
    for one in sorted(found, key=lambda one: one["Id"] != unseen(unit)):
        name = unit if one["Id"] == unseen(unit) else one["Id"]
        causes = dict.fromkeys(_of_start(host, unit, one, asks.replace("%n", one["Id"])))
        yield from (f"{name} {cause}" for cause in causes if cause not in told)
        told.update(causes)


def _of_start(host: Host, unit: str, found: Mapping[str, str], asks: str) -> Iterator[str]:
    """What lets a unit start unchecked: predicates to put after its name."""
    if found["LoadState"] in {"masked", "not-found"}:
        return
    layout, ours = host.layout, host.layout.gate_drop_in(unit)
    others = [path for path in found["DropInPaths"].split() if path != ours]
    where = f"see {', '.join(others)}" if others else f"see: systemctl cat {unit}"
    if asks not in found["ExecStartPre"]:
        if found["NeedDaemonReload"] == "yes":
            yield "starts unchecked: systemd has not loaded the drop-in; run: systemctl daemon-reload"
            return
        if same := [path for path in others if _file_name(path) == DROP_IN]:
            why = f"{same[0]} overrides {ours}; remove it"
        else:
            why = f"another ExecStartPre= is in force; {where}"
        yield f"starts unchecked: {why}"
    elif early := [path for path in others if _file_name(path) < DROP_IN and _runs_first(host, path)]:
        lost = "if its drop-in is changed while the command runs, systemd skips the gate"
        remedy = f"move it to a drop-in whose name sorts after {DROP_IN}"
        yield f"runs another ExecStartPre= before the gate: {lost}; {remedy}; see {', '.join(early)}"
    statuses = found["SuccessExitStatus"].split()
    status = f"has SuccessExitStatus={' '.join(statuses)}, which counts as a success, so it starts"
    if any(status.isdigit() and int(status) in _REFUSALS for status in statuses):
        yield f"{status} even if the gate refuses; {where}"
    # After a signal that can be caught, the command exits with 1, but only once its shell has read the trap.
    if not all(map(str.isdigit, statuses)):
        yield f"{status} even if a signal ends its wait for the gate; {where}"
    needed = ("/bin/bash", "/usr/bin/bash", "/usr/bin/systemctl", layout.gate_script)
    for name in (*_PLACES, *_ROOTS):
        value = found[name]
        if value and (name in _ROOTS or _covers(value, needed)):
            yield f"has {name}={value}, so {_HIDDEN}; {where}"


def _runs_first(host: Host, path: str) -> bool:
    """Whether this drop-in has a command of its own before the start."""
    return any(
        name == "ExecStartPre" and value for name, value in _settings(host.files.read(host.layout.at(path)) or "")
    )


def _covers(bound: str, needed: Iterable[str]) -> bool:
    """Whether one of these paths is below a bind mount."""
    places = [(mount.split(":") * 2)[1].rstrip("/") for mount in bound.split()]
    return any(path == place or path.startswith(f"{place}/") for path in needed for place in places)


def _unstartable(host: Host, found: Mapping[str, str], units: Sequence[str]) -> Iterator[str]:
    layout, state, none = host.layout, found["LoadState"], f"{spoken(units)} cannot start"
    where = f"see {found['DropInPaths'] or found['FragmentPath']}"
    if found["RefuseManualStart"] == "yes":
        yield f"{layout.gate_unit} has RefuseManualStart=yes, and {none}; {where}"
    if found["AssertResult"] == "no" and found["AssertTimestampMonotonic"] not in {"", "0"}:
        yield f"an Assert…= of {layout.gate_unit} did not hold, and {none} until it does; {where}"
    if state != "loaded" and host.files.read(layout.gate_unit_path):
        if state == "not-found":
            told = f"systemd has not loaded the current {layout.gate_unit}"
            yield f"{told}, and {none}; run: systemctl daemon-reload"
        else:
            told = f"systemd cannot use {layout.gate_unit} ({state}), and {none}"
            yield f"{told}; see: systemctl status {layout.gate_unit}"


def _unit(gate: Gate, found: Mapping[str, str]) -> Iterator[str]:
    layout = gate.layout
    others = found["DropInPaths"].split()
    where = f"; see {', '.join(others)}" if others else f"; see {found['FragmentPath']}"
    if found["NeedDaemonReload"] == "yes":
        yield f"systemd has not loaded the current {layout.gate_unit}; run: systemctl daemon-reload"
    if _installed(gate, gate.rest.files[1], "ExecStart") not in found["ExecStart"]:
        yield f"{layout.gate_unit} runs a command other than {layout.gate_script}{where}"
    for name, harmless, why in _UNIT:
        if found[name] != harmless:
            yield f"{layout.gate_unit} has {name}={_short(found[name])}, which means that {why}{where}"
    for path in (found["FragmentPath"], *others):
        for line in (gate.files.read(layout.at(path)) or "").splitlines():
            if line.strip().startswith("Condition"):
                yield f"{path} has {line.strip()} for {layout.gate_unit}: {_SKIPPED}; remove that condition"


def _short(value: str) -> str:
    """The command line from what systemd prints for a command; any other value as it is."""
    return value.partition("argv[]=")[2].partition(" ;")[0] or value


def _absent(gate: Gate, units: Sequence[str]) -> Iterator[str]:
    """The missing scripts of steps that only warn."""
    layout = gate.layout
    for step in gate.steps:
        script = layout.at(f"{layout.config_directory}/{step.name}.sh")
        if step.kind == "wants" and not gate.files.is_there(script):
            told = f"{script} is missing, so {spoken(units)} may start without it"
            yield f"{told}; write it again with: hostrouting apply --config FILE"


def _bars(gate: Gate, units: Sequence[str]) -> Iterator[str]:
    files, layout, none = gate.files, gate.layout, f"{spoken(units)} cannot start"
    for folder in map(layout.at, (layout.state_directory, layout.runtime_directory)):
        with suppress(FileError):  # reading a folder is a FileError
            if files.read(folder) is not None:
                yield f"{folder} is not a directory, and {none} without that directory; remove the file"
    again = "write it again with: hostrouting apply --config FILE"
    if not files.read(layout.gate_unit_path) and files.is_there(layout.gate_unit_path):
        masked = f"{layout.gate_unit_path} is masked, and {none} without it"
        yield f"{masked}; unmask it with: systemctl unmask {layout.gate_unit}"
    for path in (layout.gate_unit_path, layout.gate_script_path):
        if not files.is_there(path) or (path == layout.gate_script_path and not files.read(path)):
            yield f"{path} is missing or empty, and {none} without it; {again}"
    text = files.read(layout.gate_steps_path)
    try:
        steps = parse_gate_steps(text or "")
    except ValueError as error:
        what = "is missing" if text is None else f"cannot be used ({error})"
        yield f"{layout.gate_steps_path} {what}, and {none} without it; {again}"
        return
    for step in steps:
        script = layout.at(f"{layout.config_directory}/{step.name}.sh")
        if step.kind == "changing":
            told = f"a run of hostrouting did not finish changing {script}"
            yield f"{told}; run it again: hostrouting apply --config FILE"
        elif step.kind == "requires" and not files.is_there(script):
            yield f"{script} is missing, and {none} without it; {again}"
