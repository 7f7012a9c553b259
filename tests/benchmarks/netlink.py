"""How fast the netlink backend is, beside the kernel's own cost and its peers.

Run it as root: `python tests/benchmarks/netlink.py [--rounds N]`; `make bench` does. It works in a network namespace of
its own and sends no packet. The kernel's own cost is what a small C program needs that sends the same messages, encoded
beforehand; it is compiled on the spot, and left out where there is no cc. The contenders take turns, so that a busy
moment strikes all of them; what is shown are medians, and each round's ratio to the first line.
"""

import argparse
import ctypes
import gc
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import attrs

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from hostrouting.apply import apply_plan
from hostrouting.backends.base import Change
from hostrouting.backends.netlink import NetlinkBackend
from hostrouting.backends.netlink.templates import ChangeEncoder, lookup_template
from hostrouting.fib import ANY
from hostrouting.model import NextHop, Prefix, Route, as_ip, ip_at, route_keys
from hostrouting.plan import plan_routes
from hostrouting.uplink import DesiredRoute
from tests.benchmarks.turns import table

_CLONE_NEWNET = 0x40000000
_BASE = 20 << 24
_GATEWAY = "10.0.0.1"
_OURS, _IN_C, _BATCH = "NetlinkBackend", "the same messages from C", "ip -batch"


