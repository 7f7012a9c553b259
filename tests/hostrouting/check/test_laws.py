"""Laws of the check and the repair, on random nodes with CNIs, tunnels and refused ranges."""

import random
from collections.abc import Collection, Container, Iterable
from itertools import chain, combinations

from hypothesis import (
    HealthCheck,
    assume,
    event,
    example,
    given,
    reject,
    settings,
    strategies as st,
)

from hostrouting.check.check import check_kernel, check_snapshot
from hostrouting.check.judge import Judge
from hostrouting.check.parts import find_parts
from hostrouting.check.results import CheckReport, Grade, Part
from hostrouting.config.settings import HostRoutingConfig, RouteOverlapConfig
from hostrouting.fib.engine import Decision, Fib
from hostrouting.fib.not_judged import not_judged
from hostrouting.kernel.base import RouteBackend
from hostrouting.model.prefix import IPV4, IPV6, Prefix, ip_at, width_of
from hostrouting.model.route import OURS, REFUSING, TABLE_MAIN, Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Snapshot
from tests.support.examples import scaled
from tests.support.near import by_all_and_by_few
from tests.support.nodes import BITS, block_of, nodes, with_rules
from tests.support.scan import scanned
from tests.support.topologies import vm_of

# A node of which a law says nothing does not count: Hypothesis makes another.
often_assumed = settings(
    max_examples=scaled(80),
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)

_A_POD_IN_THE_SECOND_HALF = (
    "link cali1 veth; 10.96.0.33/32 table 100 nexthop dev eth0 nexthop dev cali1"
)
"""A rule for table main would hide the pod, so only the first half has one."""
_DOUBT_BESIDE_AN_ESCAPE = (
    "-default; rule pref 189 fwmark 0/0xff lookup 254; rule pref 3918 from 0.0.0.0/8; "
    "default dev eth0 table 100; prohibit 10.96.0.22 table 100"
)
"""Only marked packets are in doubt: a route to four addresses leads none by another device."""
_A_CNI_IN_A_TABLE_AFTER_MAIN = (
    "-default; rule pref 33000 lookup 100; default via 10.0.0.1 dev eth0 table 100; "
    "link cilium_host veth; prohibit 10.96.0.16/28; 10.96.0.22 dev cilium_host table 100"
)
"""Table main has no default route: without the prohibit, Linux goes on to the later table."""
RANK = {"ok": 0, "undecided": 1, "no-default-route": 2, "overlap": 3}
"""How bad a verdict is."""


def checked(snapshot: Snapshot, cidrs: Iterable[Prefix]) -> CheckReport:
    section = RouteOverlapConfig(tuple(cidr.to_network() for cidr in cidrs))
    return check_snapshot(snapshot, HostRoutingConfig(route_overlap=section))


def judge_of(snapshot: Snapshot, family: int) -> Judge:
    return Judge(Fib(snapshot, family), RouteOverlapConfig())


def rank(snapshot: Snapshot, *cidrs: Prefix) -> int:
    return RANK[checked(snapshot, cidrs).verdict]


def assert_repairs(
    before: Snapshot, after: Snapshot, block: Prefix, repaired: Container[int], place: int
) -> None:
    """No address is worse; those that are repaired have no new doubt. Tried: every fourth one."""
    unjudged = [prefix for _, prefix in not_judged(Fib(before, block.family))]
    for address in addresses_of(block)[place::4]:
        single = Prefix(block.family, address, width_of(block.family))
        was = checked(before, [single])
        now = checked(after, [single])
        assert RANK[now.verdict] <= RANK[was.verdict], single
        is_judged = not any(single in prefix for prefix in unjudged)
        if was.verdict == "overlap" and address in repaired and is_judged:
            assert not now.escapes, single
            assert set(now.doubts) <= set(was.doubts), single


def addresses_of(block: Prefix) -> range:
    return range(block.first, block.last + 1)


