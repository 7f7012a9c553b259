"""The tasks: what an agent puts into its pipeline. Each reads like its own description; the work is done below.

All of them are idempotent, may be cancelled at any moment, and are serialised by a lock on the host.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, ClassVar

import attrs

import phases
from hostrouting.apply import Applied, apply_plan
from hostrouting.errors import HostRoutingError, RouteOverlapError
from hostrouting.host import Host
from hostrouting.installation import Installation, check_installation, routes_installation
from hostrouting.kernel import Examination, await_plan, examine, routes_of_ours
from hostrouting.model import IPV4, Prefix
from hostrouting.plan import RoutePlan, plan_routes
from hostrouting.uplink import DesiredRoute
from hostrouting.wording import check_document, diversion_line, finding_line, note_line, repair_line, unsafe_line

if TYPE_CHECKING:
    from hostrouting.backends.base import RouteBackend
    from hostrouting.config import HostRoutingConfig

__all__ = [
    "CheckResult",
    "CheckRouteOverlap",
    "Configure",
    "ConfigureStaticRoutes",
    "Preview",
    "Remove",
    "RoutesResult",
    "wanted_routes",
]

WAIT = 30.0
"""How many seconds a task waits for what it needs of the host: a default route, a device."""

_UNIT_GRACE = 90.0  # seconds for a unit beyond its own waiting


def wanted_routes(config: HostRoutingConfig) -> tuple[DesiredRoute, ...]:
    """The static routes of a configuration, as what is to be planned."""
    static = config.static_routes
    return tuple(
        DesiredRoute(Prefix.of(it.destination), gateway=it.gateway, dev=it.dev, metric=it.metric)
        for it in (static.routes if static.enabled else ())
    )


@attrs.frozen
class Preview:
    """What a task would do: the steps to the routes that are wanted, and the files that would change."""

    routes: RoutePlan | None
    files: tuple[str, ...] = ()
    removes: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing would be changed."""
        return not self.files and (self.routes is None or not (self.routes.changes or self.routes.conflicts))

    def to_mapping(self) -> dict[str, object]:
        """The same as plain values."""
        steps = () if self.routes is None else self.routes.steps
        return {
            "steps": [{"action": it.action, "route": str(it.route), "reason": it.reason} for it in steps],
            "pending": [] if self.routes is None else [str(it) for it in self.routes.pending],
            "removes" if self.removes else "writes": list(self.files),
        }

    def __str__(self) -> str:
        lines = [str(self.routes)] if self.routes is not None and (self.routes.steps or self.routes.pending) else []
        verb = "remove" if self.removes else "write"
        lines += [f"{verb} {path}" for path in self.files]
        return "\n".join(lines) or "nothing to do"


@attrs.frozen
class RoutesResult:
    """What ConfigureStaticRoutes did."""

    applied: Applied | None
    files: tuple[str, ...]
    started: bool = False

    def log_fields(self) -> dict[str, object]:
        """How many routes were added, replaced, deleted and kept; which files were written."""
        fields = {} if self.applied is None else self.applied.log_fields()
        return {**fields, **({"files": len(self.files)} if self.files else {})}


@attrs.frozen
class CheckResult:
    """What CheckRouteOverlap found and did."""

    examination: Examination | None
    files: tuple[str, ...]

    def log_fields(self) -> dict[str, object]:
        """The verdict, and how many findings there are."""
        found = self.examination
        fields: dict[str, object] = {"files": len(self.files)} if self.files else {}
        return fields if found is None else {"verdict": found.verdict, "findings": len(found.report.findings), **fields}


