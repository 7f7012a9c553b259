"""The whole check of a host by family: verdicts on its own and its pods' packets, the repair and its effects.

Here: the check of a kernel, once it is ready, and of a snapshot; waiting for missing devices and routes by kernel
events; what to change in a configuration so that it repairs the host; and the host after the repair. Not here: the
parts of a check (`overlap`, `pods`, `repair`), the sentences (`report`), and what is done with the answers (`tasks`).

The engine computes what the tables say, and the kernel is asked once in each cell. If an answer differs, the tables may
have changed meanwhile: the whole examination is repeated. If it still differs, the kernel's answer is the verdict on
the cell, because it is what happens to packets, and the report says so.

A repair closes what escapes on a host as it is. A configuration may have some of its routes already; other routes in it
may be impossible, because another program's route has the same destination and metric; and `apply` deletes our routes
that are not in it. So the correction is computed on the host as it will be once the configuration is applied.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import attrs

from hostrouting.check.overlap import Escape, Note, OverlapReport, Verdict, check_overlap, follow_kernel
from hostrouting.check.packets import PodPackets, find_pod_packets
from hostrouting.check.pods import Ask, PodReport, check_pods
from hostrouting.check.repair import Repair, Unsafe, propose_repair
from hostrouting.check.rules import SERIOUS, find_flaws
from hostrouting.config.cni import CNI_ROUTES
from hostrouting.errors import BackendError, NotReady
from hostrouting.fib.decision import Decision
from hostrouting.fib.engine import Fib
from hostrouting.fib.packet import ANY, Flow
from hostrouting.finding import Finding
from hostrouting.model.prefix import IP, IPV4, IPV6, Prefix, ip_at
from hostrouting.model.route import OURS, Route, protocol_name
from hostrouting.model.snapshot import Snapshot
from hostrouting.routes.uplink import DesiredRoute, missing_default, resolve_route, seen_instead, wanted_routes

if TYPE_CHECKING:
    import phases
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.kernel.base import Answer, RouteBackend
    from hostrouting.kernel.concern import Concern
    from hostrouting.routes.plan import RoutePlan

T = TypeVar("T")

_WORST_FIRST: tuple[Verdict, ...] = ("overlap", "no-default-route", "undecided", "ok")
_TRIES = 3  # for an examination in which kernel and engine disagree: the tables may have changed meanwhile
_AT_ONCE = 4096  # destinations in one lookup
_NEAR = 3  # to the source from the first address of a pod CIDR, which may be a broadcast address or the host's own
_RESTLESS = "the route tables kept changing while they were read; the verdict is for the last snapshot"


@attrs.frozen
class FamilyExamination:
    """The result of a check for one family: the report, its repair, and where the kernel's answers differ."""

    report: OverlapReport
    repair: Repair
    fib: Fib = attrs.field(eq=False, repr=False)
    """The tables that were checked."""
    pods: tuple[PodReport, ...] = ()
    """The verdicts on what pods send, if any pod CIDRs are configured."""
    surprises: tuple[Finding, ...] = ()
    """The answers of the kernel that are not what its tables say."""
    restless: bool = False
    """Whether the tables kept changing while they were read."""
    flaws: tuple[Finding, ...] = ()
    """What is wrong with the rules and the default routes themselves."""

    @property
    def verdict(self) -> Verdict:
        """The worst verdict, on the host's own packets and on those of pods.

        Never "ok" if the tables kept changing or there is a serious flaw.
        """
        verdict = _worst([self.report.verdict, *(pods.verdict for pods in self.pods)])
        return "undecided" if (self.restless or self.doubts) and verdict == "ok" else verdict

    @property
    def doubts(self) -> tuple[str, ...]:
        """The serious flaws, each as a phrase."""
        family = self.report.family
        return tuple(
            f"IPv{family} default routes by {flaw.target} compete"
            if flaw.name == "default-routes"
            else f"own IPv{family} addresses are not delivered on the host"
            for flaw in self.flaws
            if flaw.name in SERIOUS
        )

    @property
    def instead(self) -> str:
        """The routes that are there instead of a usable default route; empty if there is one."""
        return seen_instead(self.fib, family=self.report.family) if _lacks_default(self) else ""

    @property
    def after_repair(self) -> FamilyExamination:
        """The result of the same check with the repair in place."""
        return attrs.evolve(self, report=self.repair.proof, pods=self.repair.pods)

    @property
    def escapes(self) -> tuple[Escape, ...]:
        """The escapes of the host's own packets, and then those of pods that are different."""
        return (*self.report.escapes, *(finding for pods in self.pods for finding in pods.escapes_beyond(self.report)))

    @property
    def notes(self) -> tuple[Note, ...]:
        """The exceptions to the verdicts, in the same order."""
        return (*self.report.notes, *(note for pods in self.pods for note in pods.notes_beyond(self.report)))


