"""The check of a host: whether every address of the expected CIDRs leaves through an expected
device.

For each family, the tables say where packets end (`fib`), the judge says what is right, and the
repair is computed and proven. On a live host the kernel itself is asked once in each range: where
it says something else than its tables, the verdict is undecided. A check waits for a default route,
because it may come after the boot.

The verdict of a family is overlap if anything escapes; no-default-route if no device is expected,
unless something is not judged; undecided if anything is in doubt; else ok. OK is never wrong for
packets of the host itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import takewhile
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from hostrouting.check.flaws import find_flaws, undelivered
from hostrouting.check.judge import DOUBT, ESCAPE, Judge, Opinion, Part, of_family, ranges_of
from hostrouting.check.repair import Repair, Unsafe, propose_repair
from hostrouting.check.report import (
    OWN_PODS,
    escape_sentence,
    find_doubts,
    phrase_of,
    verdict_sentence,
)
from hostrouting.errors import ConfigError, Fault, NotReady
from hostrouting.fib.engine import NOT_JUDGED, PLAIN, Decision, Fib, Packet
from hostrouting.fib.not_judged import not_judged
from hostrouting.finding import Finding
from hostrouting.kernel.awaiting import await_result
from hostrouting.model.prefix import IP, Prefix, ip_at, prefixes_between
from hostrouting.model.route import TABLE_MAIN, Route
from hostrouting.text import spoken

if TYPE_CHECKING:
    import phases
    from hostrouting.config.settings import HostRoutingConfig, StaticRoute
    from hostrouting.kernel.base import Answer, RouteBackend
    from hostrouting.model.snapshot import Snapshot

Verdict: TypeAlias = Literal["overlap", "no-default-route", "undecided", "ok"]
_WORST_FIRST: tuple[Verdict, ...] = ("overlap", "no-default-route", "undecided", "ok")
_READINGS = 3  # while the kernel differs from its tables: they may have changed in between


class Escape(NamedTuple):
    """A range of an expected CIDR that does not leave through an expected device."""

    cidr: Prefix
    first: int
    last: int
    """The first and the last address, as integers."""
    kind: str
    """What happens to the packets: overlap, own-range, no-route, blackhole, unreachable or
    prohibit.
    """
    decision: Decision
    devs: tuple[str, ...] = ()
    packet: Packet = PLAIN
    """Whose packets: the host's own, or those of pods."""

    @property
    def prefixes(self) -> tuple[Prefix, ...]:
        """The range as prefixes, as few as possible."""
        return tuple(prefixes_between(self.cidr.family, self.first, self.last))

    def __str__(self) -> str:
        return escape_sentence(self)


class FamilyReport(NamedTuple):
    """The result of a check for one family."""

    judge: Judge
    cidrs: tuple[Prefix, ...]
    parts: tuple[Part, ...] = ()
    """The ranges of the CIDRs, for the host's own packets."""
    escapes: tuple[Escape, ...] = ()
    doubts: tuple[Finding, ...] = ()
    """What makes the verdict undecided, unless something escapes."""
    flaws: tuple[Finding, ...] = ()
    repair: Repair = Repair()

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
        if not self.expected_devs and not any(doubt.name == "not-judged" for doubt in self.doubts):
            return "no-default-route"
        return "undecided" if self.doubts else "ok"

    def __repr__(self) -> str:
        return f"<FamilyReport {self}>"

    def __str__(self) -> str:
        return f"{self.verdict.upper()}: {verdict_sentence(self)}"


