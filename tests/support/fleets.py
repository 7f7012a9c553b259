"""Fleets for tests: files with snapshots, executors without processes, and judges that end their process."""

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

from hostrouting.config.settings import HostRoutingConfig
from hostrouting.fleet.judge import NodeEscape, NodeResult, Question
from hostrouting.model.prefix import Prefix
from hostrouting.model.snapshot import Snapshot
from hostrouting.routes.uplink import DesiredRoute
from hostrouting.testing import h200

CIDR = "172.16.0.0/16"
DEADLY, ONCE = b"deadly", b"deadly once: "


def config_of(*cidrs: str, **settings: Any) -> HostRoutingConfig:
    """A configuration that expects these CIDRs."""
    return HostRoutingConfig(route_overlap={"expectedCidrs": list(cidrs or [CIDR]), **settings})


ASKED = Question(config_of())


def save(folder: Path, nodes: Mapping[str, Snapshot | str | bytes]) -> Path:
    """Write a file for each node, and return the folder."""
    folder.mkdir(exist_ok=True)
    for name, it in nodes.items():
        text = it if isinstance(it, str | bytes) else it.to_json()
        (folder / f"{name}.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def distinct_nodes(count: int) -> dict[str, str]:
    """H200 nodes with different addresses, each as JSON."""
    text, found = h200().snapshot().to_json(), {}
    for number in range(count):
        mine = text.replace('"10.0.0.', f'"10.{number // 250}.{number % 250}.')
        for dev in range(8):
            old = f"172.16.{dev + 1}.{dev + 10}"
            mine = mine.replace(old, f"172.16.{dev + 1 + 8 * (number % 30)}.{10 + dev + number // 30 % 200}")
        found[f"node-{number:05}"] = mine
    return found


_BLOCK = Prefix.parse(CIDR)
HALVES = tuple(DesiredRoute(it) for it in ("172.16.0.0/17", "172.16.128.0/17"))


def escape(*devs: str, cidr: Prefix = _BLOCK, kind: str = "overlap", part: int = 0, packets: str = "") -> NodeEscape:
    """A range of the CIDR: all of it, or without so many addresses at its end."""
    return NodeEscape(cidr, cidr.first, cidr.last - part, kind, devs, packets)


def node(name: str, *escapes: NodeEscape, repair: tuple[DesiredRoute, ...] = HALVES, whole: bool = True) -> NodeResult:
    """A node where this escapes."""
    return NodeResult(name, verdict="overlap", escapes=escapes, routes=repair if whole else (), is_repairable=whole)


class Inline(Executor):
    """An executor that carries out a call when it is submitted, in this thread; and what it was given."""

    def __init__(self, before: Callable[[list[bytes]], object] = lambda _: None) -> None:
        """`before` gets each batch, and may raise in its place."""
        self._before = before
        self.batches: list[list[bytes]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """See Executor."""
        data = list(args[0])
        self.batches.append(data)
        future: Future[Any] = Future()
        try:
            self._before(data)
            future.set_result(fn(*args, **kwargs))
        except OSError as error:  # the worker is lost
            future.set_exception(error)
        return future


class Slow(Inline):
    """An executor that carries out a call when so many others have been submitted after it."""

    def __init__(self, many: int) -> None:
        """Keep so many calls."""
        super().__init__()
        self._many = many
        self._kept: list[tuple[Future[Any], tuple[Any, ...]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """See Executor."""
        future: Future[Any] = Future()
        self._kept.append((future, (fn, *args)))
        while len(self._kept) >= self._many:
            oldest, call = self._kept.pop(0)
            oldest.set_result(super().submit(*call, **kwargs).result())
        return future


def echo(data: Sequence[bytes], question: Question) -> tuple[NodeResult, ...]:
    """A judge that finds everything in order, and answers with the snapshot itself."""
    del question
    return tuple(NodeResult(verdict="ok", answer=it.decode()) for it in data)


def deadly_judge(data: Sequence[bytes], question: Question) -> tuple[NodeResult, ...]:
    """The same, but some snapshots kill the process: always, or only as long as the file that they name is there."""
    for it in data:
        if it.startswith(ONCE):
            try:
                os.unlink(it.removeprefix(ONCE))
            except FileNotFoundError:
                continue
            os.kill(os.getpid(), signal.SIGKILL)
        if it == DEADLY:
            os.kill(os.getpid(), signal.SIGKILL)
    return echo(data, question)
