"""How long a keeper of routes takes after each kind of drift: the guard, and other ways to keep a host's routes.

    python -m tests.benchmarks.guard --kinds deleted rule --nodes 4 --rounds 250
    python -m tests.benchmarks.guard --keepers guard loop keepalived frr --nodes 1 --rounds 3 --pause 25

Each node is a private network and mount namespace with a keeper. A round is one change, the time until the keeper has
repaired or reported it, the opposite change, and the time until all is right again. The fabric's foreign routes are
compared after each round. Not part of `make bench`: a thousand rounds of each kind take half an hour.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from tests.support.machine import H200, ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

STATE = Path("/run/aks-flex-node/guard.json")
HALVES = ("172.16.0.0/17", "172.16.128.0/17")
MANY = tuple(f"10.{number // 250 + 100}.{number % 250}.0/24" for number in range(300))
GATEWAY = "10.0.0.1"
LIMIT = 75.0  # seconds
_SETUP = """
mount --make-rprivate /
mount -t tmpfs tmpfs /run && mkdir -p /run/lock
mount -t tmpfs tmpfs /etc/aks-flex-node 2>/dev/null || { mkdir -p /etc/aks-flex-node && mount -t tmpfs tmpfs /etc/aks-flex-node; }
for place in /etc/systemd /etc/iproute2; do mkdir -p "$place"; mount -t tmpfs tmpfs "$place"; done
exec "$@"
"""


def ip(*lines: str) -> None:
    """Carry out these lines of `ip`."""
    subprocess.run(["ip", "-batch", "-"], input="\n".join(lines) + "\n", text=True, check=True, capture_output=True)


class Node:
    """The inside of one node: the present routes, the keeper's word, and what is right."""

    def __init__(self, keeper: str) -> None:
        """Open a socket, which stays open."""
        self.keeper = keeper
        self.socket: Any = import_module("pyroute2").IPRoute()
        self.gateway = GATEWAY
        self.fabric = self.foreign()

    def routes(self) -> dict[tuple[str, int], tuple[str, int, int]]:
        """All unicast routes of table main by destination and metric: gateway, device, protocol."""
        found = {}
        for it in self.socket.get_routes(family=socket.AF_INET, table=254):
            told = dict(it["attrs"])
            name = f"{told.get('RTA_DST', 'default')}/{it['dst_len']}"
            key = (name, told.get("RTA_PRIORITY", 0))
            found[key] = (told.get("RTA_GATEWAY", ""), told.get("RTA_OIF", 0), it["proto"])
        return found

    def foreign(self) -> list[Any]:
        """The routes of the fabric."""
        return sorted((key, value) for key, value in self.routes().items() if value[2] == 2)

    def has(self, prefix: str) -> bool:
        """Whether the wanted route to this destination is there, and no other."""
        found = {key[1]: value[0] for key, value in self.routes().items() if key[0] == prefix}
        return found == {0: self.gateway}

    def has_all(self) -> bool:
        """Whether every wanted route is there."""
        found = self.routes()
        return all(found.get((prefix, 0), ("",))[0] == self.gateway for prefix in (*HALVES, *MANY))

    def word(self) -> dict[str, Any]:
        """What the guard has written."""
        with suppress(OSError, ValueError):
            found: dict[str, Any] = json.loads(STATE.read_text())
            return found
        return {}


@attrs.frozen
class Kind:
    """One kind of drift: the change, when it counts as handled, the opposite, and when all is right again."""

    change: Callable[[Node, str], None]
    handled: Callable[[Node, str], bool]
    back: Callable[[Node, str], None] = lambda _node, _key: None
    right: Callable[[Node, str], bool] = lambda _node, _key: True
    reports: bool = False
    """Whether it is only reported; other keepers have no word for that."""


def _sysctl(name: str, value: int) -> None:
    Path(f"/proc/sys/net/ipv4/conf/{name}").write_text(str(value))


def _down(_node: Node, _key: str) -> None:
    ip("link set eth0 down", "link set eth0 up", f"route add default via {GATEWAY} dev eth0 proto dhcp")


def _address(_node: Node, _key: str) -> None:
    ip("address del 10.0.0.4/24 dev eth0", "address add 10.0.0.4/24 dev eth0")
    ip(f"route add default via {GATEWAY} dev eth0 proto dhcp")


