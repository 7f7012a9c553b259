"""The check of a host: whether every address of the expected CIDRs leaves by an expected device.

For each family, the tables say where packets end (`fib`), the judge says what is right, and the repair is computed and
proven. On a live host the kernel itself is asked once in each range: where it says something else than its tables, the
verdict is undecided. A check waits for a default route, because it may come after the boot.

The verdict of a family is overlap if anything escapes; undecided if anything is in doubt; no-default-route if no device
is expected; else ok. OK is never wrong for packets of the host itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

from hostrouting.check.examine import await_found, read
from hostrouting.errors import NotReady
from hostrouting.finding import Finding
from hostrouting.model.prefix import IPV4, Prefix, extent, ip_at, prefixes_between
from hostrouting.newcheck.engine import PLAIN, Decision, Fib, Packet
from hostrouting.newcheck.flaws import find_flaws
from hostrouting.newcheck.judge import DOUBT, ESCAPE, FINE, Judge, Opinion
from hostrouting.newcheck.not_judged import NotJudged, not_judged
from hostrouting.newcheck.pods import pod_packets
from hostrouting.newcheck.repair import Repair, disjoint, propose_repair

if TYPE_CHECKING:
    import phases
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.kernel.base import Answer, RouteBackend
    from hostrouting.model.snapshot import Snapshot
    from hostrouting.routes.uplink import DesiredRoute

Verdict: TypeAlias = Literal["overlap", "no-default-route", "undecided", "ok"]
_WORST_FIRST: tuple[Verdict, ...] = ("overlap", "no-default-route", "undecided", "ok")
_AT_ONCE = 4096  # destinations in one question to the kernel


@attrs.frozen
class Escape:
    """A range of an expected CIDR that does not leave by an expected device."""

    cidr: Prefix
    first: int
    last: int
    kind: str
    """What happens to the packets: overlap, own-range, no-route, blackhole, unreachable or prohibit."""
    decision: Decision = attrs.field(repr=False)
    devs: tuple[str, ...] = ()
    """The devices by which they leave."""
    packet: Packet = PLAIN
    """Whose packets: the host's own, or those of pods."""

    @property
    def prefixes(self) -> tuple[Prefix, ...]:
        """The range as the fewest prefixes."""
        return tuple(prefixes_between(self.cidr.family, self.first, self.last))

    @property
    def range(self) -> str:
        """The range as text."""
        return extent(self.cidr.family, self.first, self.last)


@attrs.frozen
class FamilyReport:
    """The result of a check for one family."""

    judge: Judge = attrs.field(eq=False, repr=False)
    cidrs: tuple[Prefix, ...]
    escapes: tuple[Escape, ...] = ()
    doubts: tuple[Finding, ...] = ()
    """What makes the verdict undecided, unless something escapes."""
    allowed: tuple[tuple[str, str], ...] = ()
    """What leaves by a device that is only allowed: what allows it, and the range."""
    flaws: tuple[Finding, ...] = ()
    repair: Repair = attrs.field(factory=Repair)

    @property
    def family(self) -> int:
        """4 or 6."""
        return self.judge.fib.family

    @property
    def expected_devs(self) -> tuple[str, ...]:
        """The expected devices."""
        return tuple(sorted(self.judge.uplinks.devs))

    @property
    def verdict(self) -> Verdict:
        """The verdict on this family."""
        if self.escapes:
            return "overlap"
        if not self.expected_devs and not self.doubts:
            return "no-default-route"
        return "undecided" if self.doubts or any(flaw.name == "local-rule" for flaw in self.flaws) else "ok"