def grade_of(judge: Judge, kind: str, route: Route | None) -> Grade:
    return judge.opinion(Decision(kind, route)).grade


@example((IPV4, vm_of("10.96.0.32/27 dev ib0")))  # only the second half of the block
@given(nodes())
def test_a_part_is_never_worse_than_the_whole_and_a_union_is_as_bad_as_its_worst_part(
    node: tuple[int, Snapshot],
) -> None:
    """Nothing in the judge looks at the CIDR that is asked about."""
    family, snapshot = node
    block = block_of(family)
    first, second = block.halves()
    parts = (first, *second.halves())
    whole = rank(snapshot, block)
    event(f"verdict {whole}")
    ranks = [rank(snapshot, part) for part in parts]
    assert max(ranks) == whole
    assert rank(snapshot, *parts) == whole
    assert rank(snapshot, *reversed(parts)) == whole


@given(nodes(), st.integers(0, BITS), st.integers(0, (1 << BITS) - 1))
def test_far_routes_do_not_matter(node: tuple[int, Snapshot], more_bits: int, place: int) -> None:
    """The report is the same if the backend leaves out what a check does not ask for."""
    family, snapshot = node
    block = block_of(family)
    cidr = Prefix.around(family, block.first + place, block.length + more_bits)
    routes = [*snapshot.routes]
    for route in snapshot.routes:
        for quarter in (1, 2, 3):
            elsewhere = route.prefix.first ^ quarter << BITS - 2
            if route.has_gateway and route.prefix.length > 2:
                prefix = Prefix.around(family, elsewhere, route.prefix.length)
                routes.append(route._replace(prefix=prefix))
    snapshot = snapshot._replace(routes=tuple(routes))
    section = RouteOverlapConfig((cidr.to_network(),))

    def check(backend: RouteBackend) -> CheckReport:
        return check_kernel(backend, HostRoutingConfig(route_overlap=section))

    [by_all], [by_few] = (report.families for report in by_all_and_by_few(snapshot, check))
    event(f"left out: {len(snapshot.routes) - len(by_few.snapshot.routes)}")
    assert by_few._replace(snapshot=snapshot) == by_all


@given(nodes(), st.randoms(use_true_random=False))
def test_the_order_of_a_snapshot_does_not_matter(
    node: tuple[int, Snapshot], order: random.Random
) -> None:
    """Any other order has the same verdict; only routes with one key keep theirs."""
    family, snapshot = node
    alike: dict[object, list[Route]] = {}
    for route in snapshot.routes:
        turned = route._replace(next_hops=route.next_hops[::-1])
        alike.setdefault((route.table, route.prefix, route.metric), []).append(turned)
    groups = order.sample(list(alike.values()), len(alike))
    shuffled = snapshot._replace(
        links=tuple(order.sample(snapshot.links, len(snapshot.links))),
        addresses=tuple(order.sample(snapshot.addresses, len(snapshot.addresses))),
        routes=tuple(chain.from_iterable(groups)),
    )
    assert rank(shuffled, block_of(family)) == rank(snapshot, block_of(family))


@often_assumed
@example((IPV4, vm_of("default dev ib0 table 7; rule uidrange 1000-1000 lookup 7")), 1000)
@given(nodes(), st.sampled_from([0, 50, 1000]))
def test_ok_is_not_wrong_for_any_user(node: tuple[int, Snapshot], user: int) -> None:
    """A packet of any user leaves as expected then, by a scan of all rules and routes."""
    family, snapshot = node
    block = block_of(family)
    report = checked(snapshot, [block])
    assume(report.verdict == "ok")
    judge = judge_of(snapshot, family)
    for address in addresses_of(block):
        kind, route = scanned(snapshot, family, address, user=user)
        assert grade_of(judge, kind, route) is Grade.FINE


