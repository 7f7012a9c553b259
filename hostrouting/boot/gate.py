"""The gate, which decides whether units such as kubelet.service start: how it is installed, changed and removed.

Here: the order of these actions. Not here: what a task needs on a host (`tasks`), the texts (`gate_files`), and whether
the gate works (`gate_state`).

How it works. Each gated unit has a drop-in, which makes its start also start host-routing-gate.service. That runs the
scripts in a list, in order. The drop-ins and the service never change: a daemon-reload while a unit starts could make
systemd skip their commands. What depends on the configuration is in the list and in the scripts. The exception is which
units are gated: a unit that comes or leaves gets or loses its drop-in, with one daemon-reload.

A change is atomic for a unit that starts: it is checked either by the old steps or by the new ones.
1. A program that changes anything holds the lock on the host. The gate waits for that lock before it reads the list.
2. The list is written first. It marks each step whose files will change as `changing`, and the gate does not let a unit
   start while a step is marked. If this run is killed, the mark stays until another run has finished the work.
3. Then the service is stopped. This ends a run that has read the old list, and the gated unit starts the service again.
   A run that begins later reads the new list, even if it could not take the lock. Only now are the scripts changed.
4. Last, the list is written again, with the new steps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

import attrs

from hostrouting.boot.gate_files import (
    FORMAT,
    GateStep,
    StepKind,
    digest_of,
    format_of,
    gate_digests,
    is_list_edited,
    render_gate_drop_in,
    render_gate_script,
    render_gate_steps,
    render_gate_unit,
)
from hostrouting.boot.units import render_preset
from hostrouting.errors import ConfigError, Fault, FileError, ManagerError
from hostrouting.host.effects import tell_effects
from hostrouting.host.fileset import OURS, Changes, File, FileSet, unit_file
from phases.errors import ExceptionGroup

if TYPE_CHECKING:
    import phases
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.host.files import Files
    from hostrouting.host.host import Host
    from hostrouting.host.layout import HostLayout

Changed = dict[str, tuple[str, ...]]
"""The changed paths, by the name of the step that they belong to."""

_PATIENCE = 20.0  # seconds to wait for units that are starting
_SCRIPT = 0o755
_WANTED_BY = "multi-user.target"
_AWAITED = ("sysinit.target", "basic.target", "network-pre.target", "network.target", "network-online.target")


def unseen(unit: str) -> str:
    """The unit; for a template, the name of an instance that has no settings of its own."""
    return unit.replace("@.", "@hostrouting-probe.")


def pattern_of(unit: str) -> str:
    """The unit, or the pattern that matches the instances of a template."""
    return unit.replace("@.", "@*.")


def paths_of(changed: Changed) -> tuple[str, ...]:
    """All paths, those of the first step first."""
    return tuple(path for paths in changed.values() for path in paths)


@attrs.frozen
class Part:
    """What one task installs on a host: its files, and the step of the gate that they belong to."""

    step: GateStep | None
    """None if no unit waits for the task."""
    files: FileSet
    unit: str = ""
    """The unit that does the task's work independently of the gate; empty if the files are all."""
    program: FileSet = attrs.field(factory=FileSet)
    """Files that are installed with the others; the task itself removes them after it has undone its other work."""
    remains: tuple[str, ...] = ()
    """Files that the unit's or the step's runs create; they are removed with the others."""
    is_run_now: bool = False
    """Whether the unit is run once after the task's work, if it is new or its last run failed."""

    @classmethod
    def of(
        cls,
        layout: HostLayout,
        name: str,
        script: str,
        *,
        rank: int,
        kind: StepKind = "requires",
        unit_text: str,
        obsolete: tuple[str, ...] = (),
        remains: tuple[str, ...] = (),
        is_undone_first: bool = False,
    ) -> Part:
        """A script that runs before each start of a gated unit, and by a unit of its own at every boot.

        Scripts run by rank: static-routes 50, check-route-overlap 60, probe-rewrite 70. `requires`: a
        gated unit starts only if the script succeeds; `wants`: it starts whatever the result.

        If the script says what is to be undone, `is_undone_first`: it is then removed after that. `remains` are the
        files that runs of the script create; they are removed before anything is undone.
        """
        unit = f"{name}.service"
        command, folder = f"{layout.config_directory}/{name}.sh", layout.unit_directory
        preset = f"/etc/systemd/system-preset/50-hostrouting-{name}.preset"
        program = (File(layout.at(command), script, mode=_SCRIPT),)
        files = FileSet(
            (
                *(() if is_undone_first else program),
                unit_file(layout.at(f"{folder}/{unit}"), unit_text, layout=layout),
                File(layout.at(preset), render_preset(unit)),
            ),
            links=((layout.at(f"{folder}/{_WANTED_BY}.wants/{unit}"), f"{folder}/{unit}"),),
            obsolete=obsolete,
        )
        later = FileSet(program if is_undone_first else ())
        return cls(GateStep(rank, kind, name), files, unit, later, remains, is_run_now=True)

    @property
    def name(self) -> str:
        """The name of the unit and of the step; without a unit, the path of the first file."""
        return self.unit.removesuffix(".service") or self.files.paths[0]

    @property
    def all_files(self) -> FileSet:
        """All files that are written for this part."""
        return self.files + self.program

    def found(self, files: Files) -> Part | None:
        """The part with the files that exist and their texts on the host; None if one is masked or not ours."""
        own, program = self.files.found(files), self.program.found(files)
        return None if own is None or program is None else attrs.evolve(self, files=own, program=program)

    def present(self, files: Files) -> tuple[str, ...]:
        """The existing paths that are removed with the gate."""
        return (*self.files.present(files), *(path for path in self.remains if files.is_there(path)))

    def left(self, files: Files) -> tuple[str, ...]:
        """The existing paths that are removed after the task has undone its work."""
        return self.program.present(files)


