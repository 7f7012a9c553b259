"""Configure and Remove: all that is ours, put there and taken away."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

import attrs

import phases
from hostrouting.config import needs_config
from hostrouting.errors import HostRoutingError
from hostrouting.host import Host
from hostrouting.render import DEFAULT_WAIT
from hostrouting.tasks.boot import valid_wait
from hostrouting.tasks.overlap_check import CheckRouteOverlap
from hostrouting.tasks.static_routes import ConfigureStaticRoutes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hostrouting.config import HostRoutingConfig
    from hostrouting.tasks.results import Preview

__all__ = ["Configure", "Remove"]


@attrs.frozen
class Configure:
    """Both, in order: the static routes, then the check that they do what they are there for.

    Both gates are put up before either task acts, so that whatever fails on the way leaves both of them shut.
    """

    name: ClassVar[str] = "configure"
    config: HostRoutingConfig = attrs.field(validator=needs_config)
    host: Host = attrs.field(factory=Host.local, kw_only=True)
    wait: float = attrs.field(default=DEFAULT_WAIT, validator=valid_wait, kw_only=True)
    """How many seconds each waits for what it needs of the host, now and, but no more than 60, at every boot."""

    @property
    def subtasks(self) -> tuple[ConfigureStaticRoutes, CheckRouteOverlap]:
        """The two, as they appear in plans and reports."""
        return (
            ConfigureStaticRoutes(self.config, host=self.host, wait=self.wait),
            CheckRouteOverlap(self.config, host=self.host, wait=self.wait),
        )

    def do(self, ctx: phases.Context) -> tuple[object, ...]:
        """See the class."""
        if not any(task.is_due for task in self.subtasks):
            return phases.serial(*self.subtasks, name=self.name).do(ctx)
        with self.host.locked(ctx) as host:
            tasks = [
                task if ctx.run.leaves_out(task, ctx.path) else task.gated(ctx)
                for task in attrs.evolve(self, host=host).subtasks
            ]
            return phases.serial(*tasks, name=self.name).do(ctx)

    def undo(self, ctx: phases.Context) -> object:
        """Everything of ours goes, whatever is configured: what Remove does."""
        return Remove(self.config, host=self.host).do(ctx)


@attrs.frozen
class Remove:
    """Take away everything of ours, and nothing else: routes, units, scripts, drop-ins, markers.

    A running machine is not touched; machines that start from now on are not held back by us.
    """

    name: ClassVar[str] = "remove-host-routing"
    config: HostRoutingConfig = attrs.field(validator=needs_config)
    host: Host = attrs.field(factory=Host.local, kw_only=True)

    def do(self, ctx: phases.Context) -> tuple[str, ...]:
        """Go on past a failure, so that as much as possible is gone, and then report all of them."""
        failures: list[HostRoutingError] = []
        gone: list[str] = []
        ready: list[ConfigureStaticRoutes | CheckRouteOverlap] = []
        with self.host.locked(ctx) as host:
            for task in reversed(Configure(self.config, host=host).subtasks):
                with _collected(failures):
                    ready.append(task.gated(ctx, up=False))
            for task in ready:
                with _collected(failures):
                    gone += task.undo(ctx).files
        if failures:
            raise failures[0] if len(failures) == 1 else ExceptionGroup("not everything could be removed", failures)
        return tuple(gone)

    def plan(self, _ctx: phases.Context) -> Preview:
        """The routes and files that would go; changes nothing."""
        routes, check = Configure(self.config, host=self.host).subtasks
        return check.plan_removal() + routes.plan_removal()


@contextmanager
def _collected(failures: list[HostRoutingError]) -> Iterator[None]:
    try:
        yield
    except HostRoutingError as error:
        failures.append(error)
