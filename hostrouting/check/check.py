"""The check of a host: whether every address of the expected CIDRs leaves through an expected
device.

For each family, the tables say where packets end (`fib`), the judge says what is right, and the
repair is computed and proven. On a live host the kernel itself is asked once in each range: where
it says something else than its tables, the verdict is undecided.

OK is never wrong for packets of the host itself (`FROM_HOST`). Plain packets are those of them that
have no mark, and nothing else by which a rule could tell some from the others. The opinion of a
part for `FROM_HOST` is about plain packets, and its other opinions are about the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from hostrouting.check.doubts import describe_doubts
from hostrouting.check.flaws import find_flaws, find_missing_rules
from hostrouting.check.judge import Judge, of_family
from hostrouting.check.parts import find_all_parts, find_parts, packets_of_pods, ranges_of
from hostrouting.check.repair import propose_repair
from hostrouting.check.results import (
    CheckReport,
    Escape,
    FamilyReport,
    Grade,
    Opinion,
    Part,
    RangeInDoubt,
    Repair,
    Unrepairable,
)
from hostrouting.check.sources import node_ip, routes_to_ask_about
from hostrouting.check.unrepairable import find_untaken
from hostrouting.errors import ConfigError, Fault
from hostrouting.fib.engine import FROM_HOST, NOT_JUDGED, Decision, Fib, PacketKind
from hostrouting.fib.not_judged import not_judged
from hostrouting.finding import Finding
from hostrouting.kernel.base import counted
from hostrouting.model.prefix import IP, IPV4, Prefix, ip_at, outermost, prefixes_between
from hostrouting.model.route import TABLE_MAIN
from hostrouting.model.rule import Rule, priority_before
from hostrouting.text import grouped, spoken

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig, RouteOverlapConfig
    from hostrouting.kernel.base import Answer, RouteBackend
    from hostrouting.model.route import Route
    from hostrouting.model.snapshot import Snapshot

_MORE_READINGS = 2
"""How often a host is read again, at most, while the kernel differs from its tables: these may have
changed meanwhile, or kept changing.
"""


def check_kernel(
    backend: RouteBackend,
    config: HostRoutingConfig,
    *,
    name_servers: tuple[IP, ...] = (),
) -> CheckReport:
    """Check this host now. `find_what_may_come` says what a task waits for.

    The name servers (`Host.name_servers`) are for a flaw: no kernel knows them. Raises ConfigError
    if no CIDRs are expected.
    """
    require_cidrs(config)
    _require_part(backend, "snapshot", "backend", "a connected RouteBackend: NetlinkBackend()")
    report = _check_once(backend, config, name_servers)
    for _ in range(_MORE_READINGS):
        if all(doubt.name != "kernel-differs" for doubt in report.doubts):
            break
        report = _check_once(backend, config, name_servers)
    return report


def find_what_may_come(report: CheckReport, config: HostRoutingConfig) -> str:
    """What is missing for an OK, and may come by itself after a boot: a default route, or an
    expected device. Empty if nothing is missing that may come, or if the verdict is OK.
    """
    if report.verdict == "ok":
        return ""
    missing = [
        family.missing_default
        for family in report.families
        if family.missing_default and not family.snapshot.lacks(family.family)
    ]
    links = report.snapshot.links_by_name
    down = [
        dev for dev in config.route_overlap.expected_devs if dev not in links or not links[dev].up
    ]
    missing += [f"the device {dev} is not up" for dev in down]
    return spoken(missing)


def check_snapshot(snapshot: Snapshot, config: HostRoutingConfig) -> CheckReport:
    """Check a host as this snapshot shows it, without asking a kernel. Raises ConfigError if no
    CIDRs are expected.
    """
    require_cidrs(config)
    _require_part(snapshot, "routes", "snapshot", "a Snapshot: kernel.snapshot()")
    judges = _judges(snapshot, config.route_overlap)
    return CheckReport(tuple(map(check_family, judges)))


def require_cidrs(config: HostRoutingConfig) -> None:
    """Raise ConfigError if the configuration expects no CIDRs."""
    _require_part(config, "route_overlap", "config", "a HostRoutingConfig")
    if config.route_overlap.cidrs:
        return
    rule = "is empty, so there is nothing to check"
    remedy = "name the networks that have to leave through the uplink"
    raise ConfigError([Fault("routeOverlap.expectedCidrs", "", rule, remedy)])


def _require_part(value: object, part: str, name: str, rule: str) -> None:
    """Raise TypeError unless the value is an object with this part: not every author checks types,
    and a start of a gated unit has no time for the classes.
    """
    if isinstance(value, type) or not hasattr(value, part):
        raise TypeError(f"{name} is {value!r:.80}; it must be {rule}")


# One family.


def _judges(snapshot: Snapshot, check: RouteOverlapConfig) -> Iterator[Judge]:
    """A judge for each family in which something is expected."""
    for family in sorted({cidr.version for cidr in check.cidrs}):
        yield Judge(Fib(snapshot, family), check)


def check_family(judge: Judge, within: Iterable[Prefix] | None = None) -> FamilyReport:
    """Judge every address of the CIDRs of one family, or of these prefixes.

    Without an expected device, no address is judged.
    """
    family = judge.fib.family
    cidrs = of_family(judge.config.cidrs, family)
    blocks: list[Prefix] = []
    if judge.uplinks.devs:
        blocks = outermost(cidrs if within is None else within)
    parts, escapes, in_doubt = _judge_blocks(judge, blocks)
    doubts = [*in_doubt, *_unjudged(judge, blocks)]
    report = FamilyReport(
        family,
        judge.fib.snapshot,
        cidrs,
        expected_devs=tuple(sorted(judge.uplinks.devs)),
        parts=tuple(parts),
        escapes=tuple(escapes),
        repair=_repair(judge, blocks, parts, escapes),
        node_ip=node_ip(judge),
    )
    described = (*find_missing_rules(judge), *describe_doubts(report, doubts))
    return report._replace(flaws=find_flaws(judge), doubts=described)


def _judge_blocks(
    judge: Judge, blocks: Iterable[Prefix]
) -> tuple[list[Part], Collection[Escape], Iterable[RangeInDoubt]]:
    """The parts of these blocks for plain packets; and what escapes and what is in doubt there, for
    all kinds of packets.
    """
    plain: list[Part] = []
    escapes: dict[Escape, None] = {}
    in_doubt: dict[RangeInDoubt, None] = {}
    for block in blocks:
        for packet, parts in find_all_parts(judge, block):  # plain packets come first
            if packet == FROM_HOST:
                plain += parts
            for escape in _escapes_in(parts, block, packet):
                # Where plain packets escape in the same way, others are not named.
                if escape._replace(packet=FROM_HOST) not in escapes:
                    escapes[escape] = None
            in_doubt |= dict.fromkeys(_doubts_in(parts))
    return plain, escapes, in_doubt


def _escapes_in(parts: Iterable[Part], block: Prefix, packet: PacketKind) -> Iterator[Escape]:
    """The ranges in which these packets escape in the same way. A part that does not escape has no
    label, and `ranges_of` leaves it out.
    """
    for (opinion, decision), first, last in ranges_of((part, part.escape) for part in parts):
        devs, hidden = opinion.devs, opinion.hidden
        yield Escape(block, first, last, opinion.name, decision, devs, packet, hidden)


def _doubts_in(parts: Iterable[Part]) -> Iterator[RangeInDoubt]:
    """The ranges about which there are the same doubts, once for each doubt."""
    for opinions, first, last in ranges_of((part, part.doubts) for part in parts):
        for opinion in opinions:
            yield opinion, first, last


def _unjudged(judge: Judge, blocks: Iterable[Prefix]) -> Iterator[RangeInDoubt]:
    """What the engine does not look at, as far as it is about these blocks.

    A default route that is not judged always counts: the host may have no other.
    """
    for name, prefix in not_judged(judge.fib, [FROM_HOST, *packets_of_pods(judge)]):
        if prefix.length == 0 or any(prefix.overlaps(block) for block in blocks):
            opinion = Opinion(Grade.DOUBT, NOT_JUDGED, name)
            yield opinion, prefix.first, prefix.last


def _repair(
    judge: Judge, blocks: list[Prefix], plain: list[Part], escapes: Collection[Escape]
) -> Repair:
    """The repair for plain packets. It names, as unrepairable, the escapes of other packets that
    are there with its routes: a rule by source may capture connections that take a new route.
    """
    repair = propose_repair(judge, blocks, plain)
    unrepairable = [*repair.unrepairable]
    if escapes and (judge.fib.has_rules_by_source or judge.pods):
        _, left, _ = _judge_blocks(judge.with_routes(repair.resolved), blocks)
        unrepairable += find_untaken(escape for escape in left if escape.packet != FROM_HOST)
    return repair._replace(unrepairable=tuple(_with_rules(judge, blocks, unrepairable)))


def _with_rules(
    judge: Judge, blocks: Sequence[Prefix], unrepairable: Iterable[Unrepairable]
) -> Iterator[Unrepairable]:
    """The same, with the rules that repair it where a rule comes before table main."""
    for why, ranges in grouped((each.why, each) for each in unrepairable).items():
        rules = _rules_for_main(judge, blocks, why.rule, ranges)
        for each in ranges:
            yield each._replace(why=why._replace(rules=rules))


def _rules_for_main(
    judge: Judge, blocks: Sequence[Prefix], rule: Rule | None, ranges: Sequence[Unrepairable]
) -> tuple[Rule, ...]:
    """The rules that look up table main before this rule, for the blocks with these ranges; none if
    that does not repair them, or moves what does not escape.
    """
    if rule is None:
        return ()
    priority = priority_before(rule, judge.fib.snapshot.rules)
    if priority is None:
        return ()
    to_main = Rule(rule.family, priority, table=TABLE_MAIN)
    firsts = [each.first for each in ranges]
    taken = [block for block in blocks if any(block.first <= at <= block.last for at in firsts)]
    rules = tuple(to_main._replace(dst=block) for block in taken)
    if not _is_repaired(judge, judge.with_rules(rules), taken, ranges):
        return ()
    return rules


def _is_repaired(
    judge: Judge, after: Judge, blocks: Iterable[Prefix], ranges: Iterable[Unrepairable]
) -> bool:
    """Whether these ranges are fine afterwards, and what does not escape leaves as before, and is
    not in doubt afterwards.
    """
    named: list[Prefix] = []
    for each in ranges:
        named += prefixes_between(judge.fib.family, each.first, each.last)
    _, escapes, in_doubt = _judge_blocks(after, named)
    if [*escapes, *in_doubt]:
        return False
    for block in blocks:
        for part in find_parts(after, block.first, block.last):
            before, _ = judge.fib.outcomes(part.first)
            grade = judge.opinion_at(part.first, before).grade
            moves = before.devs != part.decision.devs
            if part.opinion.grade > grade or (moves and grade is not Grade.ESCAPE):
                return False
    return True


# A live host.


def _check_once(
    backend: RouteBackend, config: HostRoutingConfig, name_servers: tuple[IP, ...]
) -> CheckReport:
    """Read the host, judge it, and ask its kernel."""
    # Of a host with many routes, only those are read that may be about these networks.
    near = [Prefix.of(cidr) for cidr in config.route_overlap.cidrs]
    # Another program's route may have the key of a configured one, and a repair looks for it.
    near += [Prefix.of(route.destination) for route in config.static_routes.routes]
    families = {prefix.family for prefix in near}
    only_family = None
    if len(families) == 1:
        [only_family] = families
    snapshot = backend.snapshot(family=only_family, near=near)
    snapshot = snapshot._replace(name_servers=name_servers)
    reports: list[FamilyReport] = []
    for judge in _judges(snapshot, config.route_overlap):
        report = check_live_family(judge, backend)
        differences = _differences(judge, report, backend)
        reports.append(report._replace(doubts=(*report.doubts, *differences)))
    return CheckReport(tuple(reports))


def check_live_family(
    judge: Judge, backend: RouteBackend, within: Iterable[Prefix] | None = None
) -> FamilyReport:
    """As `check_family`, but Linux is asked for the sources that only Linux knows."""
    report = check_family(judge, within)
    asked = routes_to_ask_about(judge, report.parts)
    if not asked:
        return report
    return check_family(_with_known_sources(judge, asked, backend), within)


def _with_known_sources(judge: Judge, asked: Mapping[Route, int], backend: RouteBackend) -> Judge:
    """The judge that knows which source Linux writes into packets by these routes, each of which
    comes with an address that it decides for.
    """
    addresses = [ip_at(judge.fib.family, address) for address in asked.values()]
    sources = counted(backend.sources(addresses), len(addresses), "sources")
    answers = zip(asked, sources, strict=True)
    known = {route: source for route, source in answers if source is not None}
    return Judge(judge.fib, judge.config, known)


def _differences(judge: Judge, report: FamilyReport, backend: RouteBackend) -> Iterator[Finding]:
    """Where the kernel, asked once in each range, differs from its tables; and whether these kept
    changing.
    """
    family = judge.fib.family
    judged = [part for part in report.parts if part.opinion.name != NOT_JUDGED]
    # Linux has no answer for 0.0.0.0. That address is a part of its own, so no other is left out.
    asked = [part for part in judged if (family, part.first) != (IPV4, 0)]
    addresses = [ip_at(family, part.first) for part in asked]
    answers = counted(backend.lookup(addresses), len(addresses), "lookup")
    doubts: list[RangeInDoubt] = []
    for part, answer in zip(asked, answers, strict=True):
        if not _leads_alike(judge, part.decision, answer):
            answered = answer.kind if answer.route is None else f"[{answer.route}]"
            reason = f"{answered}, and its tables say [{part.decision}]"
            doubts.append((Opinion(Grade.DOUBT, "kernel-differs", reason), part.first, part.first))
    yield from describe_doubts(report, doubts)
    if judge.fib.snapshot.restless:
        sentence = (
            "the route tables kept changing while they were read; the verdict is for the last "
            "reading"
        )
        yield Finding("kernel-differs", "warning", sentence)


def _leads_alike(judge: Judge, decision: Decision, answer: Answer) -> bool:
    """Whether both lead to the same devices, or both to this host. Of equal default routes, and of
    next hops, Linux uses any.
    """
    if answer.route is None:
        # A lookup gives one error for a rule's "unreachable" and for no route; own addresses may
        # have no route.
        missing = {"no-route", "unreachable"}
        return decision.kind == answer.kind or {decision.kind, answer.kind} <= missing
    # Other kinds may differ: that of a lookup is multicast where the route is unicast.
    if (decision.kind == "local") != (answer.kind == "local"):
        return False
    return set(answer.route.usable_devs).issubset(judge.fib.possible_devs(decision))