class Gate:
    """The gate of one host."""

    def __init__(self, host: Host, config: HostRoutingConfig | None = None) -> None:
        """Find out whether systemd runs; read nothing else from the host.

        A change that installs parts gates the units of the configuration and no others. Without a configuration, those
        that are gated stay so.
        """
        layout = host.layout
        self._units = () if config is None else config.gate.units
        self._path = "gate.units" if config is None else config.path("gate", "units")
        self.files, self.layout = host.files, layout
        self._is_image = host.backend is None
        self.manager = host.manager if host.manager is not None and host.manager.is_running() else None

    @property
    def gated(self) -> tuple[str, ...]:
        """The units that have our drop-in, and those that have lost it: the list still has the drop-in's digest."""
        names = (self._unit_of(path) for path in gate_digests(self._listed))
        return tuple(sorted({*self._with_drop_in(), *filter(None, names)}))

    def units_after(self, up: Collection[Part]) -> tuple[str, ...]:
        """The units that are gated after a change that installs these parts."""
        return (self._units if up else ()) or self.gated or (self.layout.machine_unit,)

    def drop_ins(self, units: Iterable[str]) -> FileSet:
        """The files that make these units start the gate."""
        layout, text = self.layout, render_gate_drop_in(self.layout)
        return FileSet(tuple(File(layout.at(layout.gate_drop_in(unit)), text, marks=(OURS,)) for unit in units))

    @property
    def installed(self) -> FileSet:
        """The drop-ins that are there."""
        return self.drop_ins(self._with_drop_in())

    def leaving_drop_ins(self, up: Collection[Part]) -> FileSet:
        """The drop-ins that would be removed if these parts were installed."""
        return self.drop_ins(sorted({*self.gated} - {*self.units_after(up)}))

    def _with_drop_in(self) -> Iterator[str]:
        layout, files = self.layout, self.files
        for name in files.names(layout.at(layout.unit_directory)):
            unit = name.removesuffix(".d")
            with suppress(FileError):  # it is not a file, so not ours
                if unit != name and OURS in (files.read(layout.at(layout.gate_drop_in(unit))) or ""):
                    yield unit

    def _unit_of(self, path: str) -> str:
        """The unit to which a drop-in of ours at this path belongs; empty for the path of any other file."""
        folder, _, _ = path.rpartition("/")
        unit = folder.rpartition("/")[2].removesuffix(".d")
        return unit if path == self.layout.gate_drop_in(unit) else ""

    @cached_property
    def rest(self) -> FileSet:
        """The gate's script and unit."""
        layout = self.layout
        script = File(layout.gate_script_path, render_gate_script(layout), _SCRIPT)
        unit = unit_file(layout.gate_unit_path, render_gate_unit(layout), layout=layout)
        return FileSet((script, unit))

    @property
    def steps(self) -> tuple[GateStep, ...]:
        """The steps in the list; lines that are not steps are ignored."""
        found = []
        for line in self._listed.split("\n"):
            with suppress(ValueError):
                found.append(GateStep.parse(line))
        return tuple(found)

    @property
    def edited(self) -> tuple[str, ...]:
        """The paths of existing files that are not as they were written: those of the gate and those of its parts.

        While a step is `changing`, only the gate's own files are compared.
        """
        layout, listed, own = self.layout, self._listed, self.own_paths
        found = [layout.gate_steps_path] if is_list_edited(listed) else []
        is_changing = any(step.kind == "changing" for step in self.steps)
        for name, digest in gate_digests(listed).items():
            path = layout.at(name)
            if not is_changing or path in own:
                text = self.files.read(path)
                found += [path] if text is not None and digest_of(text) != digest else []
        return tuple(found)

    @property
    def lost(self) -> tuple[str, ...]:
        """The paths that were written for the parts and are missing or masked, and missing links of their units.

        Not the scripts and the gate's own files: without those, the gate refuses every start or says what it lacks.
        """
        layout, files = self.layout, self.files
        if any(step.kind == "changing" for step in self.steps):
            return ()
        found: list[str] = []
        for path in map(layout.at, gate_digests(self._listed)):
            if path in self.own_paths or path.endswith(".sh"):
                continue
            text, (folder, _, unit) = files.read(path), path.rpartition("/")
            found += [] if text else [path]
            link = f"{folder}/{_WANTED_BY}.wants/{unit}"
            if f"WantedBy={_WANTED_BY}" in (text or "").splitlines() and not files.is_there(link):
                found.append(link)
        return tuple(found)

    def as_written(self, part: Part) -> Part | None:
        """The part as it is on the host; None if a file is not as it was written, or the step not listed or `changing`.

        Which version wrote it does not matter, nor that this had other files.
        """
        found, noted = part.found(self.files), gate_digests(self._listed)
        if found is None or part.step not in self.steps:
            return None
        written = {path: noted[path] for path in self.digests_of((part.all_files,)) if path in noted}
        return found if self.digests_of((found.all_files,)) == written else None

    @property
    def _listed(self) -> str:
        path = self.layout.gate_steps_path
        text = self.files.read(path) or ""
        if (found := format_of(text)) > FORMAT:
            told = f"{path} was written by a newer version of hostrouting (format {found}; this version reads {FORMAT})"
            raise FileError(f"{told}; use that version, because this one would misread its files", path=path)
        return text

    @property
    def own_paths(self) -> tuple[str, ...]:
        """The paths of the gate itself, without those of its parts."""
        layout = self.layout
        units = {*self.gated, *self._units}
        drop_ins = (layout.at(layout.gate_drop_in(unit)) for unit in sorted(units))
        return (*drop_ins, layout.gate_steps_path, layout.gate_script_path, layout.gate_unit_path)

    def present(self) -> tuple[str, ...]:
        """The existing paths of the gate itself, without those of its parts."""
        if not any(map(self.files.is_there, self.own_paths)):
            return ()  # on most hosts; nothing has to be rendered for that
        data = (self.layout.gate_steps_path, self.layout.opening_path)
        listed = [path for path in data if self.files.is_there(path)]
        return (*self.installed.present(self.files), *listed, *self.rest.present(self.files))

    @property
    def is_emptied(self) -> bool:
        """Whether the list is of a removal that has not ended. Nothing says which units have lost their drop-in."""
        return self.files.read(self.layout.gate_steps_path) == render_gate_steps(())

    @property
    def is_left(self) -> bool:
        """Whether the existing files are those of a removal that was interrupted."""
        if self.files.is_there(self.layout.gate_steps_path):
            return self.is_emptied
        return bool(self.present()) and not self.installed.present(self.files)

    def starting(self, units: Iterable[str]) -> tuple[str, ...]:
        """The units that are starting now: systemd runs the commands before the unit itself."""
        patterns = tuple(map(pattern_of, units))
        if self.manager is None or not patterns:
            return ()
        found = self.manager.show(("Id", "SubState"), *patterns)
        return tuple(unit.get("Id", "") for unit in found if unit.get("SubState") in {"condition", "start-pre"})

    def changes(self, up: Sequence[Part] = (), down: Sequence[Part] = ()) -> Changes:
        """What `change` would change; nothing is changed yet."""
        files, steps = self.files, self._steps_after(up, down)
        found = Changes() if steps else Changes(removes=self.present())
        if steps:
            found += self.drop_ins(self.units_after(up)).differences(files)
            found += Changes(removes=self.leaving_drop_ins(up).present(files))
            text = render_gate_steps(steps, self.digests_after(up, down))
            is_listed = files.holds(self.layout.gate_steps_path, text)
            found += Changes(() if is_listed else (self.layout.gate_steps_path,)) + self.rest.differences(files)
        for part in up:
            found += part.all_files.differences(files)
        for part in down:
            found += Changes(removes=part.present(files))
        return found

    def obstacles(self, up: Sequence[Part]) -> tuple[FileError, ...]:
        """Each FileError that `change` would raise, as far as it can be predicted."""
        return tuple(error for file_set in self._sets(up) for error in file_set.obstacles(self.files))

    def is_unread(self, parts: Iterable[Part] = ()) -> bool:
        """Whether systemd needs a daemon-reload to read the present contents of our files."""
        gated = map(pattern_of, {*self.gated, *self._units})
        units = (self.layout.gate_unit, *(part.unit for part in parts if part.unit), *sorted(gated))
        found = () if self.manager is None else self.manager.show(("NeedDaemonReload",), *units)
        return any(unit.get("NeedDaemonReload") == "yes" for unit in found)

    def ungateable(self, up: Collection[Part]) -> tuple[Fault, ...]:
        """The units that this change would gate, but that cannot be gated.

        The gate waits for such a unit, so each would wait for the other; or the name is an alias: systemd and the
        gate's messages use the other name, and an opening of the gate for the alias would open nothing.
        """
        if self.manager is None:
            return ()
        faults, waited = [], {*_AWAITED, self.layout.gate_unit}
        for unit in sorted({*self.units_after(up)} - {*self.gated}):
            [found] = self.manager.show(("Id", "Before"), unseen(unit))
            if found["Id"] != unseen(unit):
                name = found["Id"].replace(unseen("@."), "@.")
                faults.append(Fault(self._path, f'"{unit}"', f"is an alias of {name}", f'write "{name}"'))
            elif before := sorted({*found["Before"].split()} & waited):
                rule = f"starts before {before[0]}, which the gate waits for: each would wait for the other"
                remedy = "name the unit that needs the network, such as kubelet.service"
                faults.append(Fault(self._path, f'"{unit}"', rule, remedy))
        return tuple(faults)

    def require_reload(self, changes: Changes, parts: Iterable[Part]) -> None:
        """Raise the ManagerError with which systemd would refuse a daemon-reload, if these changes need one."""
        folder = f"{self.layout.at(self.layout.unit_directory)}/"
        has_units = any(path.startswith(folder) for path in (*changes.writes, *changes.removes))
        if self.manager is not None and (has_units or self.is_emptied or self.is_unread(parts)):
            self.manager.require_room()

    def change(self, ctx: phases.Context, up: Sequence[Part] = (), down: Sequence[Part] = ()) -> Changed:
        """Install the parts `up` and remove the parts `down`; return the changed paths. The host has to be locked.

        The gate's own paths are listed under the first part. After a failure, no gated unit starts until a later run
        has finished installing `up`; the error carries the changed paths. Removal continues after a failure, but does
        not begin if systemd would not read it: a unit would keep the drop-in that is deleted.
        """
        parts, changes = (*up, *down), self.changes(up, down)
        if not changes and not self.is_unread(parts):
            return {}
        for file_set in self._sets(up):
            file_set.require_room(self.files)
        self.require_reload(changes, parts)
        if faults := self.ungateable(up) if any(part.step for part in up) else ():
            raise ConfigError(faults)
        concerned = (*up, *(part for part in down if part.present(self.files)))
        if self.manager is None and not self._is_image and any(part.unit or part.step for part in concerned):
            ctx.log.info("systemd is not running here: routes change now, units and the gate at the next boot")
        foreign = {part.name for part in parts if part.files.foreign(self.files)}
        change = _Change(self, ctx, foreign)
        try:
            if steps := self._steps_after(up, down):
                change.put_up(up, down, steps)
            else:
                change.take_away(down)
                change.put_beside(up)
        except BaseException as error:
            tell_effects(error, files=paths_of(change.done(parts)))
            raise
        return change.done(parts)

    def _sets(self, up: Sequence[Part]) -> tuple[FileSet, ...]:
        own = (self.drop_ins(self.units_after(up)), self.rest) if any(part.step for part in up) else ()
        return (*own, *(part.all_files for part in up))

    def _steps_after(self, up: Iterable[Part], down: Iterable[Part]) -> tuple[GateStep, ...]:
        """The steps after the change, in order."""
        steps = {step.name: step for step in self.steps}
        for part in down:
            steps.pop(part.name, None)
        steps |= {part.name: part.step for part in up if part.step is not None}
        return tuple(sorted(steps.values(), key=lambda step: (step.rank, step.name)))

    def digests_after(self, up: Sequence[Part], down: Sequence[Part]) -> dict[str, str]:
        """The digests of the files after the change, by their paths on the host."""
        root = self.layout.root.rstrip("/")
        leaving = (*(part.all_files for part in down), self.leaving_drop_ins(up))
        paths = [file.path for file_set in leaving for file in file_set.files]
        paths += [path for part in (*up, *down) for path in part.files.obsolete]
        gone = {path.removeprefix(root) for path in paths}
        kept = {path: digest for path, digest in gate_digests(self._listed).items() if path not in gone}
        return kept | self.digests_of(self._sets(up))

    def digests_of(self, file_sets: Iterable[FileSet]) -> dict[str, str]:
        """The digests of these files, by their paths on the host."""
        root = self.layout.root.rstrip("/")
        files = (file for file_set in file_sets for file in file_set.files)
        return {file.path.removeprefix(root): digest_of(file.text) for file in files}


