"""What the tasks ask of a kernel that is not ready yet, and the proof that it agrees with us.

Here: waiting for what is missing, by the kernel's own events; comparing its answers with the engine's. Not here: what
is done with the answers (`tasks`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import attrs

from hostrouting.errors import BackendError, NotReady, Unsettled
from hostrouting.fib import Fib
from hostrouting.model import IPV4, Prefix, Snapshot, ip_at, protocol_name
from hostrouting.overlap import OverlapReport, check_overlap
from hostrouting.plan import RoutePlan, plan_routes
from hostrouting.repair import Repair, propose_repair
from hostrouting.uplink import seen_instead

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    import phases
    from hostrouting.backends.base import Answer, RouteBackend
    from hostrouting.config import HostRoutingConfig
    from hostrouting.fib import Decision
    from hostrouting.model import IP
    from hostrouting.uplink import DesiredRoute

__all__ = ["Examination", "await_found", "await_plan", "examine", "is_any_route_ours", "read"]

T = TypeVar("T")

_TRIES = 3  # at an examination in which the kernel and we disagree: the tables may have changed in between
_AT_ONCE = 4096  # destinations in one lookup
_RESTLESS = "the route tables changed all the while they were read; the verdict is about the last reading"


def is_any_route_ours(backend: RouteBackend, protocol: int) -> bool:
    """Whether any route carries our protocol."""
    return bool(backend.snapshot(family=IPV4, protocol=protocol).routes)


def read(backend: RouteBackend) -> tuple[Snapshot, bool]:
    """What there is of IPv4, and whether it kept still: on a host that never rests the last reading has to do."""
    try:
        return backend.snapshot(family=IPV4), True
    except Unsettled as error:
        if isinstance(error.last, Snapshot):
            return error.last, False
        raise


def await_plan(
    ctx: phases.Context,
    backend: RouteBackend,
    wanted: Sequence[DesiredRoute],
    *,
    protocol: int,
    former: Collection[int] = (),
    wait: float,
) -> tuple[RoutePlan, Snapshot]:
    """The plan, as soon as the host is ready for all that is wanted; NotReady says what was seen last."""

    def attempt() -> tuple[tuple[RoutePlan, Snapshot] | None, str]:
        # Each change is exact, and the table is read back: no more is asked of this reading than to be nearly true.
        before, _ = read(backend)
        plan = plan_routes(wanted, before, protocol=protocol, former=former)
        if not plan.pending:
            return (plan, before), ""
        return None, "; ".join(map(str, plan.pending))

    return await_found(ctx, backend, attempt, wait=wait)


@attrs.frozen
class Examination:
    """What a check found, and where: the report, its repair, and what the kernel answered otherwise than its tables."""

    report: OverlapReport
    repair: Repair
    fib: Fib = attrs.field(eq=False, repr=False)
    """The tables that it was found in."""
    surprises: tuple[str, ...] = ()
    instead: str = ""
    """What there was instead of a default route, where none was there by the deadline."""

    @property
    def verdict(self) -> str:
        """The report's; but never a bare ok where the kernel does not agree."""
        return "undecided" if self.surprises and self.report.verdict == "ok" else self.report.verdict


def examine(
    ctx: phases.Context,
    backend: RouteBackend,
    config: HostRoutingConfig,
    *,
    wait: float,
    gateway: IP | None = None,
) -> Examination:
    """Check the expected CIDRs on the kernel as it is, once there is a default route to expect anything of.

    The kernel itself is asked once in every cell; when it does not answer, the error carries the tables. Without a
    default route by the deadline, the verdict says so. The repair leads to the `gateway`, where one is given.
    """
    cidrs = [Prefix.of(cidr) for cidr in config.route_overlap.expected_cidrs]
    last: list[Examination] = []

    def attempt() -> tuple[Examination | None, str]:
        found = _examine_once(backend, config, cidrs, gateway)
        last[:] = [found]
        if found.report.verdict == "no-default-route":
            return None, "an IPv4 default route"
        return found, ""

    try:
        found = await_found(ctx, backend, attempt, wait=wait)
        for _ in range(_TRIES - 1):
            if not found.surprises:
                break
            found = _examine_once(backend, config, cidrs, gateway)
    except NotReady:
        return attrs.evolve(last[0], instead=seen_instead(last[0].fib))
    return found