def measure(rounds: int) -> Iterator[str]:
    """All contests, a table each, in a new network namespace, which this process does not leave again."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET):
        yield "The netlink backend was not measured: a private network namespace takes root."
        return
    _furnish()
    with tempfile.TemporaryDirectory() as folder, NetlinkBackend(timeout=60) as backend:
        host = _Host(backend, _compiled(Path(folder)), Path(folder), rounds)
        if host.baseline is None:
            yield "The kernel's own cost was not measured: there is no C compiler (cc)."
        yield from (_install(host, count) for count in (10_000, 100_000))
        yield _install_one_by_one(host, 1_000)
        yield _read(host, 100_000)
        yield from (_converge(host, count) for count in (1_000, 10_000))
        yield _look_up(host, 10_000)


def _compiled(folder: Path) -> Path | None:
    if shutil.which("cc") is None:
        return None
    program = folder / "baseline"
    source = Path(__file__).with_name("netlink_baseline.c")
    subprocess.run(["cc", "-O2", "-o", str(program), str(source)], check=True)
    return program


@attrs.frozen
class _Host:
    backend: NetlinkBackend
    baseline: Path | None
    folder: Path
    rounds: int

    def in_c(self, *arguments: str) -> dict[str, Callable[[], float]]:
        """The C program as a contender, which takes its own time; none where it could not be compiled."""
        program = self.baseline
        if program is None:
            return {}

        def run() -> float:
            done = subprocess.run([str(program), *arguments], check=True, capture_output=True, text=True)
            return float(done.stdout.split()[0])

        return {_IN_C: run}

    def lines(self, name: str, lines: Iterator[str]) -> Callable[[], float]:
        """`ip -batch` as a contender, with these lines."""
        path = self.folder / name
        path.write_text("".join(f"{line}\n" for line in lines))
        command = ["ip", "-batch", str(path)]
        return lambda: _timed(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))

    def in_turn(self, title: str, methods: Mapping[str, Callable[[], float]], *, emptied: bool = False) -> str:
        """The table of a contest; each method says what it took. `emptied`: none finds what another installed."""
        times: dict[str, list[float]] = {name: [] for name in methods}
        for number in range(self.rounds + 1):
            for name, method in methods.items():
                seconds = method()
                if emptied:
                    _empty()
                if number:
                    times[name].append(seconds)
        return table(title, times)


def _furnish() -> None:
    _ip(
        "link set lo up",
        "link add eth0 type veth peer name ib0",
        "link set eth0 up",
        "link set ib0 up",
        "address add 10.0.0.4/24 dev eth0",
    )


def _ip(*lines: str) -> None:
    text = "".join(f"{line}\n" for line in lines)
    subprocess.run(["ip", "-batch", "-"], input=text, check=True, text=True, stdout=subprocess.DEVNULL)


def _empty() -> None:
    # Taking the device down takes every route with it, at once.
    _ip("link set eth0 down", "link set eth0 up")


@contextmanager
def _installed(host: _Host, count: int) -> Iterator[None]:
    host.backend.change([Change("add", route) for route in _routes(count)])
    yield
    _empty()


def _routes(count: int) -> list[Route]:
    # Each with objects of its own, as they come out of a configuration.
    return [
        Route(Prefix(4, _BASE + 16 * place, 28), (NextHop("eth0", gateway=as_ip(_GATEWAY)),), metric=100, protocol=213)
        for place in range(count)
    ]


def _line(verb: str, route: Route) -> str:
    return f"route {verb} {route.prefix} via {_GATEWAY} dev eth0 metric 100 proto 213"


def _timed(work: Callable[[], Any]) -> float:
    gc.collect()
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _install(host: _Host, count: int) -> str:
    routes = _routes(count)
    changes = [Change("add", route) for route in routes]
    index = {link.name: link.index for link in host.backend.snapshot().links}
    encoder = ChangeEncoder(index.__getitem__)
    messages = host.folder / f"install-{count}"
    messages.write_bytes(b"".join(encoder.message(change, at) for at, change in enumerate(changes, start=1)))

    def install() -> None:
        if not all(outcome.ok for outcome in host.backend.change(changes)):
            raise RuntimeError("a route was refused")

    methods = {
        **host.in_c("send", str(messages)),
        _OURS: lambda: _timed(install),
        _BATCH: host.lines(f"lines-{count}", (_line("add", route) for route in routes)),
    }
    return host.in_turn(f"install {count:,} routes", methods, emptied=True)


def _install_one_by_one(host: _Host, count: int) -> str:
    # By name at run time: pyroute2 has no types that an import statement could give us.
    pyroute2: Any = import_module("pyroute2")
    changes = [Change("add", route) for route in _routes(count)]
    with pyroute2.IPRoute() as iproute:
        (index,) = iproute.link_lookup(ifname="eth0")

        def one_by_one() -> None:
            for change in changes:
                iproute.route("add", dst=str(change.route.prefix), gateway=_GATEWAY, oif=index, priority=100, proto=213)

        methods = {
            _OURS: lambda: _timed(lambda: host.backend.change(changes)),
            "pyroute2, route() for each": lambda: _timed(one_by_one),
        }
        return host.in_turn(f"install {count:,} routes", methods, emptied=True)


def _read(host: _Host, count: int) -> str:
    def keys() -> int:
        return sum(1 for _ in route_keys(host.backend.snapshot(family=4).routes))

    methods = {
        **host.in_c("dump"),
        _OURS: lambda: _timed(lambda: host.backend.snapshot(family=4)),
        f"{_OURS}, and all of their keys": lambda: _timed(keys),
    }
    with _installed(host, count):
        return host.in_turn(f"read {count:,} routes", methods)


def _converge(host: _Host, count: int) -> str:
    """Everything is there already: what it takes to know that, beside writing all of it again."""
    wanted = [DesiredRoute(it.prefix, dev="eth0", gateway=as_ip(_GATEWAY), metric=100) for it in _routes(count)]

    def converge() -> None:
        before = host.backend.snapshot(family=4)
        if apply_plan(plan_routes(wanted, before), host.backend, before=before).changes:
            raise RuntimeError("there was something to do")

    methods = {
        _BATCH + ", route replace": host.lines(f"again-{count}", (_line("replace", route) for route in _routes(count))),
        "snapshot, plan_routes, apply_plan": lambda: _timed(converge),
    }
    with _installed(host, count):
        return host.in_turn(f"converge {count:,} routes, nothing to do", methods)


def _look_up(host: _Host, count: int) -> str:
    questions = host.folder / f"look-up-{count}"
    template = lookup_template(4, ANY, len)  # no device is named
    addresses = [ip_at(4, _BASE + 16 * place + 5) for place in range(count)]
    questions.write_bytes(b"".join(template.fill(at, address.packed) for at, address in enumerate(addresses, start=1)))
    methods = {
        **host.in_c("ask", str(questions)),
        _OURS: lambda: _timed(lambda: host.backend.lookup(addresses)),
        _BATCH: host.lines(f"lines-of-{count}", (f"route get fibmatch {address}" for address in addresses)),
    }
    with _installed(host, count):
        return host.in_turn(f"look up {count:,} destinations, each in a route of its own", methods)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    sys.stdout.write("\n\n".join(measure(parser.parse_args().rounds)) + "\n")
