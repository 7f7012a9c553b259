"""What opens the gate although its files are there, and what keeps it shut: looked up in what systemd has in force.

A file of ours that is in its place says little. systemd may have read another text, another drop-in may take our
command away, and a setting for our unit may let it succeed without running. So systemd is asked what it would run.

Here: what is looked for, and the sentence for each finding. Not here: changing anything (`gate`).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import attrs

from hostrouting.config import Mode
from hostrouting.errors import FileError
from hostrouting.gate import Gate
from hostrouting.layout import HostLayout
from hostrouting.render import SHELL, parse_check_script, parse_gate_steps

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hostrouting.host import Host
    from hostrouting.render import GateStep

__all__ = ["UNIT_FOLDERS", "UNSEEN", "GateState", "find_gate_state"]

UNSEEN = "systemd-nspawn@hostrouting-probe.service"
"""Stands for every machine that has no setting of its own."""

UNIT_FOLDERS = (
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/run/systemd/transient",
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
)
"""Where systemd looks for units and drop-ins, apart from what generators make; the first comes before the others."""

# What puts other files in the place of those that are run.
_PLACES = ("BindPaths", "BindReadOnlyPaths")
_ROOTS = ("RootDirectory", "RootImage", "MountImages", "ExtensionImages", "ExtensionDirectories")
_HIDDEN = "other files can be in the place of those that it runs"

# What lets the gate's unit succeed without running the script to its end: a property, its harmless value, and the word.
_UNIT = (
    ("Type", "oneshot", "systemd does not wait for the script"),
    ("RemainAfterExit", "no", "the script runs at the first start of a machine only"),
    ("SuccessExitStatus", "", "a refusal can pass for a success"),
    ("ExecCondition", "", "systemd skips the unit, and takes that for a success, when this fails"),
    ("NetworkNamespacePath", "", "the routing of another network namespace is judged"),
    ("PrivateNetwork", "no", "the routing of another network namespace is judged"),
    *((name, "", _HIDDEN) for name in (*_PLACES, *_ROOTS)),
)
_OF_THE_UNIT = ("LoadState", "ExecStart", "DropInPaths", "FragmentPath", "NeedDaemonReload", *(it[0] for it in _UNIT))
_BARS_OF_THE_UNIT = ("RefuseManualStart", "AssertResult", "AssertTimestampMonotonic")
_OF_A_MACHINE = (
    "Id",
    "LoadState",
    "FragmentPath",
    "ExecStartPre",
    "DropInPaths",
    "NeedDaemonReload",
    "SuccessExitStatus",
)

_RUN = SHELL.replace("'", "")  # as systemd shows it

# The exit statuses with which the question ends when it is refused, or cannot be asked; from 200 on systemd's own.
_REFUSALS = {1, 2, 126, 127, *range(200, 256)}


@attrs.frozen
class GateState:
    """Whether machines are held back. Sentences name the file or unit, and the remedy."""

    is_up: bool = False
    """Whether the drop-in by which machines ask the gate is there."""
    openings: tuple[str, ...] = ()
    """What lets a machine start without being judged."""
    bars: tuple[str, ...] = ()
    """What keeps every machine from starting, whatever the routing."""
    hold: str = f"systemctl mask --runtime {HostLayout.machine_unit}"
    """The command by which an operator keeps machines from starting, with or without a gate.

    A mask of machines.target would hold back those alone that are started at the boot.
    """

    @property
    def holds(self) -> bool:
        """Whether every start of a machine is judged, or refused."""
        return self.is_up and not self.openings


def find_gate_state(host: Host) -> GateState:
    """Look, and change nothing. ManagerError where systemd does not answer, FileError where a file cannot be read."""
    gate, files, layout = Gate(host), host.files, host.layout
    nothing = _with_hold(host, GateState())
    if not gate.present():
        return nothing
    is_up = files.is_there(layout.gate_drop_in_path)
    machines, units = _asked(host, gate)
    if machines and all(it["LoadState"] == "masked" for it in machines):
        told = f"{layout.machine_unit} is masked; allow machines with: {_unmask(host, machines[0]['FragmentPath'])}"
        return attrs.evolve(nothing, is_up=is_up, bars=(told,))
    openings = [*_missing(host)] or [*_machines(host, machines)]
    if is_up:
        openings += [text for it in units if it["LoadState"] == "loaded" for text in _unit(host, it)]
    openings += _edited(host, gate.steps)
    bars = [*_bars(host), *(text for it in units for text in _unstartable(host, it))] if is_up else []
    return attrs.evolve(nothing, is_up=is_up, openings=tuple(dict.fromkeys(openings)), bars=tuple(bars))


def _with_hold(host: Host, state: GateState) -> GateState:
    """A mask is in /run, where a template that the administrator has in /etc comes before it."""
    layout = host.layout
    if not host.files.is_there(layout.at(f"{layout.unit_directory}/{layout.machine_unit}")):
        return state
    folder = "/run/systemd/system.control"
    link = f"ln -s /dev/null {folder}/{layout.machine_unit}"
    return attrs.evolve(state, hold=f"mkdir -p {folder} && {link} && systemctl daemon-reload")


def _unmask(host: Host, path: str) -> str:
    """The command that takes back what masks the machines."""
    unit = host.layout.machine_unit
    known = {"/etc": f"systemctl unmask {unit}", "/run": f"systemctl unmask --runtime {unit}"}
    return known.get(path.removesuffix(f"/systemd/system/{unit}"), f"rm {path} && systemctl daemon-reload")


def _missing(host: Host) -> Iterator[str]:
    path = host.layout.gate_drop_in_path
    if not host.files.is_there(path):
        yield f"{path} is missing, so that machines start without asking; write it again with: hostrouting apply"
    elif not host.files.read(path):
        yield f"{path} is empty or a link to /dev/null, so that machines start without asking; remove it"


def _asked(host: Host, gate: Gate) -> tuple[Sequence[Mapping[str, str]], Sequence[Mapping[str, str]]]:
    """What systemd would do at the start of a machine, loaded or not, and at the start of the gate's unit."""
    if gate.manager is None:
        return (), ()
    machines = gate.manager.show((*_OF_A_MACHINE, *_PLACES, *_ROOTS), UNSEEN, *_special(host), host.layout.machines)
    return machines, gate.manager.show((*_OF_THE_UNIT, *_BARS_OF_THE_UNIT), host.layout.gate_unit)