@attrs.frozen
class Examination:
    """The result of a check. Each family has its own default route, verdict and repair."""

    families: tuple[FamilyExamination, ...]
    """The families with expected CIDRs, IPv4 first."""

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of a family."""
        return _worst([family.verdict for family in self.families])

    @property
    def lacking(self) -> tuple[str, ...]:
        """What the families without a default route lack, in words."""
        lost = (family for family in self.families if _lacks_default(family))
        return tuple(missing_default(family.fib, family=family.report.family) for family in lost)

    @property
    def escapes(self) -> tuple[Escape, ...]:
        """The escapes of both families."""
        return tuple(finding for family in self.families for finding in family.escapes)

    @property
    def routes(self) -> tuple[DesiredRoute, ...]:
        """The routes that repair what routes can repair, in both families."""
        return tuple(route for family in self.families for route in family.repair.routes)

    @property
    def unsafe(self) -> tuple[Unsafe, ...]:
        """The escapes of both families that no route can repair."""
        return tuple(unsafe for family in self.families for unsafe in family.repair.unsafe)

    @property
    def costs(self) -> tuple[Finding, ...]:
        """What the repair takes from other devices, in both families."""
        return tuple(cost for family in self.families for cost in family.repair.costs)

    @property
    def surprises(self) -> tuple[Finding, ...]:
        """The kernel's answers that are not what its tables say, in both families."""
        return tuple(finding for family in self.families for finding in family.surprises)

    @property
    def fib(self) -> Fib:
        """The tables that were checked."""
        return self.families[0].fib


def _worst(verdicts: Collection[Verdict]) -> Verdict:
    return next(verdict for verdict in _WORST_FIRST if verdict in verdicts)


def examine(
    ctx: phases.Context | None,
    backend: RouteBackend,
    config: HostRoutingConfig,
    *,
    wait: float = 0.0,
    whole: bool = False,
) -> Examination:
    """Check the expected CIDRs on this host, after waiting for a default route of each family.

    Only the families that the configuration names are read, unless the caller needs the `whole` host.

    The kernel itself is asked once in every cell. If an answer disagrees with its tables, the whole examination is
    repeated; if they still disagree, the verdict follows the kernel. If the kernel does not answer, the error carries
    the tables. Without a default route by the deadline, the family's verdict is no-default-route. Without `ctx`, `wait`
    is ignored.
    """
    last: list[Examination] = []
    once = partial(_examine_once, backend, config, family=None if whole else _only_family(config))

    def attempt() -> tuple[Examination | None, str]:
        found = once()
        last[:] = [found]
        if found.lacking:
            return None, " and ".join(found.lacking)
        return found, ""

    try:
        found = once() if ctx is None else await_found(ctx, backend, attempt, wait=wait)
        for left in reversed(range(_TRIES - 1)):
            if not found.surprises:
                break
            # The last time, everything is read: a table may have changed without a report.
            found = once(anew=not left)
    except NotReady:
        found = last[0]
    return found


def examine_snapshot(snapshot: Snapshot, config: HostRoutingConfig) -> Examination:
    """Check the expected CIDRs on a snapshot, without asking a kernel."""
    fib = Fib(snapshot)
    return Examination(tuple(_with_pods(fib, report, config) for report in _reports(fib, config)))


