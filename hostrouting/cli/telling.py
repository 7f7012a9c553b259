"""A host that says on the log what it is asked and told: what --verbose is for. What it answers is the host's own.

Here: the words for each question and each change. Not here: what is asked, and why (`commands`, `tasks`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, cast

import attrs

from hostrouting.cli.page import counted, spoken
from hostrouting.cli.reading import name_of
from phases.text import escaped

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from types import TracebackType

    from typing_extensions import Self

    from hostrouting.backends.base import Answer, Change, Outcome, RouteBackend, Watch
    from hostrouting.fib import Flow
    from hostrouting.host import Host
    from hostrouting.model import IP, Prefix, Snapshot
    from hostrouting.system import Files, Manager

__all__ = ["tell_sources", "telling"]

_LOG = logging.getLogger("hostrouting")

# By the method, with its arguments filled in. What is not here is not told: it would not mean anything to a reader.
_FILES = {
    "read": "reading {0}",
    "write": "writing {0}, where it differs",
    "link": "linking {0} to {1}, where it differs",
    "remove": "removing {0}, where it is there",
    "try_lock": "taking the lock {0}",
}
_MANAGER = {
    "reload": "systemctl daemon-reload",
    "start": "systemctl start {0}",
    "stop": "systemctl stop {0}",
    "state": "asking systemd for the state of {0}",
    "show": "asking systemd what it has in force",
}


def telling(host: Host) -> Host:
    """The same host; each question and each change is told before it is carried out."""
    backend, manager = host.backend, host.manager
    return attrs.evolve(
        host,
        backend=None if backend is None else lambda: _Backend(backend()),
        files=cast("Files", _Telling(host.files, _FILES)),
        manager=None if manager is None else cast("Manager", _Telling(manager, _MANAGER)),
    )


def tell_sources(arguments: argparse.Namespace) -> None:
    """Say from where the configuration and the snapshot come, where there are any."""
    for what, path in (("configuration", "config"), ("snapshot", "snapshot")):
        if (named := getattr(arguments, path, None)) is not None:
            _LOG.info("reading the %s in %s", what, escaped(name_of(named)))


class _Telling:
    """Whatever it is made of, with some of its methods told."""

    def __init__(self, inner: object, words: Mapping[str, str]) -> None:
        self._inner, self._words = inner, words

    def __getattr__(self, name: str) -> Any:
        found, words = getattr(self._inner, name), self._words.get(name)
        return found if words is None else _told(found, words)


def _told(act: Callable[..., Any], words: str) -> Callable[..., Any]:
    def tell(*arguments: Any, **options: Any) -> Any:
        _LOG.info("%s", words.format(*arguments))
        return act(*arguments, **options)

    return tell


def _addresses(of: Sequence[object]) -> str:
    return "1 address" if len(of) == 1 else f"{len(of):,} addresses"


class _Backend:
    """A backend that tells what it has read, asked and changed."""

    def __init__(self, inner: RouteBackend) -> None:
        self._inner = inner

    def snapshot(
        self,
        *,
        family: int | None = None,
        table: int | None = None,
        protocol: int | None = None,
        prefixes: Collection[Prefix | str] | None = None,
    ) -> Snapshot:
        found = self._inner.snapshot(family=family, table=table, protocol=protocol, prefixes=prefixes)
        parts = (counted(len(found.links), "link"), _addresses(found.addresses), counted(len(found.rules), "rule"))
        _LOG.info("read from the kernel: %s", spoken([*parts, counted(len(found.routes), "route")]))
        return found

    def lookup(self, destinations: Sequence[IP | str], *flow: Flow) -> tuple[Answer, ...]:
        _LOG.info("asking the kernel itself for the way to %s", _addresses(destinations))
        return self._inner.lookup(destinations, *flow)

    def change(self, changes: Iterable[Change]) -> tuple[Outcome, ...]:
        wanted = tuple(changes)
        _LOG.info("making %s in the kernel", counted(len(wanted), "change"))
        return self._inner.change(wanted)

    def watch(self) -> Watch:
        _LOG.info("listening to what the kernel says of changes")
        return self._inner.watch()

    def close(self) -> None:
        self._inner.close()

    def __enter__(self) -> Self:
        self._inner.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self._inner.__exit__(kind, error, trace)