def _special(host: Host) -> tuple[str, ...]:
    """The machines with a unit or drop-ins of their own, which systemd need not have loaded."""
    before, after = host.layout.machines.split("*")
    found = {name.removesuffix(".d") for folder in UNIT_FOLDERS for name in host.files.names(host.layout.at(folder))}
    return tuple(sorted(it for it in found if it.startswith(before) and it.endswith(after) and it != before + after))


def _machines(host: Host, found: Iterable[Mapping[str, str]]) -> Iterator[str]:
    """Each cause once: what opens the gate for every machine is not said again of one."""
    told: set[str] = set()
    for it in sorted(found, key=lambda it: it["Id"] != UNSEEN):
        name = "every machine" if it["Id"] == UNSEEN else it["Id"]
        causes = dict.fromkeys(_machine(host, it))
        yield from (f"{name} {cause}" for cause in causes if cause not in told)
        told.update(causes)


def _machine(host: Host, found: Mapping[str, str]) -> Iterator[str]:
    """What lets a machine start without being judged, in clauses that its name begins."""
    if found["LoadState"] == "masked":
        return
    layout = host.layout
    others = [path for path in found["DropInPaths"].split() if path != layout.gate_drop_in]
    where = f"look in {', '.join(others)}" if others else f"see: systemctl cat {layout.machine_unit}"
    asks = f"argv[]={_RUN} {layout.gate_script} ask ; ignore_errors=no "
    if asks not in found["ExecStartPre"]:
        if found["NeedDaemonReload"] == "yes":
            yield "starts without asking the gate: systemd has not loaded the drop-in; run: systemctl daemon-reload"
            return
        file = layout.gate_drop_in.rpartition("/")[2]
        if same := [path for path in others if path.rpartition("/")[2] == file]:
            why = f"{same[0]} takes the place of {layout.gate_drop_in}; remove it"
        else:
            why = f"systemd has another ExecStartPre= in force; {where}"
        yield f"starts without asking the gate: {why}"
    elif not found["ExecStartPre"].partition("argv[]=")[2].startswith(asks.partition("argv[]=")[2]):
        lost = "if that changes while it runs, systemd leaves out the gate"
        remedy = f"move it to a drop-in whose name sorts after {layout.gate_drop_in.rpartition('/')[2]}"
        yield f"runs another ExecStartPre= before it asks the gate: {lost}; {remedy}; {where}"
    statuses = found["SuccessExitStatus"].split()
    status = f"has SuccessExitStatus={' '.join(statuses)}, so that it starts"
    if any(it.isdigit() and int(it) in _REFUSALS for it in statuses):
        yield f"{status} although the gate refuses; {where}"
    # The question ends a signal that can be caught with 1, but only once its shell has read so far.
    if not all(map(str.isdigit, statuses)):
        yield f"{status} when a signal ends its question to the gate; {where}"
    needed = ("/bin/bash", "/usr/bin/bash", "/usr/bin/systemctl", layout.gate_script)
    for it in (*_PLACES, *_ROOTS):
        if found[it] and (it in _ROOTS or _covers(found[it], needed)):
            yield f"has {it}={found[it]}, so that {_HIDDEN}; {where}"