def concern_of(snapshot: Snapshot, config: HostRoutingConfig) -> Concern:
    """What the verdict on the host's own packets depends on, as long as there is a default route."""
    from hostrouting.kernel.concern import Concern  # noqa: PLC0415  needed by a guard, or if something changes meanwhile

    check = config.route_overlap
    names = {*check.expected_devs, *(route.dev for route in CNI_ROUTES)} - {"*"}
    return Concern.of(snapshot, map(Prefix.of, check.expected_cidrs), names=names, protocols={OURS})


def _only_family(config: HostRoutingConfig) -> int | None:
    """The only family of this configuration's CIDRs and routes; None if it has both or none."""
    check = config.route_overlap
    named = {*map(Prefix.of, (*check.expected_cidrs, *check.pod_cidrs))}
    families = {prefix.family for prefix in (*named, *(wish.destination for wish in wanted_routes(config)))}
    return families.pop() if len(families) == 1 else None


def _lacks_default(found: FamilyExamination) -> bool:
    return found.report.verdict == "no-default-route"


def _reports(fib: Fib, config: HostRoutingConfig) -> Iterator[OverlapReport]:
    """The reports for the families that have expected CIDRs; one for IPv4 if there are none."""
    check = config.route_overlap
    cidrs = [Prefix.of(cidr) for cidr in check.expected_cidrs]
    for family in sorted({cidr.family for cidr in cidrs}) or [IPV4]:
        of_family = [cidr for cidr in cidrs if cidr.family == family]
        yield check_overlap(
            fib,
            of_family,
            expected_devs=check.expected_devs,
            allowed_devs=check.allowed_devs,
            intended_rules=check.intended_rules,
        )


def _examine_once(
    backend: RouteBackend, config: HostRoutingConfig, *, family: int | None, anew: bool = False
) -> Examination:
    about = None if config.route_overlap.pod_cidrs else partial(concern_of, config=config)
    snapshot, still = read(backend, family=family, reached=True, about=about, anew=anew)
    fib = Fib(snapshot)
    if family is not None and _has_other_router(fib, family):
        return _examine_once(backend, config, family=None, anew=anew)
    found = []
    for report in _reports(fib, config):
        try:
            asking = _Asking(backend, fib, report)
            followed = follow_kernel(report, fib, asking.about(ANY))
            examined = _with_pods(fib, followed, config, ask=asking.about_pods)
        except BackendError as error:
            error.fib = fib
            raise
        told = [*([] if still else [_RESTLESS]), *asking.surprises]
        surprises = tuple(Finding("kernel-differs", "warning", text) for text in told)
        found.append(attrs.evolve(examined, surprises=surprises, restless=not still))
    return Examination(tuple(found))


def _has_other_router(fib: Fib, family: int) -> bool:
    """Whether a default route has a router of the other family: a repair by it needs the tables of both."""
    gateways = (leg.gateway for default in fib.defaults(family) for leg in default.route.legs)
    return any(gateway is not None and gateway.version != family for gateway in gateways)


def _with_pods(
    fib: Fib, report: OverlapReport, config: HostRoutingConfig, *, ask: Ask | None = None
) -> FamilyExamination:
    """The report with the verdicts on what pods send, and the repair for all of it."""
    check = config.route_overlap
    packets = find_pod_packets(
        fib.snapshot,
        [Prefix.of(cidr) for cidr in check.pod_cidrs],
        check.pod_devs or check.allowed_devs,
        expected=report.cidrs,
    )
    pods = check_pods(fib, report, packets, ask=ask)
    repair = propose_repair(
        fib,
        report,
        pods=pods,
        # With several named devices, which of them it is differs from host to host.
        names_dev=len(check.expected_devs) == 1,
    )
    return FamilyExamination(
        report,
        repair,
        fib,
        pods,
        flaws=find_flaws(fib, report.family, is_named=bool(check.expected_devs)) if report.cidrs else (),
    )


