"""ConfigureStaticRoutes: the static routes of the configuration, in the kernel and at every boot."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

import attrs

from hostrouting.apply import Applied, apply_plan
from hostrouting.config import HostRoutingConfig
from hostrouting.errors import ConfigError
from hostrouting.fileset import Changes, File, FileSet, unit_file
from hostrouting.gate import Part
from hostrouting.kernel import await_plan, is_any_route_ours, read
from hostrouting.model import Prefix
from hostrouting.plan import RoutePlan, plan_routes
from hostrouting.render import (
    MOST_WAIT,
    GateStep,
    parse_protocol_name,
    parse_static_routes_script,
    render_preset,
    render_protocol_name,
    render_routes_unit,
    render_static_routes_script,
)
from hostrouting.tasks.boot import HostTask, run_once
from hostrouting.tasks.results import Preview, RoutesResult
from hostrouting.uplink import DesiredRoute

if TYPE_CHECKING:
    import phases
    from hostrouting.layout import HostLayout
    from hostrouting.system import Files

__all__ = ["ConfigureStaticRoutes", "wanted_routes"]


def wanted_routes(config: HostRoutingConfig) -> tuple[DesiredRoute, ...]:
    """The static routes of a configuration, as what is to be planned."""
    static = config.static_routes
    return tuple(
        DesiredRoute(Prefix.of(it.destination), gateway=it.gateway, dev=it.dev, metric=it.metric)
        for it in (static.routes if static.enabled else ())
    )


@attrs.frozen
class ConfigureStaticRoutes(HostTask[RoutesResult]):
    """Install the static routes of the configuration, now and at every boot, before any machine starts.

    1. With none configured and none of ours there, nothing at all happens.
    2. Unit, script and gate are written where they differ: from now on no machine starts without the routes.
    3. What is left open in a route is taken from the default route, which is waited for.
    4. The routes are planned against the kernel's table; a key that a route of another owner holds is a RouteConflict.
    5. The plan is applied whole or not at all.
    6. The script is run once, where it is new or failed the last time.
    7. With none configured any more all of it goes, in the same order. A running machine is never touched.

    Ours are the routes that carry the configured protocol number, and those that carry the one before it.
    """

    name: ClassVar[str] = "configure-static-routes"
    nothing: ClassVar[str] = "no static routes are configured, and none of ours are here"

    @property
    def part(self) -> Part:
        """The script, which every start of a machine requires, and the unit that runs it at every boot."""
        layout, seconds = self.host.layout, min(math.ceil(self.wait), MOST_WAIT)
        text = render_routes_unit(layout, wait=seconds)
        files = FileSet(
            (
                unit_file(layout.routes_unit_path, text, script=layout.routes_script, layout=layout),
                File(layout.routes_preset_path, render_preset(layout)),
                File(layout.routes_script_path, render_static_routes_script(self.config, wait=seconds), mode=0o755),
            ),
            links=((layout.routes_enabled_path, f"{layout.unit_directory}/{layout.routes_unit}"),),
            obsolete=layout.obsolete_paths(layout.routes_unit),
        )
        return Part(GateStep(50, "requires", "static-routes"), files, layout.routes_unit)

    @property
    def is_wanted(self) -> bool:
        """Whether any routes are configured."""
        return bool(self._wanted)

    @property
    def has_files(self) -> bool:
        """Whether files of the routes are on the host, the name of our protocol included."""
        return super().has_files or bool(self._name.present(self.host.files))

    def is_here(self) -> bool:
        """Whether files of the routes are on the host, or routes of ours in its kernel."""
        if self.has_files:
            return True
        if self.host.backend is None:
            return False
        with self.host.backend() as backend:
            return is_any_route_ours(backend, self.config.protocol)

    def look(self, *, up: bool) -> Preview:
        """The steps to the routes. The name of our protocol is written after they are there, and goes after them."""
        routes, files = self._plan_routes(self._wanted if up else ()), self.host.files
        if not up:
            return Preview(routes, Changes(removes=self._name.present(files)))
        is_stuck = routes is not None and (routes.conflicts or routes.pending)
        return Preview(routes, Changes() if is_stuck else self._name.differences(files))

    def install(self, ctx: phases.Context, changed: tuple[str, ...]) -> RoutesResult:
        """The routes, now; and the proof that the script that the next boot depends on runs."""
        former = self._former
        applied = self._route(ctx, self._wanted, former)
        # The name comes last: while it is missing, nobody has seen the script run to its end.
        is_new = self.host.layout.routes_script_path in changed or bool(
            former or self._name.differences(self.host.files)
        )
        started = run_once(ctx, self.host, self.part.unit, wait=self.wait, is_new=is_new)
        if started:
            # Whoever ran the old script meanwhile: what is wanted now is there in the end.
            self._route(ctx, self._wanted, former)
        return RoutesResult(applied, (*changed, *self._name.install(self.host.files)), started)

    def remove(self, ctx: phases.Context, changed: tuple[str, ...]) -> RoutesResult:
        """The routes that are ours, whatever is configured."""
        applied = self._route(ctx, (), self._former)
        return RoutesResult(applied, (*changed, *self._name.remove(self.host.files)))

    @property
    def _wanted(self) -> tuple[DesiredRoute, ...]:
        return wanted_routes(self.config)

    @property
    def _name(self) -> FileSet:
        """The name of our protocol number: it says which routes in the kernel are ours, so it follows them."""
        path = self.host.layout.protocol_name_path
        return FileSet((File(path, render_protocol_name(self.config.protocol)),))

    @property
    def _former(self) -> frozenset[int]:
        return former_protocols(self.host.files, self.host.layout, now=self.config.protocol)

    def _plan_routes(self, wanted: tuple[DesiredRoute, ...]) -> RoutePlan | None:
        if self.host.backend is None:
            return None
        with self.host.backend() as backend:
            before, _ = read(backend)
        return plan_routes(wanted, before, protocol=self.config.protocol, former=self._former)

    def _route(self, ctx: phases.Context, wanted: tuple[DesiredRoute, ...], former: frozenset[int]) -> Applied | None:
        if self.host.backend is None:
            return None
        protocol = self.config.protocol
        with self.host.backend() as backend:
            plan, before = await_plan(ctx, backend, wanted, protocol=protocol, former=former, wait=self.wait)
            # Ctrl-C must not tear the transaction; the order to stop is seen by ctx.check, which undoes it.
            with ctx.shielded():
                return apply_plan(plan, backend, before=before, protocol=protocol, former=former, check=ctx.check)


def former_protocols(files: Files, layout: HostLayout, *, now: int) -> frozenset[int]:
    """The route protocol numbers other than `now` by which routes are ours: those that our files on the host name.

    There are some after the number was changed in the configuration. A file that we did not write names none, nor does
    one that names a number which nobody could configure, for that would make routes ours that are not.
    """
    found = set()
    if (script := files.read(layout.routes_script_path)) is not None:
        with suppress(ValueError):
            found.add(parse_static_routes_script(script).protocol)
    if (name := files.read(layout.protocol_name_path)) is not None:
        with suppress(ValueError):
            found.add(parse_protocol_name(name))
    return frozenset(it for it in found if it != now and _can_be_ours(it))


def _can_be_ours(protocol: int) -> bool:
    try:
        HostRoutingConfig(protocol=protocol)
    except ConfigError:
        return False
    return True
