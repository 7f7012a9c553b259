"""Growth: reading and checking from 100 to 1,000,000 routes, in time and in memory; for each route they stay flat.

The routes are in this process's private network namespace (see `private`) and become more and more. What else a host can
have many of is in a snapshot: there, the time of the whole check and its repair grows as n to the 1.2 at most.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import attrs

from hostrouting.check.examine import examine_snapshot
from hostrouting.check.overlap import check_overlap
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.fib.engine import Fib
from hostrouting.kernel.base import RouteRequest
from hostrouting.model.prefix import IPV4, IPV6, Prefix
from hostrouting.model.route import TABLE_MAIN, Route
from hostrouting.model.rule import Rule, by_priority, default_rules
from hostrouting.model.snapshot import Link, Snapshot
from tests.benchmarks.contest import Contest, Goal, Unit
from tests.benchmarks.families import BOTH, by_family, families_in_turn
from tests.benchmarks.netlink import OURS, Bench
from tests.benchmarks.peers import IN_C, JSON, LOOP, PYROUTE2, Method, ip_json, loop_of_route_get, plain_pyroute2
from tests.benchmarks.private import empty
from tests.benchmarks.turns import in_turn
from tests.benchmarks.workload import cidrs_among, equal_routes
from tests.support.topologies import plain

__all__ = ["growth_contests", "per_route"]

_SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)
_ROUNDS = 3
_FOR_PYROUTE2, _FOR_JSON = 10_000, 100_000  # more routes than these take them too long
_IN_BOTH = 100_000  # as many routes are read in IPv6, too; they stay, because nothing else here reads IPv6
_FLAT = 1.5  # what a route may cost among a million, in those that it costs among ten thousand
_FEW, _MANY = 100, 10_000  # of what else there is, such as rules
_PROPORTION = (_MANY / _FEW) ** 0.2  # what each of many may cost, in those that each of few costs
_CHECK = "snapshot, Fib, check_overlap"

# What a program holds that has read the routes and checked CIDRs among them. Not `ru_maxrss`, which begins with what
# the process had that started this one.
_MEMORY = """
import sys
from hostrouting import Fib, Prefix, check_overlap
from hostrouting.kernel.netlink import NetlinkBackend
with NetlinkBackend(timeout=60) as backend:
    fib = Fib(backend.snapshot(family=4))
check_overlap(fib, [Prefix.parse(text) for text in sys.argv[1:]])
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def growth_contests(bench: Bench) -> Iterator[Contest]:
    """Each size after the other, and then what a route costs among many and among more."""
    reads: dict[int, Sequence[float]] = {}
    checks: dict[int, Sequence[float]] = {}
    memory = {0: _memory(())}
    there = 0
    for size in _SIZES:
        _install(bench, there, size)
        there = size
        if size == _IN_BOTH:
            _install(bench, 0, size, family=IPV6)
        read, *ipv6 = _read(bench, size)
        yield from (read, *ipv6)
        check = _check(bench, size)
        yield check
        reads[size], checks[size] = read.values[OURS], check.values[_CHECK]
        memory[size] = _memory([str(cidr) for cidr in cidrs_among(size)])
    empty()
    most, many = _SIZES[-1], _SIZES[-2]
    yield Contest(f"memory, {many:,} routes", {_CHECK: memory[many]}, (Goal(_CHECK, 30),), unit="MB")
    yield per_route("read", {size: reads[size] for size in (10_000, most)})
    yield per_route("check", {size: checks[size] for size in (10_000, most)})
    added = {size: [here - none for here, none in zip(memory[size], memory[0], strict=True)] for size in (many, most)}
    yield per_route("memory of reading and checking", added, unit="MB")
    yield from _proportions()


def per_route(
    work: str, values: Mapping[int, Sequence[float]], *, unit: Unit = "s", of: str = "route", limit: float = _FLAT
) -> Contest:
    """What one of so many routes costs, in µs or bytes, beside one of the fewest."""
    few, many = min(values), max(values)
    names = {size: f"each of {size:,}" for size in (many, few)}
    return Contest(
        f"{work}, for each {of}",
        {names[size]: [value / size for value in values[size]] for size in (many, few)},
        (Goal(names[many], limit, names[few]),),
        unit=unit,
    )


