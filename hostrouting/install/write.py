"""The order in which files are written and removed, and systemd is told.

A run can be killed anywhere. Then the next run completes the work, and until then no unit runs a
script that is missing, and no marker is about another configuration. So the order is:

1. The markers go, if any file changes: they are about the former configuration, and no verdict is
   better than a wrong one.
2. The units of ours whose files go are stopped: when the files are gone, they no longer say which
   units the next run has to stop. So is a guard whose files are new: the next run starts a guard
   that does not run, but cannot tell that one runs an old script. If the run fails after this, and
   is not killed, it starts such a guard again.
3. Drop-ins and units go.
4. systemd reads that. Until then, a unit that had a drop-in still runs gate.sh, so the gate goes
   after this. And config.json is replaced after this: the former one tells the next run which
   units may still have a drop-in loaded that is gone.
5. The steps go that gate.sh does not require: once it does not name them, it would take them for
   another program's, and require them. It passes over them if they are missing.
6. The files are written, in the order of `files_of`.
7. The rest goes: each script after what runs it, and config.json last. `owned_paths` has this
   order. Until gate.sh has been written without the steps that it requires, it needs them.
8. systemd reads the units and drop-ins that were written. From here on, the gate is in force.

The guard is started later, in a step of its own: the routes do not need it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import phases
from hostrouting.boot.on_disk import optional_step_paths
from hostrouting.boot.units import UNITS
from hostrouting.errors import HostError
from hostrouting.host.effects import Effects, Operation, having_changed
from hostrouting.host.layout import HostLayout
from hostrouting.host.systemd import unit_failed
from hostrouting.install.installed import installed_or_none

if TYPE_CHECKING:
    from hostrouting.host.host import Host
    from hostrouting.host.systemd import Manager
    from hostrouting.install.plan import Plan

_GRACE = 30.0  # seconds for the start of the guard


def write_files(host: Host, plan: Plan) -> Effects:
    """Make the changes of this plan to the files of the host, which has to be locked.

    The first failure is raised, with the effects so far. Another run does the rest.
    """
    manager = host.running_manager
    changed: list[str] = []
    operations: list[Operation] = []
    with having_changed(files=changed, operations=operations):
        if plan.files:
            remove_markers(host)  # 1
        with _guard_started_again(host, plan, changed, operations):
            if manager is not None:
                _stop_units(manager, plan)  # 2
                operations += plan.for_systemd("stop")
            _change_files(host, plan, changed, operations)
    return Effects(files=changed, operations=tuple(operations))


def _stop_units(manager: Manager, plan: Plan) -> None:
    """Stop the units of ours that must not run while their files change."""
    stops = [operation.object for operation in plan.for_systemd("stop", "restart")]
    for unit in UNITS:
        if unit in stops or HostLayout.unit_path(unit) in plan.files.removes:
            manager.stop(unit)


def _change_files(host: Host, plan: Plan, changed: list[str], operations: list[Operation]) -> None:
    """Write and remove files, and have systemd read its own; the lists get what was done."""
    manager = host.running_manager
    removes = plan.files.removes
    of_systemd = [path for path in removes if _is_of_systemd(path)]
    only_wanted = optional_step_paths(host.files)
    steps = [path for path in removes if path in only_wanted]
    others = [path for path in removes if path not in of_systemd + steps]
    _remove(host, of_systemd, changed)  # 3
    if manager is not None and (of_systemd or plan.for_systemd("reload")):
        manager.reload()  # 4
        operations += plan.for_systemd("reload")
    _remove(host, steps, changed)  # 5
    for file in plan.files.writes:  # 6
        file.write(host.files)
        changed.append(file.path)
    _remove(host, others, changed)  # 7
    if manager is not None and any(map(_is_of_systemd, plan.files.written_paths)):
        manager.reload()  # 8


@contextmanager
def _guard_started_again(
    host: Host, plan: Plan, changed: list[str], operations: list[Operation]
) -> Iterator[None]:
    """If the block fails, start the guard again that it has stopped for new files. Each file is
    whole, old or new; `operations` gets what became of the guard.
    """
    try:
        yield
    except BaseException:  # Ctrl-C and the end of a cancelled run, too: the guard has to run
        manager = host.running_manager
        for restart in plan.for_systemd("restart"):
            guard = restart.object
            outcome = Operation("stop", guard, "its files are new; it could not be started again")
            with suppress(HostError):
                if manager is not None and HostLayout.unit_path(guard) in changed:
                    manager.reload()
                if manager is not None:
                    manager.start(guard, timeout=_GRACE)
                    outcome = Operation("restart", guard, "the change of its files has failed")
            operations.append(outcome)
        raise


def start_guard(host: Host, plan: Plan, ctx: phases.Context) -> Effects | phases.Skip:
    """Start the guard, unless another run has taken it away since the files were written."""
    with host.locked(ctx):
        manager, installed = host.running_manager, installed_or_none(host)
        if manager is None or installed is None or not installed.guard.enabled:
            return phases.Skip("it is no longer wanted")
        starts = plan.for_systemd("start", "restart")
        for start in starts:
            # systemd may have started it again meanwhile, with the script of before.
            manager.stop(start.object)
            # This does not wait for a pass of the guard, which needs the lock.
            manager.start(start.object, timeout=_GRACE)
            _require_active(manager, start.object)
    return Effects(operations=starts)


def _require_active(manager: Manager, unit: str) -> None:
    """Raise the error of a unit that has ended since systemd said that it was started."""
    names = ("ActiveState", "Result", "ExecMainStatus", "InactiveExitTimestamp")
    [shown] = manager.show(names, unit)
    if shown["ActiveState"] == "active":
        return
    lines = manager.errors_of(unit, shown["InactiveExitTimestamp"])
    raise unit_failed(unit, result=shown["Result"], status=shown["ExecMainStatus"], lines=lines)


def _is_of_systemd(path: str) -> bool:
    """Whether systemd loads the file: a unit, a drop-in, or a link that starts a unit."""
    return "/systemd/system/" in path


def remove_markers(host: Host) -> None:
    """Remove what a check has written."""
    for path in HostLayout.markers:
        with suppress(HostError):  # only the routes decide, and the next boot removes it
            host.files.remove(path)


def _remove(host: Host, paths: list[str], done: list[str]) -> None:
    """Remove these files, and the folders of ours that are then empty; `done` gets each file that
    was there.
    """
    for path in paths:
        if host.files.remove(path):
            done.append(path)
        folder = path.rpartition("/")[0]
        if folder.endswith(".d") or folder == HostLayout.config_directory:
            host.files.remove_empty(folder)
