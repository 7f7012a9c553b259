"""The kinds of drift: the change, when it counts as handled, the opposite change, and when all is right again.

Here: changes and conditions. Not here: how often and how fast they follow each other (`life`).
"""

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import attrs

from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.prefix import IPV4
from hostrouting.model.route import TABLE_MAIN
from tests.benchmarks.guard.keepers import GATEWAY, HALVES, MANY, METRICS, command

__all__ = ["KINDS", "LOG", "SPARING", "Kind", "Node", "ip"]

STATE = Path("/run/hostrouting/guard.json")
LOG = Path("/run/keeper.log")
"""What the keeper of a node prints."""
Routes: TypeAlias = "frozenset[tuple[str, int, str, str]]"


def ip(*lines: str) -> None:
    """Carry out these lines of `ip`."""
    subprocess.run(["ip", "-batch", "-"], input="\n".join(lines) + "\n", text=True, check=True, capture_output=True)


class Node:
    """The inside of one node: the present routes, the keeper and its word, and what is right."""

    def __init__(self, keeper: str) -> None:
        """Start the keeper, and listen to the kernel."""
        self.keeper, self.metric = keeper, METRICS.get(keeper, 0)
        self.kernel = NetlinkBackend()
        self.watch = self.kernel.watch()
        self.gateway = GATEWAY
        self.verdict = "ok"
        self.start()

    def start(self) -> None:
        """Start the keeper."""
        with LOG.open("a") as log:
            self.process = subprocess.Popen(command(self.keeper), stdout=log, stderr=log, start_new_session=True)

    def kill(self) -> None:
        """Kill the keeper, and wait for its end."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def routes(self) -> Routes:
        """All routes of table main: destination, metric, gateway and device."""
        snapshot = self.kernel.snapshot(family=IPV4, table=TABLE_MAIN)
        return frozenset(
            (str(route.prefix), route.metric, str(route.legs[0].gateway or ""), route.legs[0].dev or "")
            for route in snapshot.routes
        )

    def foreign(self) -> Routes:
        """The routes of the fabric."""
        return frozenset(route for route in self.routes() if route[3].startswith("ib"))

    def has(self, prefix: str) -> bool:
        """Whether exactly the wanted route to this destination exists."""
        return [route[1:3] for route in self.routes() if route[0] == prefix] == [(self.metric, self.gateway)]

    def has_all(self) -> bool:
        """Whether exactly the wanted routes to these destinations exist, and none by the former gateway."""
        wanted = {*HALVES, *MANY}
        found = [route for route in self.routes() if route[0] in wanted]
        return len(found) == len(wanted) and all(it[1:3] == (self.metric, self.gateway) for it in found)

    def word(self) -> dict[str, Any]:
        """What the guard has written."""
        with suppress(OSError, ValueError):
            found: dict[str, Any] = json.loads(STATE.read_text())
            return found
        return {}

    def wait(self, holds: Callable[[], bool], *, limit: float) -> float | None:
        """The seconds until it holds; None if it does not within the limit."""
        begun = time.monotonic()
        while not holds():
            if time.monotonic() - begun > limit:
                return None
            self.watch.wait(0.03)
        return time.monotonic() - begun


@attrs.frozen
class Kind:
    """One kind of drift."""

    change: Callable[[Node, str], None]
    handled: Callable[[Node, str], bool]
    back: Callable[[Node, str], None] = lambda _node, _key: None
    right: Callable[[Node, str], bool] = lambda _node, _key: True
    reports: bool = False
    """Whether it is only reported; other keepers have no word for that."""


def _down(node: Node, _key: str) -> None:
    ip("link set eth0 down", "link set eth0 up", f"route add default via {node.gateway} dev eth0 proto dhcp")


def _address(node: Node, _key: str) -> None:
    ip("address del 10.0.0.4/24 dev eth0", "address add 10.0.0.4/24 dev eth0")
    ip(f"route add default via {node.gateway} dev eth0 proto dhcp")


def _gateway(node: Node, _key: str) -> None:
    node.gateway = "10.0.0.2" if node.gateway == GATEWAY else GATEWAY
    ip(f"route replace default via {node.gateway} dev eth0 proto dhcp")


def _flush(_node: Node, _key: str) -> None:
    subprocess.run(["nft", "flush", "ruleset"], check=True)


def _has_table(_node: Node, _key: str) -> bool:
    done = subprocess.run(["nft", "list", "table", "ip6", "hostrouting_slb"], check=False, capture_output=True)
    return done.returncode == 0


def _killed(node: Node, key: str) -> None:
    """A change during whose repair the guard is killed, at any moment; then the guard is started again."""
    number = MANY.index(key)
    ip(*(f"route del {MANY[(number + more) % len(MANY)]}" for more in range(20)))
    time.sleep(random.uniform(0, 0.3))  # noqa: S311  no secret
    node.kill()
    node.start()


def _says(verdict: str) -> Callable[[Node, str], bool]:
    return lambda node, _key: bool(node.word().get("verdict") == verdict)


def _is_right(node: Node, _key: str) -> bool:
    return node.has_all() and node.word().get("verdict") == "ok"


def _reported(verdict: str, change: str, back: str) -> Kind:
    """A change by one line of `ip`, after which the guard says this verdict, and the line that takes it back."""
    return Kind(lambda *_: ip(change), _says(verdict), lambda *_: ip(back), _says("ok"), reports=True)


KINDS: dict[str, Kind] = {
    "deleted": Kind(lambda _, key: ip(f"route del {key}"), lambda node, key: node.has(key)),
    "metric": Kind(
        lambda node, key: ip(f"route del {key}", f"route add {key} via {node.gateway} dev eth0 proto 213 metric 50"),
        lambda node, key: node.has(key),
    ),
    "replaced": Kind(
        lambda _, key: ip(f"route replace {key} dev ib0 proto static"),
        lambda node, key: any(finding["target"] == key for finding in node.word().get("findings", ())),
        lambda _, key: ip(f"route del {key} dev ib0 proto static"),
        lambda node, key: node.has(key),
        reports=True,
    ),
    "down": Kind(_down, lambda node, _: node.has_all()),
    "address": Kind(_address, lambda node, _: node.has_all()),
    "gateway": Kind(_gateway, lambda node, _: node.has_all()),
    "carrier": _reported("no-default-route", "link set peer-eth0 down", "link set peer-eth0 up"),
    "late": _reported("overlap", "address add 172.16.200.1/24 dev ib1", "address del 172.16.200.1/24 dev ib1"),
    "rule": _reported(
        "overlap", *(f"rule {verb} to 172.16.5.0/24 lookup 100 priority 1000" for verb in ("add", "del"))
    ),
    "nft": Kind(_flush, _has_table),
    "killed": Kind(_killed, _is_right),
}

SPARING = frozenset({"down", "address", "gateway", "nft"})
"""Kinds that change the same keys each time: the guard repairs each key ten times, then once a minute."""
