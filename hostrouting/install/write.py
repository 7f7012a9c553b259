"""The order in which files are written and removed, and systemd is told.

A run can be killed anywhere. Then the next run completes the work, and until then no unit runs a
program that is missing, and no marker is about another configuration. So the order is:

1. The markers go, if any file changes: they are about the former configuration, and no verdict is
   better than a wrong one.
2. The units of ours whose files go are stopped: when the files are gone, they no longer say which
   units the next run has to stop.
3. Drop-ins and units go.
4. systemd reads that. Until then, a unit that had a drop-in still runs the gate, so the program
   goes after this. And config.json is replaced after this: the former one tells the next run which
   units may still have a drop-in loaded that is gone. Here, systemd also reads what an earlier
   run wrote before it was killed.
5. The files are written, in the order of `wanted_files`.
6. systemd reads the units and drop-ins that were written. From here on, the gate is in force.
7. The rest goes, and last config.json. `owned_paths` has this order.

The guard is started later, in a step of its own: the routes do not need it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import phases
from hostrouting.boot.units import UNITS
from hostrouting.check.marker import remove_markers
from hostrouting.host.effects import Effects, recorded_in_errors
from hostrouting.host.layout import HostLayout

if TYPE_CHECKING:
    from hostrouting.host.host import Host
    from hostrouting.host.operation import Operation
    from hostrouting.install.plan import Plan

_START_TIMEOUT = 30.0  # seconds for the start of the guard


def write_files(host: Host, plan: Plan) -> Effects | phases.Skip:
    """Make the changes of files in this plan, and the stops and reloads that belong to them. Return
    the effects, with the warnings of the plan. The first failure is raised, with the effects so
    far; the next run does the rest.

    The caller holds the lock of the host, unless there is nothing to change.
    """
    if not (plan.files or plan.for_systemd("stop", "reload") or plan.warnings):
        return phases.Skip("the files are as they should be")
    writer = _Writer(host, plan)
    with recorded_in_errors(files=writer.changed, operations=writer.operations):
        if plan.files:
            # Markers tell other programs the last verdict, which is for the former configuration.
            remove_markers(host.files)
        writer.stop_units()
        writer.change_files()  # and have systemd read them
    return Effects(
        files=writer.changed, operations=tuple(writer.operations), warnings=plan.warnings
    )


class _Writer:
    """Makes the changes of files in a plan, and keeps a list of those that were made so far."""

    def __init__(self, host: Host, plan: Plan) -> None:
        self._host = host
        self._plan = plan
        self._manager = host.running_manager
        self.changed: list[str] = []
        """The paths of the files that were written or removed."""
        self.operations: list[Operation] = []
        """The operations of the plan that systemd has carried out."""

    def stop_units(self) -> None:
        """Stop the guard, if the plan says so, and each unit of ours whose file goes. Only the stop
        of the guard is reported (`operations`).
        """
        if self._manager is None:
            return
        for stop in self._plan.for_systemd("stop"):
            self._manager.stop(stop.object)
            self.operations.append(stop)
        # Even a unit that does not run is stopped: systemd may wait to start it again after a
        # failure (Restart=on-failure).
        for unit in UNITS:
            if HostLayout.unit_path(unit) in self._plan.files.removes:
                self._manager.stop(unit)

    def change_files(self) -> None:
        """Remove the units and drop-ins that go, reload systemd, write files, reload systemd, and
        remove the other files that go. In this order, no unit runs a program that is gone, and if
        this process is killed, the next run can complete the work.
        """
        written, removed = self._plan.files
        missed_reload = self._plan.for_systemd("reload")  # for the changes of an earlier run
        of_systemd = [path for path in removed if _is_of_systemd(path)]
        others = [path for path in removed if path not in of_systemd]
        self._remove(of_systemd)
        if of_systemd or missed_reload:
            self._reload()
            self.operations += missed_reload
        for file in written:
            file.write(self._host.files)
            self.changed.append(file.path)
        if any(_is_of_systemd(file.path) for file in written):
            self._reload()
        self._remove(others)

    def _reload(self) -> None:
        if self._manager is not None:
            self._manager.reload()

    def _remove(self, paths: Iterable[str]) -> None:
        """Remove these files, and then each folder of drop-ins, and our own, if it is empty."""
        files = self._host.files
        for path in paths:
            files.remove(path)
            self.changed.append(path)
            folder = path.rpartition("/")[0]
            if folder.endswith(".d") or folder == HostLayout.config_directory:
                files.remove_empty(folder)


def _is_of_systemd(path: str) -> bool:
    """Whether systemd loads the file: a unit, a drop-in, or a link that starts a unit."""
    return "/systemd/system/" in path


def start_guard(host: Host, plan: Plan) -> Effects:
    """Start or restart the guard, as the plan says. The caller still holds the lock of the host,
    for which the guard's first pass has to wait. This start does not wait for that pass, because
    systemd takes the guard as started when its process runs (Type=exec).
    """
    manager = host.running_manager
    starts = plan.for_systemd("start", "restart")
    if manager is None:
        return Effects()
    for start in starts:
        # The guard may run an old program. Or it has failed, and systemd waits to restart it.
        manager.stop(start.object)
        manager.start(start.object, timeout=_START_TIMEOUT)
    return Effects(operations=starts)
