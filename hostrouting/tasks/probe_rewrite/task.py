"""RewriteProbeSource lets IPv6 probes of the load balancer reach the pods, now and before any gated unit starts.

Here: reading the host, and the order of the steps. Not here: what is wanted and what hinders it (`rules`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv6Network
from typing import TYPE_CHECKING, ClassVar

import attrs

from hostrouting.boot.gate import Part
from hostrouting.boot.probe import TABLE, ProbeScript, render_probe_script, render_probe_unit
from hostrouting.check.examine import await_found
from hostrouting.errors import ApplyError, HostRoutingError, NotReady, ProgramError
from hostrouting.finding import Finding, of_severity
from hostrouting.host.effects import Effects, Operation, having_changed
from hostrouting.host.fileset import Changes, FileSet
from hostrouting.model.prefix import IPV6, Prefix
from hostrouting.routes.apply import apply_plan
from hostrouting.tasks.base import Alive, HostTask, MayRepair, run_once
from hostrouting.tasks.probe_rewrite.rules import Record, RewritePlan, Surroundings, find_hindrances, plan_rewrite
from hostrouting.tasks.results import Change, Look, Repair, Standing, removal
from hostrouting.tasks.static_routes import repair_of

if TYPE_CHECKING:
    import phases
    from hostrouting.config.probe_rewrite import ProbeRewriteConfig
    from hostrouting.kernel.base import RouteBackend
    from hostrouting.kernel.nftables import Nftables
    from hostrouting.model.snapshot import Snapshot

_SETTINGS = "/proc/sys/net/ipv6/conf"
_COUNTERS = 2
"""How many counters the table has."""


@attrs.frozen
class RewriteProbeSource(HostTask[Effects]):
    """Rewrite the link-local source of Azure's IPv6 probes to an address that can be forwarded, and back.

    1. If the rewrite is neither enabled nor installed, do nothing.
    2. Write unit, script and gate if they differ: every boot and every start of a gated unit loads the rules again.
    3. If the table is not in force, load it in one transaction. Wait for the device of the route, and add the route.
    4. Run the script once if it is new or its last run failed. Then read everything back.
    5. Log what else keeps probes from the pods: forwarding is off, or the device is in a bridge.
    6. If the configuration no longer enables the rewrite, delete table and route.

    A route whose device is not ready is not a failure, and no gated unit waits for it.
    """

    name: ClassVar[str] = "rewrite-probe-source"
    nothing: ClassVar[str] = "the probe rewrite is neither enabled nor installed"
    section: ClassVar[str] = "probeRewrite"

    def removals(self) -> tuple[Finding, ...]:
        """The installed rewrite, if the configuration does not enable it."""
        if self._settings.enabled or not self._is_installed:
            return ()
        return (removal(self.section_path, "installed, but not in this configuration: the probe rewrite"),)

    @property
    def part(self) -> Part:
        """The script, which runs before a gated unit starts, and the unit that runs it at every boot."""
        layout, seconds = self.host.layout, self.boot_wait
        told = ProbeScript(self._settings, seconds)
        part = Part.of(
            layout,
            "probe-rewrite",
            render_probe_script(told, layout=layout) if self._settings.interfaces else "",
            rank=70,
            kind="wants",
            unit_text=render_probe_unit(layout, wait=seconds),
            obsolete=layout.obsolete_paths(layout.probe_unit),
            remains=(layout.probe_unfinished_path,),
            is_undone_first=True,
        )
        return attrs.evolve(part, is_run_now=False)  # `carry_out` runs it: the result has the state after that

    @property
    def is_wanted(self) -> bool:
        """Whether the rewrite is enabled."""
        return self._settings.enabled

    def change(self, *, up: bool) -> Change:
        """The changes of the table and the route; for a removal, then that of the record."""
        if not up:
            operations: tuple[Operation, ...] = ()
            if self._is_left:
                with self._opened() as (nft, backend), self._where_nft_is():
                    operations = self._plan(nft, self._read(backend), up=False).operations
            left = Changes(removes=self._applied.present(self.host.files))
            return Change(files=left, operations=operations)
        with self._opened() as (nft, backend):
            plan = self._plan(nft, self._read(backend), up=True)
        return Change(operations=() if plan.conflicts else plan.operations, others=plan.findings)

    def carry_out(self, ctx: phases.Context, change: Change, *, up: bool) -> Effects:
        """Load the rules and add the route now, and run the boot script once; or undo that."""
        if not up:
            return self._remove(ctx)
        if self.host.backend is None:
            return Effects()
        with self._opened() as (nft, backend):
            operations = self._carry_out(ctx, nft, backend, wait=self.wait)
        with having_changed(operations=operations):
            is_new = self.host.layout.probe_script_path in change.files.writes
            started = run_once(ctx, self.host, self.part.unit, wait=self.wait, is_new=is_new)
            if started:
                # A run of the old script may have ended between the plan and this run, and changed something.
                with self._opened() as (nft, backend):
                    operations += self._carry_out(ctx, nft, backend, wait=0)
            standing = self.standing()
            if standing is not None:
                if not standing.is_in_force:
                    changes = "; ".join(map(str, of_severity(standing.findings, "error")))
                    raise ProgramError(
                        f"what was loaded has been changed: {changes}; stop the program that changes it",
                        program="nft",
                        kind="not-in-force",
                    )
                for finding in standing.findings:
                    ctx.log.log(finding.level, "%s", finding)
            own = Record.of(self._settings)
            self._write(attrs.evolve(own, loaded=self._record.loaded))
            return Effects(operations=operations, started=started)

    def keep(self, ctx: phases.Context, may_repair: MayRepair, alive: Alive = lambda: None) -> Look:
        """Load the table and add the route again if they are not as they were installed."""
        if not self.is_wanted:
            return Look()
        with self._opened() as (nft, backend):
            snapshot = self._read(backend)
            plan = self._plan(nft, snapshot, up=True)
            table, routes = plan.apart
            waiting = (str(self._prefix),) if plan.waits else ()
            found = tuple(of_severity(plan.findings, "error", "warning"))
            begun, look = ctx.clock.now(), Look(findings=found, concerns=None)
            for part, needed in (
                (table, tuple(map(Repair.of, table.on_table))),
                (routes, tuple(map(repair_of, routes.routes.changes))),
            ):
                # All are asked, so that each is known to be needed.
                if not needed or part.conflicts or sum(map(may_repair, needed)) < len(needed):
                    continue
                alive()
                try:
                    self._carry(ctx, nft, backend, snapshot, part)
                    look += Look(repairs=needed)
                except HostRoutingError as error:  # the other part is repaired in any case
                    is_lost = isinstance(error, ApplyError) and error.__cause__ is None
                    failures = {f"{self.name}, {needed[0].key}": str(error)}
                    look += Look(lost=needed if is_lost else (), failures=failures)
            return attrs.evolve(look, waiting=waiting, repair_seconds=ctx.clock.now() - begun)

    def _remove(self, ctx: phases.Context) -> Effects:
        """Delete table and route, whatever the configuration says; last the file that records them."""
        operations: tuple[Operation, ...] = ()
        if self.host.backend is not None and self._is_left:
            with self._opened() as (nft, backend), self._where_nft_is():
                snapshot = self._read(backend)
                plan = self._plan(nft, snapshot, up=False)
                self._carry(ctx, nft, backend, snapshot, plan)
                operations = plan.operations
        with having_changed(operations=operations):
            return Effects((), self._applied.remove(self.host.files), operations)

    def standing(self) -> Standing | None:
        """Whether the rules and the route are in force, and what prevents their effect."""
        if self.host.backend is None or not (self._settings.enabled or self.paths()):
            return None
        settings, up = self._settings, self.is_wanted
        subject = f"probes from {settings.link_local} by {' and '.join(settings.interfaces) or 'no device'}"
        with self._opened() as (nft, backend):
            snapshot = self._read(backend)
            plan = self._plan(nft, snapshot, up=up)
            faults = (f"{operation.object}: {operation.reason}" for operation in plan.operations)
            found = [*plan.findings, *(Finding("probe-rewrite", "error", fault) for fault in faults)]
            if not up:
                return Standing(subject, up, tuple(found))
            is_added = any(step.action in {"add", "replace"} for step in plan.routes.steps)
            around = self._surroundings(nft, backend, snapshot, with_way=not (is_added or plan.waits))
        found += find_hindrances(settings, around)
        counts = () if plan.operations else nft.counts(TABLE)
        sentence = "{:,} packets rewritten on their way in, {:,} on their way out"
        # Another program may have changed the table meanwhile.
        return Standing(subject, up, tuple(found), (sentence.format(*counts),) if len(counts) == _COUNTERS else ())

    @property
    def _settings(self) -> ProbeRewriteConfig:
        return self.config.probe_rewrite

    @property
    def _is_installed(self) -> bool:
        return self.host.files.is_there(self.host.layout.probe_script_path)

    @property
    def _is_left(self) -> bool:
        """Whether the kernel may have a table or route of the rewrite."""
        return self._is_installed or self.host.files.is_there(self.host.layout.probe_applied_path)

    @contextmanager
    def _opened(self) -> Iterator[tuple[Nftables, RouteBackend]]:
        """The edges to nftables and to the routing; an image has neither."""
        with self.kernel() as backend:
            if self.host.nftables is None:
                raise ProgramError("this host has no nftables", program="nft", kind="missing")
            yield self.host.nftables(), backend

    @contextmanager
    def _where_nft_is(self) -> Iterator[None]:
        """Raise nft's error if it is missing and there is a table to delete."""
        try:
            yield
        except ProgramError as error:
            if error.kind != "missing" or self.host.files.is_there(self.host.layout.probe_applied_path):
                raise

    def _carry_out(
        self, ctx: phases.Context, nft: Nftables, backend: RouteBackend, *, wait: float
    ) -> tuple[Operation, ...]:
        """Load the table, wait until the route can be added, and add it. Returns what was done."""
        snapshot = self._read(backend)
        plan = self._plan(nft, snapshot, up=True)
        plan.require_possible()
        self._carry(ctx, nft, backend, snapshot, plan)
        if not plan.waits:
            return plan.operations

        def attempt() -> tuple[tuple[Snapshot, RewritePlan] | None, str]:
            found = self._read(backend)
            later = self._plan(nft, found, up=True)
            return (None, f"waiting for {later.waits}") if later.waits else ((found, later), "")

        with having_changed(operations=plan.operations):
            try:
                snapshot, later = await_found(ctx, backend, attempt, wait=0 if plan.is_off else wait)
            except NotReady:
                return plan.operations
            later.require_possible()
            self._carry(ctx, nft, backend, snapshot, later)
            return (*plan.operations, *later.operations)

    def _carry(
        self, ctx: phases.Context, nft: Nftables, backend: RouteBackend, snapshot: Snapshot, plan: RewritePlan
    ) -> None:
        """Carry out a plan without conflicts."""
        if not plan.operations:
            return
        ctx.check()
        with ctx.shielded():  # Ctrl-C must not interrupt between the table and the route
            record = self._record
            if plan.wanted is not None:
                record += Record.of(self._settings)
                self._write(record)  # what may be in the kernel is recorded before it is there
            if plan.text:
                nft.load(plan.text)
            with having_changed(operations=plan.on_table):
                if plan.text and plan.wanted is not None:
                    listing = nft.listing(TABLE)
                    self._write(attrs.evolve(record, loaded=plan.wanted_text + (listing or "")))
                apply_plan(plan.routes, backend, before=snapshot)

    def _plan(self, nft: Nftables, snapshot: Snapshot, *, up: bool) -> RewritePlan:
        plan = plan_rewrite(self._settings, self._record, nft.listing(TABLE), snapshot, up=up)
        return plan._replace(section=self.section_path)

    def _read(self, backend: RouteBackend) -> Snapshot:
        """The devices, and the routes to the global addresses of this configuration and earlier ones."""
        former = (Prefix.of(IPv6Network(address)) for address in self._record.routes)
        return backend.snapshot(family=IPV6, prefixes={self._prefix, *former})

    @property
    def _prefix(self) -> Prefix:
        return Prefix.of(IPv6Network(self._settings.global_address))

    def _surroundings(
        self, nft: Nftables, backend: RouteBackend, snapshot: Snapshot, *, with_way: bool
    ) -> Surroundings:
        settings = self._settings
        names = ("all.forwarding", *(f"{dev}.accept_ra" for dev in settings.interfaces))
        [answer] = backend.lookup([settings.global_address]) if with_way else [None]
        return Surroundings(
            snapshot=snapshot,
            settings={name: value for name in names if (value := self._setting(*name.rsplit(".", 1))) is not None},
            way_back=None if answer is None else () if answer.route is None else answer.route.devs,
            tables=nft.names(),
        )

    def _setting(self, dev: str, name: str) -> int | None:
        text = self.host.files.read(self.host.layout.at(f"{_SETTINGS}/{dev}/{name}"))
        return None if text is None else int(text)

    @property
    def _applied(self) -> FileSet:
        return FileSet(obsolete=(self.host.layout.probe_applied_path,))

    @property
    def _record(self) -> Record:
        """The routes of this configuration and earlier ones that may be in the kernel, and the text loaded last."""
        return Record.parse(self.host.files.read(self.host.layout.probe_applied_path) or "")

    def _write(self, record: Record) -> None:
        if self.host.files.read(self.host.layout.probe_applied_path) != str(record):
            self.host.files.write(self.host.layout.probe_applied_path, str(record))