class CheckReport(NamedTuple):
    """The result of a check: a report for each family with expected CIDRs, IPv4 first."""

    families: tuple[FamilyReport, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of a family."""
        return min((report.verdict for report in self.families), key=_WORST_FIRST.index)

    @property
    def node_ips(self) -> dict[int, IP]:
        """The address of the expected device, by family (4, 6) if there is exactly one: kubelet's
        `--node-ip`.
        """
        return {
            report.family: ip
            for report in self.families
            if (ip := report.judge.node_ip) is not None
        }

    @property
    def escapes(self) -> tuple[Escape, ...]:
        """What escapes, in both families."""
        return tuple(escape for report in self.families for escape in report.escapes)

    @property
    def routes(self) -> tuple[StaticRoute, ...]:
        """The routes that repair it, for a configuration."""
        return tuple(route for report in self.families for route in report.repair.routes)

    @property
    def resolved(self) -> tuple[Route, ...]:
        """The routes that repair it, with device and gateway, as they are added on this host."""
        return tuple(route for report in self.families for route in report.repair.resolved)

    def __repr__(self) -> str:
        return f"<CheckReport {self.verdict}>"

    def __str__(self) -> str:
        return "\n".join(map(str, self.families))


def check_kernel(
    backend: RouteBackend,
    config: HostRoutingConfig,
    *,
    ctx: phases.Context | None = None,
    wait: float = 0.0,
    name_servers: tuple[IP, ...] = (),
) -> CheckReport:
    """Check this host now. With `ctx`, a default route is awaited for up to `wait` seconds.

    The name servers are not known to a kernel (`Host.name_servers`). Raises ConfigError if no CIDRs
    are expected.
    """
    families = {cidr.version for cidr in config.route_overlap.cidrs}
    family = families.pop() if len(families) == 1 else None
    # A repair of the configuration asks what holds the keys of its routes.
    near = [Prefix.of(cidr) for cidr in config.route_overlap.cidrs]
    near += (Prefix.of(route.destination) for route in config.static_routes.routes)
    reports: list[FamilyReport] = []

    def attempt() -> tuple[CheckReport | None, str]:
        for _ in range(_READINGS):
            snapshot = backend.snapshot(family=family, reached=True, near=near)._replace(
                name_servers=name_servers
            )
            reports[:] = (
                _compared(report, backend) for report in check_snapshot(snapshot, config).families
            )
            if not any(
                doubt.name == "kernel-differs" for report in reports for doubt in report.doubts
            ):
                break
        lost = [
            f"an IPv{report.family} default route"
            for report in reports
            if report.verdict == "no-default-route"
        ]
        return None if lost else CheckReport(tuple(reports)), " and ".join(lost)

    if ctx is None:
        attempt()
    else:
        with suppress(NotReady):
            await_result(ctx, backend, attempt, wait=wait)
    return CheckReport(tuple(reports))


def check_snapshot(snapshot: Snapshot, config: HostRoutingConfig) -> CheckReport:
    """Check a host as this snapshot shows it, without asking a kernel. Raises ConfigError if no
    CIDRs are expected.
    """
    require_cidrs(config)
    check = config.route_overlap
    judges = (
        Judge(Fib(snapshot, family), check)
        for family in sorted({cidr.version for cidr in check.cidrs})
    )
    return CheckReport(
        tuple(_judged(judge, of_family(check.cidrs, judge.fib.family)) for judge in judges)
    )


def require_cidrs(config: HostRoutingConfig) -> None:
    """Raise ConfigError if the configuration expects no CIDRs."""
    if config.route_overlap.cidrs:
        return
    rule = "is empty, so there is nothing to check"
    remedy = "name the networks that have to leave through the uplink"
    raise ConfigError([Fault("routeOverlap.expectedCidrs", "", rule, remedy)])


def _judged(judge: Judge, cidrs: tuple[Prefix, ...]) -> FamilyReport:
    family, plain = judge.fib.family, list[Part]()
    escapes, doubts = dict[Escape, None](), list[tuple[Opinion, int, int]]()
    early, unsafe = (
        {*takewhile(lambda rule: rule.table != TABLE_MAIN, judge.fib.rules)},
        list[Unsafe](),
    )
    blocks = _disjoint(cidrs) if judge.uplinks.devs else []
    packets = [*judge.packets()]
    for block, packet in ((block, packet) for block in blocks for packet in packets):
        parts = list(judge.parts(block.first, block.last, packet))
        plain += parts if packet is PLAIN else ()
        lost = ranges_of(
            parts,
            lambda part: (part.opinion, part.decision) if part.opinion.grade == ESCAPE else None,
        )
        for (opinion, decision), first, last in lost:
            escape = Escape(block, first, last, opinion.name, decision, opinion.devs)
            if (
                escape not in escapes
            ):  # what the host's own packets suffer, too, is not repeated for pods
                escapes[escape._replace(packet=packet)] = None
                if packet is not PLAIN and decision.rule in early:
                    cause = (
                        f"for {phrase_of(packet)}, [rule {decision.rule}] comes before table main"
                    )
                    unsafe.append(Unsafe(first, last, "earlier-rule", cause))
        in_doubt = ranges_of(parts, _doubts_in)
        for opinions, first, last in in_doubt:
            for opinion in opinions:
                doubts.append((_with_own_pods(judge, opinion, first, last), first, last))
    for name, prefix in not_judged(judge.fib):
        # Without a default route, it matters whether there is one that is not judged.
        if not prefix.length or any(prefix in block or block in prefix for block in blocks):
            doubts.append((Opinion(DOUBT, "not-judged", name), prefix.first, prefix.last))
    findings = (*undelivered(judge), *find_doubts(family, doubts))
    repair = propose_repair(judge, blocks, plain)
    repair = repair._replace(unsafe=(*repair.unsafe, *unsafe))
    return FamilyReport(
        judge, cidrs, tuple(plain), tuple(escapes), findings, find_flaws(judge), repair
    )


def _disjoint(cidrs: Iterable[Prefix]) -> list[Prefix]:
    blocks: list[Prefix] = []
    for cidr in sorted(cidrs):
        if not blocks or cidr not in blocks[-1]:
            blocks.append(cidr)
    return blocks


def _doubts_in(part: Part) -> tuple[Opinion, ...] | None:
    opinions = (part.opinion, *part.others)
    doubts = [
        opinion for opinion in opinions if opinion.grade == DOUBT and opinion.name != "not-judged"
    ]
    return tuple(dict.fromkeys(doubts)) or None


def _with_own_pods(judge: Judge, doubt: Opinion, first: int, last: int) -> Opinion:
    """The doubt about a range; that about a default route names the node's own pods in it."""
    if doubt.name != "default-routes":
        return doubt
    pods: list[str] = []
    for prefix in judge.own_pods_in(first, last):
        is_single = prefix.length == judge.fib.width
        pods.append(str(prefix.ip if is_single else prefix))
    if not pods:
        return doubt
    reason = OWN_PODS.format(reason=doubt.reason, pods=spoken(pods))
    return doubt._replace(reason=reason)


def _compared(report: FamilyReport, backend: RouteBackend) -> FamilyReport:
    """The report after the kernel was asked once in each range; a difference is a doubt."""
    doubts: list[tuple[Opinion, int, int]] = []
    # Linux has no answer for 0.0.0.0, and the tables none for what is not judged.
    every = [part for part in report.parts if part.first and part.opinion.name != NOT_JUDGED]
    answers = backend.lookup([ip_at(report.family, part.first) for part in every])
    for part, answer in zip(every, answers, strict=True):
        if not _agrees(report.judge, part.decision, answer):
            by = answer.kind if answer.route is None else f"[{answer.route}]"
            reason = f"{by}, and its tables say [{part.decision}]"
            doubts.append((Opinion(DOUBT, "kernel-differs", reason), part.first, part.first))
    findings = list(find_doubts(report.family, doubts))
    if report.judge.fib.snapshot.restless:
        sentence = (
            "the route tables kept changing while they were read; the verdict is for the last "
            "reading"
        )
        findings.append(Finding("kernel-differs", "warning", sentence))
    return report._replace(doubts=(*report.doubts, *findings))


def _agrees(judge: Judge, decision: Decision, answer: Answer) -> bool:
    """Whether both lead to the same devices. Of equal default routes, and of next hops, Linux uses
    any.
    """
    if answer.route is None or decision.route is None:
        # A lookup gives one error for a rule's "unreachable" and for no route; own addresses may
        # have no route.
        missing = {"no-route", "unreachable"}
        return decision.kind == answer.kind or {decision.kind, answer.kind} <= missing
    return {*Decision(answer.kind, answer.route).devs} <= {*judge.all_devs(decision)}
