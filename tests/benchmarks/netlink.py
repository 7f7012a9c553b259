"""Routes in a kernel: installing, reading, converging and looking up, beside the peers and the kernel's own cost.

Everything here happens in this process's private network namespace (see `private`); no packet is sent.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from hostrouting.fib.packet import ANY
from hostrouting.kernel.base import RouteRequest
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.kernel.netlink.channel import Channel
from hostrouting.kernel.netlink.lookup import lookup_template
from hostrouting.kernel.netlink.route_message import ChangeEncoder
from hostrouting.model.prefix import IPV4, as_ip, ip_at
from hostrouting.model.route import Route
from hostrouting.routes.apply import apply_plan
from hostrouting.routes.plan import plan_routes
from hostrouting.routes.uplink import DesiredRoute
from tests.benchmarks.contest import Contest, Goal
from tests.benchmarks.families import BOTH, by_family, families_in_turn
from tests.benchmarks.peers import BATCH, IN_C, PYROUTE2, Method, ip_batch, plain_pyroute2, run_baseline
from tests.benchmarks.private import GATEWAY, empty
from tests.benchmarks.workload import batch_line, equal_routes

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
        """The C program, which measures its own time; nothing if there is none."""
        return run_baseline(self.baseline, *arguments)

    def goals(self, *goals: Goal) -> tuple[Goal, ...]:
        """The goals that can be measured here."""
        return tuple(goal for goal in goals if self.baseline is not None or IN_C not in {goal.method, goal.against})

    def kernel_only(self, work: Callable[[], object]) -> dict[str, Callable[[], object]]:
        """The C program with the requests that this work sends: the least that any program needs for it."""
        parts = sent_by(work)
        path = self.folder / f"requests-{len(list(self.folder.iterdir()))}"
        path.write_bytes(b"".join(len(part).to_bytes(4, sys.byteorder) + part for part in parts))
        return self.in_c("replay", str(path))

    def messages(self, routes: list[Route]) -> Path:
        """A file with the encoded messages that install the routes."""
        index = {link.name: link.index for link in self.backend.snapshot().links}
        encoder = ChangeEncoder(index.__getitem__)
        path = self.folder / f"add-{len(routes)}-{routes[0].prefix.family}"
        with path.open("wb") as file:
            for at, route in enumerate(routes, start=1):
                file.write(encoder.message(RouteRequest("add", route), at))
        return path


def sent_by(work: Callable[[], object]) -> list[bytes]:
    """What is sent to the kernel when the work is done once."""
    parts: list[bytes] = []
    send = Channel.send

    def noted(channel: Channel, data: bytes) -> None:
        parts.append(data)
        send(channel, data)

    with mock.patch.object(Channel, "send", noted):
        work()
    return parts


@contextmanager
def installed(bench: Bench, routes: list[Route]) -> Iterator[None]:
    """The routes are there, and no other ones, and then gone."""
    empty()
    if not all(outcome.ok for outcome in bench.backend.change(RouteRequest("add", route) for route in routes)):
        raise RuntimeError("a route was refused")
    yield
    empty()


def kernel_contests(bench: Bench) -> Iterator[Contest]:
    """All contests of the kernel."""
    for count in (100, 1_000, 10_000, 100_000):
        yield from _install(bench, count)
    for count in (1_000, 10_000):
        yield from _converge(bench, count)
    yield from _look_up(bench, 10_000)


def _install(bench: Bench, count: int) -> Iterator[Contest]:
    goals: tuple[Goal, ...] = ()
    if count >= _LARGE:
        goals = bench.goals(
            Goal(OURS, 1.6, IN_C, "fill in the messages in C"), Goal(OURS, 1 / 2, BATCH), Goal(IN_C, None, BATCH)
        )
    if count == _ONE_BY_ONE:
        goals = (Goal(OURS, 1 / 40, PYROUTE2),)
    with plain_pyroute2() as pyroute2:

        def methods(family: int) -> dict[str, Method]:
            routes = equal_routes(count, family=family)
            changes = [RouteRequest("add", route) for route in routes]

            def install() -> None:
                if not all(outcome.ok for outcome in bench.backend.change(changes)):
                    raise RuntimeError("a route was refused")

            one_by_one = {PYROUTE2: pyroute2.add(routes)} if count <= _ONE_BY_ONE else {}
            return {
                OURS: install,
                **bench.in_c("send", str(bench.messages(routes))),
                BATCH: ip_batch(bench.folder, (batch_line("add", route) for route in routes)),
                **one_by_one,
            }

        families = BOTH if count >= _LARGE else (IPV4,)
        times = families_in_turn(methods, families, rounds=7, before=empty)
    yield from by_family(Contest(f"install {count:,} routes", {}, goals, panel="install", size=count), times)


def _converge(bench: Bench, count: int) -> Iterator[Contest]:
    """All routes exist already: the time to find that out, compared with writing them again."""
    ours, again = "snapshot, plan_routes, apply_plan", f"{BATCH} that replaces all"

    def methods(family: int) -> dict[str, Method]:
        routes = equal_routes(count, family=family)
        gateway = as_ip(GATEWAY[family])
        wanted = [DesiredRoute(it.prefix, dev="eth0", gateway=gateway, metric=it.metric) for it in routes]

        def converge() -> None:
            before = bench.backend.snapshot(family=family)
            if apply_plan(plan_routes(wanted, before), bench.backend, before=before).changes:
                raise RuntimeError("there was something to do")

        replacing = (batch_line("replace", route) for route in routes)
        return {ours: converge, again: ip_batch(bench.folder, replacing), **bench.kernel_only(converge)}

    goals = bench.goals(
        Goal(
            ours,
            1 / 5,
            again,
            "plan in half the time: a dictionary of the present routes and a loop over the wanted ones",
        ),
        Goal(ours, None, IN_C),
        Goal(IN_C, None, again),
    )
    with installed(bench, _in_both(count)):
        times = families_in_turn(methods, rounds=7)
    yield from by_family(Contest(f"converge {count:,} routes, nothing to do", {}, goals), times)


def _look_up(bench: Bench, count: int) -> Iterator[Contest]:
    def methods(family: int) -> dict[str, Method]:
        addresses = [ip_at(family, route.prefix.first + 5) for route in equal_routes(count, family=family)]
        template = lookup_template(family, ANY, len)  # no device is named
        questions = bench.folder / f"questions-{family}"
        questions.write_bytes(b"".join(template.fill(at, it.packed) for at, it in enumerate(addresses, start=1)))
        return {
            OURS: lambda: bench.backend.lookup(addresses),
            **bench.in_c("ask", str(questions)),
            BATCH: ip_batch(bench.folder, (f"route get fibmatch {address}" for address in addresses)),
        }

    with installed(bench, _in_both(count)):
        times = families_in_turn(methods, rounds=7)
    yield from by_family(Contest(f"look up {count:,} destinations, a route each", {}), times)


def _in_both(count: int) -> list[Route]:
    """So many routes of each family."""
    return [route for family in BOTH for route in equal_routes(count, family=family)]