class _Asking:
    """Asks the kernel about the cells of a report; `surprises` are answers that differ from its tables."""

    def __init__(self, backend: RouteBackend, fib: Fib, report: OverlapReport) -> None:
        self._backend, self._fib, self._report = backend, fib, report
        self.surprises: list[str] = []

    def about_pods(self, packets: PodPackets) -> dict[int, Decision]:
        """Ask about a packet of this class, if its device exists."""
        if not packets.exist or not packets.devs:
            return {}
        block = packets.sources[0]
        source = ip_at(self._report.family, min(block.first + _NEAR, block.last))
        return self.about(attrs.evolve(packets.flow, source=source))

    def about(self, flow: Flow) -> dict[int, Decision]:
        """Ask in each cell; return the answers that differ from the tables, by the first address of the cell."""
        if not self._report.expected_devs:
            return {}
        family, found = self._report.family, {}
        # The kernel is asked about a plain packet, which is what a decision describes first.
        asked = {cell.first: cell.decision for cidr in self._report.cidrs for cell in self._fib.cells(cidr, flow)}
        places = sorted(asked)
        for begin in range(0, len(places), _AT_ONCE):
            some = places[begin : begin + _AT_ONCE]
            addresses = [ip_at(family, place) for place in some]
            answers = self._backend.lookup(addresses, flow)
            for place, address, answer in zip(some, addresses, answers, strict=True):
                # Linux also refuses packets that arrive because of settings, such as rp_filter, that are not read.
                is_refused = flow.iif is not None and answer.route is None
                if not is_refused and not _explains(asked[place], answer):
                    found[place] = _as_answered(asked[place], answer)
                    self.surprises.append(_surprise(address, asked[place], answer, flow))
        return found


def _surprise(address: IP, decision: Decision, answer: Answer, flow: Flow) -> str:
    """A sentence about an answer that is not what the tables say."""
    packet = "" if flow.iif is None else f", from {flow.source} and arriving on {flow.iif}"
    return (
        f"{address}{packet}: the kernel answers {_words(answer)}, which is not what its tables say "
        f"({decision.route or decision.kind}); the verdict follows the kernel"
    )


def _as_answered(decision: Decision, answer: Answer) -> Decision:
    """The kernel's answer as a decision. A kind that follows from the address alone is not changed."""
    by_address = decision.route is not None and decision.kind != decision.route.type
    route = answer.route
    return Decision(decision.kind if by_address else answer.kind, None, route, () if route is None else route.legs)


def _explains(decision: Decision, answer: Answer) -> bool:
    """Whether the tables give this answer, perhaps for another choice of next hop."""
    others = (variant.decision for variant in decision.variants if variant.is_by_hash)
    return any(_agree(possible, answer) for possible in (decision, *others))


def _agree(decision: Decision, answer: Answer) -> bool:
    """Whether both are one route. Linux lists an IPv6 route's next hops from the chosen one on."""
    route = answer.route
    if route is None or decision.route is None:
        # A lookup gives one error for a rule's "unreachable" and for no route; own addresses may have no route.
        missing = {"no-route", "unreachable"}
        return decision.kind == answer.kind or {decision.kind, answer.kind} <= missing or decision.kind == "local"
    mine = (decision.route, *decision.in_turn)
    if route.nexthop_id is not None and route.prefix.family == IPV6:
        # Linux may name any route with the next hop that it chose, and not the one that decides.
        return any(own.nexthop_id is not None and not {*route.devs}.isdisjoint(own.devs) for own in mine)
    return any(_named(route) == _named(own) for own in mine)


def _named(route: Route) -> tuple[Prefix, list[str], int]:
    return route.prefix, sorted(route.devs), route.metric


def _words(answer: Answer) -> str:
    if answer.route is None:
        return answer.kind
    return f"[{answer.route.prefix} proto {protocol_name(answer.route.protocol)} dev {', '.join(answer.route.devs)}]"


# What follows from a check: the change of a configuration, and the host after the repair.


