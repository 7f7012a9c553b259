"""`make bench`: what a user feels of the speed, beside other programs in the same run, each row
with its goal.

    python -m tests.benchmarks.bench [--quick] [ROW...]

ROW is one of check, gate, guard, h200, install, read, cidrs and fleet; without one, all are
measured. All of it happens in a private network namespace, or under a systemd of its own.
Methods that are compared take turns (A B A B …), so that a machine that slows down slows all of
them down; a ratio is the median of the rounds' ratios.
"""

import argparse
import gc
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from ipaddress import ip_network
from pathlib import Path
from socket import if_nametoindex
from typing import NamedTuple, TypeAlias

import attrs

from hostrouting.check.check import check_kernel, check_snapshot
from hostrouting.config.settings import (
    GateConfig,
    GuardConfig,
    HostRoutingConfig,
    RouteOverlapConfig,
)
from hostrouting.host.layout import HostLayout
from hostrouting.kernel.base import RouteRequest
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.kernel.netlink.routes import encode
from hostrouting.model.prefix import IPV4, Prefix
from hostrouting.model.route import Route
from hostrouting.testing import h200
from tests.support.commands import commands_of
from tests.support.gate import HALVES, apply, config, host
from tests.support.needs import absent
from tests.support.systemd import NEEDS, System

FABRIC, GATEWAY = "172.16.0.0/16", "10.0.0.1"

Method: TypeAlias = Callable[[], object]
"""Does the work once; a float that it returns is the seconds that it took by its own clock."""


class Row(NamedTuple):
    """A row of the table that is printed."""

    work: str
    measured: str
    goal: str = ""
    is_met: bool = True


