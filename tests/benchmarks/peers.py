"""The peers: what else one could do the same work with, each as a method that can take its turn.

Here: `ip -batch`, `ip -j`, a bash loop of `ip route get`, plain pyroute2, and the kernel's own cost, which is what a
small C program needs that sends the same messages, encoded beforehand. It is compiled on the spot.
"""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, TypeAlias

from hostrouting.model.prefix import IPV4
from hostrouting.model.route import Route

__all__ = [
    "BATCH",
    "IN_C",
    "JSON",
    "LOOP",
    "PYROUTE2",
    "Method",
    "compile_baseline",
    "ip_batch",
    "ip_json",
    "loop_of_route_get",
    "plain_pyroute2",
    "run_baseline",
]

# Does the work once; a float that it answers is the seconds that it took by its own clock.
Method: TypeAlias = "Callable[[], object]"

IN_C, BATCH, JSON, LOOP, PYROUTE2 = "C", "ip -batch", "ip -j", "ip route get for each", "pyroute2"
_AF_INET = 2
_LOOP = """\
begin=$EPOCHREALTIME
for address in "$@"; do ip route get "$address" >/dev/null; done
echo $(( ${EPOCHREALTIME/./} - ${begin/./} ))
"""


def compile_baseline(folder: Path) -> Path | None:
    """The C program, compiled into the folder; None where there is no compiler."""
    if shutil.which("cc") is None:
        return None
    program = folder / "baseline"
    source = Path(__file__).with_name("netlink_baseline.c")
    subprocess.run(["cc", "-O2", "-o", str(program), str(source)], check=True)
    return program


def run_baseline(program: Path | None, *arguments: str) -> dict[str, Method]:
    """The C program, which measures its own time; nothing if it could not be compiled."""

    def run() -> float:
        done = subprocess.run([str(program), *arguments], check=True, capture_output=True, text=True)
        return float(done.stdout.split()[0])

    return {} if program is None else {IN_C: run}


def ip_batch(folder: Path, lines: Iterable[str]) -> Method:
    """`ip -batch` with these lines, which are left in a file of their own in the folder."""
    with NamedTemporaryFile("w", dir=folder, delete=False, encoding="ascii") as file:
        file.writelines(f"{line}\n" for line in lines)
    command = ["ip", "-batch", file.name]
    return lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def ip_json(*objects: str, family: int = IPV4) -> Method:
    """What `ip` tells programs of these, parsed, a process each; of "route" that is all tables."""
    words = {"route": ["route", "show", "table", "all"], "rule": ["rule", "show"]}
    commands = [["ip", f"-{family}", "-N", "-j", "-d", *words.get(name, [name])] for name in objects]

    def run() -> None:
        for command in commands:
            json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)

    return run


def loop_of_route_get(addresses: Sequence[str]) -> Method:
    """A bash loop that asks the kernel for each address; the start of bash does not count."""

    def run() -> float:
        command = ["bash", "-c", _LOOP, "bash", *addresses]
        return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout) / 1e6

    return run


class PlainPyroute2:
    """What pyroute2 does with many routes."""

    def __init__(self, iproute: Any) -> None:
        """Take an open IPRoute."""
        self._iproute = iproute

    def add(self, routes: Iterable[Route]) -> Method:
        """One call for each route."""
        (index,) = self._iproute.link_lookup(ifname="eth0")
        common = {"oif": index, "proto": 213}
        calls = [
            {"dst": str(route.prefix), "gateway": str(route.legs[0].gateway), "priority": route.metric, **common}
            for route in routes
        ]

        def run() -> None:
            for call in calls:
                self._iproute.route("add", **call)

        return run

    def read_routes(self) -> None:
        """All routes, decoded."""
        for _ in self._iproute.get_routes(family=_AF_INET):
            pass

    def read_all(self) -> None:
        """Links, addresses, rules and routes, decoded."""
        it = self._iproute
        for _ in (*it.get_links(), *it.get_addr(), *it.get_rules(family=_AF_INET), *it.get_routes(family=_AF_INET)):
            pass


@contextmanager
def plain_pyroute2() -> Iterator[PlainPyroute2]:
    """pyroute2 as its documentation shows it."""
    # By name at run time: it has no types that an import statement could give us.
    pyroute2: Any = import_module("pyroute2")
    with pyroute2.IPRoute() as iproute:
        yield PlainPyroute2(iproute)
