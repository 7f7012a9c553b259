"""RewriteProbeSource lets IPv6 probes of the load balancer reach the pods, now and before any machine starts.

Here: reading the host, and the order of the steps. Not here: what is wanted and what hinders it (`rules`).
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from ipaddress import IPv6Network
from typing import TYPE_CHECKING, ClassVar

import attrs

from hostrouting.boot import (
    MOST_WAIT,
    GateStep,
    ProbeScript,
    parse_probe_script,
    render_preset,
    render_probe_script,
    render_probe_unit,
)
from hostrouting.boot.gate import Part
from hostrouting.check.examine import await_found
from hostrouting.config import OnUnknown, ProbeCondition
from hostrouting.errors import (
    ApplyError,
    ConfigError,
    Fault,
    FileError,
    HostRoutingError,
    MetadataError,
    ProgramError,
)
from hostrouting.finding import Finding, of_severity
from hostrouting.host.effects import Operation, having_changed
from hostrouting.host.fileset import Changes, File, FileSet, unit_file
from hostrouting.model import IPV6, Prefix, Snapshot
from hostrouting.routes.apply import apply_plan
from hostrouting.routes.uplink import missing_device
from hostrouting.tasks import probe_rewrite as rewrite  # it loads `rules` when they are used
from hostrouting.tasks.base import HostTask, run_once
from hostrouting.tasks.guard.look import Look, Repair
from hostrouting.tasks.results import Change, ProbeResult, Standing, removal
from hostrouting.tasks.static_routes import repair_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Self

    import phases
    from hostrouting.boot import BootCondition
    from hostrouting.config import ProbeRewriteConfig
    from hostrouting.host.metadata import Answer
    from hostrouting.kernel.base import RouteBackend
    from hostrouting.kernel.nftables import Nftables
    from hostrouting.model import Route
    from hostrouting.tasks.base import Alive, MayRepair
    from hostrouting.tasks.probe_rewrite.rules import OwnAddress, Record, RewritePlan, Surroundings

__all__ = ["RewriteProbeSource"]

_ADDRESSES = "/proc/self/net/if_inet6"
_SETTINGS = "/proc/sys/net/ipv6/conf"


@attrs.frozen
class RewriteProbeSource(HostTask[ProbeResult]):
    """Rewrite the link-local source of Azure's IPv6 probes to an address that may be forwarded, and back.

    1. If the rewrite is neither enabled nor installed, do nothing.
    2. If the condition is `imds`, ask the instance metadata service whether this node has IPv6.
    3. Write unit, script and gate if they differ: from now on no machine starts before the rules are loaded.
    4. Compare the rules with what nft lists, and load them in one transaction if they differ; then add the route.
    5. Run the script once if it is new or its last run failed. Then read everything back.
    6. Log what else keeps probes from the pods: forwarding is off, or the device is in a bridge.
    7. If the configuration no longer enables the rewrite, or its condition does not hold, delete table and route.
    """

    name: ClassVar[str] = "rewrite-probe-source"
    nothing: ClassVar[str] = "the probe rewrite is neither enabled nor installed"
    answer: Answer | None = attrs.field(default=None, kw_only=True, eq=False, repr=False)
    """The answer of the instance metadata service; None if it was not asked."""

    def removals(self) -> tuple[Finding, ...]:
        """The installed rewrite, if the configuration does not enable it."""
        if self.config.probe_rewrite.enabled or not self.host.files.is_there(self.host.layout.probe_script_path):
            return ()
        return (removal("probeRewrite", "not in this configuration, but installed: the probe rewrite"),)

    @property
    def part(self) -> Part:
        """The script, which has to succeed before a machine starts, and the unit that runs it at every boot."""
        layout, seconds = self.host.layout, min(math.ceil(self.wait), MOST_WAIT)
        files = FileSet(
            (
                unit_file(layout.probe_unit_path, render_probe_unit(layout), script=layout.probe_script, layout=layout),
                File(layout.probe_preset_path, render_preset(layout.probe_unit)),
            ),
            links=((layout.probe_enabled_path, f"{layout.unit_directory}/{layout.probe_unit}"),),
            obsolete=layout.obsolete_paths(layout.probe_unit),
        )
        script = File(layout.probe_script_path, self._script(wait=seconds), mode=0o755)
        return Part(
            GateStep(70, "requires", "probe-rewrite"),
            files,
            layout.probe_unit,
            FileSet((script,)),
            remains=(layout.probe_unfinished_path,),
            tools=("ip", "nft"),
        )

    @property
    def is_wanted(self) -> bool:
        """Whether the rewrite is enabled."""
        return self._settings.enabled

    def paths(self) -> tuple[str, ...]:
        """The paths of the task's files that exist on the host."""
        part, files = self.part, self.host.files
        return (*part.present(files), *self._program_paths)

    @property
    def _program_paths(self) -> tuple[str, ...]:
        files = self.host.files
        return (*self.part.program.present(files), *self._applied.present(files))

    def settled(self, ctx: phases.Context) -> Self:
        """The task with the answer of the instance metadata service, if the condition is `imds`."""
        if not (self.is_wanted and self._settings.condition is ProbeCondition.IMDS) or self.host.backend is None:
            return self
        from hostrouting.host.metadata import ask_for_ipv6  # noqa: PLC0415  few hosts need it

        return attrs.evolve(self, answer=ask_for_ipv6(ctx, self.host.fetch, self._settings.imds))

    def look(self, *, up: bool) -> Change:
        """What would be done to the table and the route; for a removal also the files that are removed after them."""
        if not up:
            return Change(files=Changes(removes=self._program_paths), operations=self._removals())
        open_nft, open_backend = self.host.nftables, self.host.backend
        if open_nft is None or open_backend is None:
            return Change()
        with open_backend() as backend:
            snapshot = self._read(backend)
        is_met = self._is_met(snapshot)
        plan = self._plan(open_nft(), snapshot, up=is_met)
        taken = self._taken_address(snapshot) if is_met else None
        unanswered = self._unanswered
        conflicts = (*([str(conflict) for conflict in (unanswered, taken) if conflict is not None]), *plan.conflicts)
        told = [Finding("probe-rewrite", "error", conflict) for conflict in conflicts]
        told += [] if is_met else [Finding("probe-rewrite", "note", note) for note in self._why_not()]
        return Change(operations=() if conflicts else plan.operations, others=tuple(told))

    def install(self, ctx: phases.Context, changed: tuple[str, ...]) -> ProbeResult:
        """Load the rules and add the route now, and run the boot script once."""
        open_nft, open_backend = self.host.nftables, self.host.backend
        if open_nft is None or open_backend is None:
            return ProbeResult(None, changed)
        if (unanswered := self._unanswered) is not None:
            raise unanswered
        nft = open_nft()
        with open_backend() as backend:
            operations = self._carry_out(ctx, nft, backend)
        with having_changed(operations=operations):
            is_new = self.host.layout.probe_script_path in changed
            started = run_once(ctx, self.host, self.part.unit, wait=self.wait, is_new=is_new)
            if started:
                # A run of the old script may have ended between the plan and this run, and changed something.
                with open_backend() as backend:
                    operations += self._carry_out(ctx, nft, backend)
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
            return ProbeResult(standing, changed, operations, started)

    def keep(self, ctx: phases.Context, may_repair: MayRepair, alive: Alive = lambda: None) -> Look:
        """Load the table and add the route again if they are not as they were installed."""
        open_nft, open_backend = self.host.nftables, self.host.backend
        if open_nft is None or open_backend is None or not self.is_wanted:
            return Look()
        nft = open_nft()
        with open_backend() as backend:
            snapshot = self._read(backend)
            up = self._is_met(snapshot)
            plan = self._plan(nft, snapshot, up=up)
            tables, routes = plan.apart
            conflicts = tuple(Finding("probe-rewrite", "error", told) for told in plan.conflicts)
            begun, look = ctx.clock.now(), Look(findings=conflicts)
            for part, needed in (
                (tables, tuple(map(_repair_of, tables.operations))),
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
            return attrs.evolve(look, repair_seconds=ctx.clock.now() - begun)

    def remove(self, ctx: phases.Context, changed: tuple[str, ...]) -> ProbeResult:
        """Delete table and route, whatever the configuration says; last the file that records them."""
        files, part = self.host.files, self.part
        open_nft, open_backend = self.host.nftables, self.host.backend
        operations: tuple[Operation, ...] = ()
        if open_nft is not None and open_backend is not None and self._is_left:
            with open_backend() as backend, self._where_nft_is():
                snapshot = self._read(backend)
                operations = self._change(ctx, open_nft(), backend, snapshot, up=False)
        with having_changed(operations=operations):
            gone = part.program.remove(files)
            with having_changed(files=gone):
                self._applied.remove(files)
                return ProbeResult(None, (*changed, *gone), operations)

    def standing(self) -> Standing | None:
        """Whether the rules and the route are in force, and what prevents their effect."""
        open_nft, open_backend = self.host.nftables, self.host.backend
        if open_nft is None or open_backend is None or not (self.is_wanted or self.paths()):
            return None
        settings = self._settings
        nft = open_nft()
        with open_backend() as backend:
            snapshot = self._read(backend)
            up = self.is_wanted and self._is_met(snapshot)
            plan = self._plan(nft, snapshot, up=up)
            around = self._surroundings(nft, backend, snapshot) if up else rewrite.rules.Surroundings()
        if plan.coming_routes:  # what is missing is a fault already
            around = attrs.evolve(around, way_back=None)
        faults = (*plan.conflicts, *(f"{operation.object}: {operation.reason}" for operation in plan.operations))
        found = [Finding("probe-rewrite", "error", fault) for fault in faults]
        found += rewrite.rules.find_hindrances(settings, around) if up else ()
        found += () if up or not self.is_wanted else (Finding("probe-rewrite", "note", why) for why in self._why_not())
        return Standing(
            f"probes from {settings.link_local} by {' and '.join(settings.interfaces) or 'no device'}",
            up,
            tuple(found),
            self._counted(nft) if up and not faults else (),
        )

    @property
    def _settings(self) -> ProbeRewriteConfig:
        return self.config.probe_rewrite

    def _script(self, *, wait: int) -> str:
        """The text of the script; empty if no interfaces are configured, as there is nothing to rewrite then."""
        settings = self._settings
        if not settings.interfaces:
            return ""
        told = ProbeScript(
            table=settings.table,
            priority=settings.priority,
            link_local=settings.link_local,
            global_address=settings.global_address,
            interfaces=settings.interfaces,
            ensure_route=settings.ensure_route,
            condition=self._at_boot,
            protocol=self.config.protocol,
            wait=wait,
        )
        return render_probe_script(told, layout=self.host.layout)

    @property
    def _at_boot(self) -> BootCondition:
        """The condition that is written into the script, which cannot ask the instance metadata service itself."""
        settings = self._settings
        if settings.condition is ProbeCondition.ALWAYS:
            return "always"
        if settings.condition is ProbeCondition.LOCAL_IPV6:
            return "local-ipv6"
        if self.answer is None:
            former = self._installed
            return "always" if former is None else former.condition
        if self.answer.has_ipv6 is None:
            return "never" if settings.imds.on_unknown is OnUnknown.SKIP else "always"
        return "always" if self.answer.has_ipv6 else "never"

    def _condition(self, snapshot: Snapshot) -> bool | None:
        """Whether the condition holds now; None while an address is tentative and may turn out to be a duplicate."""
        if self._at_boot == "local-ipv6":
            return rewrite.rules.has_address(self._settings.interfaces, self._addresses(snapshot))
        return self._at_boot == "always"

    def _is_met(self, snapshot: Snapshot) -> bool:
        """Whether the rewrite should be in force, as far as is known now; a tentative address counts.

        After the timeout there has to be a decision. A tentative address means that the node should have IPv6, and if
        it turns out to be a duplicate, the rules match nothing. Without the rules the node would have no probes until
        an administrator intervenes, and a failure would keep a machine from starting that may not need IPv6.
        """
        return self._condition(snapshot) is not False

    @property
    def _is_left(self) -> bool:
        """Whether the kernel may have a table or route of the rewrite."""
        files, layout = self.host.files, self.host.layout
        return files.is_there(layout.probe_applied_path) or files.is_there(layout.probe_script_path)

    def _removals(self) -> tuple[Operation, ...]:
        """What a removal would do to the table and the route."""
        open_nft, open_backend = self.host.nftables, self.host.backend
        found: tuple[Operation, ...] = ()
        if open_nft is not None and open_backend is not None and self._is_left:
            with open_backend() as backend, self._where_nft_is():
                found = self._plan(open_nft(), self._read(backend), up=False).operations
        return found

    @contextmanager
    def _where_nft_is(self) -> Iterator[None]:
        """Without the program nft no table can be deleted; raise its error only if there is something to delete."""
        try:
            yield
        except ProgramError as error:
            if error.kind != "missing" or self._record != rewrite.rules.Record():
                raise

    def _why_not(self) -> tuple[str, ...]:
        """The note on an enabled rewrite that is not in force on this host because its condition does not hold."""
        devs = " and ".join(self._settings.interfaces)
        if self._at_boot == "local-ipv6":
            return (f"not rewritten: {devs} has no global IPv6 address (probeRewrite.condition is local-ipv6)",)
        known = self.answer is None or self.answer.has_ipv6 is not None
        told = "says that this node has no IPv6" if known else "does not say whether this node has IPv6"
        return (f"not rewritten: the instance metadata {told} (probeRewrite.condition is imds)",)

    @property
    def _unanswered(self) -> MetadataError | None:
        """The error if the instance metadata gives no usable answer, and the configuration then requires one."""
        answer, imds = self.answer, self._settings.imds
        if answer is not None and answer.has_ipv6 is None and imds.on_unknown is OnUnknown.FAIL:
            return MetadataError(imds.url, answer.reason)
        return None

    def _taken_address(self, snapshot: Snapshot) -> ConfigError | None:
        """The error if the global address is an address of this host; None otherwise."""
        known = self._settings.global_address
        for address in snapshot.addresses:
            if address.ip == known:
                rule = f"is an address of this host, on {address.dev}, so the replies to probes would not leave it"
                remedy = "write an address that no host has"
                return ConfigError([Fault("probeRewrite.globalAddress", f'"{known}"', rule, remedy)])
        return None

    def _carry_out(self, ctx: phases.Context, nft: Nftables, backend: RouteBackend) -> tuple[Operation, ...]:
        """Wait until the host is ready, and bring table and route up to date; returns what was done."""
        end = ctx.clock.now() + self.wait

        def attempt() -> tuple[tuple[Snapshot, bool] | None, str]:
            found = self._read(backend)
            if self._condition(found) is None and ctx.clock.now() < end:
                return None, "waiting for an IPv6 address that is not tentative"
            up = self._is_met(found)
            missing = next(_missing_devices(self._route, found), "") if up else ""
            return (None, f"waiting for {missing}") if missing else ((found, up), "")

        snapshot, up = await_found(ctx, backend, attempt, wait=self.wait)
        if up and (error := self._taken_address(snapshot)):
            raise error
        if self._condition(snapshot) is None:
            devs = " or ".join(self._settings.interfaces)
            told = "probes are rewritten anyway, because the rules match nothing if there is no IPv6"
            ctx.log.warning("the IPv6 addresses of %s are still tentative after %g s; %s", devs, self.wait, told)
        return self._change(ctx, nft, backend, snapshot, up=up)

    def _change(
        self, ctx: phases.Context, nft: Nftables, backend: RouteBackend, snapshot: Snapshot, *, up: bool
    ) -> tuple[Operation, ...]:
        plan = self._plan(nft, snapshot, up=up)
        if plan.conflict:
            raise ProgramError(plan.conflict, program="nft", kind="owned")
        plan.routes.require_possible()
        if not plan.is_empty:
            self._carry(ctx, nft, backend, snapshot, plan)
        return plan.operations

    def _carry(
        self, ctx: phases.Context, nft: Nftables, backend: RouteBackend, snapshot: Snapshot, plan: RewritePlan
    ) -> None:
        """Carry out a plan without conflicts."""
        ctx.check()
        with ctx.shielded():  # Ctrl-C must not interrupt between the table and the route
            self._note(ctx, plan)
            if plan.load is not None:
                nft.replace(plan.load, without=plan.delete)
            else:
                nft.remove(*plan.delete)
            with having_changed(operations=plan.on_tables):
                apply_plan(plan.routes, backend, before=snapshot, protocol=self.config.protocol)

    def _plan(self, nft: Nftables, snapshot: Snapshot, *, up: bool) -> RewritePlan:
        record, protocol = self._record, self.config.protocol
        names = dict.fromkeys((self._settings.table, *record.tables))
        tables = {name: nft.table(name) for name in names}
        return rewrite.rules.plan_rewrite(
            rewrite.rules.wanted_table(self._settings) if up else None,
            self._route if up else None,
            tables,
            snapshot,
            ours=tuple(dict.fromkeys((protocol, *(route.protocol for route in record.routes)))),
            former=self._prefixes(),
        )

    def _read(self, backend: RouteBackend) -> Snapshot:
        """The devices, and the routes to the global address."""
        return backend.snapshot(family=IPV6, prefixes=self._prefixes())

    @property
    def _route(self) -> Route | None:
        return rewrite.rules.wanted_route(self._settings, protocol=self.config.protocol)

    def _surroundings(self, nft: Nftables, backend: RouteBackend, snapshot: Snapshot) -> Surroundings:
        settings = self._settings
        [answer] = backend.lookup([settings.global_address])
        forwarding = self._setting("all", "forwarding")
        accepting = {dev: self._setting(dev, "accept_ra") for dev in settings.interfaces}
        there = [link for link in snapshot.links if link.name in settings.interfaces]
        masters = {link.master for link in there}
        return rewrite.rules.Surroundings(
            links=(*there, *(link for link in snapshot.links if link.name in masters and link not in there)),
            addresses=self._addresses(snapshot),
            forwarding=None if forwarding is None else bool(forwarding),
            accept_ra={dev: value for dev, value in accepting.items() if value is not None},
            way_back=() if answer.route is None else answer.route.devs,
            tables=nft.names(),
        )

    def _setting(self, dev: str, name: str) -> int | None:
        text = self.host.files.read(self.host.layout.at(f"{_SETTINGS}/{dev}/{name}"))
        return None if text is None else int(text)

    def _addresses(self, snapshot: Snapshot) -> tuple[OwnAddress, ...]:
        return rewrite.rules.own_addresses(snapshot, self.host.files.read(self.host.layout.at(_ADDRESSES)) or "")

    def _counted(self, nft: Nftables) -> tuple[str, ...]:
        match nft.counters(self._settings.table):
            case (there, back):
                return (f"{there:,} packets rewritten on their way in, {back:,} on their way out",)
        return ()  # another program has changed the table meanwhile

    @property
    def _applied(self) -> FileSet:
        return FileSet(obsolete=(self.host.layout.probe_applied_path,))

    @property
    def _record(self) -> Record:
        """The tables and routes of this configuration and earlier ones that the kernel may have."""
        return rewrite.rules.Record.parse(self.host.files.read(self.host.layout.probe_applied_path) or "")

    def _note(self, ctx: phases.Context, plan: RewritePlan) -> None:
        """Record what will be in the kernel, in addition to what may be there; called before the change."""
        coming = rewrite.rules.Record(
            () if plan.load is None else (plan.load.name,),
            tuple(
                rewrite.rules.NotedRoute(self._settings.global_address, route.devs[0], route.protocol)
                for route in plan.coming_routes
            ),
        )
        try:
            self.host.files.write(self.host.layout.probe_applied_path, str(self._record + coming))
        except FileError as error:
            names = " and ".join(operation.object for operation in plan.operations)
            ctx.log.warning("%s; after a change of the configuration, %s may be left until the next boot", error, names)

    @property
    def _installed(self) -> ProbeScript | None:
        text = self.host.files.read(self.host.layout.probe_script_path)
        try:
            return None if text is None else parse_probe_script(text)
        except ValueError:
            return None

    def _prefixes(self) -> set[Prefix]:
        """The destinations to which this configuration adds a route, or an earlier one may have added one."""
        known = (self._settings.global_address, *(route.address for route in self._record.routes))
        return {Prefix.of(IPv6Network(text)) for text in known}


def _repair_of(operation: Operation) -> Repair:
    """The operation as a repair, with both sides as nouns."""
    if operation.verb == "delete":
        return Repair(operation.object, "none", operation.object)
    found = "none" if operation.verb == "create" else f"a changed one ({operation.reason})"
    return Repair(operation.object, "the one that was installed", found)


def _missing_devices(route: Route | None, snapshot: Snapshot) -> Iterator[str]:
    """What is waited for before the route can be added."""
    for dev in () if route is None else route.devs:
        if lack := missing_device(dev, snapshot.link(dev), family=IPV6):
            yield lack