@attrs.frozen
class Bench:
    """How often work is repeated, and a folder for files."""

    folder: Path
    is_quick: bool

    def times(
        self, methods: Mapping[str, Method], *, rounds: int, before: Method = lambda: None
    ) -> dict[str, list[float]]:
        """The seconds of each method in each counted round; `before` is nobody's time."""
        times: dict[str, list[float]] = {name: [] for name in methods}
        if self.is_quick:
            rounds = max(3, rounds // 4)
        for number in range(1 + rounds):
            is_counted = number > 0
            for name, method in methods.items():
                before()
                gc.collect()
                began = time.perf_counter()
                answer = method()
                took = time.perf_counter() - began
                if is_counted:
                    times[name].append(answer if isinstance(answer, float) else took)
                del answer  # or the next method would take the time to free it
        return times


def seconds(value: float) -> str:
    return f"{value * 1e3:,.2f} ms" if value < 1 else f"{value:,.1f} s"


def beside(work: str, times: Mapping[str, list[float]], ours: str, other: str, limit: float) -> Row:
    """One method beside another: it may take `limit` times as long."""
    rounds = zip(times[ours], times[other], strict=True)
    ratio = statistics.median(our_time / other_time for our_time, other_time in rounds)
    our_median = statistics.median(times[ours])
    other_median = statistics.median(times[other])
    shown = f"{ratio:.2f} ×" if ratio > 1 or limit > 1 else f"{1 / ratio:.2f} × faster"
    goal = f"≤ {limit:g} ×" if limit > 1 else f"≥ {1 / limit:.3g} × faster"
    measured = f"{shown} ({seconds(our_median)}, {seconds(other_median)})"
    return Row(f"{work}, beside {other}", measured, goal, is_met=ratio <= limit)


def alone(work: str, value: float, limit: float, unit: str = "") -> Row:
    """What a method takes, in seconds or in this unit."""
    measured, goal = seconds(value), f"≤ {seconds(limit)}"
    if unit:
        measured, goal = f"{value:.3g} {unit}", f"≤ {limit:g} {unit}"
    return Row(work, measured, goal, is_met=value <= limit)


def run(*words: str, code: int = 0, text: str = "") -> str:
    """The output of a program that ends with this code; `text` is its input."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, env=env, input=text, timeout=1200
    )
    if done.returncode != code:
        raise RuntimeError(
            f"{' '.join(words)[:200]} ended with {done.returncode}: {done.stderr[-2000:]}"
        )
    return done.stdout


def ip(*lines: str) -> None:
    run("ip", "-batch", "-", text="".join(f"{line}\n" for line in lines))


def empty() -> None:
    """Delete every route by eth0 at once, except those that the host was furnished with."""
    ip(
        "link set eth0 down",
        "link set eth0 up",
        f"route add default via {GATEWAY} dev eth0 metric 100",
    )


# One function a row.


def check_row(bench: Bench) -> Iterator[Row]:
    """The command, from its start to its end."""
    ours, bare = "hostrouting check", "a bare interpreter"
    methods: dict[str, Method] = {
        bare: lambda: run(sys.executable, "-c", "pass"),
        ours: lambda: run(sys.executable, "-m", "hostrouting", "check", FABRIC, code=1),
    }
    yield beside(f"{ours}, start to end", bench.times(methods, rounds=20), ours, bare, 5)


# Under a real systemd.

BARE, GATED = "bare", "gated"
UNIT = """\
[Unit]
StartLimitIntervalSec=0
[Service]
ExecStart=/bin/true
Type=exec
"""
START_ONE_BY_ONE = """
for ((round = 0; round < $0; round++)); do
  for name in bare gated; do
    begin=$EPOCHREALTIME
    systemctl start "$name@1.service" || exit
    echo $((${EPOCHREALTIME/./} - ${begin/./}))
  done
  begin=$EPOCHREALTIME
  /usr/bin/python3 -I -S -c pass
  echo $((${EPOCHREALTIME/./} - ${begin/./}))
done
"""
START_FIVE = """
for ((round = 0; round < $0; round++)); do
  for units in 1 '1 2 3 4 5'; do
    begin=$EPOCHREALTIME
    systemctl start $(printf 'gated@%s.service ' $units) || exit
    echo $((${EPOCHREALTIME/./} - ${begin/./}))
  done
done
"""


@contextmanager
def node(*, guard: bool = False) -> Iterator[System]:
    """A node with a template that is gated and one that is not, on which all is right."""
    missing = absent(NEEDS)
    if missing:
        raise RuntimeError(f"it needs {', '.join(missing)}")
    files = {f"/etc/systemd/system/{name}@.service": UNIT for name in (BARE, GATED)}
    settings = config(*HALVES, mode="STRICT")._replace(
        gate=GateConfig((f"{GATED}@.service",)), guard=GuardConfig(enabled=guard)
    )
    with host(more=files, machines=()) as system:
        apply(system, settings)
        yield system


def in_seconds(microseconds: str, columns: int) -> list[list[float]]:
    """The columns of what bash has timed, without the first round."""
    times = [int(number) / 1e6 for number in microseconds.split()][columns:]
    return [times[column::columns] for column in range(columns)]


def gate_row(bench: Bench) -> Iterator[Row]:
    """What the gate adds to the start of a unit, and five starts at once beside one."""
    rounds = 7 if bench.is_quick else 26
    with node() as system:
        version = system.must("systemctl", "--version").split()[1]
        one_by_one = system.must("bash", "-c", START_ONE_BY_ONE, str(rounds))
        at_once = system.must("bash", "-c", START_FIVE, str(rounds))
    bare, gated, python = in_seconds(one_by_one, 3)
    ours, other = "the gate", "a bare interpreter"
    added = [one - another for one, another in zip(gated, bare, strict=True)]
    yield beside(
        f"what the gate adds to a start, systemd {version}", {ours: added, other: python},
        ours, other, 9,
    )  # fmt: skip
    one_start, five = in_seconds(at_once, 2)
    ours, other = "five", "one"
    yield beside("5 gated units at once", {ours: five, other: one_start}, ours, other, 2)


DELETE_AND_WAIT = """
import random, subprocess, sys, time
for _ in range(int(sys.argv[1])):
    time.sleep(0.3 + random.random() / 2)
    subprocess.run(["ip", "route", "del", "172.16.0.0/17"], check=True)
    began = time.monotonic()
    while not subprocess.run(
        ["ip", "route", "show", "172.16.0.0/17"], capture_output=True, check=True
    ).stdout:
        pass
    print(time.monotonic() - began)
"""
OTHER_PROGRAM = """
import itertools, subprocess, time
ip = subprocess.Popen(["ip", "-batch", "-"], stdin=subprocess.PIPE)
for number in itertools.count():
    verb = ("add", "del")[number % 2]
    for last in range(20):
        ip.stdin.write(f"route {verb} 10.99.0.{last} dev eth0\\n".encode())
    ip.stdin.flush()
    time.sleep(0.01)
"""
"""2,000 changes of routes a second."""


def guard_row(bench: Bench) -> Iterator[Row]:
    """How soon the guard has a deleted route back, and what it takes at rest."""
    rounds = str(8 if bench.is_quick else 60)
    with node(guard=True) as system:
        python = ("/usr/bin/python3", "-c")
        quiet = [*map(float, system.must(*python, DELETE_AND_WAIT, rounds).split())]
        routes = "".join(
            f"route add 10.{90 + number // 250}.{number % 250}.0/24 dev eth0\n"
            for number in range(1000)
        )
        system.run("ip", "-batch", "-", stdin=routes)
        pid = system.show(HostLayout.guard_unit, "MainPID")
        at_rest = 5 if bench.is_quick else 60
        before = processor_seconds(system, pid)
        time.sleep(at_rest)
        share = (processor_seconds(system, pid) - before) / at_rest
        memory = int(system.must("awk", "/VmRSS/ {print $2}", f"/proc/{pid}/status")) / 1024
        system.must("systemd-run", "--unit=other", *python, OTHER_PROGRAM)
        busy = [*map(float, system.must(*python, DELETE_AND_WAIT, rounds).split())]
    yield alone("the guard: a route is back", statistics.median(quiet), 0.050)
    yield alone("the same beside 2,000 changes a second", statistics.median(busy), 0.100)
    yield alone("the guard at rest, of a processor", 100 * share, 0.05, "%")
    yield alone("its memory at 1,000 routes", memory, 20, "MB")


def processor_seconds(system: System, pid: str) -> float:
    ticks = system.must("cut", "-d ", "-f14,15", f"/proc/{pid}/stat").split()
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def h200_row(bench: Bench) -> Iterator[Row]:
    """One CIDR on the host that all of this is about, by a backend that has read nothing yet."""
    config = HostRoutingConfig(route_overlap=RouteOverlapConfig((ip_network(FABRIC),)))

    def check() -> None:
        with NetlinkBackend() as backend:
            check_kernel(backend, config)

    times = bench.times({"": check}, rounds=70)[""]
    yield alone("examine an H200 node, in process", statistics.median(times), 0.0022)


def in_c(bench: Bench, word: str, messages: Path | None = None) -> Method:
    """The C program, which measures its own time; its input are the messages."""
    program = bench.folder / "netlink_baseline"
    if not program.exists():
        run("cc", "-O2", "-o", str(program), str(Path(__file__).with_name("netlink_baseline.c")))
    command = f"exec {program} {word} <{messages or '/dev/null'}"
    return lambda: float(run("sh", "-c", command))


def destinations(count: int) -> list[str]:
    return [f"20.{place >> 12}.{place >> 4 & 255}.{(place & 15) << 4}/28" for place in range(count)]


def install_row(bench: Bench) -> Iterator[Row]:
    networks = destinations(10_000)
    commands = bench.folder / "batch"
    way = f"via {GATEWAY} dev eth0 metric 100 proto 213"
    commands.write_text("".join(f"route add {network} {way}\n" for network in networks))
    route = Route.to(networks[0], dev="eth0", gateway=GATEWAY, metric=100, protocol=213)
    routes = [route._replace(prefix=Prefix.parse(network)) for network in networks]
    changes = [RouteRequest("add", each) for each in routes]
    messages = bench.folder / "messages"
    messages.write_bytes(b"".join(encode("add", each, if_nametoindex) for each in routes))

    ours, batch, c = "NetlinkBackend", "ip -batch", "C with encoded messages"
    with NetlinkBackend() as backend:
        methods: dict[str, Method] = {
            ours: partial(backend.change, changes),
            batch: lambda: run("ip", "-batch", str(commands)),
            c: in_c(bench, "send", messages),
        }
        times = bench.times(methods, rounds=9, before=empty)
    empty()
    yield beside("install 10,000 routes", times, ours, batch, 1 / 2.5)
    yield beside("install 10,000 routes", times, ours, c, 1.3)


def read_row(bench: Bench) -> Iterator[Row]:
    networks = destinations(10_000)
    ip(*(f"route add {network} via {GATEWAY} dev eth0 metric 100" for network in networks))
    asked_for = [Prefix.parse(network) for network in networks[::100]]
    some, every, c, parsed = "100 of them", "all of them", "C", "ip -j"
    command = ("ip", "-4", "-N", "-j", "-d", "route", "show", "table", "all")
    with NetlinkBackend() as backend:
        methods: dict[str, Method] = {
            some: partial(backend.snapshot, near=asked_for),
            every: backend.snapshot,
            c: in_c(bench, "dump"),
            parsed: lambda: json.loads(run(*command)),
        }
        times = bench.times(methods, rounds=15)
    empty()
    yield beside("read 10,000 routes, 100 asked for", times, some, c, 2.5)
    yield beside("read 10,000 routes, 100 asked for", times, some, parsed, 1 / 3)
    yield beside("read 10,000 routes, all made", times, every, parsed, 1 / 1.5)


def cidrs_row(bench: Bench) -> Iterator[Row]:
    rng = random.Random(213)  # noqa: S311  the same ones every time
    space = Prefix.parse("30.0.0.0/8")

    def some(count: int, *lengths: int) -> list[Prefix]:
        prefixes: set[Prefix] = set()
        while len(prefixes) < count:
            address = rng.randrange(space.first, space.last)
            prefixes.add(Prefix.around(IPV4, address, rng.choice(lengths)))
        return sorted(prefixes)

    routes = some(100_000, 16, 20, 22, 24, 24, 24, 28, 32)
    commands: list[str] = []
    for prefix in routes:
        protocol = rng.choice(["bgp", "bird"])
        commands.append(f"route add {prefix} via {GATEWAY} dev eth0 proto {protocol}")
    ip(*commands)

    cidrs = some(100, 24)
    config = HostRoutingConfig(
        route_overlap=RouteOverlapConfig(tuple(map(Prefix.to_network, cidrs)))
    )
    loop = 'for address in "$@"; do ip route get "$address" >/dev/null; done'
    addresses = [str(cidr.ip) for cidr in cidrs]

    ours, other = "the check", "ip route get for each"
    with NetlinkBackend() as backend:

        def check() -> None:
            check_snapshot(backend.snapshot(near=cidrs), config)

        methods: dict[str, Method] = {
            ours: check,
            other: lambda: run("bash", "-c", loop, "", *addresses),
        }
        times = bench.times(methods, rounds=9)
    empty()
    yield beside(
        "check 100 CIDRs among 100,000 routes, with the snapshot", times, ours, other, 1 / 1.5
    )


def fleet_row(bench: Bench) -> Iterator[Row]:
    count = 1_000 if bench.is_quick else 10_000
    nodes = bench.folder / "nodes"
    nodes.mkdir()
    text = h200().snapshot().to_json()
    for number in range(count):
        own = text.replace('"10.0.0.', f'"10.{number // 250}.{number % 250}.')
        own = own.replace("172.16.1.10", f"172.16.{number >> 8}.{number & 255}")
        (nodes / f"node-{number:05}.json").write_text(own)
    on_two_processors = ["taskset", "-c", "0,1", sys.executable, "-m", "hostrouting"]
    command = [*on_two_processors, "check", "--snapshots", str(nodes), FABRIC]
    times = bench.times({"": lambda: run(*command, code=1)}, rounds=3)[""]
    took = statistics.median(times)
    yield alone(f"{count:,} snapshots of nodes, 2 processes", took, 7.0 * count / 10_000)


ROWS: dict[str, Callable[[Bench], Iterator[Row]]] = {
    "check": check_row,
    "gate": gate_row,
    "guard": guard_row,
    "h200": h200_row,
    "install": install_row,
    "read": read_row,
    "cidrs": cidrs_row,
    "fleet": fleet_row,
}


def begin_again_inside() -> None:
    """Go on as a new process, which has one thread, in a namespace of its own."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    program = [sys.executable, "-m", "tests.benchmarks.bench", "--inside", *sys.argv[1:]]
    command = ["unshare", "--net", "--mount", *user, *program]
    os.execvp("unshare", command)  # noqa: S606  its arguments are ours


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("rows", nargs="*", metavar="ROW", choices=[*ROWS, []], help=", ".join(ROWS))
    parser.add_argument("--quick", action="store_true", help="fewer rounds, and fewer snapshots")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if not asked.inside:
        begin_again_inside()
    ip(*commands_of(h200()))
    rows = [Row("work", "measured", "goal")]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:  # in memory, as /run is
        bench = Bench(Path(folder), asked.quick)
        for name in asked.rows or ROWS:
            try:
                rows += ROWS[name](bench)
            except (RuntimeError, OSError) as failure:
                reason = f"not measured: {failure}"[:200].splitlines()[0]
                rows.append(Row(name, reason))
            sys.stderr.write(f"{name} is done\n")
    widths = [max(map(len, column)) for column in zip(*(row[:3] for row in rows), strict=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:3], widths, strict=True)]
        cells.append("" if row.is_met else "missed")
        sys.stdout.write("  ".join(cells).rstrip() + "\n")


if __name__ == "__main__":
    main()
