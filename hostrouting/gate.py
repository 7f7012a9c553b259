"""The gate that holds machines back: put up, changed and taken away.

How it works. A drop-in has the start of every machine ask one unit, host-routing-gate.service, which runs the scripts
that a list names, in order. Drop-in and unit never change, so that systemd has nothing to read anew, and no command to
lose, while a machine starts; what a configuration says is in the list and in the scripts.

A change is one thing to a machine that starts: it is judged by what was before, or by what is after.
1. Whoever changes anything holds the lock of the host. The gate waits for that lock before it reads the list.
2. The list is written first. It says `changing` of a step whose files differ from what they will be, and that keeps the
   gate shut: so it stays, when this run is killed, until another one has finished the work.
3. Then the unit is stopped. A run that has read the former list ends here, and the machine asks again; one that begins
   later has read the new list, also where there was no lock to be had. Only now scripts change.
4. The list says last what the steps are now.

Here: the order of these. Not here: what a task needs on a host (`tasks`), and the texts (`render`).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import attrs

from hostrouting.effects import tell_effects
from hostrouting.errors import FileError, ManagerError
from hostrouting.fileset import OURS, Changes, File, FileSet, unit_file
from hostrouting.render import (
    GateStep,
    render_gate_drop_in,
    render_gate_script,
    render_gate_steps,
    render_gate_unit,
)
from phases.python310 import ExceptionGroup

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    import phases
    from hostrouting.host import Host
    from hostrouting.system import Files

__all__ = ["Changed", "Gate", "Part", "paths_of"]

Changed = dict[str, tuple[str, ...]]
"""Paths that were changed, by the name of the step that they belong to."""

_PATIENCE = 20.0  # seconds, for starts of machines that are under way
_SCRIPT = 0o755


def paths_of(changed: Changed) -> tuple[str, ...]:
    """All of the paths, those of the first step first."""
    return tuple(path for paths in changed.values() for path in paths)


@attrs.frozen
class Part:
    """What one task has on a host: a step of the gate, and the files of that step."""

    step: GateStep
    files: FileSet
    unit: str
    """The unit that runs the step's script at other times than the start of a machine."""
    program: FileSet = attrs.field(factory=FileSet)
    """Files that come with the others; the task itself removes them, when its work is taken back."""
    remains: tuple[str, ...] = ()
    """Files that its runs leave, and that go with it."""

    @property
    def name(self) -> str:
        """The name of the step."""
        return self.step.name

    @property
    def all_files(self) -> FileSet:
        """Everything that is written for it."""
        files, program = self.files, self.program
        return FileSet(
            (*files.files, *program.files), (*files.links, *program.links), (*files.obsolete, *program.obsolete)
        )

    def present(self, files: Files) -> tuple[str, ...]:
        """The paths that are there and go with the gate."""
        return (*self.files.present(files), *(path for path in self.remains if files.is_there(path)))


