"""One node, from its start to its end: rounds of drift, a storm of changes, or an idle time. Runs inside its namespaces.

Here: what happens in one node, and the figures of it. Not here: how many nodes there are (`__main__`).
"""

import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from hostrouting.kernel.base import RouteRequest
from hostrouting.model.route import Route
from tests.benchmarks.guard.keepers import HALVES, MANY, OTHERS, install
from tests.benchmarks.guard.kinds import KINDS, LOG, Node, ip
from tests.support.machine import H200, ROOT

__all__ = ["Round", "in_a_node", "rounds", "strain"]

LIMIT = 75.0
"""The seconds after which a round counts as not handled."""
_SETUP = """
mount --make-rprivate /
mount -t tmpfs tmpfs /run && mkdir -p /run/lock
for place in /etc/hostrouting /etc/systemd /etc/iproute2; do mkdir -p "$place"; mount -t tmpfs tmpfs "$place"; done
exec "$@"
"""


@attrs.frozen
class Round:
    """One round: the seconds until the drift was handled and until all was right again, and whether a foreign route changed."""

    kind: str
    handled: float | None
    right: float | None
    touched: bool


def in_a_node(*words: str) -> Any:
    """What this module prints as JSON when it is started with these words in namespaces of its own."""
    command = ["unshare", "--net", "--mount", "sh", "-c", _SETUP, "sh", sys.executable, "-m", __name__, *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def prepare(keeper: str, *, rewrite: bool) -> Node:
    """An H200 node with the routes in place and this keeper, which has looked once."""
    ip(*H200, "route add default dev ib2 table 100")
    for dev in ("all", "eth0"):
        Path(f"/proc/sys/net/ipv4/conf/{dev}/ignore_routes_with_linkdown").write_text("1")
    if keeper not in OTHERS or keeper == "nobody":
        install(rewrite=rewrite)
    node = Node(keeper)
    ready = node.wait(lambda: node.has_all() and (keeper in OTHERS or bool(node.word())), limit=LIMIT)
    if ready is None:
        raise RuntimeError(f"{keeper} has not begun within {LIMIT:g} s")
    time.sleep(1)
    return node


def rounds(keeper: str, kinds: Sequence[str], pause: float) -> list[Round]:
    """A round of each of these kinds; then, if we keep them, all routes are compared with those that `ip` lists."""
    node = prepare(keeper, rewrite="nft" in kinds)
    found = []
    try:
        for number, name in enumerate(kinds):
            kind, key = KINDS[name], MANY[number * 7 % len(MANY)]
            time.sleep(pause * random.uniform(0.8, 1.2))  # noqa: S311  no secret
            before = node.foreign()
            begun = time.monotonic()
            kind.change(node, key)
            took = time.monotonic() - begun if name != "killed" else 0.0
            handled = node.wait(partial(kind.handled, node, key), limit=LIMIT)
            kind.back(node, key)
            right = node.wait(partial(kind.right, node, key), limit=LIMIT)
            found.append(Round(name, None if handled is None else took + handled, right, node.foreign() != before))
        if keeper not in OTHERS:
            _compare(node, found)
    finally:
        node.kill()
    return found


def _compare(node: Node, found: Sequence[Round]) -> None:
    """Raise RuntimeError, with the rounds and the log of the keeper, if `ip` lists other routes than the wanted ones beside the kernel's own."""
    told = json.loads(subprocess.run(["ip", "-j", "route"], check=True, capture_output=True, text=True).stdout)
    listed = sorted((it["dst"], it.get("gateway")) for it in told if it.get("protocol") != "kernel")
    wanted = sorted([(half, node.gateway) for half in (*HALVES, *MANY)] + [("default", node.gateway)])
    if listed != wanted:
        differ = sorted(set(listed) ^ set(wanted))[:10]
        raise RuntimeError(f"at the end, these differ: {differ}\n{found}\n{LOG.read_text()[-4000:]}")


def strain(keeper: str, events: int, seconds: float) -> dict[str, float]:
    """So many events a second for so many seconds, with a fault in the middle; or, without events, an idle time."""
    node = prepare(keeper, rewrite=False)
    pid = node.process.pid
    begun, spent = time.monotonic(), _spent(pid)
    sent, repaired, bystander = 0, 0.0, []
    batch = [Route.to(f"198.18.{low // 256}.{low % 256}/32", dev="eth0", table=300, protocol=4) for low in range(500)]
    deleted_at: float | None = None
    while (passed := time.monotonic() - begun) < seconds:
        if events:
            if sent < events * passed:
                node.kernel.change(
                    [*(RouteRequest("add", it) for it in batch), *(RouteRequest("delete", it) for it in batch)]
                )
                sent += 2 * len(batch)
            at = time.monotonic()
            ip("route add 198.19.0.0/16 dev ib3", "route del 198.19.0.0/16 dev ib3")
            bystander.append(time.monotonic() - at)
            if deleted_at is None and passed > seconds / 2 and keeper not in OTHERS:
                ip(f"route del {MANY[0]}")
                deleted_at = time.monotonic()
            if deleted_at is not None and not repaired and node.has(MANY[0]):
                repaired = time.monotonic() - deleted_at
        time.sleep(0.01 if events else 0.5)
    took = time.monotonic() - begun
    share = (_spent(pid) - spent) / took
    if deleted_at is not None and not repaired:
        node.wait(lambda: node.has(MANY[0]), limit=LIMIT)
        repaired = time.monotonic() - deleted_at
    memory = _memory(pid)
    node.kill()
    found = {"events a second": sent / took, "share of a processor": share, "MB of memory": memory}
    if events:
        found |= {"seconds of another program's change": statistics.median(bystander)}
    return found | ({"seconds until a repair": repaired} if deleted_at is not None else {})


def _spent(pid: int) -> float:
    """The processor time of a process and of the children that it has waited for, in seconds."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, words[11:15])) / os.sysconf("SC_CLK_TCK")


def _memory(pid: int) -> float:
    """The resident memory of a process, in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


if __name__ == "__main__":
    what, keeper, *rest = sys.argv[1:]
    if what == "rounds":
        answer: Any = [attrs.astuple(it) for it in rounds(keeper, rest[1].split(","), float(rest[0]))]
    else:
        answer = strain(keeper, int(rest[0]), float(rest[1]))
    sys.stdout.write(json.dumps(answer))
