"""The check of a host: whether every address of the expected CIDRs leaves through an expected
device.

For each family, the tables say where packets end (`fib`), the judge says what is right, and the
repair is computed and proven. On a live host the kernel itself is asked once in each range: where
it says something else than its tables, the verdict is undecided.

OK is about packets of the host itself; docs/limits.md says where it can be wrong. A doubt is
anything that stands against an OK, and is not known to be wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from hostrouting.check.flaws import find_flaws
from hostrouting.check.judge import Judge, of_family
from hostrouting.check.parts import find_parts, join_by_label
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
"""How often a host is read, at most, while the answers of the kernel differ from its tables: the
tables may have changed between the reading and the answers.
"""

_CHANGED_WHILE_READ = Finding(
    "kernel-differs",
    "warning",
    "the route tables kept changing while they were read, so a route may be missing in the reading",
    remedy=Remedy("run it again; if it stays so, look for a program that changes routes"),
)
"""The doubt if Linux said that the tables changed during the reading (`Snapshot.restless`)."""


def check_kernel(backend: RouteBackend, config: HostRoutingConfig) -> CheckReport:
    """Read the tables of this host, and check them now: what may still come after a boot is not
    awaited. If the kernel's answers differ from the tables, these may have changed in between, so
    check again, up to three times in all. ConfigError if no CIDRs are expected.
    """
    require_cidrs(config)
    report = _check_once(backend, config)
    for _ in range(_READINGS - 1):
        if not _kernel_differs(report):
            break
        report = _check_once(backend, config)
    return report


def _kernel_differs(report: CheckReport) -> bool:
    """Whether the kernel's answers differ from its tables, or the tables changed during reading."""
    return any(doubt.name == "kernel-differs" for doubt in report.doubts)


def find_what_may_come(report: CheckReport, config: HostRoutingConfig) -> str:
    """Say what is missing and may still come after a boot, so that a caller can wait for it:
    default routes and expected devices. Empty if nothing is missing.

    If the verdict of this report keeps units from starting, a difference between the tables and the
    kernel's answers is named, too: the tables may still be changing, so waiting may help.
    """
    if report.verdict == "ok":
        return ""
    snapshot = report.snapshot
    # After a boot with ipv6.disable=1, a host has no IPv6 rule, and no default route will come.
    present = {rule.family for rule in snapshot.rules}
    missing = [
        family.missing_default
        for family in report.families
        if family.missing_default and family.family in present
    ]
    links = snapshot.links_by_name
    missing += [
        f"the device {dev} is not up"
        for dev in config.route_overlap.expected_devs
        if dev not in links or not links[dev].up
    ]
    if config.route_overlap.refuses(report.verdict) and _kernel_differs(report):
        missing.append("the route tables differ from what the kernel does")
    return spoken(missing)