@attrs.frozen
class Correction:
    """What to change in `staticRoutes.routes` of a configuration so that it repairs a host, as far as routes can."""

    add: tuple[DesiredRoute, ...] = ()
    """The routes that it lacks."""
    replaced: tuple[DesiredRoute, ...] = ()
    """The entries with the destination and metric of a route to add, which takes their place."""
    contested: tuple[DesiredRoute, ...] = ()
    """The entries to delete, because another program's route has their destination and metric."""

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to change."""
        return bool(self.add or self.contested)


def find_correction(found: Examination, config: HostRoutingConfig) -> Correction:
    """What this configuration lacks to repair what was found."""
    if not (config.static_routes.routes or found.fib.snapshot.routes.only(protocol=OURS)):
        return Correction(found.routes)  # the plan is empty, and loading the planner would take 3 ms
    from hostrouting.routes.plan import plan_static_routes  # noqa: PLC0415  a verdict needs no plan

    plan = plan_static_routes(config, found.fib.snapshot)
    if plan.changes:
        found = examine_snapshot(plan.apply_to(found.fib.snapshot), config)
    return correction_of(found, config, plan)


def correction_of(after: Examination, config: HostRoutingConfig, plan: RoutePlan) -> Correction:
    """The correction, from an examination of the host after this configuration's plan."""
    added, lost = {route.key for route in after.routes}, {step.route.key for step in plan.conflicts}
    wanted = wanted_routes(config)
    return Correction(
        after.routes,
        tuple(wish for wish in wanted if wish.key in added),
        tuple(wish for wish in wanted if wish.key in lost and wish.key not in added),
    )


def repair_routes(found: Examination) -> tuple[Route, ...]:
    """The routes of the repair, with device and gateway filled in."""
    resolved = [resolve_route(wish, found.fib) for wish in found.routes]
    return tuple(route for route in resolved if isinstance(route, Route))


# Reading a kernel that may not be ready yet.


def read(
    backend: RouteBackend,
    *,
    family: int | None = None,
    reached: bool = False,
    about: Callable[[Snapshot], Concern] | None = None,
    anew: bool = False,
) -> tuple[Snapshot, bool]:
    """The host's state. It is inconsistent if the tables kept changing: then it is the last snapshot.

    `family` leaves out the other family, `reached` the tables that no rule looks up, and `about` the changes that do
    not matter; then `anew` also reads tables without a reported change.
    """
    try:
        return backend.snapshot(family=family, reached=reached, about=about, anew=anew), True
    except BackendError as error:
        if isinstance(error.last, Snapshot):
            return error.last, False
        raise


def await_plan(
    ctx: phases.Context,
    backend: RouteBackend,
    wanted: Sequence[DesiredRoute],
    *,
    installed: Collection[DesiredRoute] = (),
    wait: float,
) -> tuple[RoutePlan, Snapshot]:
    """The plan, after waiting for everything that it needs. Raises NotReady, with findings of what was missing last."""
    from hostrouting.routes.plan import plan_routes  # noqa: PLC0415  as above

    waits: list[Finding] = []

    def attempt() -> tuple[tuple[RoutePlan, Snapshot] | None, str]:
        snapshot, _ = read(backend)
        plan = plan_routes(wanted, snapshot, installed=installed)
        if not plan.pending:
            return (plan, snapshot), ""
        waits[:] = (attrs.evolve(wait, severity="error") for wait in plan.findings() if wait.name == "route-waits")
        return None, "; ".join(map(str, plan.pending))

    try:
        return await_found(ctx, backend, attempt, wait=wait)
    except NotReady as error:
        raise NotReady(str(error), findings=waits) from error


def await_found(
    ctx: phases.Context, backend: RouteBackend, attempt: Callable[[], tuple[T | None, str]], *, wait: float
) -> T:
    """Attempt, and repeat whenever the kernel reports a change, for up to `wait` seconds."""
    end = ctx.clock.now() + wait
    ctx.check()
    found, missing = attempt()
    if found is not None:
        return found  # the usual case: no need to listen
    if not wait:
        raise _gave_up(missing, wait)
    told = ""
    with backend.watch() as watch, ctx.on_cancel(watch.wake):
        while True:
            ctx.check()
            # Repeat once after listening has begun: the change may have come before that.
            found, missing = attempt()
            if found is not None:
                return found
            left = end - ctx.clock.now()
            if left <= 0:
                raise _gave_up(missing, wait)
            if missing != told:
                ctx.log.info("waiting for up to %g s, because this is not there yet: %s", round(left, 1), missing)
                told = missing
            if not watch.wait(left, clock=ctx.clock):
                # The time is up. With a clock of its own, the run must still advance that clock, or it would loop
                # forever.
                ctx.sleep(end - ctx.clock.now())


def _gave_up(missing: str, wait: float) -> NotReady:
    return NotReady(f"gave up after {wait:g} s: {missing}")