@often_assumed
@given(nodes(), st.integers(0, 3))
def test_a_repair_repairs_and_takes_nothing_away(node: tuple[int, Snapshot], place: int) -> None:
    """With its routes, each address that was lost is fine, but for those that are named."""
    family, snapshot = node
    block = block_of(family)
    [report] = checked(snapshot, [block]).families
    assume(report.repair.routes)
    repaired = {*addresses_of(block)}
    for unsafe in report.repair.unrepairable:
        repaired.difference_update(range(unsafe.first, unsafe.last + 1))
    after = snapshot.with_routes(report.repair.resolved)
    assert_repairs(snapshot, after, block, repaired, place)


@often_assumed
@example((IPV4, vm_of(_A_POD_IN_THE_SECOND_HALF)), 1, 0)
@given(nodes(), st.integers(1, 32_765), st.integers(0, 3))
def test_a_rule_repairs_what_it_is_for_and_takes_nothing_away(
    node: tuple[int, Snapshot], priority: int, place: int
) -> None:
    """A rule before table main leads packets away; others are proposed for some addresses."""
    family, snapshot = node
    away = Route.to(Prefix(family, 0, 0), dev="ib1", table=100)
    there = snapshot._replace(routes=(*snapshot.routes, away))
    host = with_rules(there, [Rule(family, priority, table=100)])
    block = block_of(family)
    [report] = checked(host, block.halves()).families
    rules: dict[Rule, None] = {}
    named: set[int] = set()
    for unsafe in report.repair.unrepairable:
        if unsafe.why.rule is not None:
            rules[unsafe.why.rule] = None
            named.update(range(unsafe.first, unsafe.last + 1))
    assume(rules)
    event(f"{len(rules)} rules")
    assert_repairs(host, with_rules(host, rules), block, named, place)


def led_astray(judge: Judge, added: Collection[Route], addresses: Iterable[int]) -> list[str]:
    """The addresses that these routes take from another device, which is fine in the end."""
    family = judge.fib.family
    snapshot = judge.fib.snapshot
    # Where a rule suppresses a route, there may be a refusal behind it.
    tables = {rule.table for rule in snapshot.rules if rule.suppress_prefixlength is not None}
    assume(not any(route.table in tables and route.type in REFUSING for route in snapshot.routes))
    astray: list[str] = []
    for address in addresses:
        bare = without_what_catches(judge, address)
        kind, right = scanned(bare, family, address)
        opinion = judge.opinion(Decision(kind, right))
        belongs_elsewhere = opinion.grade is Grade.FINE and opinion.name not in {"expected", "own"}
        if bare is snapshot or not belongs_elsewhere:
            continue
        # What a table after main has for a CNI is not kept: no node is known that has such a table.
        if right is None or right.table != TABLE_MAIN:
            continue
        event("below a CNI")
        for host in (snapshot, bare):
            _, route = scanned(host.with_routes(added), family, address)
            if route is None or route not in added:
                continue
            if not set(right.devs).issuperset(route.devs):
                astray.append(str(ip_at(family, address)))
                break
    return astray


def without_what_catches(judge: Judge, address: int) -> Snapshot:
    """The host without the routes by which packets to this address escape, one after the other."""
    host = judge.fib.snapshot
    kind, route = scanned(host, judge.fib.family, address)
    while route is not None and grade_of(judge, kind, route) is Grade.ESCAPE:
        others = [each for each in host.routes if each is not route]
        host = host._replace(routes=tuple(others))
        kind, route = scanned(host, judge.fib.family, address)
    return host


@often_assumed
@example((IPV4, vm_of(_A_CNI_IN_A_TABLE_AFTER_MAIN)))
@given(nodes())
def test_a_repair_keeps_nothing_from_a_cni(node: tuple[int, Snapshot]) -> None:
    """What would be fine elsewhere without what catches it is not led to the uplink."""
    family, snapshot = node
    block = block_of(family)
    [report] = checked(snapshot, [block]).families
    assume(report.repair.resolved)
    judge = judge_of(snapshot, family)
    assert led_astray(judge, report.repair.resolved, addresses_of(block)) == []