def check_snapshot(snapshot: Snapshot, config: HostRoutingConfig) -> CheckReport:
    """Check a host from its snapshot alone, without asking a kernel. ConfigError if no CIDRs are
    expected.
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


def _judges(snapshot: Snapshot, config: RouteOverlapConfig) -> Iterator[Judge]:
    """Yield a judge for each family in which CIDRs are expected."""
    for family in sorted({cidr.version for cidr in config.cidrs}):
        yield Judge(Fib(snapshot, family), config)


def check_family(judge: Judge) -> FamilyReport:
    """Judge every address of the family's CIDRs, and report what was found. If no device is
    expected, because there is no default route, no address is judged: each one would escape.
    """
    cidrs = of_family(judge.config.cidrs, judge.fib.family)
    blocks: list[Prefix] = []
    if judge.uplinks.devs:
        blocks = [*joined(cidrs)]
    parts: list[Part] = []
    escapes: list[Escape] = []
    for block in blocks:
        in_block = list(find_parts(judge, block.first, block.last))
        parts += in_block
        # Neighbouring parts whose packets escape in the same way make one escape.
        ranges = join_by_label((part, part.escape) for part in in_block)
        for (opinion, decision), first, last in ranges:
            escapes.append(
                Escape(block, first, last, opinion.name, decision, opinion.devs, opinion.hidden)
            )
    in_doubt = [
        *_doubts_about_own_addresses(judge),
        *_doubts_in(parts),
        *_doubts_about_not_judged(judge, blocks),
    ]
    doubts = [*describe_doubts(judge.fib.family, in_doubt)]
    if judge.fib.snapshot.restless:  # its tables changed while they were read
        doubts.append(_CHANGED_WHILE_READ)
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


def _doubts_in(parts: Iterable[Part]) -> Iterator[RangeInDoubt]:
    """Yield each doubt about these parts, with each range that it is about. The doubt not-judged is
    left out, because `_doubts_about_not_judged` names the rules and routes that are its reason.
    """
    parts_with_doubts: list[tuple[Part, tuple[Opinion, ...]]] = []
    for part in parts:
        doubts = [opinion for opinion in part.opinions if opinion.grade is Grade.DOUBT]
        judged = dict.fromkeys(doubt for doubt in doubts if doubt.name != NOT_JUDGED)
        parts_with_doubts.append((part, tuple(judged)))
    # Neighbouring parts with the same doubts make one range.
    for opinions, first, last in join_by_label(parts_with_doubts):
        for opinion in opinions:
            yield opinion, first, last


def _doubts_about_own_addresses(judge: Judge) -> Iterator[RangeInDoubt]:
    """Yield a doubt for each address of this host that the rules do not lead to table local,
    because the rule for that table was deleted, or is not the first. The host may not accept
    packets to such an address. This is only a doubt, because Linux can look up table local for IPv6
    without a rule, and nothing shows whether it does.

    tests/hosts: networkd-took-the-local-rule, netbird-and-vrf.
    """
    fib = judge.fib
    if fib.rules[:1] == default_rules(fib.family)[:1]:  # the rule for table local
        return
    local = {route.prefix for route in fib.snapshot.routes if route.table == TABLE_LOCAL}
    for address in judge.devices.addresses:
        # An address on a port of a VRF is left out, because its local route is in the table of the
        # VRF. Addresses of lo are left out, too, because no other host sends to 127.0.0.1.
        can_be_local = address.dev != "lo" and Prefix.of(address.ip) in local
        if can_be_local and fib.lookup(address.ip).kind != "local":
            yield Opinion(Grade.DOUBT, MISSING_RULE), int(address.ip), int(address.ip)


def _doubts_about_not_judged(judge: Judge, blocks: Collection[Prefix]) -> Iterator[RangeInDoubt]:
    """Yield a doubt for each rule and route that the engine (`fib`) does not evaluate, if it
    applies to addresses in these blocks. If no default route is found, there are no blocks. A rule
    or route for all addresses counts even then, because it may lead to a default route.
    """
    for name, prefix in not_judged(judge.fib):
        if prefix.length == 0 or any(prefix.overlaps(block) for block in blocks):
            yield Opinion(Grade.DOUBT, NOT_JUDGED, name), prefix.first, prefix.last


# A live host.


def _check_once(backend: RouteBackend, config: HostRoutingConfig) -> CheckReport:
    """Read the tables of the live host, as far as they matter to the CIDRs (`near`), and judge
    them. Then ask the kernel itself, and add a doubt wherever it answers something else.
    """
    snapshot = backend.snapshot(near=[*map(Prefix.of, config.route_overlap.cidrs)])
    reports: list[FamilyReport] = []
    for judge in _judges(snapshot, config.route_overlap):
        report = check_family(judge)
        doubts = describe_doubts(report.family, _doubts_of_kernel(judge, report, backend))
        reports.append(report._replace(doubts=(*report.doubts, *doubts)))
    return CheckReport(tuple(reports))


def _doubts_of_kernel(
    judge: Judge, report: FamilyReport, backend: RouteBackend
) -> Iterator[RangeInDoubt]:
    """Ask the kernel about the first address of each part that is judged. Yield a doubt for each of
    these addresses where the kernel's answer does not agree with the decision of the part.
    """
    judged = [part for part in report.parts if part.opinion.name != NOT_JUDGED]
    # Linux has no answer for 0.0.0.0.
    lowest = 1 if report.family == IPV4 else 0
    addresses = [ip_at(report.family, max(part.first, lowest)) for part in judged]
    for part, answer in zip(judged, backend.lookup(addresses), strict=True):
        if not _agrees(judge.fib, part.decision, answer):
            answered = answer.kind if answer.route is None else f"[{answer.route}]"
            reason = f"{answered}, and its tables say [{part.decision}]"
            yield Opinion(Grade.DOUBT, "kernel-differs", reason), part.first, part.first


def _agrees(fib: Fib, decision: Decision, answer: Answer) -> bool:
    """Whether the answer of the kernel agrees with the decision that was computed from its tables.
    An answer without a route agrees if the decision refuses packets in the same way. An answer with
    a route agrees if both or neither keep packets on this host, and the decision has every device
    of the answer. The answer may have fewer devices, because Linux uses any of several next hops or
    equal default routes.
    """
    if answer.route is None:
        # If no route is found, Linux gives the same error as if a route says unreachable.
        missing = {"no-route", "unreachable"}
        return decision.kind == answer.kind or {decision.kind, answer.kind} <= missing
    # Other kinds may differ: Linux answers multicast although the route is unicast.
    if (decision.kind == "local") != (answer.kind == "local"):
        return False
    return set(answer.route.usable_devs).issubset(fib.possible_devs(decision))
