"""`make bench`: what a user feels of the speed, beside other programs in the same run, each row
with its goal.

    python -m tests.benchmarks.bench [--quick] [ROW...]

ROW is one of check, pyz, gate, boot, h200, install, read, cidrs, fleet and suite; without one, all
are measured. All of it happens in a private network namespace, the boot scripts with a /run of
their own. Methods that are compared take turns (A B A B …), so that a machine that slows down slows
all of them down; a ratio is the median of the rounds' ratios.
"""

import argparse
import gc
import json
import os
import random
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from ipaddress import ip_network
from pathlib import Path
from typing import TypeAlias

import attrs

from hostrouting.boot.scripts import render_check_script, render_static_routes_script
from hostrouting.check.check import check_kernel, check_snapshot
from hostrouting.config.settings import (
    HostRoutingConfig,
    RouteOverlapConfig,
    StaticRoute,
    StaticRoutesConfig,
)
from hostrouting.host.layout import HostLayout
from hostrouting.kernel.base import RouteRequest
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.prefix import IPV4, Prefix
from hostrouting.model.route import Route
from hostrouting.testing import h200
from tests.support.awks import put_before
from tests.support.commands import commands_of
from tests.support.gate import HALVES, config, host
from tests.support.needs import absent
from tests.support.systemd import NEEDS

FABRIC, GATEWAY = "172.16.0.0/16", "10.0.0.1"

Method: TypeAlias = Callable[[], object]
"""Does the work once; a float that it returns is the seconds that it took by its own clock."""
Row: TypeAlias = tuple[str, str, str, str]
"""The work, what was measured, the goal, and a bar: how much of the goal is used."""