def _covers(bound: str, needed: Iterable[str]) -> bool:
    """Whether one of these is in a place where something else is bound."""
    places = [(mount.split(":") * 2)[1].rstrip("/") for mount in bound.split()]
    return any(path == place or path.startswith(f"{place}/") for path in needed for place in places)


def _unstartable(host: Host, found: Mapping[str, str]) -> Iterator[str]:
    layout, state = host.layout, found["LoadState"]
    where = f"look in {found['DropInPaths'] or found['FragmentPath']}"
    if found["RefuseManualStart"] == "yes":
        yield f"{layout.gate_unit} has RefuseManualStart=yes, and no machine starts; {where}"
    if found["AssertResult"] == "no" and found["AssertTimestampMonotonic"] not in {"", "0"}:
        yield f"an Assert…= of {layout.gate_unit} did not hold, and no machine starts until it does; {where}"
    if state != "loaded" and host.files.read(layout.gate_unit_path):
        if state == "not-found":
            told = f"systemd has not loaded the current {layout.gate_unit}"
            yield f"{told}, and no machine starts; run: systemctl daemon-reload"
        else:
            yield f"systemd cannot use {layout.gate_unit} ({state}), and no machine starts; see: systemctl status"


def _unit(host: Host, found: Mapping[str, str]) -> Iterator[str]:
    layout = host.layout
    others = found["DropInPaths"].split()
    where = f"; look in {', '.join(others)}" if others else f"; look in {found['FragmentPath']}"
    if found["NeedDaemonReload"] == "yes":
        yield f"systemd has not loaded the current {layout.gate_unit}; run: systemctl daemon-reload"
    if f"argv[]={_RUN} {layout.gate_script} ; ignore_errors=no " not in found["ExecStart"]:
        yield f"{layout.gate_unit} runs another command than {layout.gate_script}{where}"
    for name, harmless, why in _UNIT:
        if found[name] != harmless:
            yield f"{layout.gate_unit} has {name}={_short(found[name])}, so that {why}{where}"
    for path in (found["FragmentPath"], *others):
        for line in (host.files.read(layout.at(path)) or "").splitlines():
            if line.strip().startswith("Condition"):
                skipped = "systemd skips the unit, and takes that for a success, when it does not hold"
                yield f"{path} has {line.strip()} for {layout.gate_unit}: {skipped}; remove it"


def _short(value: str) -> str:
    """The command alone, of the much that systemd shows of one."""
    return value.partition("argv[]=")[2].partition(" ;")[0] or value


def _edited(host: Host, steps: tuple[GateStep, ...]) -> Iterator[str]:
    """A script that only warns where the check was to be required, and one that is missing where it was to warn."""
    path = host.layout.check_script_path
    for step in steps:
        script = host.layout.at(f"{host.layout.config_directory}/{step.name}.sh")
        if step.kind == "wants" and not host.files.is_there(script):
            yield f"{script} is missing, so that machines start without it; write it again with: hostrouting apply"
        if (step.kind, step.name) == ("requires", "check-route-overlap"):
            with suppress(ValueError, LookupError):
                if parse_check_script(host.files.read(path) or "").config.mode is Mode.WARN:
                    told = "was edited from STRICT to WARN"
                    yield f"{path} {told}; undo that with: hostrouting apply"


def _bars(host: Host) -> Iterator[str]:
    files, layout = host.files, host.layout
    state = layout.at(layout.state_directory)
    with suppress(FileError):  # a folder cannot be read, as it should be
        if files.read(state) is not None:
            yield f"{state} is not a folder, and no machine starts without it; remove it"
    again = "write it again with: hostrouting apply"
    if not files.read(layout.gate_unit_path) and files.is_there(layout.gate_unit_path):
        masked = f"{layout.gate_unit_path} is masked, and no machine starts without it"
        yield f"{masked}; unmask it with: systemctl unmask {layout.gate_unit}"
    for path in (layout.gate_unit_path, layout.gate_script_path):
        if not files.is_there(path) or (path == layout.gate_script_path and not files.read(path)):
            yield f"{path} is missing or empty, and no machine starts without it; {again}"
    text = files.read(layout.gate_steps_path)
    try:
        steps = parse_gate_steps(text or "")
    except ValueError as error:
        what = "is missing" if text is None else f"cannot be used ({error})"
        yield f"{layout.gate_steps_path} {what}, and no machine starts without it; {again}"
        return
    for step in steps:
        script = layout.at(f"{layout.config_directory}/{step.name}.sh")
        if step.kind == "changing":
            yield f"a run of hostrouting did not finish changing {script}; run it again: hostrouting apply"
        elif step.kind == "requires" and not files.is_there(script):
            yield f"{script} is missing, and every machine requires it; {again}"
