"""A host that logs each access and each change, for --verbose. Its answers are those of the host that it wraps.

Here: the log line for each access and each change. Not here: what is accessed, and why (`commands`, `tasks`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Literal, cast

import attrs

from hostrouting.cli.output import counted, spoken
from hostrouting.inputs import name_of
from phases.text import escaped

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from typing_extensions import Self

    from hostrouting.fib import Flow
    from hostrouting.host import Files, Manager
    from hostrouting.host.host import Host
    from hostrouting.kernel.base import Answer, Outcome, RouteBackend, RouteRequest
    from hostrouting.model import IP, Rule, Snapshot

__all__ = ["tell_sources", "telling"]

_LOG = logging.getLogger("hostrouting")

# By method, with the arguments filled in. Methods that are not listed are not logged: it would not help a reader.
_FILES = {
    "read": "reading {0}",
    "write": "writing {0}, if it differs",
    "link": "linking {0} to {1}, if it differs",
    "remove": "removing {0}, if it exists",
    "try_lock": "taking the lock {0}",
}
_BACKEND = {"watch": "listening for changes in the kernel"}
_MANAGER = {
    "reload": "systemctl daemon-reload",
    "start": "systemctl start {0}",
    "stop": "systemctl stop {0}",
    "state": "asking systemd for the state of {0}",
    "show": "asking systemd for its loaded settings",
}


def telling(host: Host) -> Host:
    """The same host, which logs each access and each change before it is carried out."""
    backend, manager = host.backend, host.manager
    return attrs.evolve(
        host,
        backend=None if backend is None else lambda: cast("RouteBackend", _Backend(backend(), _BACKEND)),
        files=cast("Files", _Telling(host.files, _FILES)),
        manager=None if manager is None else cast("Manager", _Telling(manager, _MANAGER)),
    )


def tell_sources(arguments: argparse.Namespace) -> None:
    """Log where the configuration and the snapshot come from, if there are any."""
    for what, path in (("configuration", "config"), ("snapshot", "snapshot")):
        if (named := getattr(arguments, path, None)) is not None:
            _LOG.info("reading the %s from %s", what, escaped(name_of(named)))


class _Telling:
    """A wrapper of any object that logs calls of some of its methods."""

    def __init__(self, inner: Any, words: Mapping[str, str]) -> None:
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


class _Backend(_Telling):
    """A backend that logs what it reads, asks and changes."""

    def snapshot(self, **asked: Any) -> Snapshot:
        found: Snapshot = self._inner.snapshot(**asked)
        parts = (counted(len(found.links), "link"), _addresses(found.addresses), counted(len(found.rules), "rule"))
        _LOG.info("read from the kernel: %s", spoken([*parts, counted(len(found.routes), "route")]))
        return found

    def lookup(self, destinations: Sequence[IP | str], *flow: Flow) -> tuple[Answer, ...]:
        _LOG.info("asking the kernel for the routes to %s", _addresses(destinations))
        answers: tuple[Answer, ...] = self._inner.lookup(destinations, *flow)
        return answers

    def change(self, changes: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        wanted = tuple(changes)
        _LOG.info("making %s in the kernel", counted(len(wanted), "change"))
        outcomes: tuple[Outcome, ...] = self._inner.change(wanted)
        return outcomes

    def change_rule(self, verb: Literal["add", "delete"], rule: Rule) -> bool:
        _LOG.info("to %s the rule [%s] in the kernel", verb, rule)
        return bool(self._inner.change_rule(verb, rule))

    def __enter__(self) -> Self:
        self._inner.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._inner.__exit__(*error)