def _gateway(node: Node, _key: str) -> None:
    node.gateway = "10.0.0.2" if node.gateway == GATEWAY else GATEWAY
    ip(f"route replace default via {node.gateway} dev eth0 proto dhcp")


def _flush(_node: Node, _key: str) -> None:
    subprocess.run(["nft", "flush", "ruleset"], check=True)


def _has_table(_node: Node, _key: str) -> bool:
    done = subprocess.run(["nft", "list", "table", "ip6", "hostrouting_slb"], check=False, capture_output=True)
    return done.returncode == 0


def _says(verdict: str) -> Callable[[Node, str], bool]:
    return lambda node, _key: bool(node.word().get("verdict") == verdict)


KINDS: dict[str, Kind] = {
    "deleted": Kind(lambda _, key: ip(f"route del {key}"), lambda node, key: node.has(key)),
    "metric": Kind(
        lambda _, key: ip(f"route del {key}", f"route add {key} via {GATEWAY} dev eth0 proto 213 metric 50"),
        lambda node, key: node.has(key),
    ),
    "replaced": Kind(
        lambda _, key: ip(f"route replace {key} dev ib0 proto static"),
        lambda node, key: any(it.startswith(key) for it in node.word().get("problems", ())),
        lambda _, key: ip(f"route del {key} dev ib0 proto static"),
        lambda node, key: node.has(key),
        reports=True,
    ),
    "down": Kind(_down, lambda node, _: node.has_all()),
    "address": Kind(_address, lambda node, _: node.has_all()),
    "gateway": Kind(_gateway, lambda node, _: node.has_all()),
    "carrier": Kind(
        lambda *_: ip("link set peer-eth0 down"),
        _says("no-default-route"),
        lambda *_: ip("link set peer-eth0 up"),
        _says("ok"),
        reports=True,
    ),
    "late": Kind(
        lambda *_: ip("address add 172.16.200.1/24 dev ib1"),
        _says("overlap"),
        lambda *_: ip("address del 172.16.200.1/24 dev ib1"),
        _says("ok"),
        reports=True,
    ),
    "rule": Kind(
        lambda *_: ip("rule add to 172.16.5.0/24 lookup 100 priority 1000"),
        _says("overlap"),
        lambda *_: ip("rule del to 172.16.5.0/24 lookup 100 priority 1000"),
        _says("ok"),
        reports=True,
    ),
    "nft": Kind(_flush, _has_table),
}

SPARING = {"down", "address", "gateway", "nft"}
"""Kinds that change the same keys each time: more than three rounds a minute would be a fight."""


def configuration(kind: str) -> dict[str, Any]:
    """The configuration of a node."""
    document: dict[str, Any] = {
        "staticRoutes": {"enabled": True, "routes": [{"destination": it} for it in (*HALVES, *MANY)]},
        "routeOverlap": {"expectedCidrs": ["172.16.0.0/16"], "mode": "STRICT"},
    }
    if kind == "nft":
        document["probeRewrite"] = {"enabled": True, "interfaces": ["eth0"], "condition": "always"}
    return document


def start(keeper: str, kind: str) -> subprocess.Popen[bytes]:
    """Install the routes, and start what keeps them."""
    config = Path("/run/agent.json")
    config.write_text(json.dumps(configuration(kind)))
    hostrouting = [sys.executable, "-m", "hostrouting"]
    subprocess.run([*hostrouting, "apply", "--config", str(config), "--wait", "0"], check=True, capture_output=True)
    routes = [f"route replace {it} via {GATEWAY} dev eth0 proto 213" for it in (*HALVES, *MANY)]
    match keeper:
        case "guard":
            command = [*hostrouting, "guard"]
        case "deaf":
            command = [sys.executable, "-c", _DEAF]
        case "loop":
            Path("/run/routes").write_text("\n".join(routes) + "\n")
            command = ["bash", "-c", "while :; do ip -force -batch /run/routes; sleep 60; done"]
        case "keepalived":
            lines = "\n".join(f"    {it} via {GATEWAY} dev eth0" for it in (*HALVES, *MANY))
            Path("/run/keepalived.conf").write_text(f"static_routes {{\n{lines}\n}}\n")
            command = ["keepalived", "-n", "-f", "/run/keepalived.conf", "-p", "/run/keepalived.pid"]
        case "frr":
            command = ["bash", "-c", _frr()]
        case _:
            raise ValueError(keeper)
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)


