"""Routes in a kernel: installing, reading, converging and looking up, beside the peers and the kernel's own cost.

Everything here happens in this process's private network namespace (see `private`); no packet is sent.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from hostrouting.apply import apply_plan
from hostrouting.backends.base import Change
from hostrouting.backends.netlink.lookups import lookup_template
from hostrouting.backends.netlink.route_message import ChangeEncoder
from hostrouting.fib import ANY
from hostrouting.model import as_ip, ip_at
from hostrouting.plan import plan_routes
from hostrouting.uplink import DesiredRoute
from tests.benchmarks.contest import Contest, Goal
from tests.benchmarks.peers import (
    BATCH,
    IN_C,
    PYROUTE2,
    ip_batch,
    plain_pyroute2,
    run_baseline,
)
from tests.benchmarks.private import GATEWAY, empty
from tests.benchmarks.turns import in_turn
from tests.benchmarks.workload import batch_line, equal_routes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from hostrouting.backends.netlink import NetlinkBackend
    from hostrouting.model import Route

__all__ = ["OURS", "Bench", "installed", "kernel_contests"]

OURS = "NetlinkBackend"
_ONE_BY_ONE = 1_000  # more routes than this take pyroute2 too long, one after the other
_LARGE = 10_000


class Bench:
    """What the contests share: the backend, the C program if there is one, and a place for files."""

    def __init__(self, backend: NetlinkBackend, baseline: Path | None, folder: Path) -> None:
        """Take them."""
        self.backend, self.baseline, self.folder = backend, baseline, folder

    def in_c(self, *arguments: str) -> dict[str, Callable[[], object]]:
        """The C program, which takes its own time; nothing where there is none."""
        return run_baseline(self.baseline, *arguments)

    def goals(self, *goals: Goal) -> tuple[Goal, ...]:
        """Those that can be measured here."""
        return tuple(goal for goal in goals if goal.against != IN_C or self.baseline is not None)

    def messages(self, routes: list[Route]) -> Path:
        """A file with what installs the routes, encoded."""
        index = {link.name: link.index for link in self.backend.snapshot().links}
        encoder = ChangeEncoder(index.__getitem__)
        path = self.folder / f"add-{len(routes)}"
        with path.open("wb") as file:
            for at, route in enumerate(routes, start=1):
                file.write(encoder.message(Change("add", route), at))
        return path


@contextmanager
def installed(bench: Bench, routes: list[Route]) -> Iterator[None]:
    """The routes are there, and no other ones, and then gone."""
    empty()
    if not all(outcome.ok for outcome in bench.backend.change(Change("add", route) for route in routes)):
        raise RuntimeError("a route was refused")
    yield
    empty()


def kernel_contests(bench: Bench) -> Iterator[Contest]:
    """All of them."""
    for count in (100, 1_000, 10_000, 100_000):
        yield _install(bench, count)
    for count in (1_000, 10_000):
        yield _converge(bench, count)
    yield _look_up(bench, 10_000)


def _install(bench: Bench, count: int) -> Contest:
    routes = equal_routes(count)
    changes = [Change("add", route) for route in routes]

    def install() -> None:
        if not all(outcome.ok for outcome in bench.backend.change(changes)):
            raise RuntimeError("a route was refused")

    methods = {
        OURS: install,
        **bench.in_c("send", str(bench.messages(routes))),
        BATCH: ip_batch(bench.folder / "lines", (batch_line("add", route) for route in routes)),
    }
    goals = bench.goals(Goal(OURS, 1.5, IN_C), Goal(OURS, 1 / 2, BATCH)) if count >= _LARGE else ()
    with plain_pyroute2() as pyroute2:
        if count <= _ONE_BY_ONE:
            methods[PYROUTE2] = pyroute2.add(routes)
            goals = (Goal(OURS, 1 / 40, PYROUTE2),) if count == _ONE_BY_ONE else ()
        times = in_turn(methods, rounds=7, before=empty)
    return Contest(f"install {count:,} routes", times, goals, panel="install", size=count)


def _converge(bench: Bench, count: int) -> Contest:
    """Everything is there already: what it takes to know that, beside writing all of it again."""
    routes = equal_routes(count)
    wanted = [DesiredRoute(it.prefix, dev="eth0", gateway=as_ip(GATEWAY), metric=it.metric) for it in routes]

    def converge() -> None:
        before = bench.backend.snapshot(family=4)
        if apply_plan(plan_routes(wanted, before), bench.backend, before=before).changes:
            raise RuntimeError("there was something to do")

    ours = "snapshot, plan_routes, apply_plan"
    again = f"{BATCH} that replaces all"
    methods = {
        ours: converge,
        again: ip_batch(bench.folder / "lines", (batch_line("replace", route) for route in routes)),
    }
    with installed(bench, routes):
        times = in_turn(methods, rounds=7)
    return Contest(f"converge {count:,} routes, nothing to do", times, (Goal(ours, 1 / 5, again),))


def _look_up(bench: Bench, count: int) -> Contest:
    routes = equal_routes(count)
    questions = bench.folder / "questions"
    template = lookup_template(4, ANY, len)  # no device is named
    addresses = [ip_at(4, route.prefix.first + 5) for route in routes]
    questions.write_bytes(b"".join(template.fill(at, address.packed) for at, address in enumerate(addresses, start=1)))
    methods = {
        OURS: lambda: bench.backend.lookup(addresses),
        **bench.in_c("ask", str(questions)),
        BATCH: ip_batch(bench.folder / "lines", (f"route get fibmatch {address}" for address in addresses)),
    }
    with installed(bench, routes):
        return Contest(f"look up {count:,} destinations, a route each", in_turn(methods, rounds=7))