@settings(often_assumed, max_examples=scaled(55))
@example((IPV4, vm_of(_DOUBT_BESIDE_AN_ESCAPE)), 5)
@given(nodes(), st.integers(0, 15))
def test_no_set_of_prefixes_repairs_more_or_as_much_with_fewer(
    node: tuple[int, Snapshot], place: int
) -> None:
    """Every set of prefixes in a block of four addresses is tried; only what escapes may move."""
    family, snapshot = node
    block, repair = first_repair(snapshot, family, place)
    # With the lowest metric, Linux takes each of them whatever other route has its prefix.
    route = repair[0]._replace(metric={IPV4: 0, IPV6: 1}[family])
    routes = [route._replace(prefix=prefix) for prefix in prefixes_inside(block)]
    held = {route.key for route in snapshot.routes if route.protocol != OURS}
    # No route of ours is replaced if another one has its key, which only IPv6 allows, or if it
    # refuses packets, which no configured one does.
    ours = [route for route in snapshot.routes if route.protocol == OURS]
    assume(all(route.type == "unicast" and route.key not in held for route in ours))
    free = [route for route in routes if route.key not in held]
    judge = judge_of(snapshot, family)
    # No node has its uplink by a pod, and there the repair may be worse.
    assume(not any(judge.devices.is_used_as(dev, "pod") for dev in judge.uplinks.devs))
    before = by_address(judge, block)

    best = (escapes_left(judge, before, block, ()), 0)
    for count in range(1, len(free) + 1):
        for chosen in combinations(free, count):
            left = escapes_left(judge, before, block, chosen)
            if left is not None:
                best = min(best, (left, count))

    assert (escapes_left(judge, before, block, repair), len(repair)) == best, block


def first_repair(snapshot: Snapshot, family: int, place: int) -> tuple[Prefix, tuple[Route, ...]]:
    """The first block of four addresses, from this place on, that has a repair; and the repair."""
    whole = block_of(family)
    [report] = checked(snapshot, [whole]).families
    if report.repair.resolved:
        for number in range(place, place + 16):
            block = Prefix(family, whole.first + 4 * (number % 16), width_of(family) - 2)
            [report] = checked(snapshot, [block]).families
            if report.repair.resolved:
                return block, report.repair.resolved
    return reject()


def prefixes_inside(block: Prefix) -> list[Prefix]:
    inside = [block]
    for half in block.halves():
        inside += [half, *half.halves()]
    return inside


def escapes_left(
    judge: Judge, before: list[Part], block: Prefix, added: Collection[Route]
) -> int | None:
    """How many addresses that escape are not fine with these routes; None if one is spoilt."""
    with_added = judge.fib.snapshot.with_routes(added)
    after = by_address(judge_of(with_added, block.family), block)
    left = 0
    for was, now in zip(before, after, strict=True):
        if is_spoilt(was, now, added):
            return None
        if was.opinion.grade is Grade.ESCAPE and now.opinion.grade is not Grade.FINE:
            left += 1
    if led_astray(judge, added, addresses_of(block)):
        return None
    return left


def by_address(judge: Judge, block: Prefix) -> list[Part]:
    parts: list[Part] = []
    for part in find_parts(judge, block.first, block.last):
        parts += [part] * (part.last + 1 - part.first)
    return parts


def is_spoilt(was: Part, now: Part, added: Collection[Route]) -> bool:
    """Whether these routes make an address worse, or lead one elsewhere that does not escape. What
    is in doubt for plain packets stays where it is; a doubt about others alone does not matter.
    """
    if now.opinion.grade > was.opinion.grade or now.worst_grade > was.worst_grade:
        return True
    taken_by = now.decision.route
    if was.opinion.grade is Grade.ESCAPE or taken_by is None or taken_by not in added:
        return False
    if was.opinion.grade is not Grade.FINE or was.decision.route is None:
        return True
    return set(was.decision.route.next_hops) != set(taken_by.next_hops)