# A guard whose sockets hear nothing: what it repairs, it finds by its regular looks.
_DEAF = """\
import socket, sys
from hostrouting.backends.netlink.watching import NetlinkWatch
from hostrouting.cli import main
real = NetlinkWatch._open
def deaf(watch):
    real(watch)
    watch._socket.close()
    watch._socket, watch._other = socket.socketpair()
    watch._socket.settimeout(0)
NetlinkWatch._open = deaf
sys.exit(main(["guard"]))
"""


def _frr() -> str:
    lines = "\n".join(f"ip route {it} {GATEWAY} eth0" for it in (*HALVES, *MANY))
    Path("/run/frr.conf").write_text(f"{lines}\n")
    folder = "/usr/lib/frr"
    return (
        "mkdir -p /run/frr /var/run/frr; chown -R frr:frr /run/frr; "
        f"{folder}/zebra -d -A 127.0.0.1 -f /run/frr.conf && exec {folder}/staticd -A 127.0.0.1 -f /run/frr.conf"
    )


def inside(keeper: str, name: str, rounds: int, pause: float) -> None:
    """Run the rounds of one node, and print the seconds of each."""
    kind = KINDS[name]
    ip(*H200, "route add default dev ib2 table 100")
    for dev in ("all", "eth0"):
        _sysctl(f"{dev}/ignore_routes_with_linkdown", 1)
    with start(keeper, name) as process:
        node = Node(keeper)
        try:
            _await(node, "", lambda it, _: it.has_all() and (keeper not in {"guard", "deaf"} or bool(it.word())))
            time.sleep(2)
            times = []
            for number in range(rounds):
                key = MANY[number % len(MANY)]
                time.sleep(pause * random.uniform(0.8, 1.2))  # noqa: S311  no secret
                node.fabric = node.foreign()
                kind.change(node, key)
                first = _await(node, key, kind.handled)
                kind.back(node, key)
                second = _await(node, key, kind.right)
                touched = node.foreign() != node.fabric
                times.append((first, second, touched))
            sys.stdout.write(json.dumps(times))
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def _await(node: Node, key: str, holds: Callable[[Node, str], bool]) -> float | None:
    """The seconds until it holds; None if it never does."""
    begun = time.monotonic()
    while not holds(node, key):
        if time.monotonic() - begun > LIMIT:
            return None
        time.sleep(0.005)
    return time.monotonic() - begun


def measure(keeper: str, kind: str, *, nodes: int, rounds: int, pause: float) -> str:
    """One line: of how many rounds how many were handled, and after which time."""
    words = ["unshare", "--net", "--mount", "sh", "-c", _SETUP, "sh", sys.executable, "-m", "tests.benchmarks.guard"]
    words += ["--inside", "--keepers", keeper, "--kinds", kind, "--rounds", str(rounds), "--pause", str(pause)]

    def run(_: int) -> list[tuple[float | None, float | None, bool]]:
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
        found: list[tuple[float | None, float | None, bool]] = json.loads(done.stdout)
        return found

    with ThreadPoolExecutor(nodes) as pool:
        results = [it for found in pool.map(run, range(nodes)) for it in found]
    parts = []
    for index, word in enumerate(("handled", "right again")):
        times = sorted(found for it in results if (found := it[index]) is not None)
        if times:
            rank = min(len(times) - 1, int(len(times) * 0.99))
            middle = statistics.median(times)
            parts.append(f"{word} {len(times):,}: p50 {middle:.3f} s, p99 {times[rank]:.3f} s, most {times[-1]:.3f} s")
        else:
            parts.append(f"{word} 0")
    touched = sum(it[2] for it in results)
    return f"{keeper:10} {kind:9} {len(results):,} rounds; {'; '.join(parts)}; foreign routes touched: {touched}"


def main() -> None:
    """Measure each keeper with each kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--keepers", nargs="+", default=["guard"], help="guard, deaf, loop, keepalived, frr")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pause", type=float, default=0.1, help="seconds between two rounds")
    told = parser.parse_args()
    if told.inside:
        inside(told.keepers[0], told.kinds[0], told.rounds, told.pause)
        return
    for kind in told.kinds:
        for keeper in told.keepers:
            if keeper in {"guard", "deaf"} or not (KINDS[kind].reports or kind == "nft"):
                sys.stdout.write(measure(keeper, kind, nodes=told.nodes, rounds=told.rounds, pause=told.pause) + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
