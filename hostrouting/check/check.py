"""The check of a host: whether every address of the expected CIDRs leaves through an expected
device.

For each family, the tables say where packets end (`fib`), the judge says what is right, and the
repair is computed and proven. On a live host the kernel itself is asked once in each range: where
it says something else than its tables, the verdict is undecided.

OK is never wrong for packets of the host itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from hostrouting.check.flaws import find_flaws
from hostrouting.check.judge import Judge, of_family
from hostrouting.check.parts import find_parts, ranges_of
from hostrouting.check.repair import propose_repair
from hostrouting.check.results import (
    MISSING_RULE,
    CheckReport,
    Escape,
    FamilyReport,
    Grade,
    Opinion,
    Part,
)
from hostrouting.check.sentences import describe_doubts
from hostrouting.errors import ConfigError, Fault
from hostrouting.fib.engine import NOT_JUDGED, Decision, Fib
from hostrouting.fib.not_judged import not_judged
from hostrouting.finding import Finding, Remedy
from hostrouting.model.prefix import IPV4, Prefix, ip_at, joined
from hostrouting.model.route import TABLE_LOCAL
from hostrouting.model.rule import default_rules
from hostrouting.text import spoken

if TYPE_CHECKING:
    from hostrouting.check.sentences import RangeInDoubt
    from hostrouting.config.settings import HostRoutingConfig, RouteOverlapConfig
    from hostrouting.kernel.base import Answer, RouteBackend
    from hostrouting.model.snapshot import Snapshot

_READINGS = 3
"""How often a host is read, at most, while the kernel differs from its tables: these may have
changed meanwhile, or kept changing.
"""


_RESTLESS = Finding(
    "kernel-differs",
    "warning",
    "the route tables kept changing while they were read, so a route may be missing in the reading",
    remedy=Remedy("run it again; if it stays so, look for a program that changes routes"),
)
"""The doubt about a reading that Linux said was torn."""


def check_kernel(backend: RouteBackend, config: HostRoutingConfig) -> CheckReport:
    """Check this host now. `find_what_may_come` says what a task waits for. Raises ConfigError if
    no CIDRs are expected.
    """
    require_cidrs(config)
    report = _check_once(backend, config)
    for _ in range(_READINGS - 1):
        if all(doubt.name != "kernel-differs" for doubt in report.doubts):
            break
        report = _check_once(backend, config)
    return report


def find_what_may_come(report: CheckReport, config: HostRoutingConfig) -> str:
    """What is missing for an OK, and may come by itself after a boot: a default route, or an
    expected device. Empty if nothing is missing that may come, or if the verdict is OK.
    """
    if report.verdict == "ok":
        return ""
    snapshot = report.snapshot
    # After a boot with ipv6.disable=1, nothing of IPv6 is listed, and no default route will come.
    listed = {rule.family for rule in snapshot.rules}
    listed.update(route.prefix.family for route in snapshot.routes)
    may_have = [family for family in report.families if family.family in listed]
    missing = [family.missing_default for family in may_have if family.missing_default]
    links = snapshot.links_by_name
    expected = config.route_overlap.expected_devs
    down = [dev for dev in expected if dev not in links or not links[dev].up]
    missing += [f"the device {dev} is not up" for dev in down]
    return spoken(missing)


def check_snapshot(snapshot: Snapshot, config: HostRoutingConfig) -> CheckReport:
    """Check a host as this snapshot shows it, without asking a kernel. Raises ConfigError if no
    CIDRs are expected.
    """
    require_cidrs(config)
    return CheckReport(tuple(map(check_family, _judges(snapshot, config.route_overlap))))


def require_cidrs(config: HostRoutingConfig) -> None:
    """Raise ConfigError if the configuration expects no CIDRs."""
    if not config.route_overlap.cidrs:
        rule = "is empty, so there is nothing to check"
        remedy = "name the networks that have to leave through the uplink"
        raise ConfigError([Fault("routeOverlap.expectedCidrs", "", rule, remedy)])


# One family.


def _judges(snapshot: Snapshot, check: RouteOverlapConfig) -> Iterator[Judge]:
    """A judge for each family in which something is expected."""
    for family in sorted({cidr.version for cidr in check.cidrs}):
        yield Judge(Fib(snapshot, family), check)


def check_family(judge: Judge) -> FamilyReport:
    """Judge every address of the CIDRs of one family; none without an expected device."""
    cidrs = of_family(judge.config.cidrs, judge.fib.family)
    blocks: list[Prefix] = []
    if judge.uplinks.devs:
        blocks = [*joined(cidrs)]
    parts: list[Part] = []
    escapes: list[Escape] = []
    for block in blocks:
        in_block = list(find_parts(judge, block.first, block.last))
        parts += in_block
        escapes += _escapes_in(in_block, block)
    in_doubt = [*_unanswered(judge), *_doubts_in(parts), *_unjudged(judge, blocks)]
    doubts = [*describe_doubts(judge.fib.family, in_doubt)]
    if judge.fib.snapshot.restless:
        doubts.append(_RESTLESS)
    return FamilyReport(
        judge.fib.family,
        judge.fib.snapshot,
        cidrs,
        expected_devs=tuple(sorted(judge.uplinks.devs)),
        parts=tuple(parts),
        escapes=tuple(escapes),
        doubts=tuple(doubts),
        flaws=tuple(find_flaws(judge)),
        repair=propose_repair(judge, cidrs, blocks, parts),
    )


def _escapes_in(parts: Iterable[Part], block: Prefix) -> Iterator[Escape]:
    """The ranges in which packets escape in the same way."""
    for (opinion, decision), first, last in ranges_of((part, part.escape) for part in parts):
        yield Escape(block, first, last, opinion.name, decision, opinion.devs, opinion.hidden)


def _doubts_in(parts: Iterable[Part]) -> Iterator[RangeInDoubt]:
    """The ranges about which there are the same doubts, once for each doubt. Decisions that are not
    judged are left out: `_unjudged` names the rules and routes that are the reason.
    """
    labelled: list[tuple[Part, tuple[Opinion, ...]]] = []
    for part in parts:
        doubts = [each for each in part.opinions if each.grade is Grade.DOUBT]
        judged = dict.fromkeys(each for each in doubts if each.name != NOT_JUDGED)
        labelled.append((part, tuple(judged)))
    for opinions, first, last in ranges_of(labelled):
        for opinion in opinions:
            yield opinion, first, last


def _unanswered(judge: Judge) -> Iterator[RangeInDoubt]:
    """The addresses of this host on which it may answer nobody: the rule for table local was
    deleted, or another one comes before it. Without that rule, IPv6 may look up the table all the
    same; whether it does cannot be seen, so there is a doubt.

    Field states: networkd-took-the-local-rule, netbird-and-vrf.
    """
    fib = judge.fib
    if fib.rules[:1] == default_rules(fib.family)[:1]:
        return
    local = {route.prefix for route in fib.snapshot.routes if route.table == TABLE_LOCAL}
    for address in judge.devices.addresses:
        is_own = address.dev != "lo" and Prefix.of(address.ip) in local
        if is_own and fib.lookup(address.ip).kind not in {"local", NOT_JUDGED}:
            yield Opinion(Grade.DOUBT, MISSING_RULE), int(address.ip), int(address.ip)


def _unjudged(judge: Judge, blocks: Iterable[Prefix]) -> Iterator[RangeInDoubt]:
    """What the engine does not look at, as far as it is about these blocks.

    A default route that is not judged always counts: the host may have no other.
    """
    for name, prefix in not_judged(judge.fib):
        if prefix.length == 0 or any(prefix.overlaps(block) for block in blocks):
            yield Opinion(Grade.DOUBT, NOT_JUDGED, name), prefix.first, prefix.last


# A live host.


def _check_once(backend: RouteBackend, config: HostRoutingConfig) -> CheckReport:
    """Read the host, judge it, and ask its kernel."""
    near = [*map(Prefix.of, config.route_overlap.cidrs)]
    snapshot = backend.snapshot(near=near)
    reports: list[FamilyReport] = []
    for judge in _judges(snapshot, config.route_overlap):
        report = check_family(judge)
        differences = describe_doubts(report.family, _differences(judge, report, backend))
        reports.append(report._replace(doubts=(*report.doubts, *differences)))
    return CheckReport(tuple(reports))


def _differences(
    judge: Judge, report: FamilyReport, backend: RouteBackend
) -> Iterator[RangeInDoubt]:
    """Where the kernel, asked once in each range, differs from its tables."""
    family = report.family
    asked = [part for part in report.parts if part.opinion.name != NOT_JUDGED]
    # Linux has no answer for 0.0.0.0.
    lowest = 1 if family == IPV4 else 0
    addresses = [ip_at(family, max(part.first, lowest)) for part in asked]
    answers = backend.lookup(addresses)
    for part, answer in zip(asked, answers, strict=True):
        if not _leads_alike(judge.fib, part.decision, answer):
            answered = answer.kind if answer.route is None else f"[{answer.route}]"
            reason = f"{answered}, and its tables say [{part.decision}]"
            yield Opinion(Grade.DOUBT, "kernel-differs", reason), part.first, part.first


def _leads_alike(fib: Fib, decision: Decision, answer: Answer) -> bool:
    """Whether both lead to the same devices, or both to this host. Of equal default routes, and of
    next hops, Linux uses any.
    """
    if answer.route is None:
        # Linux has one error for a rule's "unreachable" and for no route.
        missing = {"no-route", "unreachable"}
        return decision.kind == answer.kind or {decision.kind, answer.kind} <= missing
    # Other kinds may differ: that of a lookup is multicast where the route is unicast.
    if (decision.kind == "local") != (answer.kind == "local"):
        return False
    return set(answer.route.usable_devs).issubset(fib.possible_devs(decision))
