"""The undo of runs of a task: a run that installs the former configuration again, and takes nothing
away that another run has installed since.

The former configuration is all that is needed for that, with one exception: routes that somebody
had typed with our protocol, such as those of the commands that `check` prints. A run deletes them,
because they are not configured, and `apply --confirm` promises that all is as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs

import phases
from hostrouting.errors import HostError
from hostrouting.host.effects import Effects, effects_of, having_changed
from hostrouting.install.installed import installed_or_none
from hostrouting.install.run import TaskRun
from hostrouting.install.steps import never_left_out, raise_both, raise_failure, run_shielded
from hostrouting.install.wanted import configured_keys
from hostrouting.kernel.base import RouteRequest

if TYPE_CHECKING:
    from typing_extensions import Self

    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.install.run import Before
    from hostrouting.install.task import InstallTask
    from hostrouting.install.wanted import Wanted
    from hostrouting.model.route import Route


@attrs.frozen
class Undo:
    """The run that undoes runs of a task."""

    task: InstallTask[Any]
    """The task of the former configuration."""
    replaceable: tuple[object, ...]
    """What may be installed of the task's own part: what its runs have installed, or what was there
    before. Anything else is another run's, and stays.
    """
    typed_routes: tuple[Route, ...]
    """The routes to add again, in this order."""

    @classmethod
    def of(cls, task: InstallTask[Any], runs: Sequence[Before]) -> Self:
        """The undo of these runs of the task, the earliest first. HostError if what was installed
        before that one could not be read.
        """
        former = runs[0].config
        if former is None:
            sentence = (
                "what was installed before could not be read, so it cannot be installed again"
            )
            raise HostError(f"{sentence}; to remove everything: hostrouting remove", what="file")
        # `wanted` has the configuration as its run has installed it, without idle settings.
        replaceable = (task.own_part(task.wanted().config), task.own_part(former))
        restoring = attrs.evolve(task, config=former, wait=0, allow_removal=True)
        return cls(restoring, replaceable, _typed_routes(former, runs))

    def do(self, ctx: phases.Context) -> object:
        """Install the former configuration, then add the typed routes, also if the first has failed
        or was cancelled.
        """
        ctx = never_left_out(ctx)
        try:
            result = TaskRun(self.task, ctx, self.read_wanted).do()
        except BaseException as error:  # also Cancelled: the routes have to be added all the same
            restored = self._restore_routes(ctx)
            if isinstance(restored, phases.TaskFailed):
                raise_both(restored, error, ctx)
            raise
        restored = self._restore_routes(ctx)
        if isinstance(restored, phases.TaskFailed):
            raise_failure(restored, result, ctx)
        effects = effects_of(result)
        changes = effects.changes + effects_of(restored).changes
        effects = attrs.evolve(effects, changes=changes)
        if effects.changed:
            return effects
        return result

    def read_wanted(self) -> Wanted:
        """What the task wants. HostError if another run has installed something else since."""
        wanted = self.task.wanted()
        if not self._may_replace(wanted.former):
            sentence = "another run has installed a different configuration since, which stays"
            raise HostError(sentence, what="file")
        config = wanted.config
        had_work = wanted.former is not None and wanted.former.has_work
        if config.has_work and not had_work:
            # The undone run has taken away all that there was to guard, and with it the guard.
            config = config._replace(guard=self.task.config.guard)
        return attrs.evolve(wanted, config=config, is_undo=True)

    def _may_replace(self, installed: HostRoutingConfig | None) -> bool:
        """Whether the undo may replace what is installed, which None says cannot be read."""
        return installed is None or self.task.own_part(installed) in self.replaceable

    def _restore_routes(self, ctx: phases.Context) -> object:
        """Add the typed routes, as a step; its result or failure."""
        if not self.typed_routes:
            return None
        restore = phases.task("restore-typed-routes")(self._add_typed_routes)
        return run_shielded(restore, ctx)

    def _add_typed_routes(self, ctx: phases.Context) -> Effects | phases.Skip:
        host = self.task.host
        with host.locked(ctx), host.open_kernel() as kernel:
            if not self._may_replace(installed_or_none(host)):
                return phases.Skip("another run has installed a different configuration since")
            outcomes = kernel.change(RouteRequest("append", route) for route in self.typed_routes)
        added = tuple(outcome.change for outcome in outcomes if outcome.ok)
        with having_changed(added):
            for outcome in outcomes:
                if outcome.error is not None and not outcome.is_done:
                    raise outcome.error
        if not added:
            return phases.Skip("they are there already")
        return Effects(added)


def _typed_routes(former: HostRoutingConfig, runs: Sequence[Before]) -> tuple[Route, ...]:
    """The routes to add again. One that is configured comes back with its configuration.

    Those without a gateway come first, because one of them may reach the gateway of another. Of the
    routes of a run, the one that was deleted last comes first. Routes with one key keep their
    order: if one of them has no gateway, all of them come first.
    """
    typed: list[Route] = []
    for before in runs:
        configured = configured_keys(former) | configured_keys(before.config)
        typed += [route for route in reversed(before.deleted) if route.key not in configured]
    on_link = {route.key for route in typed if not route.has_gateway}
    return tuple(sorted(typed, key=lambda route: route.key not in on_link))


def require_own_run(task: InstallTask[Any], report: phases.Step, path: tuple[str, ...]) -> None:
    """HostError if another object made the run of this report: if the step of the task changed
    something that this object knows nothing of, and the task's configuration is still installed.

    `path` is that of the task in the undo.
    """
    if not _changed_something(report, path):
        return
    wanted = task.wanted()
    if wanted.former is None or task.own_part(wanted.former) == task.own_part(wanted.config):
        sentence = "another object made that run, so this one does not know what was there before"
        remedy = "undo with the tasks of that run, or, to remove everything, run Remove"
        raise HostError(f"{sentence}; {remedy}", what="file")


def _changed_something(report: phases.Step, path: tuple[str, ...]) -> bool:
    """Whether each step of the run at this path changed something. If there are several, and one
    changed nothing, that one may have been this task's.
    """
    outside = len(report.path) - 1  # names of the groups around that run
    steps: list[phases.Step] = []
    for step in report.walk():
        inside = step.path[outside:]
        if step.action == "do" and path[-len(inside) :] == inside:
            steps.append(step)
    return bool(steps) and all(map(_has_effects, steps))


def _has_effects(step: phases.Step) -> bool:
    outcomes: list[object] = []
    for part in step.walk():
        outcomes += [part.result, part.error]
    return any(effects_of(outcome).changed for outcome in outcomes)
