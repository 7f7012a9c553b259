"""ConfigureStaticRoutes installs the static routes of the configuration, now and at every boot."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

import attrs

from hostrouting.boot.gate import Gate, Part
from hostrouting.boot.installed import parsed
from hostrouting.boot.scripts import parse_static_routes_script, render_static_routes_script
from hostrouting.boot.units import render_routes_unit
from hostrouting.check.examine import await_plan, read
from hostrouting.errors import ApplyError, BackendError, NotReady
from hostrouting.host.fileset import FileSet
from hostrouting.model.prefix import Prefix
from hostrouting.model.route import DEFAULT_METRIC, OURS, Route, RouteKey
from hostrouting.routes.apply import Applied, apply_plan
from hostrouting.routes.plan import RoutePlan, Step, plan_routes, stays
from hostrouting.routes.uplink import DesiredRoute, bare_leg, reply_destinations, wanted_routes, wanted_routes_of
from hostrouting.tasks.base import Alive, Fallback, HostTask, MayRepair
from hostrouting.tasks.results import Change, Look, Repair, RoutesResult, removal
from hostrouting.text import counted, spoken

if TYPE_CHECKING:
    import phases
    from hostrouting.finding import Finding
    from hostrouting.kernel.base import RouteBackend
    from hostrouting.kernel.concern import Concern
    from hostrouting.model.snapshot import Snapshot

_SHOWN = 10  # reasons in one line
_NOT_NOW = ("route-conflict", "route-waits")
_ATTEMPTS = 5  # transactions of one look: each of the four steps of one may find refused routes, and the last succeeds


class ConfigureStaticRoutes(HostTask[RoutesResult]):
    """Install the static routes of the configuration, now and at every boot, before any gated unit starts.

    1. If no routes are configured and none of our routes exist, do nothing.
    2. If a script is installed, plan first (4, 5): if that fails, the script stays as it is.
    3. Write unit, script and gate if they differ: from now on no gated unit starts without the routes.
    4. Wait for the default route, and take from it what a route leaves open.
    5. Plan the routes against the kernel's table. If another program's route has the key of one: RouteConflict.
    6. Apply the plan, all or nothing. If that fails and our routes are as before, the installed script is put back.
    7. Run the script once if it is new or its last run failed.
    8. If no routes are configured any more, remove everything in the same order. A running unit is never touched.
    """

    name: ClassVar[str] = "configure-static-routes"
    nothing: ClassVar[str] = "no static routes are configured, and none are installed"
    section: ClassVar[str] = "staticRoutes"

    @property
    def part(self) -> Part:
        """The script, which has to succeed before a gated unit starts, and the unit that runs it at every boot."""
        layout, seconds = self.host.layout, self.boot_wait
        script = render_static_routes_script(self.config, wait=seconds)
        part = Part.of(
            layout,
            "static-routes",
            script,
            rank=50,
            unit_text=render_routes_unit(layout, wait=seconds),
            obsolete=(
                *layout.obsolete_paths(layout.routes_unit),
                layout.at("/etc/systemd/system-preset/50-hostrouting.preset"),  # its former name
            ),
            is_undone_first=True,
        )
        return attrs.evolve(
            part, program=part.program + FileSet(aliases=((layout.routes_alias_path, layout.routes_script),))
        )

    @property
    def is_wanted(self) -> bool:
        """Whether any routes are configured."""
        return self.config.static_routes.enabled and bool(self.config.static_routes.routes)

    def removals(self) -> tuple[Finding, ...]:
        """The routes of the installed script that are not in the configuration."""
        wanted = {wish.key for wish in self._wanted}
        gone = [str(wish.destination) for wish in self._installed if wish.key not in wanted]
        if not gone:
            return ()
        told = f"installed, but not in this configuration: {counted(len(gone), 'route')}, to {spoken(gone)}"
        return (removal(self.section_path, told),)

    def change(self, *, up: bool) -> Change:
        """The steps of the route plan."""
        before = self._read()
        routes = self._plan_routes(self._wanted if up else (), before)
        if up:
            return Change(routes, before=before, has_fallback=self._fallback is not None)
        asked = [step.route for step in routes.asking]
        staying = [route for route in self._stays(before) if route not in asked]
        return Change(routes, before=before, others=tuple(map(stays, staying)))

    def prepare(self, ctx: phases.Context) -> Fallback | None:
        """Plan the routes if the installed script would be replaced. Raises what `install` would raise."""
        last, open_backend = self._fallback, self.host.backend
        if last is None or open_backend is None:
            return None
        with open_backend() as backend:
            before, _ = read(backend)
            plan = self._plan_routes(self._wanted, before)
            if plan.pending:
                plan, before = self._await_plan(ctx, backend)
        plan.require_possible()

        def is_unchanged() -> bool:
            with suppress(BackendError), open_backend() as backend:
                return _as_told(read(backend)[0]) == _as_told(before)
            return False

        return Fallback(last, self.host.files.read(self.host.layout.gate_steps_path), is_unchanged)

    @property
    def _fallback(self) -> Part | None:
        """The part on the host, if it differs from the new one and is as it was written."""
        part = self.part
        found = Gate(self.host).as_written(part)
        return found if found != part else None

    def carry_out(self, ctx: phases.Context, change: Change, *, up: bool) -> RoutesResult:
        """Carry out the plan, all or nothing, after waiting for everything that it needs."""
        plan, before = change.routes, change.before
        if plan is None or before is None:
            return RoutesResult()
        with self.kernel() as backend:
            if plan.pending:
                try:
                    plan, before = self._await_plan(ctx, backend)
                except NotReady as error:
                    script = self.host.layout.routes_script_path
                    shut = f"{script} and the gate are installed, so no gated unit starts before it has succeeded"
                    raise NotReady(f"{error}; {shut}", findings=error.findings) from error
            # Ctrl-C must not interrupt the transaction; ctx.check sees the cancellation, and it is rolled back.
            with ctx.shielded():
                try:
                    applied = apply_plan(plan, backend, before=before, check=ctx.check)
                except ApplyError as error:
                    if error.__cause__ or not error.refused:
                        raise
                    # The kernel refused nothing: another program changed our routes. That may have been only once.
                    before, _ = read(backend)
                    plan = self._plan_routes(self._wanted if up else (), before)
                    if plan.pending:
                        raise
                    applied = apply_plan(plan, backend, before=before, check=ctx.check)
        told = [*applied.plan.foreseen, *applied.beside] if up else []
        if not up:
            told = [*map(stays, self._stays(self._read() if applied.changes else before))]
        for finding in told:
            ctx.log.warning("%s", finding)
        return RoutesResult(applied.changes, plan=applied.plan)

    def keep(self, ctx: phases.Context, may_repair: MayRepair, alive: Alive = lambda: None) -> Look:
        """Add, replace and delete routes as far as possible now; a refusal of one does not stop the others."""
        wanted = self._wanted
        with self.kernel() as backend:
            first, _ = read(backend, reached=True, about=self._concern)
            before, plan = first, self._plan_routes(wanted, first)
            told: tuple[str, ...] = ()
            try:
                with ctx.shielded():  # what asks Linux to delete next hops of ours comes first
                    asked = apply_plan(plan.only_asking(), backend, before=before, check=alive)
            except ApplyError as error:
                asked, told = Applied(plan), (str(error),)
            if asked.changes:
                before, _ = read(backend, reached=True, about=self._concern)
                plan = self._plan_routes(wanted, before)
            needed = {step.route.key: repair_of(step) for step in reversed(plan.changes)}
            begun = ctx.clock.now()
            allowed = [key for key, repair in needed.items() if may_repair(repair)]
            done, lost, left = self._apply_rest(ctx, plan, before, backend, allowed, alive=alive)
            seconds, refused = ctx.clock.now() - begun, (*told, *left)
        coming = {step.route.key for step in plan.changes if step.action != "delete"}
        ours = set(before.routes.places(lambda outline: outline.protocol == OURS))
        ours.difference_update(before.routes.leading_to(self._spared))
        verbs = [step.action for step in plan.only(set(done)).changes]
        return Look(
            # What is missing is told together with what there is instead.
            concerns=None if plan.pending else (self._concern(first),),
            repairs=(
                *(repair_of(Step("delete", change.route, "")) for change in asked.changes),
                *(needed[key] for key in done),
            ),
            lost=tuple(needed[key] for key in lost),
            waiting=tuple(_repair_key(pending.desired.key) for pending in plan.pending),
            findings=(*(finding for finding in plan.findings(wait=None) if finding.name in _NOT_NOW), *asked.beside),
            failures={self.name: _in_short(refused)} if refused else {},
            routes=(
                len(wanted),
                len(wanted) - len(plan.conflicts) - len(plan.pending) - len(coming.difference(done)),
                len(ours) + verbs.count("add") - verbs.count("delete"),
            ),
            repair_seconds=seconds,
        )

    def _concern(self, snapshot: Snapshot) -> Concern:
        """What the plan depends on, if nothing is missing."""
        from hostrouting.kernel.concern import Concern  # noqa: PLC0415  only a guard needs it

        wanted = self._wanted
        networks = [wish.destination for wish in wanted]
        networks += [Prefix(way.version, int(way), way.max_prefixlen) for wish in wanted if (way := wish.gateway)]
        names = {wish.dev for wish in wanted if wish.dev}
        return Concern.of(snapshot, networks, names=names, protocols={OURS})

    def _apply_rest(
        self,
        ctx: phases.Context,
        plan: RoutePlan,
        before: Snapshot,
        backend: RouteBackend,
        keys: Sequence[RouteKey],
        *,
        alive: Alive,
    ) -> tuple[Sequence[RouteKey], Sequence[RouteKey], Sequence[str]]:
        """Three groups of keys: changed, changed but undone at once, and not changed (with the reason).

        If the kernel refuses some of them, nothing of their transaction is made; it is tried again without these.
        """
        lost: list[RouteKey] = []
        refused: list[str] = []
        for _ in range(_ATTEMPTS):
            if not keys:
                break
            ctx.check()
            try:
                with ctx.shielded():
                    apply_plan(plan.only(set(keys)), backend, before=before, check=alive)
            except ApplyError as error:
                if not error.refused:
                    return (), lost, [*refused, str(error)]
                refused += error.reasons
                lost += [] if error.__cause__ else [key for key in keys if key in error.refused]
                keys = [key for key in keys if key not in error.refused]
            else:
                return keys, lost, refused
        left = [f"{len(keys):,} more routes are tried again at the next look"] if keys else []
        return (), lost, [*left, *refused]

    @property
    def _wanted(self) -> tuple[DesiredRoute, ...]:
        return wanted_routes(self.config)

    @property
    def _installed(self) -> tuple[DesiredRoute, ...]:
        """The routes of the boot script on the host."""
        installed = parsed(self.host.files, self.host.layout.routes_script_path, parse_static_routes_script)
        return () if installed is None else wanted_routes_of(installed.config)

    @property
    def _spared(self) -> frozenset[Prefix]:
        text = self.host.files.read(self.host.layout.probe_applied_path)
        if text is None:
            return reply_destinations(self.config)
        from hostrouting.tasks.probe_rewrite.rules import Record  # noqa: PLC0415  few hosts have such routes

        return reply_destinations(self.config, former=Record.parse(text).routes)

    def _read(self) -> Snapshot:
        with self.kernel() as kernel:
            return read(kernel)[0]

    def _plan_routes(self, wanted: tuple[DesiredRoute, ...], before: Snapshot) -> RoutePlan:
        return plan_routes(wanted, before, spared=self._spared, installed=() if wanted else self._installed)

    def _await_plan(self, ctx: phases.Context, backend: RouteBackend) -> tuple[RoutePlan, Snapshot]:
        return await_plan(ctx, backend, self._wanted, wait=self.wait, spared=self._spared)

    def _stays(self, before: Snapshot) -> tuple[Route, ...]:
        """Routes of other owners that are as the configuration, or the installed one, wants them."""
        wanted = self._wanted or self._installed
        steps = self._plan_routes(wanted, before).steps if wanted else ()
        return tuple(step.route for step in steps if step.action == "keep" and step.route.protocol != OURS)


def repair_of(step: Step) -> Repair:
    """The step as a repair of its key; programs fight about keys."""
    route, key = step.route, _repair_key(step.route.key)
    if step.action == "delete":
        return Repair(key, "no route", f"[{route}]")
    return Repair(key, f"[{route}]", "no route" if step.held is None else f"[{step.held}]")


def _repair_key(key: RouteKey) -> str:
    usual = DEFAULT_METRIC[key.prefix.family]
    return str(key.prefix) + (f" metric {key.metric}" if key.metric != usual else "")


def _as_told(snapshot: Snapshot) -> list[str]:
    """Our routes, without their next hops' state."""
    ours = (snapshot.routes[place] for place in snapshot.routes.places(lambda outline: outline.protocol == OURS))
    return sorted(str(attrs.evolve(route, legs=tuple(map(bare_leg, route.legs)))) for route in ours)


def _in_short(texts: Sequence[str]) -> str:
    more = f"; and {len(texts) - _SHOWN:,} more" if len(texts) > _SHOWN else ""
    return "; ".join(texts[:_SHOWN]) + more
