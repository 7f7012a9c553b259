"""What the tasks tell the manager about what they write and remove, so that the next boot is as this one.

Here: the gate, put up and taken away; the run of a unit; how long anything may be waited for. Not here: which files
there are (`installation`).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from hostrouting.errors import FileError, HostRoutingError, ManagerError, UnitFailed

if TYPE_CHECKING:
    import phases
    from hostrouting.host import Host
    from hostrouting.installation import Installation
    from hostrouting.system import Manager

__all__ = ["run_once", "set_gate", "valid_wait"]

_A_DAY = 86_400
_GRACE = 90.0  # seconds for a unit beyond its own waiting


def set_gate(ctx: phases.Context, host: Host, installation: Installation, *, up: bool) -> tuple[str, ...]:
    """Put up the gate, or take it away, and have the manager know; the paths that changed.

    The unit is stopped when anything of the installation is not as it will be: a run of what was there before would
    outlive it. A note stands from the first write until the manager is done with this unit, so that whoever is
    interrupted here is made up for by the next run, although it finds no file to change. What is still to be written
    and run when the gate is up leaves the note to `run_once`.
    """
    files, note, gate = host.files, installation.note, installation.gate
    if not (installation.differences(files) if up else installation.present(files)):
        return ()
    if up:
        gate.require_room(files)
    manager, foreign = _listening(host), gate.foreign(files)
    is_news = bool(files.is_there(note) or (gate.differences(files) if up else gate.present(files)))
    act = gate.install if up else gate.remove
    if manager is None:
        if is_news:
            ctx.log.info("no systemd runs here: %s", _later(installation.unit, up=up))
        return act(files)
    files.write(note, "")  # without a text, there is room for it on a disk that is full
    try:
        changed = act(files)
    except FileError:
        with suppress(ManagerError):
            manager.reload()  # of a gate the drop-in is enough, and that may be there by now
        raise
    if is_news:
        manager.reload()
    if not foreign:
        manager.stop(installation.unit)
    if not (up and installation.program.files):
        files.remove(note)
    return changed


def run_once(ctx: phases.Context, host: Host, installation: Installation, *, wait: float) -> bool:
    """Run the unit that the next boot depends on once now; whether it was run.

    Not when nothing was changed, now or by a run that did not come so far, and it went well the last time.
    """
    manager, unit = _listening(host), installation.unit
    if manager is None or not (host.files.is_there(installation.note) or not manager.state(unit).ok):
        return False
    try:
        with ctx.on_cancel(lambda: manager.stop(unit)):
            manager.start(unit, timeout=wait + _GRACE)
    except HostRoutingError as error:
        ctx.check()  # a unit that was stopped because we were told to has not failed
        if isinstance(error, UnitFailed):
            host.files.remove(installation.note)  # its state says that it has to be run again
        raise
    host.files.remove(installation.note)
    return True


def valid_wait(instance: object, _attribute: object, value: float) -> None:
    """For a task: ValueError when nobody can wait for so many seconds."""
    if not 0 <= value <= _A_DAY:
        raise ValueError(f"{type(instance).__name__}: wait={value} is not between 0 and {_A_DAY} seconds")


def _later(unit: str, *, up: bool) -> str:
    return (
        f"what is written for {unit} takes effect at the next boot" if up else f"{unit} is gone from the next boot on"
    )


def _listening(host: Host) -> Manager | None:
    """The manager; None where there is none, as in an image, or where it does not run."""
    return host.manager if host.manager is not None and host.manager.is_running() else None
