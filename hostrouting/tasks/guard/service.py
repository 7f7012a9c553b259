"""InstallGuard installs the service that keeps the routing right, and reports its state.

Here: the unit and its state. Not here: what the running guard does (`loop`). No unit waits for the guard, so it
has no step in the gate.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

import phases
from hostrouting.boot.gate import Part
from hostrouting.boot.units import render_guard_unit, render_preset
from hostrouting.check.report import GUARD_SCHEMA, document_in
from hostrouting.errors import ConfigError, Fault
from hostrouting.finding import Finding
from hostrouting.host.effects import Effects, Operation
from hostrouting.host.fileset import File, FileSet, unit_file
from hostrouting.tasks.base import HostTask, start_unit
from hostrouting.tasks.results import Change, Standing
from hostrouting.text import show
from phases.text import moment_as_text

if TYPE_CHECKING:
    from typing_extensions import Self

    from hostrouting.host.systemd import Manager

_PROGRAM = "hostrouting"
_TO_START = 100.0  # seconds; the unit itself has less
_UNSEEN = ("/tmp/", "/var/tmp/", "/dev/shm/")  # noqa: S108  hidden from the service by its unit
_SHOWN = 3  # keys that do not stay
_RUNNING = {"active", "reloading"}


@attrs.frozen
class InstallGuard(HostTask[Effects]):
    """Install the service that keeps the routing right, and start it.

    1. If the guard is not enabled, remove the service; if there is none, do nothing.
    2. Write the unit if it differs; it is enabled, so it starts at every boot.
    3. Start it if the unit is new or the guard does not run. A running guard reads a new configuration by itself.
    """

    name: ClassVar[str] = "install-guard"
    nothing: ClassVar[str] = "no guard is wanted, and none is installed"
    section: ClassVar[str] = "guard"
    loss: ClassVar[str] = "the guard, without which a lost route stays lost"
    is_protection: ClassVar[bool] = True
    is_always_carried_out: ClassVar[bool] = True  # the guard is needed most when another task fails
    clock: phases.Clock = attrs.field(factory=phases.SystemClock, kw_only=True, eq=False, repr=False)
    """Tells how old the last look is."""

    @property
    def part(self) -> Part:
        """The unit; what the guard has written is removed with it."""
        layout = self.host.layout
        text = render_guard_unit(self._program or _PROGRAM, layout=layout)
        files = FileSet(
            (
                unit_file(layout.guard_unit_path, text, layout=layout),
                File(layout.guard_preset_path, render_preset(layout.guard_unit)),
            ),
            links=((layout.guard_enabled_path, f"{layout.unit_directory}/{layout.guard_unit}"),),
        )
        # The lock file stays: a guard that runs by itself may hold it.
        remains = () if self._runs_by_hand else (layout.guard_path, layout.figures_path)
        return Part(None, files, layout.guard_unit, remains=remains)

    @property
    def is_wanted(self) -> bool:
        """Whether the guard is enabled."""
        return self.config.guard.enabled

    def settled(self, ctx: phases.Context) -> Self:  # noqa: ARG002  the host's files answer
        """The task itself. Raises ConfigError if the service could not run the program."""
        path, given = self._program or "", self.config.guard.program
        rule = "" if path else f"is needed here: the program {_PROGRAM} was not found"
        if path.startswith(_UNSEEN):
            rule = "is in a directory for temporary files, which the service cannot see"
            rule = rule if given else f"by default, it is the program of this Python, {show(path)}, which {rule}"
        if self.is_wanted and rule:
            remedy = 'install hostrouting on the host, and write its path, such as "/opt/agent/bin/hostrouting"'
            raise ConfigError([Fault(f"{self.section_path}.program", show(given) if given else "", rule, remedy)])
        return self

    def change(self, *, up: bool) -> Change:
        """The start of the service; its files are part of the gate's change."""
        manager, unit = self._manager, self.host.layout.guard_unit
        if not up or manager is None or manager.state(unit).active in _RUNNING:
            return Change()
        return Change(operations=(Operation("start", unit, "it is not running"),))

    def carry_out(self, ctx: phases.Context, change: Change, *, up: bool) -> Effects:
        """Start the service if its unit is new or it does not run. For a removal, the gate has stopped it."""
        manager = self._manager
        if manager is None or not up or not (change.operations or change.files):
            return Effects()
        start_unit(ctx, manager, self.host.layout.guard_unit, timeout=_TO_START)
        return Effects(started=True)

    def standing(self) -> Standing | None:
        """Whether the guard runs, what it has done, and what it cannot repair; None if there is no guard."""
        layout, files = self.host.layout, self.host.files
        runs = self._runs
        # Without systemd, an installed unit starts at the next boot.
        is_installed = self._manager is not None and files.is_there(layout.guard_unit_path)
        if self.host.backend is None or not (runs or is_installed):
            return None
        from hostrouting.tasks.guard.state import VALID  # noqa: PLC0415  only a host with a guard needs it

        see = f"see: systemctl status {layout.guard_unit}"
        stopped = [] if runs else [Finding("guard", "error", "the guard does not run", layout.guard_unit, see)]
        written = document_in(files.read(layout.guard_path), GUARD_SCHEMA) if runs else {}
        looked = written.get("lastLook") or written.get("since")
        if isinstance(looked, str) and looked < moment_as_text(self.clock.utc() - VALID):
            told = f"the guard has not looked at the host since {looked}"
            stopped = [Finding("guard", "error", told, layout.guard_unit, see)]
        notes = (Finding("guard", "note", note) for note in _notes(written))
        return Standing("the guard", findings=(*stopped, *notes), facts=tuple(_facts(written)))

    @property
    def _runs(self) -> bool:
        return bool(self.host.files.holders(self.host.layout.guard_lock_path))

    @property
    def _runs_by_hand(self) -> bool:
        return self._runs and not self.host.files.is_there(self.host.layout.guard_unit_path)

    @property
    def _manager(self) -> Manager | None:
        manager = self.host.manager
        return manager if manager is not None and manager.is_running() else None

    @property
    def _program(self) -> str | None:
        return self.config.guard.program or self.host.own_program() or self.host.find_program(_PROGRAM)


def _facts(written: dict[str, Any]) -> Iterator[str]:
    if written:
        yield f"running since {written.get('since')}; last look: {written.get('lastLook')}"
    if written.get("repairs"):
        yield f"repairs: {written['repairs']}, the last at {written.get('lastRepair')}"


def _notes(written: dict[str, Any]) -> Iterator[str]:
    """A line for each key that does not stay as the guard has repaired it."""
    listed = written.get("fights")
    fights = [fight for fight in listed if isinstance(fight, dict)] if isinstance(listed, list) else []
    for fight in fights[:_SHOWN]:
        ours, found = fight.get("ours"), fight.get("found")
        yield f"{fight.get('key')} does not stay: the last time there was {found} instead of {ours}"
    if len(fights) > _SHOWN:
        yield f"{len(fights) - _SHOWN:,} more do not stay"
    unknown = written.get("unknown")
    for task in unknown if isinstance(unknown, list) else ():
        yield f"{task}: not known since {written.get('lastLook')}; what is shown is from before"
    if written.get("failure"):
        yield str(written["failure"])
