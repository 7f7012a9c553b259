"""How fast the netlink backend is, beside the kernel's own cost and its peers.

Run it as root: `python tests/benchmarks/netlink.py [--rounds N]`. It works in a network namespace of its own and sends
no packet. The kernel's own cost is what a small C program needs that sends the same messages, encoded beforehand.
The contenders take turns, so that a busy moment strikes all of them; what is shown are medians.
"""

import argparse
import ctypes
import gc
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import attrs

from hostrouting.backends.base import Change
from hostrouting.backends.netlink import NetlinkBackend
from hostrouting.backends.netlink.templates import ChangeEncoder, lookup_template
from hostrouting.fib import ANY
from hostrouting.model import NextHop, Prefix, Route, as_ip, ip_at, route_keys

__all__ = ["Row", "measure"]

_CLONE_NEWNET = 0x40000000
_BASE = 20 << 24
_GATEWAY = "10.0.0.1"


@attrs.frozen
class Row:
    """One contest: what ours takes, and what each other takes, in seconds."""

    name: str
    ours: float
    others: dict[str, tuple[float, str]]
    """By name: the seconds, and the goal in words."""

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.ours * 1e3:.1f} ms"]
        for name, (seconds, goal) in self.others.items():
            ratio = self.ours / seconds
            said = f"{ratio:.2f} x as long" if ratio > 1 else f"{1 / ratio:.1f} x faster"
            lines.append(f"    beside {name}: {seconds * 1e3:.1f} ms, {said} (goal: {goal})")
        return "\n".join(lines)


def measure(rounds: int = 5) -> list[Row]:
    """All contests, in a new network namespace, which this process does not leave again."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "a private network namespace takes root")
    _furnish()
    with tempfile.TemporaryDirectory() as folder, NetlinkBackend(timeout=60) as backend:
        baseline = Path(folder) / "baseline"
        source = Path(__file__).with_name("netlink_baseline.c")
        subprocess.run(["cc", "-O2", "-o", str(baseline), str(source)], check=True)
        host = _Host(backend, baseline, Path(folder))
        return [
            *(_install(host, count, rounds) for count in (10_000, 100_000)),
            _install_one_by_one(host, 1_000, rounds),
            *(_read(host, count, rounds) for count in (10_000, 100_000)),
            _look_up(host, 10_000, rounds),
        ]


@attrs.frozen
class _Host:
    backend: NetlinkBackend
    baseline: Path
    folder: Path

    def in_c(self, *arguments: str) -> float:
        done = subprocess.run([str(self.baseline), *arguments], check=True, capture_output=True, text=True)
        return float(done.stdout.split()[0])


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


def _routes(count: int) -> list[Route]:
    # Each with objects of its own, as they come out of a configuration.
    return [
        Route(Prefix(4, _BASE + 16 * place, 28), (NextHop("eth0", gateway=as_ip(_GATEWAY)),), metric=100, protocol=213)
        for place in range(count)
    ]


@contextmanager
def _emptied() -> Iterator[None]:
    yield
    # Taking the device down takes every route with it, at once.
    _ip("link set eth0 down", "link set eth0 up")


def _timed(work: Callable[[], Any]) -> float:
    gc.collect()
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _install(host: _Host, count: int, rounds: int) -> Row:
    routes = _routes(count)
    changes = [Change("add", route) for route in routes]
    index = {link.name: link.index for link in host.backend.snapshot().links}
    encoder = ChangeEncoder(index.__getitem__)
    messages = host.folder / f"install-{count}"
    messages.write_bytes(b"".join(encoder.message(change, at) for at, change in enumerate(changes, start=1)))
    lines = host.folder / f"lines-{count}"
    lines.write_text("".join(f"route add {it.prefix} via {_GATEWAY} dev eth0 metric 100 proto 213\n" for it in routes))
    ours, in_c, with_ip = [], [], []

    def install() -> None:
        if not all(outcome.ok for outcome in host.backend.change(changes)):
            raise RuntimeError("a route was refused")

    for _ in range(rounds):
        with _emptied():
            in_c.append(host.in_c("send", str(messages)))
        with _emptied():
            ours.append(_timed(install))
        with _emptied():
            with_ip.append(_timed(lambda: subprocess.run(["ip", "-batch", str(lines)], check=True)))
    return Row(
        f"install {count:,} routes",
        median(ours),
        {"C": (median(in_c), "<= 1.5 x"), "ip -batch": (median(with_ip), "2 x faster")},
    )


def _install_one_by_one(host: _Host, count: int, rounds: int) -> Row:
    # By name at run time: pyroute2 has no types that an import statement could give us.
    pyroute2: Any = import_module("pyroute2")

    changes = [Change("add", route) for route in _routes(count)]
    ours, theirs = [], []
    with pyroute2.IPRoute() as iproute:
        (index,) = iproute.link_lookup(ifname="eth0")

        def one_by_one() -> None:
            for change in changes:
                iproute.route("add", dst=str(change.route.prefix), gateway=_GATEWAY, oif=index, priority=100, proto=213)

        for _ in range(rounds):
            with _emptied():
                ours.append(_timed(lambda: host.backend.change(changes)))
            with _emptied():
                theirs.append(_timed(one_by_one))
    return Row(f"install {count:,} routes", median(ours), {"pyroute2 route()": (median(theirs), "40 x faster")})


def _read(host: _Host, count: int, rounds: int) -> Row:
    ours, indexed, in_c = [], [], []
    with _emptied():
        host.backend.change([Change("add", route) for route in _routes(count)])
        for _ in range(2 * rounds):
            in_c.append(host.in_c("dump"))
            ours.append(_timed(lambda: host.backend.snapshot(family=4)))
            indexed.append(_timed(lambda: sum(1 for _ in route_keys(host.backend.snapshot(family=4).routes))))
    return Row(
        f"read {count:,} routes (and all of their keys: {median(indexed) * 1e3:.1f} ms)",
        median(ours),
        {"C": (median(in_c), "<= 2.5 x")},
    )


def _look_up(host: _Host, count: int, rounds: int) -> Row:
    questions = host.folder / f"look-up-{count}"
    template = lookup_template(4, ANY, len)  # no device is named
    addresses = [ip_at(4, _BASE + 16 * place + 5) for place in range(count)]
    questions.write_bytes(b"".join(template.fill(at, address.packed) for at, address in enumerate(addresses, start=1)))
    lines = host.folder / f"lines-of-look-up-{count}"
    lines.write_text("".join(f"route get fibmatch {address}\n" for address in addresses))
    ours, in_c, with_ip = [], [], []
    with _emptied():
        host.backend.change([Change("add", route) for route in _routes(count)])
        for _ in range(rounds):
            in_c.append(host.in_c("ask", str(questions)))
            ours.append(_timed(lambda: host.backend.lookup(addresses)))
            command = ["ip", "-batch", str(lines)]
            with_ip.append(_timed(lambda told=command: subprocess.run(told, check=True, stdout=subprocess.DEVNULL)))  # type: ignore[misc]  # a default binds it now
    return Row(
        f"look up {count:,} destinations, each in a route of its own",
        median(ours),
        {"C": (median(in_c), "as near as can be"), "ip -batch": (median(with_ip), "faster")},
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    for row in measure(parser.parse_args().rounds):
        sys.stdout.write(f"{row}\n")
