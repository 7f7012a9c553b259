"""ConfigureStaticRoutes: the static routes of the configuration, in the kernel and at every boot."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

import phases
from hostrouting.apply import Applied, apply_plan
from hostrouting.config import needs_config
from hostrouting.host import Host
from hostrouting.installation import Installation, former_protocols, installed_routes, routes_installation
from hostrouting.kernel import await_plan, is_any_route_ours, read
from hostrouting.model import Prefix, Route, Snapshot
from hostrouting.plan import RoutePlan, plan_routes
from hostrouting.render import DEFAULT_WAIT
from hostrouting.tasks.boot import run_once, set_gate, valid_wait
from hostrouting.tasks.results import Preview, RoutesResult
from hostrouting.uplink import DesiredRoute
from hostrouting.wording import foreseen_line, stays_line

if TYPE_CHECKING:
    from hostrouting.config import HostRoutingConfig, StaticRoutesConfig

__all__ = ["ConfigureStaticRoutes", "wanted_routes"]

_NOTHING = "no static routes are configured, and none of ours are here"


def wanted_routes(config: HostRoutingConfig) -> tuple[DesiredRoute, ...]:
    """The static routes of a configuration, as what is to be planned."""
    return _wanted_of(config.static_routes)


def _wanted_of(static: StaticRoutesConfig) -> tuple[DesiredRoute, ...]:
    return tuple(
        DesiredRoute(Prefix.of(it.destination), gateway=it.gateway, dev=it.dev, metric=it.metric)
        for it in (static.routes if static.enabled else ())
    )


@attrs.frozen
class ConfigureStaticRoutes:
    """Install the static routes of the configuration, now and at every boot, before any machine starts.

    1. With none configured and none of ours there, nothing at all happens.
    2. Unit and drop-in are written where they differ: from now on no machine starts without the routes.
    3. What is left open in a route is taken from the default route, which is waited for.
    4. The routes are planned against the kernel's table; a key that somebody else holds is a RouteConflict.
    5. The plan is applied whole or not at all.
    6. The script is written where it differs, and run once: this opens the gate.
    7. With none configured any more all of it goes, in the same order. A running machine is never touched.

    Ours are the routes that carry the configured protocol number, and those that carry the one before it.
    """

    name: ClassVar[str] = "configure-static-routes"
    config: HostRoutingConfig = attrs.field(validator=needs_config)
    host: Host = attrs.field(factory=Host.local, kw_only=True)
    wait: float = attrs.field(default=DEFAULT_WAIT, validator=valid_wait, kw_only=True)
    """How many seconds are waited for what is needed of the host, now and, but no more than 60, at every boot."""
    gate_changed: tuple[str, ...] | None = attrs.field(default=None, kw_only=True, repr=False, eq=False)
    """What `gated` wrote or removed; None before that."""

    def do(self, ctx: phases.Context) -> RoutesResult | phases.Skip:
        """See the class."""
        if not self._wanted:
            return self.undo(ctx) if self.gate_changed or self._is_anything_ours() else phases.Skip(_NOTHING)
        with self.host.locked(ctx) as host:
            return attrs.evolve(self, host=host).gated(ctx)._install(ctx)

    def plan(self, _ctx: phases.Context) -> Preview:
        """What do() would do on this host as it is now; changes nothing. FileError where it could not write."""
        if not self._wanted:
            return self.plan_removal()
        installation, files = self._installation, self.host.files
        installation.gate.require_installable(files)
        before, gate = self._read(), installation.gate.differences(files)
        routes = None if before is None else self._plan_routes(self._wanted, before)
        return Preview(routes, installation.differences(files), gate=gate)

    def plan_removal(self) -> Preview:
        """What undo() would do on this host as it is now; changes nothing."""
        there, gate = (it.present(self.host.files) for it in (self._installation, self._installation.gate))
        before = self._read()
        if before is None:
            return Preview(None, there, removes=True, gate=gate)
        return Preview(self._plan_routes((), before), there, removes=True, gate=gate, stays=self._stays(before))

    def undo(self, ctx: phases.Context) -> RoutesResult:
        """Take our routes and files away, whatever the configuration says."""
        with self.host.locked(ctx) as host:
            return attrs.evolve(self, host=host).gated(ctx, up=False)._remove(ctx)

    @property
    def is_due(self) -> bool:
        """Whether any routes are configured, or files of ours are there."""
        return bool(self._wanted or self._installation.present(self.host.files))

    def gated(self, ctx: phases.Context, *, up: bool | None = None) -> ConfigureStaticRoutes:
        """The task with its gate up or away: as the configuration wants it, unless told. The host has to be locked.

        What systemd reads goes before anything else, in both directions: whatever comes after may fail.
        """
        if self.gate_changed is not None:
            return self
        up = bool(self._wanted) if up is None else up
        return attrs.evolve(self, gate_changed=set_gate(ctx, self.host, self._installation, up=up))

    def _install(self, ctx: phases.Context) -> RoutesResult:
        former = self._former
        applied, _ = self._route(ctx, self._wanted, former)
        changed = (*(self.gate_changed or ()), *self._installation.program.install(self.host.files))
        for foreseen in applied.plan.foreseen if applied is not None else ():
            ctx.log.warning("%s", foreseen_line(foreseen))
        started = run_once(ctx, self.host, self._installation, wait=self.wait)
        if started:
            # Between the stop and the new script, a machine's start may have run the old one.
            self._route(ctx, self._wanted, former)
        return RoutesResult(applied, changed, started)

    def _remove(self, ctx: phases.Context) -> RoutesResult:
        applied, before = self._route(ctx, (), self._former)
        for route in () if before is None else self._stays(before):
            ctx.log.warning("%s", stays_line(route))
        return RoutesResult(applied, (*(self.gate_changed or ()), *self._installation.program.remove(self.host.files)))

    @property
    def _wanted(self) -> tuple[DesiredRoute, ...]:
        return wanted_routes(self.config)

    @property
    def _installation(self) -> Installation:
        return routes_installation(self.config, self.host.layout, wait=self.wait)

    @property
    def _former(self) -> frozenset[int]:
        return former_protocols(self.host.files, self.host.layout, now=self.config.protocol)

    def _is_anything_ours(self) -> bool:
        if self.is_due:
            return True
        if self.host.backend is None:
            return False
        with self.host.backend() as backend:
            return is_any_route_ours(backend, self.config.protocol)

    def _read(self) -> Snapshot | None:
        if self.host.backend is None:
            return None
        with self.host.backend() as backend:
            return read(backend)[0]

    def _plan_routes(self, wanted: tuple[DesiredRoute, ...], before: Snapshot) -> RoutePlan:
        return plan_routes(wanted, before, protocol=self.config.protocol, former=self._former)

    def _stays(self, before: Snapshot) -> tuple[Route, ...]:
        """The routes that are there as they are wanted, or were until now, and are not ours."""
        installed = installed_routes(self.host.files, self.host.layout)
        wanted = self._wanted or (() if installed is None else _wanted_of(installed))
        ours = {self.config.protocol, *self._former}
        steps = self._plan_routes(wanted, before).steps if wanted else ()
        return tuple(it.route for it in steps if it.action == "keep" and it.route.protocol not in ours)

    def _route(
        self, ctx: phases.Context, wanted: tuple[DesiredRoute, ...], former: frozenset[int]
    ) -> tuple[Applied, Snapshot] | tuple[None, None]:
        """What was done to the routes, and what was there before; nothing where there is no kernel."""
        if self.host.backend is None:
            return None, None
        protocol = self.config.protocol
        with self.host.backend() as backend:
            plan, before = await_plan(ctx, backend, wanted, protocol=protocol, former=former, wait=self.wait)
            # Ctrl-C must not tear the transaction; the order to stop is seen by ctx.check, which undoes it.
            with ctx.shielded():
                applied = apply_plan(plan, backend, before=before, protocol=protocol, former=former, check=ctx.check)
            return applied, before
