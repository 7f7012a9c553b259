"""What the tasks tell the manager after they wrote or removed files, so that the next boot is as this one.

Here: reload, start, and when nobody is there to be told. Not here: which files there are (`installation`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import phases
    from hostrouting.host import Host
    from hostrouting.installation import Installation
    from hostrouting.system import Manager

__all__ = ["announce", "run_once", "take_down"]

_GRACE = 90.0  # seconds for a unit beyond its own waiting


def run_once(ctx: phases.Context, host: Host, unit: str, *, changed: tuple[str, ...], wait: float) -> bool:
    """Have the manager know what was written, and run the unit that the next boot depends on once now.

    Not when nothing changed and it went well the last time; whether it was run.
    """
    manager = _listening(ctx, host)
    if manager is None or not (changed or not manager.state(unit).ok):
        return False
    if changed:
        manager.reload()
    manager.start(unit, timeout=wait + _GRACE)
    return True


def announce(ctx: phases.Context, host: Host, unit: str, *, changed: tuple[str, ...]) -> None:
    """Have the manager know what was written, so that whatever starts the unit next starts this one."""
    if not changed or (manager := _listening(ctx, host)) is None:
        return
    manager.reload()
    # A oneshot that another installer had remain active would pass at every later start without being run.
    if manager.state(unit).active == "active":
        manager.stop(unit)


def take_down(ctx: phases.Context, host: Host, installation: Installation) -> tuple[str, ...]:
    """Remove what was installed, and have the manager know; the paths that were there."""
    gone = installation.remove(host.files)
    if gone and (manager := _listening(ctx, host)) is not None:
        manager.reload()
    return gone


def _listening(ctx: phases.Context, host: Host) -> Manager | None:
    """The manager; None where there is none, as in an image, or where it does not run."""
    if host.manager is None or host.manager.is_running():
        return host.manager
    ctx.log.info("no systemd runs here: what was written takes effect at the next boot")
    return None
