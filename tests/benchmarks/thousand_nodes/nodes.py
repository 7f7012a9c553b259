"""The nodes: private network namespaces, each with an /etc and a /run, and a program that runs a command on one of them.

Here: making nodes, and the way to reach one. Not here: what is wrong on them (`kinds`), and what is run there (`story`).
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tests.support.machine import ROOT
from tests.support.namespace import Namespace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tests.benchmarks.thousand_nodes.kinds import Plan

__all__ = ["Fleet", "Node", "private_fleet"]

T = TypeVar("T")

_CLONE_NEWNET = 0x40000000
_LOADER = Path("/etc/ld.so.cache")
"""What a program needs of /etc: the loader finds libraries with it."""
# Stands in for `ssh NODE COMMAND`, and exits with 255 like ssh if it cannot reach the node. There is no systemd in /run.
_ENTER = """\
#!/bin/sh
while [ "$1" = -o ]; do shift 2; done
node=$HOSTS/$1 && shift
[ -e "$node/net" ] || { echo "ssh: connect to host ${node##*/} port 22: No route to host" >&2; exit 255; }
exec timeout 100 nsenter --net="$node/net" unshare --mount sh -c '
  mount --bind "$0/etc" /etc && mount --bind "$0/run" /run && exec "$@"
' "$node" "$@"
"""


class Node(Namespace):
    """One node, and its network."""

    def __init__(self, plan: Plan, descriptor: int) -> None:
        """The network behind this descriptor, which stays as long as that is open."""
        super().__init__(os.getpid())
        self.plan = plan
        self.path = f"/proc/{self.pid}/fd/{descriptor}"
        self.enter = ("nsenter", f"--net={self.path}")

    def listed(self) -> str:
        """All routes and rules, as `ip` lists them."""
        listed = [self.ip(*words) for words in (("route", "show", "table", "all"), ("rule",))]
        for it in listed:
            it.check_returncode()
        return "".join(it.stdout for it in listed)


class Fleet:
    """All nodes by name, and a directory in which an operator works on them, with so many commands at once."""

    def __init__(self, folder: Path, *, at_once: int) -> None:
        """Begin without a node."""
        self.folder, self.at_once = folder, at_once
        self.nodes: dict[str, Node] = {}
        self._hosts, programs = folder / "hosts", folder / "bin"
        for place in (self._hosts, programs):
            place.mkdir()
        (programs / "enter").write_text(_ENTER)
        (programs / "enter").chmod(0o755)
        if _LOADER.exists():
            shutil.copy(_LOADER, folder)
        self._environment = {
            "HOSTS": str(self._hosts),
            "LC_ALL": "C.UTF-8",
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
        }

    def run(self, words: Sequence[str], *, limit: float = 110) -> subprocess.CompletedProcess[str]:
        """Run a command in the directory; `enter NODE COMMAND…` runs one on a node."""
        return subprocess.run(
            words,
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=limit,
        )

    def each(self, work: Callable[[Node], T], names: Iterable[str]) -> dict[str, T]:
        """Do this for each of these nodes, several at once."""
        named = list(names)
        with ThreadPoolExecutor(self.at_once) as pool:
            return dict(zip(named, pool.map(lambda name: work(self.nodes[name]), named), strict=True))

    def has_files(self, name: str) -> bool:
        """Whether files were written on a node."""
        place = self._hosts / name
        found = {it for top in ("etc", "run") for it in (place / top).rglob("*") if it.is_file()}
        return bool(found - {place / "etc" / _LOADER.name})

    def add(self, plan: Plan, descriptor: int) -> None:
        """Add the node with this network."""
        node = self.nodes[plan.name] = Node(plan, descriptor)
        place = self._hosts / plan.name
        for top in ("etc", "run"):
            (place / top).mkdir(parents=True)
        if _LOADER.exists():
            (place / "etc" / _LOADER.name).hardlink_to(self.folder / _LOADER.name)
        if plan.kind is None or plan.kind.answers:
            (place / "net").symlink_to(node.path)
        node.batch(plan.lines)


@contextmanager
def private_fleet(folder: Path, plans: Iterable[Plan], *, at_once: int) -> Iterator[Fleet]:
    """Make these nodes. They end with the block, and at the latest with this process."""
    fleet = Fleet(folder, at_once=at_once)
    plans = tuple(plans)
    networks: list[int] = []
    try:
        # The thread that makes them is in the last of them, and ends.
        with ThreadPoolExecutor(1) as maker:
            maker.submit(_make_networks, networks, len(plans)).result()
        with ThreadPoolExecutor(at_once) as pool:
            list(pool.map(fleet.add, plans, networks))
        yield fleet
    finally:
        for it in networks:
            os.close(it)


def _make_networks(found: list[int], count: int) -> None:
    """Add descriptors of so many new network namespaces. This thread stays in the last one."""
    libc = ctypes.CDLL(None, use_errno=True)
    for _ in range(count):
        if libc.unshare(_CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "unshare")
        found.append(os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC))