def _proportions() -> Iterator[Contest]:
    """The check and repair of hosts with many rules, devices, pods and sources."""
    checks = {"expectedCidrs": ["172.16.0.0/12"], "podCidrs": ["10.244.0.0/16"], "allowedDevs": ["cali*"]}
    config = {IPV4: HostRoutingConfig.from_mapping({"routeOverlap": checks})}
    config[IPV6] = HostRoutingConfig.from_mapping({"routeOverlap": {"expectedCidrs": ["fd00:16::/64"]}})
    works: dict[str, tuple[str, int, Callable[[int], Snapshot]]] = {
        "rules to addresses of the CIDR": ("rule", IPV4, lambda size: _ruled(plain(), size, to=True)),
        "pods with a rule from each": ("pod", IPV4, lambda size: _ruled(_pods(size), size)),
        "IPv6 routes of one prefix, each for other sources": ("route", IPV6, _sourced),
    }
    for work, (of, family, host) in works.items():
        values: dict[int, Sequence[float]] = {}
        for size in (_FEW, _MANY):
            check = partial(examine_snapshot, host(size), config[family])
            [values[size]] = in_turn({work: check}, rounds=_ROUNDS).values()
        yield per_route(work, values, of=of, limit=_PROPORTION)


def _ruled(before: Snapshot, size: int, *, to: bool = False) -> Snapshot:
    """A rule for each of so many addresses: of the expected CIDR, or of pods."""
    network = 0xAC10_0000 if to else 0x0AF4_0000
    hosts = [Prefix(IPV4, network + at, 32) for at in range(size)]
    rule = Rule(family=IPV4, priority=512, table=TABLE_MAIN)
    rules = [attrs.evolve(rule, dst=host) if to else attrs.evolve(rule, src=host) for host in hosts]
    return attrs.evolve(before, rules=by_priority([*before.rules, *rules]))


def _pods(size: int) -> Snapshot:
    """A device and a route for each pod."""
    base, numbers = plain(), range(size)
    links = [Link(name=f"cali{at}", index=100 + at) for at in numbers]
    routes = [Route.to(Prefix(IPV4, 0x0AF4_0000 + at, 32), dev=f"cali{at}") for at in numbers]
    return attrs.evolve(base, links=(*base.links, *links), routes=[*base.routes, *routes])


def _sourced(size: int) -> Snapshot:
    """Routes of the expected prefix, each for another prefix of sources."""
    base, route = plain(), Route.to("fd00:16::/64", dev="eth0", gateway="fe80::1", metric=1024)
    sources = [Prefix(IPV6, (0x2001_0DB8 << 96) + (at << 64), 64) for at in range(size)]
    routes = [Route.to("::/0", dev="eth0", gateway="fe80::1", metric=1024)]
    routes += [attrs.evolve(route, source=source) for source in sources]
    return attrs.evolve(
        base, rules=(*base.rules, *default_rules(IPV6)), routes=[*base.routes, *routes], ipv6_forwarding=True
    )


def _install(bench: Bench, begin: int, end: int, *, family: int = IPV4) -> None:
    """The routes that are yet missing."""
    for at in range(begin, end, 50_000):
        routes = equal_routes(min(50_000, end - at), begin=at, family=family)
        if not all(outcome.ok for outcome in bench.backend.change(RouteRequest("add", route) for route in routes)):
            raise RuntimeError("a route was refused")


def _read(bench: Bench, count: int) -> Iterator[Contest]:
    limits = {10_000: 1.6, 100_000: 1.4}
    takes = "read the destinations in C, or only when they are used"
    goals = bench.goals(Goal(OURS, limits.get(count), IN_C, takes)) if count in limits or count > _FOR_JSON else ()
    with plain_pyroute2() as pyroute2:

        def methods(family: int) -> dict[str, Method]:
            found: dict[str, Method] = {
                OURS: lambda: bench.backend.snapshot(family=family),
                **bench.in_c("dump", str(family)),
            }
            if count <= _FOR_JSON:
                found[JSON] = ip_json("route", family=family)
            if count <= _FOR_PYROUTE2:
                found[PYROUTE2] = pyroute2.read_routes
            return found

        times = families_in_turn(methods, BOTH if count == _IN_BOTH else (IPV4,), rounds=_ROUNDS)
    # To receive the list and do nothing else takes 1.46 to 1.53 times as long in IPv6: its messages are twice as large.
    yield from by_family(Contest(f"read {count:,} routes", {}, goals, panel="read", size=count), times, at_most=1.7)


def _check(bench: Bench, count: int) -> Contest:
    cidrs = cidrs_among(count)

    def check() -> None:
        fib = Fib(bench.backend.snapshot(family=4))
        if check_overlap(fib, cidrs).verdict != "ok":
            raise RuntimeError("the routes lead elsewhere than they should")

    loop = loop_of_route_get([str(cidr.ip) for cidr in cidrs])
    methods = {_CHECK: check, LOOP: loop}
    return Contest(
        f"check 100 CIDRs evenly among {count:,} routes",
        in_turn(methods, rounds=_ROUNDS),
        panel="check 100 CIDRs",
        size=count,
    )


def _memory(cidrs: Sequence[str]) -> list[float]:
    """The megabytes at the peak, of some processes."""
    command = [sys.executable, "-c", _MEMORY, *cidrs]
    return [
        int(subprocess.run(command, check=True, capture_output=True, text=True).stdout) * 1024 / 1e6
        for _ in range(_ROUNDS)
    ]