@attrs.frozen
class ConfigureStaticRoutes:
    """Install the static routes of the configuration, now and at every boot, before any machine starts.

    1. With none configured and none of ours there, nothing at all happens.
    2. What is left open in a route is taken from the default route, which is waited for.
    3. The routes are planned against the kernel's table; a key that somebody else holds is a RouteConflict.
    4. The plan is applied whole or not at all.
    5. Script, unit and drop-in are written where they differ, and the script is run once.
    6. With none configured any more, our routes and files go. A running machine is never touched.
    """

    name: ClassVar[str] = "configure-static-routes"
    config: HostRoutingConfig
    host: Host = attrs.field(factory=Host.local, kw_only=True)
    wait: float = attrs.field(default=WAIT, kw_only=True)

    def do(self, ctx: phases.Context) -> RoutesResult | phases.Skip:
        """See the class."""
        wanted = self._wanted
        if not wanted and not self._is_anything_ours():
            return phases.Skip("no static routes are configured, and none of ours are here")
        with self.host.locked(ctx):
            applied = self._route(ctx, wanted)
            if not wanted:
                return RoutesResult(applied, _take_down(ctx, self.host, self._installation))
            files = self._installation.install(self.host.files)
            return RoutesResult(
                applied, files, _activate(ctx, self.host, self.host.layout.routes_unit, files, self.wait)
            )

    def plan(self, _ctx: phases.Context) -> Preview:
        """What do() would do on this host as it is now; changes nothing."""
        wanted, files = self._wanted, self.host.files
        routes = None
        if self.host.backend is not None:
            with self.host.backend() as backend:
                routes = plan_routes(wanted, backend.snapshot(family=IPV4), protocol=self.config.protocol)
        if wanted:
            return Preview(routes, self._installation.differences(files))
        return Preview(routes, self._installation.present(files), removes=True)

    def undo(self, ctx: phases.Context) -> RoutesResult:
        """Take our routes and files away, whatever the configuration says."""
        with self.host.locked(ctx):
            applied = self._route(ctx, ())
            return RoutesResult(applied, _take_down(ctx, self.host, self._installation))

    @property
    def _wanted(self) -> tuple[DesiredRoute, ...]:
        return wanted_routes(self.config)

    @property
    def _installation(self) -> Installation:
        return routes_installation(self.config, self.host.layout)

    def _is_anything_ours(self) -> bool:
        if self._installation.present(self.host.files):
            return True
        if self.host.backend is None:
            return False
        with self.host.backend() as backend:
            return routes_of_ours(backend, self.config.protocol)

    def _route(self, ctx: phases.Context, wanted: tuple[DesiredRoute, ...]) -> Applied | None:
        if self.host.backend is None:
            return None
        protocol = self.config.protocol
        with self.host.backend() as backend:
            plan, before = await_plan(ctx, backend, wanted, protocol=protocol, wait=self.wait)
            # Ctrl-C must not tear the transaction; the order to stop is seen by ctx.check, which undoes it.
            with ctx.shielded():
                return apply_plan(plan, backend, before=before, protocol=protocol, check=ctx.check)


@attrs.frozen
class CheckRouteOverlap:
    """Check that every address of the expected CIDRs leaves by an expected device, now and before every machine.

    The gate is in place before the verdict is known, so that a bootstrap that fails here leaves it shut. In WARN an
    overlap is logged; in STRICT it raises RouteOverlapError. Without expected CIDRs there is nothing to
    check, and what was installed for it goes.
    """

    name: ClassVar[str] = "check-route-overlap"
    config: HostRoutingConfig
    host: Host = attrs.field(factory=Host.local, kw_only=True)
    wait: float = attrs.field(default=WAIT, kw_only=True)

    def do(self, ctx: phases.Context) -> CheckResult | phases.Skip:
        """See the class."""
        if not self.config.route_overlap.expected_cidrs:
            if not self._present():
                return phases.Skip("no expected CIDRs are configured, and nothing of the check is here")
            with self.host.locked(ctx):
                return CheckResult(None, self._take_down(ctx))
        with self.host.locked(ctx):
            files = self._installation.install(self.host.files)
            _reload(ctx, self.host, files)
            if self.host.backend is None:
                return CheckResult(None, files)
            with self.host.backend() as backend:
                found = self._examine(ctx, backend)
            return CheckResult(found, files)

    def plan(self, _ctx: phases.Context) -> Preview:
        """The files that do() would write or remove; changes nothing."""
        if self.config.route_overlap.expected_cidrs:
            return Preview(None, self._installation.differences(self.host.files))
        return Preview(None, self._present(), removes=True)

    def undo(self, ctx: phases.Context) -> CheckResult:
        """Take away what was installed for the check, whatever the configuration says."""
        with self.host.locked(ctx):
            return CheckResult(None, self._take_down(ctx))

    @property
    def _installation(self) -> Installation:
        return check_installation(self.config, self.host.layout)

    @property
    def _markers(self) -> tuple[str, ...]:
        layout = self.host.layout
        return (layout.ok_path, layout.detected_path, layout.report_path)

    def _present(self) -> tuple[str, ...]:
        markers = tuple(path for path in self._markers if self.host.files.is_there(path))
        return (*self._installation.present(self.host.files), *markers)

    def _take_down(self, ctx: phases.Context) -> tuple[str, ...]:
        gone = _take_down(ctx, self.host, self._installation)
        return (*gone, *(path for path in self._markers if self.host.files.remove(path)))

    def _examine(self, ctx: phases.Context, backend: RouteBackend) -> Examination:
        found = examine(ctx, backend, self.config, wait=self.wait)
        lines = _lines(found)
        for level, line in lines:
            ctx.log.log(level, "%s", line)
        self._mark(found, [line for level, line in lines if level >= logging.WARNING])
        if self.config.route_overlap.mode == "STRICT" and found.report.verdict in {"overlap", "no-default-route"}:
            summary = "; ".join(line for _, line in lines)
            raise RouteOverlapError(summary, report=found)
        return found

    def _mark(self, found: Examination, lines: list[str]) -> None:
        """Leave the verdict where operators and other programs look for it; none is stale at any moment."""
        import json  # noqa: PLC0415  only a check needs it

        files, layout = self.host.files, self.host.layout
        document = check_document(found.report, found.repair, mode=self.config.route_overlap.mode)
        document["verdict"] = found.verdict
        document["notes"] = [*document["notes"], *found.surprises]
        for path in (layout.ok_path, layout.detected_path):
            files.remove(path)
        files.write(layout.report_path, json.dumps(document) + "\n")
        if found.report.verdict == "no-default-route":
            files.write(layout.detected_path, "no-default-route\n")
        elif found.report.findings:
            files.write(layout.detected_path, "\n".join(lines) + "\n")
        elif found.verdict == "ok":
            files.write(layout.ok_path, "")