class Gate:
    """The gate of one host."""

    def __init__(self, host: Host) -> None:
        """Nothing is looked at yet."""
        layout = host.layout
        self.files, self.layout = host.files, layout
        self.manager = host.manager if host.manager is not None and host.manager.is_running() else None
        drop_in = File(layout.gate_drop_in_path, render_gate_drop_in(layout), marks=(OURS,))
        script = File(layout.gate_script_path, render_gate_script(layout), _SCRIPT)
        unit = unit_file(layout.gate_unit_path, render_gate_unit(layout), script=layout.gate_script, layout=layout)
        self.drop_in, self.rest = FileSet((drop_in,)), FileSet((script, unit))
        former = tuple(File(path, "", marks=(OURS,)) for path in layout.former_drop_in_paths)
        self.former = FileSet(former, obsolete=layout.former_note_paths)

    @property
    def steps(self) -> tuple[GateStep, ...]:
        """The steps in the list, without lines that are not steps."""
        found = []
        for line in (self.files.read(self.layout.gate_steps_path) or "").split("\n"):
            with suppress(ValueError):
                found.append(GateStep.parse(line))
        return tuple(found)

    def present(self) -> tuple[str, ...]:
        """The paths of the gate itself that are there."""
        listed = [path for path in (self.layout.gate_steps_path,) if self.files.is_there(path)]
        return (
            *self.former.present(self.files),
            *self.drop_in.present(self.files),
            *listed,
            *self.rest.present(self.files),
        )

    @property
    def is_left(self) -> bool:
        """Whether what is there is what a run leaves that was cut short while it took the gate away."""
        listed = self.files.read(self.layout.gate_steps_path)
        if listed is not None:
            return listed == render_gate_steps(())
        return bool(self.present()) and not self.drop_in.present(self.files)

    def starting(self) -> tuple[str, ...]:
        """The machines whose start is at the commands that come before the machine itself."""
        if self.manager is None:
            return ()
        found = self.manager.show(("Id", "SubState"), self.layout.machines)
        return tuple(it.get("Id", "") for it in found if it.get("SubState") in {"condition", "start-pre"})

    def changes(self, up: Sequence[Part] = (), down: Sequence[Part] = ()) -> Changes:
        """What `change` would change; reads, and changes nothing."""
        files, steps = self.files, self._steps_after(up, down)
        found = Changes() if steps else Changes(removes=self.present())
        if steps:
            found += Changes(removes=self.former.present(files)) + self.drop_in.differences(files)
            is_listed = files.holds(self.layout.gate_steps_path, render_gate_steps(steps))
            found += Changes(() if is_listed else (self.layout.gate_steps_path,)) + self.rest.differences(files)
        for part in up:
            found += part.all_files.differences(files)
        for part in down:
            found += Changes(removes=part.present(files))
        return found

    def require_installable(self, up: Sequence[Part]) -> None:
        """The FileError with which `change` would end, as far as it can be told before."""
        for it in self._sets(up):
            it.require_installable(self.files)

    def is_unread(self, parts: Iterable[Part] = ()) -> bool:
        """Whether systemd has yet to read what is in our files now."""
        units = (self.layout.gate_unit, *(part.unit for part in parts), self.layout.machines)
        found = () if self.manager is None else self.manager.show(("NeedDaemonReload",), *units)
        return any(it.get("NeedDaemonReload") == "yes" for it in found)

    def change(self, ctx: phases.Context, up: Sequence[Part] = (), down: Sequence[Part] = ()) -> Changed:
        """Put up these parts and take those away; the host has to be locked. The gate's paths are the first part's.

        A failure leaves the gate shut for the parts that are put up, and carries the paths that were changed. Removal
        continues past failures.
        """
        parts = (*up, *down)
        if not self.changes(up, down) and not self.is_unread(parts):
            return {}
        for it in self._sets(up):
            it.require_room(self.files)
        if self.manager is None:
            ctx.log.info("no systemd runs here: what changes takes effect at the next boot")
        foreign = {part.name for part in parts if part.files.foreign(self.files)}
        change = _Change(self, ctx, foreign)
        try:
            if steps := self._steps_after(up, down):
                change.put_up(up, down, steps)
            else:
                change.take_away(down)
        except BaseException as error:
            tell_effects(error, files=paths_of(change.done(parts)))
            raise
        return change.done(parts)

    def _sets(self, up: Sequence[Part]) -> tuple[FileSet, ...]:
        own = (self.drop_in, self.rest) if up else ()
        return (*own, *(part.all_files for part in up))

    def _steps_after(self, up: Iterable[Part], down: Iterable[Part]) -> tuple[GateStep, ...]:
        """The steps as they will be, in order."""
        steps = {step.name: step for step in self.steps}
        for part in down:
            steps.pop(part.name, None)
        steps |= {part.name: part.step for part in up}
        return tuple(sorted(steps.values(), key=lambda step: (step.rank, step.name)))