class _Change:
    """One change in progress, and the paths it has changed so far."""

    def __init__(self, gate: Gate, ctx: phases.Context, foreign: Collection[str]) -> None:
        self._gate, self._ctx, self._foreign = gate, ctx, foreign
        self._files, self._layout, self._manager = gate.files, gate.layout, gate.manager
        self._changed: dict[str, dict[str, None]] = {}
        self._is_unread = gate.is_emptied
        self._listed = gate.files.read(gate.layout.gate_steps_path)

    def done(self, parts: Sequence[Part]) -> Changed:
        """The changed paths; the gate's own are listed with those of the first part."""
        found = {part.name: tuple(self._changed.get(part.name, ())) for part in parts}
        first, path, own = parts[0].name, self._layout.gate_steps_path, self._changed.get("", {})
        if self._files.read(path) == self._listed:
            own.pop(path, None)  # it said `changing` in between, and is now the same as before
        return {**found, first: (*own, *found[first])}

    def put_up(self, up: Sequence[Part], down: Sequence[Part], steps: Sequence[GateStep]) -> None:
        """Mark the steps as changing, install what differs, daemon-reload, and list the steps without marks."""
        stale = [part for part in up if part.all_files.differences(self._files)]
        leaving = [part for part in down if part.present(self._files)]
        names = {part.name for part in stale}
        digests = self._gate.digests_after(up, down)
        failure: FileError | None = None
        units, drop_ins = self._gate.units_after(up), self._gate.leaving_drop_ins(up)
        try:
            marked = [attrs.evolve(step, kind="changing") if step.name in names else step for step in steps]
            # With those that leave: if this run is killed before the daemon-reload, the next one knows of them.
            self._list(marked, digests | self._gate.digests_of((drop_ins,)))
            self._stop_gate()
            self._stop(leaving)  # while systemd still knows these units, so that the stop does not count as a failure
            self._note("", self._gate.rest.install(self._files))
            for part in stale:
                self._note(part.name, part.all_files.install(self._files))
            for part in leaving:
                self._note(part.name, part.files.remove(self._files))
        except FileError as error:
            failure = error
        try:
            # Last, so that the daemon-reload follows at once. After a failure too: a drop-in alone keeps its unit from
            # starting.
            self._note("", self._gate.drop_ins(units).install(self._files))
            if failure is None:
                self._remove(drop_ins)
        except FileError as error:
            failure = failure or error
        try:
            self._reload((*up, *down))
        except ManagerError:
            if failure is None:
                raise
        if failure is not None:
            raise failure
        # A service without a step runs on until its task restarts it: if the run ends before that, it is not missing.
        self._stop([part for part in stale if part.step is not None])
        self._forget(leaving)
        self._list(steps, digests)

    def put_beside(self, up: Sequence[Part]) -> None:
        """Install the files of parts that have no step, on a host without a gate."""
        for part in up:
            self._note(part.name, part.all_files.install(self._files))
        self._reload(up)

    def take_away(self, down: Sequence[Part]) -> None:
        """Empty the list, so that each unit starts; then remove the gate and the parts, as far as possible."""
        failures: list[FileError] = []
        gate, path = self._gate, self._layout.gate_steps_path
        has_units = any(part.unit for part in down if part.present(self._files))
        if has_units or gate.installed.present(self._files) or self._files.is_there(path):
            with suppress(FileError):
                self._list(())
            self._stop_gate()  # units that are starting pass now
        self._remove(gate.installed, failures)
        self._reload(down)
        self._stop(down)  # while systemd still knows these units, so that the stop does not count as a failure
        for part in down:
            self._note(part.name, part.files.remove(self._files, failures))
        is_over = not gate.installed.present(self._files)  # otherwise units still start the gate, and it has to succeed
        if is_over:
            self._note("", gate.rest.remove(self._files, failures))
        self._reload(down)
        self._forget(down, failures)
        if is_over:  # last, because the list tells the next run of a removal that systemd has not read
            self._note("", FileSet(obsolete=(path, self._layout.opening_path)).remove(self._files, failures))
        if failures:
            raise failures[0] if len(failures) == 1 else ExceptionGroup("not everything could be removed", failures)

    def _remove(self, drop_ins: FileSet, failures: list[FileError] | None = None) -> None:
        """Remove these drop-ins, and the folders of their units if they are empty.

        A start that has begun comes first: otherwise systemd would skip the commands of its other drop-ins.
        """
        folders = [path.rpartition("/")[0] for path in drop_ins.present(self._files)]
        self._await_starts([folder.rpartition("/")[2].removesuffix(".d") for folder in folders])
        self._note("", drop_ins.remove(self._files, failures))
        for folder in folders:
            self._files.remove_empty(folder)

    def _list(self, steps: Iterable[GateStep], digests: Mapping[str, str] | None = None) -> None:
        path = self._layout.gate_steps_path
        if self._files.write(path, render_gate_steps(steps, digests)):
            self._note("", (path,))

    def _reload(self, parts: Iterable[Part]) -> None:
        """Run daemon-reload if this change, or an earlier one that was interrupted, requires it."""
        if self._manager is not None and (self._is_unread or self._gate.is_unread(parts)):
            self._manager.reload()
            self._is_unread = False

    def _stop_gate(self) -> None:
        """Stop a run of the gate that has read the old list; a unit that waits for it starts a new run."""
        if self._manager is not None:
            self._manager.stop(self._layout.gate_unit)

    def _stop(self, parts: Iterable[Part]) -> None:
        """Stop the units of these parts, but not a unit that we did not write."""
        for part in parts:
            if self._manager is not None and part.unit and part.name not in self._foreign:
                self._manager.stop(part.unit)

    def _forget(self, parts: Iterable[Part], failures: list[FileError] | None = None) -> None:
        for part in parts:
            self._note(part.name, FileSet(obsolete=part.remains).remove(self._files, failures))

    def _await_starts(self, units: Sequence[str]) -> None:
        """Wait until none of these units is starting, or until the timeout."""
        end = self._ctx.clock.now() + _PATIENCE
        told = False
        while starting := self._gate.starting(units):
            if not told:
                self._ctx.log.info("waiting up to %g s for the start of %s", _PATIENCE, " and ".join(starting))
                told = True
            if self._ctx.clock.now() >= end:
                break
            self._ctx.sleep(0.1)

    def _note(self, name: str, paths: Iterable[str]) -> None:
        found = dict.fromkeys(paths)
        self._changed.setdefault(name, {}).update(found)
        folder = self._layout.at(self._layout.unit_directory)
        self._is_unread = self._is_unread or any(path.startswith(f"{folder}/") for path in found)