def _examine_once(
    backend: RouteBackend, config: HostRoutingConfig, cidrs: Iterable[Prefix], gateway: IP | None
) -> Examination:
    settings = config.route_overlap
    snapshot, still = read(backend)
    fib = Fib(snapshot)
    report = check_overlap(fib, cidrs, expected_devs=settings.expected_devs, allowed_devs=settings.allowed_devs)
    repair = propose_repair(fib, report, protocol=config.protocol, gateway=gateway)
    restless = () if still else (_RESTLESS,)
    try:
        return Examination(report, repair, fib, (*restless, *_surprises(backend, fib, report)))
    except BackendError as error:
        error.fib = fib
        raise


def _surprises(backend: RouteBackend, fib: Fib, report: OverlapReport) -> Iterator[str]:
    """Where the kernel, asked in each cell, does not say what its tables do."""
    if not report.expected_devs:
        return
    asked: dict[int, Decision] = {}
    for cidr in report.cidrs:
        # The kernel is asked about a plain packet, and a decision is a plain packet's first of all.
        for cell in fib.cells(cidr):
            asked.setdefault(cell.first, cell.decision)
    places = sorted(asked)
    for begin in range(0, len(places), _AT_ONCE):
        some = places[begin : begin + _AT_ONCE]
        answers = backend.lookup([ip_at(IPV4, place) for place in some])
        for place, answer in zip(some, answers, strict=True):
            if not _agree(asked[place], answer):
                yield (
                    f"{ip_at(IPV4, place)}: the kernel answers {_words(answer)}, which is not what its tables say "
                    f"({asked[place].route or asked[place].kind}); the verdict follows the tables"
                )


def _agree(decision: Decision, answer: Answer) -> bool:
    route = answer.route
    if route is None or decision.route is None:
        # To a lookup, a rule's "unreachable" and no route at all are one error; own addresses have no route in some.
        missing = {"no-route", "unreachable"}
        return decision.kind == answer.kind or {decision.kind, answer.kind} <= missing or decision.kind == "local"
    return (route.prefix, route.devs, route.metric) == (
        decision.route.prefix,
        decision.route.devs,
        decision.route.metric,
    )


def _words(answer: Answer) -> str:
    if answer.route is None:
        return answer.kind
    return f"[{answer.route.prefix} proto {protocol_name(answer.route.protocol)} dev {', '.join(answer.route.devs)}]"


def await_found(
    ctx: phases.Context, backend: RouteBackend, attempt: Callable[[], tuple[T | None, str]], *, wait: float
) -> T:
    """Attempt, and again whenever the kernel says that something has changed, for so many seconds."""
    end = ctx.clock.now() + wait
    ctx.check()
    found, missing = attempt()
    if found is not None:
        return found  # as nearly always: then nobody has to listen
    if not wait:
        raise _gave_up(missing, wait)
    told = False
    with backend.watch() as watch, ctx.on_cancel(watch.wake):
        while True:
            ctx.check()
            # The first time too: what was missing may have come before anybody listened.
            found, missing = attempt()
            if found is not None:
                return found
            left = end - ctx.clock.now()
            if left <= 0:
                raise _gave_up(missing, wait)
            if not told:
                ctx.log.info("not yet, and waited for up to %g s: %s", wait, missing)
                told = True
            if not watch.wait(left, clock=ctx.clock):
                # The seconds are over: on a clock of its own the run has yet to let them pass, and would ask for ever.
                ctx.sleep(end - ctx.clock.now())


def _gave_up(missing: str, wait: float) -> NotReady:
    return NotReady(f"gave up after {wait:g} s: {missing}")
