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
from hostrouting.gate import Gate
from hostrouting.render import SHELL, parse_check_script, parse_gate_steps

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hostrouting.host import Host
    from hostrouting.render import GateStep

__all__ = ["GateState", "find_gate_state"]

_UNSEEN = "systemd-nspawn@hostrouting-probe.service"  # stands for every machine that systemd has not loaded

# What lets the gate's unit succeed without running the script to its end: a property, its harmless value, and the word.
_UNIT = (
    ("Type", "oneshot", "systemd does not wait for the script"),
    ("RemainAfterExit", "no", "the script runs at the first start of a machine only"),
    ("SuccessExitStatus", "", "a refusal can pass for a success"),
    ("ExecCondition", "", "systemd skips the unit, and takes that for a success, when this fails"),
)
_OF_THE_UNIT = ("LoadState", "ExecStart", "DropInPaths", "FragmentPath", "NeedDaemonReload", *(it[0] for it in _UNIT))
_OF_A_MACHINE = ("Id", "ExecStartPre", "DropInPaths", "NeedDaemonReload")


@attrs.frozen
class GateState:
    """Whether machines are held back. Sentences name the file or unit, and the remedy."""

    is_up: bool = False
    """Whether the drop-in by which machines ask the gate is there."""
    openings: tuple[str, ...] = ()
    """What lets a machine start without being judged."""
    bars: tuple[str, ...] = ()
    """What keeps every machine from starting, whatever the routing."""

    @property
    def holds(self) -> bool:
        """Whether every start of a machine is judged, or refused."""
        return self.is_up and not self.openings


def find_gate_state(host: Host) -> GateState:
    """Look, and change nothing. ManagerError where systemd does not answer, FileError where a file cannot be read."""
    gate, files, layout = Gate(host), host.files, host.layout
    if not gate.present():
        return GateState()
    is_up = files.is_there(layout.gate_drop_in_path)
    openings = [*_missing(host), *_in_force(host, gate), *_edited(host, gate.steps)]
    return GateState(is_up, tuple(dict.fromkeys(openings)), tuple(_bars(host)) if is_up else ())


def _missing(host: Host) -> Iterator[str]:
    path = host.layout.gate_drop_in_path
    if not host.files.is_there(path):
        yield f"{path} is missing, so that machines start without asking; write it again with: hostrouting apply"
    elif not host.files.read(path):
        yield f"{path} is empty or a link to /dev/null, so that machines start without asking; remove it"


def _in_force(host: Host, gate: Gate) -> Iterator[str]:
    """What systemd would do at the start of a machine, loaded or not, and at the start of the gate's unit."""
    if gate.manager is None or not host.files.is_there(host.layout.gate_drop_in_path):
        return
    for machine in gate.manager.show(_OF_A_MACHINE, _UNSEEN, host.layout.machines):
        yield from _machine(host, machine)
    [unit] = gate.manager.show(_OF_THE_UNIT, host.layout.gate_unit)
    if unit["LoadState"] == "loaded":
        yield from _unit(host, unit)


def _machine(host: Host, found: Mapping[str, str]) -> Iterator[str]:
    name = "every machine" if found["Id"] == _UNSEEN else found["Id"]
    asks = f"argv[]={SHELL} {host.layout.gate_script} ask ; ignore_errors=no "
    if asks in found["ExecStartPre"]:
        return
    if found["NeedDaemonReload"] == "yes":
        yield f"systemd has yet to read the drop-in for {name}; run: systemctl daemon-reload"
        return
    others = [path for path in found["DropInPaths"].split() if path != host.layout.gate_drop_in]
    where = f"look for ExecStartPre= in {', '.join(others)}" if others else "see: systemctl cat systemd-nspawn@.service"
    yield f"{name} starts without asking the gate: systemd has another ExecStartPre= in force; {where}"


def _unit(host: Host, found: Mapping[str, str]) -> Iterator[str]:
    layout = host.layout
    others = found["DropInPaths"].split()
    where = f"; look in {', '.join(others)}" if others else f"; look in {found['FragmentPath']}"
    if found["NeedDaemonReload"] == "yes":
        yield f"systemd has yet to read {layout.gate_unit}; run: systemctl daemon-reload"
    if found["ExecStart"].count("argv[]=") != 1 or (
        f"argv[]={SHELL} {layout.gate_script} ; ignore_errors=no " not in found["ExecStart"]
    ):
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
    """A check that is required, and says of itself that it only warns."""
    path = host.layout.check_script_path
    for step in steps:
        if (step.kind, step.name) == ("requires", "check-route-overlap"):
            with suppress(ValueError, LookupError):
                if parse_check_script(host.files.read(path) or "").config.mode is Mode.WARN:
                    told = "was edited: it says WARN, and STRICT was installed"
                    yield f"{path} {told}; undo that with: hostrouting apply"


def _bars(host: Host) -> Iterator[str]:
    files, layout = host.files, host.layout
    again = "write it again with: hostrouting apply"
    for path in (layout.gate_unit_path, layout.gate_script_path):
        if not files.read(path):
            yield f"{path} is missing or masked, and no machine starts without it; {again}"
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
