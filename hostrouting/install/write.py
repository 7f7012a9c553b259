"""The order in which files are written and removed, and systemd is told.

A run can be killed anywhere. Then the next run completes the work, and until then no unit runs a
script that is missing, and no marker is about another configuration. So the order is:

1. The markers go, if any file changes: they are about the former configuration, and no verdict is
   better than a wrong one.
2. The units of ours whose files go are stopped: when the files are gone, they no longer say which
   units the next run has to stop. So is a guard whose files are new: the next run starts a guard
   that does not run, but cannot tell that one runs an old script.
3. Drop-ins and units go.
4. systemd reads that. Until then, a unit that had a drop-in still runs gate.sh, so the gate goes
   after this. And config.json is replaced after this: the former one tells the next run which
   units may still have a drop-in loaded that is gone.
5. The files are written: config.json first, so that the next run knows what is installed, and each
   script before what runs it. `files_of` has them in this order.
6. The rest goes: each script after what runs it, and config.json last. `owned_paths` has this
   order. Until gate.sh has been written without the steps that go, it needs them.
7. systemd reads the units and drop-ins that were written. From here on, the gate is in force.

The guard is started later, in a step of its own: the routes do not need it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import phases
from hostrouting.boot.units import UNITS
from hostrouting.errors import HostError
from hostrouting.host.effects import Effects, having_changed
from hostrouting.host.layout import HostLayout
from hostrouting.install.installed import readable_installed

if TYPE_CHECKING:
    from hostrouting.host.effects import Operation
    from hostrouting.host.host import Host
    from hostrouting.install.plan import Plan

_GRACE = 30.0  # seconds for the start of the guard


def write_files(host: Host, plan: Plan) -> Effects:
    """Make the changes of this plan to the files of the host, which has to be locked.

    The first failure is raised, with the effects so far. Another run does the rest.
    """
    writes, removes = plan.files.writes, plan.files.removes
    units = [path for path in removes if _is_of_systemd(path)]
    others = [path for path in removes if not _is_of_systemd(path)]
    done: list[str] = []
    operations: list[Operation] = []
    manager = host.running_manager
    with having_changed(files=done, operations=operations):
        if plan.files:
            remove_markers(host)  # 1
        if manager is not None:
            stopped = [operation.object for operation in plan.for_systemd("stop", "restart")]
            for unit in UNITS:  # 2
                if unit in stopped or HostLayout.unit_path(unit) in units:
                    manager.stop(unit)
            operations += plan.for_systemd("stop")
        _remove(host, units, done)  # 3
        if manager is not None and (units or plan.for_systemd("reload")):
            manager.reload()  # 4
            operations += plan.for_systemd("reload")
        for file in plan.files.files:  # 5
            file.write(host.files)
            done.append(file.path)
        _remove(host, others, done)  # 6
        if manager is not None and any(map(_is_of_systemd, writes)):
            manager.reload()  # 7
    return Effects(files=done, operations=tuple(operations))


def start_guard(host: Host, plan: Plan, ctx: phases.Context) -> Effects | phases.Skip:
    """Start the guard, unless another run has taken it away since the files were written."""
    with host.locked(ctx):
        manager, installed = host.running_manager, readable_installed(host)
        if manager is None or installed is None or not installed.guard.enabled:
            return phases.Skip("it is no longer wanted")
        starts = plan.for_systemd("start", "restart")
        for start in starts:
            # systemd may have started it again meanwhile, with the script of before.
            manager.stop(start.object)
            # This does not wait for a pass of the guard, which needs the lock.
            manager.start(start.object, timeout=_GRACE)
    return Effects(operations=starts)


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