@attrs.frozen
class Configure:
    """Both, in order: the static routes, then the check that they do what they are there for."""

    name: ClassVar[str] = "configure"
    config: HostRoutingConfig
    host: Host = attrs.field(factory=Host.local, kw_only=True)
    wait: float = attrs.field(default=WAIT, kw_only=True)

    @property
    def subtasks(self) -> tuple[ConfigureStaticRoutes, CheckRouteOverlap]:
        """The two, as they appear in plans and reports."""
        return (
            ConfigureStaticRoutes(self.config, host=self.host, wait=self.wait),
            CheckRouteOverlap(self.config, host=self.host, wait=self.wait),
        )

    def do(self, ctx: phases.Context) -> tuple[object, ...]:
        """See the class."""
        return phases.serial(*self.subtasks, name=self.name).do(ctx)

    def undo(self, ctx: phases.Context) -> object:
        """Everything of ours goes, whatever is configured: what Remove does."""
        return Remove(self.config, host=self.host).do(ctx)


@attrs.frozen
class Remove:
    """Take away everything of ours, and nothing else: routes, units, scripts, drop-ins, markers.

    A running machine is not touched; machines that start from now on are not held back by us.
    """

    name: ClassVar[str] = "remove-host-routing"
    config: HostRoutingConfig
    host: Host = attrs.field(factory=Host.local, kw_only=True)

    def do(self, ctx: phases.Context) -> tuple[str, ...]:
        """Go on past a failure, so that as much as possible is gone, and then report all of them."""
        gone: list[str] = []
        failures: list[HostRoutingError] = []
        for task in reversed(Configure(self.config, host=self.host).subtasks):
            try:
                gone += task.undo(ctx).files
            except HostRoutingError as error:
                failures.append(error)
        if failures:
            raise failures[0] if len(failures) == 1 else ExceptionGroup("not everything could be removed", failures)
        return tuple(gone)

    def plan(self, _ctx: phases.Context) -> Preview:
        """The routes and files that would go; changes nothing."""
        routes, check = Configure(self.config, host=self.host).subtasks
        files = (*check._present(), *routes._installation.present(self.host.files))
        plan = None
        if self.host.backend is not None:
            with self.host.backend() as backend:
                plan = plan_routes((), backend.snapshot(family=IPV4), protocol=self.config.protocol)
        return Preview(plan, files, removes=True)


def _lines(found: Examination) -> list[tuple[int, str]]:
    """What there is to tell, in the order in which an operator needs it, each with how much it matters."""
    report = found.report
    if report.verdict == "no-default-route":
        return [(logging.ERROR, "NO-DEFAULT-ROUTE: there is no IPv4 default route, so nothing is known to be expected")]
    lines = [(logging.ERROR, finding_line(it, report.expected_devs)) for it in report.findings]
    lines += [(logging.ERROR, action)] if (action := repair_line(report, found.repair)) else []
    lines += [(logging.WARNING, f"UNSAFE: {unsafe_line(it)}") for it in found.repair.unsafe]
    lines += [(logging.WARNING, f"NOTE: {diversion_line(it)}") for it in found.repair.diverted]
    lines += [(logging.WARNING, f"NOTE: {note_line(it)}") for it in report.notes]
    lines += [(logging.WARNING, f"NOTE: {it}") for it in found.surprises]
    return lines


def _activate(ctx: phases.Context, host: Host, unit: str, changed: tuple[str, ...], wait: float) -> bool:
    """Have the manager know what was written, and run the unit that the next boot depends on once now."""
    manager = host.manager
    if manager is None:
        return False
    if not manager.is_running():
        ctx.log.info("no systemd runs here: what was written takes effect at the next boot")
        return False
    if changed:
        manager.reload()
    elif manager.state(unit).ok:
        return False
    manager.start(unit, timeout=wait + _UNIT_GRACE)
    return True


def _reload(ctx: phases.Context, host: Host, changed: tuple[str, ...]) -> None:
    if not changed or host.manager is None:
        return
    if host.manager.is_running():
        host.manager.reload()
    else:
        ctx.log.info("no systemd runs here: what was written takes effect at the next boot")


def _take_down(ctx: phases.Context, host: Host, installation: Installation) -> tuple[str, ...]:
    gone = installation.remove(host.files)
    _reload(ctx, host, gone)
    return gone