@attrs.frozen
class CheckReport:
    """The result of a check: a report for each family with expected CIDRs, IPv4 first."""

    families: tuple[FamilyReport, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of a family."""
        verdicts = {report.verdict for report in self.families}
        return next(verdict for verdict in _WORST_FIRST if verdict in verdicts)

    @property
    def escapes(self) -> tuple[Escape, ...]:
        """What escapes, in both families."""
        return tuple(escape for report in self.families for escape in report.escapes)

    @property
    def routes(self) -> tuple[DesiredRoute, ...]:
        """The routes that repair it."""
        return tuple(route for report in self.families for route in report.repair.routes)


def check_snapshot(
    snapshot: Snapshot, config: HostRoutingConfig, *, service_cidrs: Sequence[Prefix] = ()
) -> CheckReport:
    """Check a host as this snapshot shows it, without asking a kernel."""
    return CheckReport(tuple(_families(snapshot, config, service_cidrs)))


def check_host(
    backend: RouteBackend, config: HostRoutingConfig, *, ctx: phases.Context | None = None, wait: float = 0.0
) -> CheckReport:
    """Check this host now. With `ctx`, a default route is awaited for up to `wait` seconds."""
    last: list[CheckReport] = []

    def attempt() -> tuple[CheckReport | None, str]:
        snapshot, is_settled = read(backend)
        report = check_snapshot(snapshot, config)
        families = tuple(_asked(family, backend, is_settled=is_settled) for family in report.families)
        last[:] = [CheckReport(families)]
        lacking = [
            f"an IPv{family.family} default route" for family in families if family.verdict == "no-default-route"
        ]
        return (None, " and ".join(lacking)) if lacking else (last[0], "")

    if ctx is None:
        attempt()
        return last[0]
    try:
        return await_found(ctx, backend, attempt, wait=wait)
    except NotReady:
        return last[0]


def _families(snapshot: Snapshot, config: HostRoutingConfig, service_cidrs: Sequence[Prefix]) -> Iterator[FamilyReport]:
    check = config.route_overlap
    cidrs = [*map(Prefix.of, check.expected_cidrs), *service_cidrs]
    for family in sorted({cidr.family for cidr in cidrs}) or [IPV4]:
        judge = Judge(
            Fib(snapshot, family),
            expected_devs=check.expected_devs,
            allowed_devs=check.allowed_devs,
            service_cidrs=[cidr for cidr in service_cidrs if cidr.family == family],
            intended_rules=[rule.rule for rule in check.intended_rules],
        )
        pods = [Prefix.of(cidr) for cidr in check.pod_cidrs]
        yield _judged(judge, [cidr for cidr in cidrs if cidr.family == family], pods)


def _judged(judge: Judge, cidrs: list[Prefix], pods: list[Prefix]) -> FamilyReport:
    flaws = find_flaws(judge) if cidrs else ()
    unseen = list(not_judged(judge.fib))
    if not judge.uplinks.devs:
        hidden = [thing for thing in unseen if not thing.prefix.length]
        return FamilyReport(judge, tuple(cidrs), doubts=tuple(map(_unseen, hidden)), flaws=flaws)
    results = _Results()
    for cidr in disjoint(cidrs):
        for packet in (PLAIN, *pod_packets(judge.fib, pods)):
            results.add(judge, cidr, packet)
        for thing in unseen:
            if thing.prefix.first <= cidr.last and cidr.first <= thing.prefix.last:
                results.doubts[_unseen(thing)] = None
    escapes, doubts, allowed = results.escapes, results.doubts, results.allowed
    repair = propose_repair(judge, cidrs)
    return FamilyReport(judge, tuple(cidrs), tuple(escapes), tuple(doubts), tuple(allowed), flaws, repair)


class _Results:
    """What is found in the ranges of one family, in their order."""

    def __init__(self) -> None:
        self.escapes: list[Escape] = []
        self.doubts: dict[Finding, None] = {}
        self.allowed: dict[tuple[str, str], None] = {}

    def add(self, judge: Judge, cidr: Prefix, packet: Packet) -> None:
        """Judge the ranges of this CIDR for these packets."""
        behind = cidr.first  # behind the last escape
        for cell in judge.fib.cells(cidr, packet):
            opinion, where = judge.opinion(cell.decision), extent(cidr.family, cell.first, cell.last)
            if opinion.grade == ESCAPE:
                escape = Escape(cidr, cell.first, cell.last, opinion.name, cell.decision, opinion.devs, packet)
                self._add_escape(escape, is_next=behind == cell.first)
                behind = cell.last + 1
            elif opinion.name == "own" and behind == cell.first != cidr.first:
                # An own address in or at the end of an escape would only split it.
                self.escapes[-1] = attrs.evolve(self.escapes[-1], last=cell.last)
                behind = cell.last + 1
            elif opinion.grade == DOUBT:
                self.doubts[_doubt(opinion, where)] = None
            elif opinion.name == "allowed":
                self.allowed[opinion.reason, where] = None
            for end in cell.others:
                other = judge.opinion_of_other(end, cell.decision)
                if other.grade != FINE:
                    self.doubts[_doubt(other, where)] = None

    def _add_escape(self, escape: Escape, *, is_next: bool) -> None:
        """Add it, or make the one before it longer; of pods only what does not hold for the host's own packets, too."""
        known = (other for other in self.escapes if other.packet is PLAIN and other.decision == escape.decision)
        if escape.packet is not PLAIN and any(
            other.first <= escape.first and escape.last <= other.last for other in known
        ):
            return
        last = self.escapes[-1] if self.escapes else None
        alike = ("cidr", "kind", "decision", "devs", "packet")
        if last is not None and is_next and all(getattr(last, name) == getattr(escape, name) for name in alike):
            self.escapes[-1] = attrs.evolve(last, last=escape.last)
        else:
            self.escapes.append(escape)


_REMEDIES = {
    "default-routes": "name the devices that are meant in routeOverlap.expectedDevs",
    "own-network": "give pods another network, or delete the route",
    "two-cnis": "remove what the CNI that is not used left behind",
    "refused-range": "if the range belongs to pods of this node, this is right; otherwise delete the route",
    "other-packets": 'if this is intended, add the rule\'s selectors to routeOverlap.intendedRules: "{selection}"',
}
_SENTENCES = {
    "default-routes": "packets to {where} leave by {reason}, and it is not known whether that is meant",
    "own-network": "packets to {where} do not reach this host's network: {reason}",
    "two-cnis": "packets to {where} leave by a bridge for pods, {reason}",
    "refused-range": "packets to {where} are refused: {reason}",
    "other-packets": "some packets to {where} are routed differently, by {reason}",
}


def _doubt(opinion: Opinion, where: str) -> Finding:
    """The finding for an end that is in doubt."""
    sentence = _SENTENCES[opinion.name].format(where=where, reason=opinion.reason)
    remedy = _REMEDIES[opinion.name].format(selection=opinion.selection)
    return Finding(opinion.name, "warning", sentence, where, remedy)


def _unseen(thing: NotJudged) -> Finding:
    """The finding for what the engine does not look at."""
    return Finding("not-judged", "warning", f"not judged: {thing.name}", str(thing.prefix))


def _asked(report: FamilyReport, backend: RouteBackend, *, is_settled: bool) -> FamilyReport:
    """The report after the kernel was asked once in each range; where it differs, that is a doubt."""
    doubts = list(report.doubts)
    if not is_settled:
        sentence = "the route tables kept changing while they were read; the verdict is for the last reading"
        doubts.append(Finding("kernel-differs", "warning", sentence))
    cells = [cell for cidr in disjoint(report.cidrs) for cell in report.judge.fib.cells(cidr)]
    for begin in range(0, len(cells), _AT_ONCE):
        some = cells[begin : begin + _AT_ONCE]
        addresses = [ip_at(report.family, cell.first) for cell in some]
        for cell, ip, answer in zip(some, addresses, backend.lookup(addresses), strict=True):
            if not _agrees(cell.decision, answer):
                by = answer.kind if answer.route is None else f"[{answer.route}]"
                sentence = f"{ip}: the kernel answers {by}, and its tables say [{cell.decision}]"
                doubts.append(Finding("kernel-differs", "warning", sentence, str(ip)))
    return attrs.evolve(report, doubts=tuple(dict.fromkeys(doubts)))


def _agrees(decision: Decision, answer: Answer) -> bool:
    """Whether both are the same way. Linux lists an IPv6 route's next hops from the chosen one on."""
    if answer.route is None or decision.route is None:
        # A lookup gives one error for a rule's "unreachable" and for no route; own addresses may have no route.
        missing = {"no-route", "unreachable"}
        return decision.kind == answer.kind or {decision.kind, answer.kind} <= missing or decision.kind == "local"
    if not answer.route.prefix.length and not decision.route.prefix.length:
        return answer.route.metric == decision.route.metric  # of equal default routes, Linux uses any
    return (answer.route.prefix, set(answer.route.devs)) == (decision.route.prefix, set(decision.route.devs))