@attrs.frozen
class Bench:
    """How often work is repeated, and a folder for files."""

    folder: Path
    is_quick: bool

    def times(
        self, methods: Mapping[str, Method], *, rounds: int, before: Method = lambda: None
    ) -> dict[str, list[float]]:
        """The seconds that each method took in each round, after one that is not counted; `before`
        is nobody's time.
        """
        times: dict[str, list[float]] = {name: [] for name in methods}
        for number in range((max(3, rounds // 4) if self.is_quick else rounds) + 1):
            for name, method in methods.items():
                before()
                gc.collect()
                began = time.perf_counter()
                answer = method()
                took = time.perf_counter() - began
                if number:
                    times[name].append(answer if isinstance(answer, float) else took)
                del answer  # or the next method would take the time to free it
        return times


def seconds(value: float) -> str:
    """Seconds as text."""
    return f"{value * 1e3:,.2f} ms" if value < 1 else f"{value:,.1f} s"


def bar(share: float) -> str:
    """Ten blocks for what the goal allows, and a word if it is missed."""
    return "█" * round(min(share, 2) * 10) + ("" if share <= 1 else " missed")


def beside(work: str, times: Mapping[str, list[float]], ours: str, other: str, limit: float) -> Row:
    """One method beside another: it may take `limit` times as long."""
    ratio = statistics.median(one / two for one, two in zip(times[ours], times[other], strict=True))
    medians = [statistics.median(times[name]) for name in (ours, other)]
    shown = f"{ratio:.2f} ×" if ratio > 1 or limit > 1 else f"{1 / ratio:.2f} × faster"
    if limit > 1:
        goal = f"≤ {limit:g} ×"
    elif limit < 1:
        goal = f"≥ {1 / limit:.3g} × faster"
    else:
        goal = "not slower"
    measured = f"{shown} ({seconds(medians[0])}, {seconds(medians[1])})"
    return f"{work}, beside {other}", measured, goal, bar(ratio / limit)


def alone(work: str, values: list[float], limit: float) -> Row:
    """What a method takes, in seconds."""
    value = statistics.median(values)
    goal = f"≤ {limit * 1e3:g} ms" if limit < 1 else f"≤ {limit:g} s"
    return work, seconds(value), goal, bar(value / limit)


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
    """Carry out commands of `ip`."""
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
    ours, other = "check", "a bare interpreter"
    methods: dict[str, Method] = {
        ours: lambda: run(sys.executable, "-m", "hostrouting", "check", FABRIC, code=1),
        other: lambda: run(sys.executable, "-c", "pass"),
    }
    yield beside("hostrouting check, start to end", bench.times(methods, rounds=20), ours, other, 5)


def pyz_row(bench: Bench) -> Iterator[Row]:
    """The command from the single file, beside the installed one."""
    run("make", "-C", str(Path(__file__).resolve().parents[2]), "pyz", f"DIST={bench.folder}")
    ours, other = "hostrouting.pyz", "the installed command"
    single = str(bench.folder / "hostrouting.pyz")
    methods: dict[str, Method] = {
        ours: lambda: run(sys.executable, single, "check", FABRIC, code=1),
        other: lambda: run(sys.executable, "-m", "hostrouting", "check", FABRIC, code=1),
    }
    yield beside("hostrouting.pyz check", bench.times(methods, rounds=20), ours, other, 1.5)


# In the booted system: what systemctl takes for each machine, round by round. The machine is a
# program that does nothing.
START_TIMES = """
for ((round = 0; round < $0; round++)); do for name in bare gated; do
  begin=$EPOCHREALTIME && systemctl start "systemd-nspawn@$name.service" || exit
  echo $((${EPOCHREALTIME/./} - ${begin/./}))
done; done
"""
NOTHING = "[Unit]\nStartLimitIntervalSec=0\n[Service]\nExecStart=\nExecStart=/bin/true\nType=exec\n"


def gate_row(bench: Bench) -> Iterator[Row]:
    """What the gate adds to the start of a machine, under a real systemd."""
    if missing := absent(NEEDS):
        raise RuntimeError(f"it needs {', '.join(missing)}")
    units, drop_ins = "/etc/systemd/system", "systemd-nspawn@{}.service.d"
    files = {f"{units}/{drop_ins.format('')}/90-nothing.conf": NOTHING}
    with host(config(*HALVES, mode="STRICT"), more=files, machines=()) as system:
        system.link(f"{units}/{drop_ins.format('bare')}/00-host-routing.conf", "/dev/null")
        system.must("systemctl", "daemon-reload")
        version = system.must("systemctl", "--version").split()[1]
        times = [
            int(line) / 1e6
            for line in system.must(
                "bash", "-c", START_TIMES, "7" if bench.is_quick else "26"
            ).split()
        ]
    added = [gated - bare for bare, gated in zip(times[2::2], times[3::2], strict=True)]
    yield alone(f"what the gate adds to a start, systemd {version}", added, 0.040)


# What a boot script starts, and the arguments with which that does nothing.
IDLE = {
    "ip": "-V",
    "sed": "p </dev/null",
    "mawk": "'BEGIN {}'",
    "sort": "</dev/null",
    "mv": "--help",
    "rm": "-f",
}
TIMED = 'begin=$EPOCHREALTIME; /bin/bash "$1" >&2; status=$?; echo $((${EPOCHREALTIME/./} - ${begin/./})); exit $status'


def boot_row(bench: Bench) -> Iterator[Row]:
    """The boot scripts for ten CIDRs and routes, beside the programs that they start, with nothing
    to do.
    """
    networks = tuple(ip_network(f"172.16.{16 * number}.0/20") for number in range(10))
    config = HostRoutingConfig(
        StaticRoutesConfig(True, tuple(map(StaticRoute, networks))), RouteOverlapConfig(networks)
    )

    def script(name: str, text: str) -> Method:
        path = bench.folder / name
        path.write_text(text)
        return lambda: int(run("env", "LC_ALL=C", "/bin/bash", "-c", TIMED, name, str(path))) / 1e6

    def measured(work: str, name: str, text: str, before: Method) -> Row:
        noted = bench.folder / f"programs-of-{name}"
        tools = {tool: f'echo {tool} >>{noted}; exec {tool} "$@"' for tool in IDLE}
        before()
        script(name, put_before(text, bench.folder, tools))()
        lines = [f"{tool} {IDLE[tool]} >/dev/null" for tool in noted.read_text().split()]
        idle = "\n".join(["#!/bin/bash", *lines, ""])
        other = "its programs alone"
        methods = {name: script(name, text), other: script(f"alone-{name}", idle)}
        return beside(work, bench.times(methods, rounds=20, before=before), name, other, 3)

    routes, check = render_static_routes_script(config), render_check_script(config)
    flush = partial(run, "ip", "route", "flush", "proto", "213")
    run("mount", "-t", "tmpfs", "none", "/run")  # for locks and markers
    yield measured("boot: 10 routes from nothing", "static-routes.sh", routes, flush)
    script("static-routes.sh", routes)()
    forget = partial(run, "sh", "-c", f"rm -f {HostLayout.state_directory}/*")
    yield measured("boot: check of 10 CIDRs", "check-route-overlap.sh", check, forget)
    run("umount", "/run")
    flush()


def h200_row(bench: Bench) -> Iterator[Row]:
    """One CIDR on the host that all of this is about, by a backend that has read nothing yet."""
    config = HostRoutingConfig(route_overlap=RouteOverlapConfig((ip_network(FABRIC),)))

    def check() -> None:
        with NetlinkBackend(timeout=60) as backend:
            check_kernel(backend, config)

    yield alone("examine an H200 node, in process", bench.times({"": check}, rounds=70)[""], 0.0022)


def in_c(bench: Bench, word: str, messages: Path | None = None) -> Method:
    """The C program, which measures its own time; its input are the messages."""
    program = bench.folder / "netlink_baseline"
    if not program.exists():
        run("cc", "-O2", "-o", str(program), str(Path(__file__).with_name("netlink_baseline.c")))
    return lambda: float(run("sh", "-c", f"exec {program} {word} <{messages or '/dev/null'}"))


def destinations(count: int) -> list[str]:
    """So many neighbouring /28."""
    return [f"20.{place >> 12}.{place >> 4 & 255}.{(place & 15) << 4}/28" for place in range(count)]


def install_row(bench: Bench) -> Iterator[Row]:
    """10,000 routes by one gateway."""
    networks = destinations(10_000)
    index, gateway = socket.if_nametoindex("eth0"), socket.inet_aton(GATEWAY)
    with (bench.folder / "messages").open("wb") as file:
        for number, network in enumerate(networks, 1):
            address, _, length = network.partition("/")
            # RTM_NEWROUTE, to be created, and new
            file.write(struct.pack("=IHHII", 60, 24, 0x601, number, 0))
            fixed = (socket.AF_INET, int(length), 0, 0, 254, 213, 0, 1, 0)
            file.write(struct.pack("=BBBBBBBBI", *fixed))
            file.write(struct.pack("=HH4s", 8, 1, socket.inet_aton(address)))
            file.write(struct.pack("=HH4sHHIHHI", 8, 5, gateway, 8, 4, index, 8, 6, 100))
    way = f"via {GATEWAY} dev eth0 metric 100 proto 213"
    lines = [f"route add {network} {way}\n" for network in networks]
    (bench.folder / "batch").write_text("".join(lines))
    ours, batch, c = "NetlinkBackend", "ip -batch", "C with encoded messages"
    with NetlinkBackend(timeout=60) as backend:
        route = Route.to(networks[0], dev="eth0", gateway=GATEWAY, metric=100, protocol=213)
        routes = [route._replace(prefix=Prefix.parse(network)) for network in networks]
        changes = [RouteRequest("add", route) for route in routes]
        methods: dict[str, Method] = {
            ours: partial(backend.change, changes),
            batch: lambda: run("ip", "-batch", str(bench.folder / "batch")),
            c: in_c(bench, "send", bench.folder / "messages"),
        }
        times = bench.times(methods, rounds=9, before=empty)
    empty()
    for other, limit in ((batch, 1 / 2.3), (c, 1.6)):
        yield beside("install 10,000 routes", times, ours, other, limit)


def read_row(bench: Bench) -> Iterator[Row]:
    """10,000 routes of which 100 are asked for, and all of them made into objects."""
    networks = destinations(10_000)
    ip(*(f"route add {network} via {GATEWAY} dev eth0 metric 100" for network in networks))
    some, every, c, parsed = "100 of them", "all of them", "C", "ip -j"
    command = ("ip", "-4", "-N", "-j", "-d", "route", "show", "table", "all")
    with NetlinkBackend(timeout=60) as backend:
        methods: dict[str, Method] = {
            some: partial(backend.snapshot, family=4, near=[*map(Prefix.parse, networks[::100])]),
            every: partial(backend.snapshot, family=4),
            c: in_c(bench, "dump"),
            parsed: lambda: json.loads(run(*command)),
        }
        times = bench.times(methods, rounds=15)
    empty()
    yield beside("read 10,000 routes, 100 asked for", times, some, c, 4)
    yield beside("read 10,000 routes, 100 asked for", times, some, parsed, 1 / 3)
    yield beside("read 10,000 routes, all made", times, every, parsed, 1)


def cidrs_row(bench: Bench) -> Iterator[Row]:
    """100 CIDRs among 100,000 routes of the usual lengths, some inside others."""
    rng, space = random.Random(213), Prefix.parse("30.0.0.0/8")  # noqa: S311  the same ones every time

    def some(count: int, *lengths: int) -> list[Prefix]:
        prefixes: set[Prefix] = set()
        while len(prefixes) < count:
            prefixes.add(
                Prefix.around(IPV4, rng.randrange(space.first, space.last), rng.choice(lengths))
            )
        return sorted(prefixes)

    routes = some(100_000, 16, 20, 22, 24, 24, 24, 28, 32)
    ip(
        *(
            f"route add {prefix} via {GATEWAY} dev eth0 proto {rng.choice(['bgp', 'bird'])}"
            for prefix in routes
        )
    )
    cidrs = some(100, 24)
    loop = 'for address in "$@"; do ip route get "$address" >/dev/null; done'
    addresses = [str(cidr.ip) for cidr in cidrs]
    ours, other = "the check", "ip route get for each"
    config = HostRoutingConfig(
        route_overlap=RouteOverlapConfig(tuple(map(Prefix.to_network, cidrs)))
    )
    with NetlinkBackend(timeout=60) as backend:

        def check() -> None:
            check_snapshot(backend.snapshot(near=cidrs, family=4, reached=True), config)

        methods: dict[str, Method] = {
            ours: check,
            other: lambda: run("bash", "-c", loop, "", *addresses),
        }
        times = bench.times(methods, rounds=9)
    empty()
    yield beside("check 100 CIDRs among 100,000 routes, with the snapshot", times, ours, other, 1)


def fleet_row(bench: Bench) -> Iterator[Row]:
    """10,000 snapshots of nodes, each with addresses of its own, judged by the command on two
    processors.
    """
    count, nodes = 1_000 if bench.is_quick else 10_000, bench.folder / "nodes"
    nodes.mkdir()
    text = h200().snapshot().to_json()
    for number in range(count):
        own = text.replace('"10.0.0.', f'"10.{number // 250}.{number % 250}.')
        (nodes / f"node-{number:05}.json").write_text(
            own.replace("172.16.1.10", f"172.16.{number >> 8}.{number & 255}")
        )
    command = [
        "taskset",
        "-c",
        "0,1",
        sys.executable,
        "-m",
        "hostrouting",
        "check",
        "--snapshots",
        str(nodes),
        FABRIC,
    ]
    times = bench.times({"": lambda: run(*command, code=1)}, rounds=3)[""]
    yield alone(f"{count:,} snapshots of nodes, 2 processes", times, 10.0 * count / 10_000)


def suite_row(bench: Bench) -> Iterator[Row]:
    """The whole suite, as `make test` runs it."""
    if bench.is_quick:
        raise RuntimeError("--quick leaves it out")
    began = time.perf_counter()
    run("make", "-C", str(Path(__file__).resolve().parents[2]), "test")
    yield alone(f"the suite on {os.cpu_count()} cores", [time.perf_counter() - began], 110)


ROWS = {
    name.removesuffix("_row"): row for name, row in list(globals().items()) if name.endswith("_row")
}


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="make bench", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("rows", nargs="*", metavar="ROW", choices=[*ROWS, []], help=", ".join(ROWS))
    parser.add_argument(
        "--quick", action="store_true", help="fewer rounds, fewer snapshots, and no suite"
    )
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if not asked.inside:  # as a new process, which has one thread, in a namespace of its own
        user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        program = [sys.executable, "-m", "tests.benchmarks.bench", "--inside", *sys.argv[1:]]
        os.execvp("unshare", ["unshare", "--net", "--mount", *user, *program])  # noqa: S606  its arguments are ours
    ip(*commands_of(h200()))
    cells: list[Row] = [("work", "measured", "goal", "of the goal")]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:  # in memory, as /run is
        bench = Bench(Path(folder), asked.quick)
        for name in asked.rows or ROWS:
            try:
                cells += ROWS[name](bench)
            except (RuntimeError, OSError) as reason:
                cells.append((name, f"not measured: {reason}"[:200].splitlines()[0], "", ""))
            sys.stderr.write(f"{name} is done\n")
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        sys.stdout.write(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            + "\n"
        )


if __name__ == "__main__":
    main()
