"""Checks: a hundred CIDRs among few and many routes, and one CIDR on the host that all of this is about.

Everything here happens in this process's private network namespace (see `private`).
"""

from collections.abc import Iterator, Sequence
from functools import partial

import phases
from hostrouting.check.examine import examine
from hostrouting.check.overlap import check_overlap
from hostrouting.check.repair import propose_repair
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.fib.engine import Fib
from hostrouting.kernel.netlink.backend import NetlinkBackend
from hostrouting.model.prefix import IPV4, Prefix
from tests.benchmarks.contest import Contest, Goal
from tests.benchmarks.families import BOTH, by_family, families_in_turn
from tests.benchmarks.netlink import OURS, Bench, installed
from tests.benchmarks.peers import IN_C, JSON, LOOP, PYROUTE2, Method, ip_json, loop_of_route_get, plain_pyroute2
from tests.benchmarks.private import FABRIC
from tests.benchmarks.turns import in_turn
from tests.benchmarks.workload import equal_routes, in_family, mixed_cidrs, mixed_routes

__all__ = ["check_contests"]

_IN_HAND, _WHOLE = "from a snapshot: Fib, check_overlap, propose_repair", "the same, and the snapshot"
_NODE = 50  # routes of an ordinary node
_LESS = "decode devices and routes in C, and prove the repair without a second index of the tables"


def check_contests(bench: Bench) -> Iterator[Contest]:
    """All contests of the check."""
    yield from _h200(bench)
    yield _node(bench)
    yield from _hundred(bench, 100, (Goal(_IN_HAND, 1 / 100, LOOP), Goal(_WHOLE, 1 / 100, LOOP, _LESS)))
    # With the snapshot, what is sent to the kernel alone takes a third of the loop's time.
    takes = "read only the tables' routes near the CIDRs, which Linux cannot select"
    yield from _hundred(
        bench, 100_000, (Goal(_IN_HAND, 1 / 3, LOOP), Goal(_WHOLE, None, LOOP), Goal(_WHOLE, 2, IN_C, takes))
    )


def _h200(bench: Bench) -> Iterator[Contest]:
    ctx = phases.Context()
    ours = "examine: snapshot, verdict, repair, proof, and what the kernel says"

    def methods(family: int) -> dict[str, Method]:
        config = HostRoutingConfig.from_mapping({"routeOverlap": {"expectedCidrs": [FABRIC[family]]}})

        def check() -> None:
            # With a backend of its own: a backend keeps what it has read for the next examination.
            with NetlinkBackend(timeout=60) as backend:
                if examine(ctx, backend, config, wait=0).verdict != "overlap":
                    raise RuntimeError("the fabric has no route of its own")

        loop = loop_of_route_get([str(Prefix.parse(FABRIC[family]).ip)])
        return {ours: check, **bench.kernel_only(check), LOOP: loop}

    times = families_in_turn(methods, rounds=70)
    yield from by_family(Contest("check one CIDR on an H200 node", {}, (Goal(ours, 0.002, takes=_LESS),)), times)


def _node(bench: Bench) -> Contest:
    """What the host is furnished with, and as many routes as are missing."""
    there = len(bench.backend.snapshot(family=4).routes)
    with installed(bench, equal_routes(_NODE - there)), plain_pyroute2() as pyroute2:
        methods = {
            OURS: lambda: bench.backend.snapshot(family=4),
            PYROUTE2: pyroute2.read_all,
            JSON: ip_json("link", "address", "rule", "route"),
        }
        return Contest(f"snapshot of a node with {_NODE} routes", in_turn(methods, rounds=30))


def _hundred(bench: Bench, count: int, reached: tuple[Goal, ...]) -> Iterator[Contest]:
    """With CIDRs that are full of routes, and, where there are many, with some that are not."""
    goals = bench.goals(*reached, Goal(_WHOLE, None, IN_C), Goal(IN_C, None, LOOP))
    inside, apart = mixed_cidrs(), [Prefix(IPV4, (100 << 24) + (number << 16), 16) for number in range(100)]
    with installed(bench, [route for family in BOTH for route in mixed_routes(count, family=family)]):
        for chosen in (inside, apart) if count > _NODE * 2 else (inside,):
            fib = Fib(bench.backend.snapshot(family=IPV4))
            cells = sum(len(fib.cells(cidr)) for cidr in chosen)
            times = families_in_turn(partial(_checks, bench, chosen), rounds=7)
            yield from by_family(Contest(f"check 100 CIDRs, {count:,} routes, {cells:,} cells", {}, goals), times)


def _checks(bench: Bench, chosen: Sequence[Prefix], family: int) -> dict[str, Method]:
    """The ways of checking these CIDRs in this family."""
    cidrs = [in_family(cidr, family) for cidr in chosen]
    snapshot = bench.backend.snapshot(family=family)

    def check(of: Fib) -> None:
        propose_repair(of, check_overlap(of, cidrs))

    def whole() -> None:
        check(Fib(bench.backend.snapshot(family=family)))

    return {
        _IN_HAND: lambda: check(Fib(snapshot)),
        _WHOLE: whole,
        **bench.kernel_only(whole),
        LOOP: loop_of_route_get([str(cidr.ip) for cidr in cidrs]),
    }