class _Change:
    """One change that is under way, and which paths it has changed so far."""

    def __init__(self, gate: Gate, ctx: phases.Context, foreign: Collection[str]) -> None:
        self._gate, self._ctx, self._foreign = gate, ctx, foreign
        self._files, self._layout, self._manager = gate.files, gate.layout, gate.manager
        self._changed: dict[str, dict[str, None]] = {}
        self._is_unread = False
        self._listed = gate.files.read(gate.layout.gate_steps_path)

    def done(self, parts: Sequence[Part]) -> Changed:
        """The paths that were changed, the gate's own with those of the first part."""
        found = {part.name: tuple(self._changed.get(part.name, ())) for part in parts}
        first, path, own = parts[0].name, self._layout.gate_steps_path, self._changed.get("", {})
        if self._files.read(path) == self._listed:
            own.pop(path, None)  # it said `changing` meanwhile, and says again what it said before
        return {**found, first: (*own, *found[first])}

    def put_up(self, up: Sequence[Part], down: Sequence[Part], steps: Sequence[GateStep]) -> None:
        """Shut the gate, change what differs, have systemd read it, and open the gate to these steps."""
        stale = [part for part in up if part.all_files.differences(self._files)]
        leaving = [part for part in down if part.present(self._files)]
        names = {part.name for part in stale}
        failure: FileError | None = None
        try:
            self._list([attrs.evolve(it, kind="changing") if it.name in names else it for it in steps])
            self._stop_gate()
            self._stop(leaving)  # while systemd knows these units: a stop is not a failure of theirs
            self._note("", self._gate.rest.install(self._files))
            for part in stale:
                self._note(part.name, part.all_files.install(self._files))
            for part in leaving:
                self._note(part.name, part.files.remove(self._files))
        except FileError as error:
            failure = error
        try:
            # Last, so that it is read as soon as it is there; after a failure too, for alone it shuts the gate.
            self._note("", self._gate.drop_in.install(self._files))
        except FileError as error:
            failure = failure or error
        try:
            self._reload((*up, *down))
        except ManagerError:
            if failure is None:
                raise
        if failure is not None:
            raise failure
        self._stop(stale)
        self._forget(leaving)
        self._list(steps)
        self._retire_former()

    def take_away(self, down: Sequence[Part]) -> None:
        """Open the gate, take it away, and then what was behind it; as much of it as can be."""
        failures: list[FileError] = []
        gate, path = self._gate, self._layout.gate_steps_path
        is_asked = bool(gate.drop_in.present(self._files)) or self._files.is_there(path)
        if is_asked:
            with suppress(FileError):
                self._list(())
            self._stop_gate()
        if is_asked or gate.former.present(self._files):
            # Machines that are starting pass now. If a drop-in went first, systemd would leave out the commands of
            # others.
            self._await_starts()
        for it in (gate.drop_in, gate.former):
            self._note("", it.remove(self._files, failures))
        self._reload(down)
        self._stop(down)  # while systemd knows these units: a stop is not a failure of theirs
        for part in down:
            self._note(part.name, part.files.remove(self._files, failures))
        if not gate.drop_in.present(self._files):  # else machines go on asking, and have to pass
            for it in (FileSet(obsolete=(path,)), gate.rest):
                self._note("", it.remove(self._files, failures))
        self._reload(down)
        self._forget(down, failures)
        if failures:
            raise failures[0] if len(failures) == 1 else ExceptionGroup("not everything could be removed", failures)

    def _list(self, steps: Iterable[GateStep]) -> None:
        path = self._layout.gate_steps_path
        if self._files.write(path, render_gate_steps(steps)):
            self._note("", (path,))

    def _reload(self, parts: Iterable[Part]) -> None:
        """Have systemd read what was changed, now or by a run that was cut short."""
        if self._manager is not None and (self._is_unread or self._gate.is_unread(parts)):
            self._manager.reload()
            self._is_unread = False

    def _stop_gate(self) -> None:
        """End a run that has read a former list; the machine that asked asks again."""
        if self._manager is not None:
            self._manager.stop(self._layout.gate_unit)

    def _stop(self, parts: Iterable[Part]) -> None:
        """End runs of what was there before; a unit that we did not write is left alone."""
        for part in parts:
            if self._manager is not None and part.name not in self._foreign:
                self._manager.stop(part.unit)

    def _forget(self, parts: Iterable[Part], failures: list[FileError] | None = None) -> None:
        for part in parts:
            self._note(part.name, FileSet(obsolete=part.remains).remove(self._files, failures))

    def _retire_former(self) -> None:
        """Take away the drop-ins of the first installations, once no machine's start is among their commands."""
        former = self._gate.former
        if not former.present(self._files):
            return
        if starting := self._await_starts():
            names = " and ".join(starting)
            self._ctx.log.warning("%s is still starting: the former drop-ins go with the next run", names)
            return
        self._note("", former.remove(self._files))
        self._reload(())

    def _await_starts(self) -> tuple[str, ...]:
        """Wait until no machine's start is at the commands before the machine; those that still are after a while."""
        end = self._ctx.clock.now() + _PATIENCE
        told = False
        while starting := self._gate.starting():
            if not told:
                self._ctx.log.info("waiting up to %g s for the start of %s", _PATIENCE, " and ".join(starting))
                told = True
            if self._ctx.clock.now() >= end:
                break
            self._ctx.sleep(0.1)
        return starting

    def _note(self, name: str, paths: Iterable[str]) -> None:
        found = dict.fromkeys(paths)
        self._changed.setdefault(name, {}).update(found)
        folder = self._layout.at(self._layout.unit_directory)
        self._is_unread = self._is_unread or any(path.startswith(f"{folder}/") for path in found)
