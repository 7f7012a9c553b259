"""The undo file of a clean-up: the commands that restore what was deleted. A shell can run it; this module parses it.

Tables, protocols and scopes are written as numbers, because some of their names are configured on each host. Here:
writing and parsing the text. Not here: where the file is, and the undo itself (`task`).
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import attrs

from hostrouting.kernel.ebtables import PROGRAMS
from hostrouting.kernel.neighbours import Neighbour, canonical_mac
from hostrouting.model import IPV6, TABLE_MAIN, NextHop, Prefix, Route, as_ip
from hostrouting.tasks.cleanup.saved_rules import read_saved

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from typing_extensions import Self

    from hostrouting.tasks.cleanup.plan import CleanupEntry

_HEAD = """\
# What hostrouting deleted, because another CNI had left it behind. To restore it, as root:
#   hostrouting clean azure-vnet --undo FILE
# or run this file with sh, but only once: rules that still exist would be added a second time. sh does not find out
# whether a pod has one of the addresses by now: it would be cut off.
"""
_ANY = "ebtables"
"""The program name on a host where ebtables is not named after its backend."""
_MAC = re.compile(r"\b[0-9A-Fa-f]{1,2}(?::[0-9A-Fa-f]{1,2}){5}\b")
_OPTIONS = ("dev", "table", "proto", "scope", "metric", "src", "mtu", "advmss")


@attrs.frozen
class SavedFile:
    """A file that the clean-up changed."""

    copy: str
    """The path of a copy of it as it was before."""
    path: str
    digest: str
    """The SHA-256 of the file as the clean-up left it; if the file has another one, another program wrote it."""
    lock: str
    """The file that is locked while the file is written."""

    def __str__(self) -> str:
        told = shlex.quote(f"{self.digest}  {self.path}")
        inner = f"echo {told} | sha256sum --check --quiet && {shlex.join(['cp', self.copy, self.path])}"
        return shlex.join(["flock", self.lock, "sh", "-c", inner])

    @classmethod
    def parse(cls, lock: str, inner: str) -> Self:
        """The file in such a line; ValueError if the line is another one."""
        match shlex.split(inner):
            case ["echo", told, "|", "sha256sum", "--check", "--quiet", "&&", "cp", copy, path]:
                digest, _, name = told.partition("  ")
                if name == path:
                    return cls(copy, path, digest, lock)
        raise ValueError("it is not a command of an undo file")


@attrs.frozen
class UndoLog:
    """The deleted rules, neighbours and routes (or those about to be deleted), and the changed files."""

    rules: tuple[str, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()
    routes: tuple[Route, ...] = ()
    program: str = _ANY
    """The program that restores the rules: the ebtables of the backend that had them."""
    files: tuple[SavedFile, ...] = ()

    def with_entries(self, entries: Iterable[CleanupEntry]) -> Self:
        """The log of these deletions, in order."""
        entries = tuple(entries)
        things = [entry.thing for entry in entries]
        return attrs.evolve(
            self,
            rules=tuple(str(entry.thing) for entry in entries if entry.kind == "rule"),
            neighbours=tuple(thing for thing in things if isinstance(thing, Neighbour)),
            routes=tuple(_as_asked(thing) for thing in things if isinstance(thing, Route)),
        )

    @property
    def macs(self) -> frozenset[str]:
        """The MAC addresses of all entries: those of the pods that were gone."""
        words = " ".join((*self.rules, *(near.mac for near in self.neighbours)))
        return frozenset(map(canonical_mac, _MAC.findall(words)))

    @property
    def devs(self) -> frozenset[str]:
        """The devices of the deleted neighbours and routes."""
        return frozenset(
            (*(near.dev for near in self.neighbours), *(dev for route in self.routes for dev in route.devs))
        )

    @classmethod
    def parse(cls, text: str) -> Self:
        """The log in this text. Raises ValueError that names the first line that is not part of an undo file."""
        rules, neighbours, routes, programs, files = [], [], [], set(), []
        for number, line in enumerate(text.split("\n"), 1):
            if not line.strip() or line.startswith("#"):
                continue
            try:
                match shlex.split(line):
                    case [program, "-t", "nat", "-A", *words] if program in {_ANY, *PROGRAMS}:
                        rules.append(_rule(" ".join(words)))
                        programs.add(program)
                        if len(programs) > 1:
                            raise ValueError("it names a second ebtables program")  # noqa: TRY301  reported with its line
                    case ["ip", "neigh", "add", ip, "lladdr", mac, "dev", dev, "nud", "permanent"]:
                        neighbours.append(Neighbour(as_ip(ip), mac, dev))
                    case ["ip", "-4" | "-6", "route", "add", prefix, *words]:
                        routes.append(_route(prefix, words))
                    case ["flock", lock, "sh", "-c", inner]:
                        files.append(SavedFile.parse(lock, inner))
                    case _:
                        raise ValueError("it is not a command of an undo file")  # noqa: TRY301  reported with its line
            except ValueError as error:
                raise ValueError(f"line {number}: {error}: {line[:100]!a}") from error
        program = programs.pop() if programs else _ANY
        return cls(tuple(rules), tuple(neighbours), tuple(routes), program, tuple(files))

    def __str__(self) -> str:
        lines = [shlex.join(words) for words in self._commands()]
        return _HEAD + "".join(f"{line}\n" for line in (*map(str, self.files), *lines))

    def _commands(self) -> Iterator[list[str]]:
        for line in self.rules:
            yield [self.program, "-t", "nat", "-A", *line.split()]
        for near in self.neighbours:
            yield ["ip", "neigh", "add", str(near.ip), "lladdr", near.mac, "dev", near.dev, "nud", "permanent"]
        for route in self.routes:
            yield ["ip", f"-{route.prefix.family}", "route", "add", str(route.prefix), *_route_words(route)]


def _as_asked(route: Route) -> Route:
    """The route as in a request, without the state that the kernel reports for its next hop."""
    return attrs.evolve(route, legs=(NextHop(route.devs[0]),))


def _rule(line: str) -> str:
    found = read_saved(f"*nat\n-A {line}").rules
    if not found:
        raise ValueError("it is not a rule")
    return found[0].line


def _route_words(route: Route) -> Iterator[str]:
    yield from ("dev", route.devs[0], "table", str(route.table), "proto", str(route.protocol))
    if route.prefix.family != IPV6:  # an IPv6 route has no scope
        yield from ("scope", str(route.scope))
    yield from ("metric", str(route.metric))
    for name, value in (("src", route.prefsrc), ("mtu", route.mtu), ("advmss", route.advmss)):
        if value is not None:
            yield from (name, str(value))


def _route(prefix: str, words: list[str]) -> Route:
    found = dict(zip(words[::2], words[1::2], strict=False))
    if len(found) * 2 != len(words) or not {"dev", "table", "proto", "metric"} <= found.keys() <= set(_OPTIONS):
        raise ValueError("it is not a route in the form that an undo file has")
    numbers = {name: int(value) for name, value in found.items() if name not in {"dev", "src"}}
    whole = Prefix.parse(prefix)
    if whole.length != whole.ip.max_prefixlen or numbers["table"] != TABLE_MAIN:
        raise ValueError("it is not a route to a single address in table main")
    return Route(
        whole,
        (NextHop(found["dev"]),),
        table=numbers["table"],
        protocol=numbers["proto"],
        scope=numbers.get("scope", 0),
        metric=numbers["metric"],
        prefsrc=as_ip(found["src"]) if "src" in found else None,
        mtu=numbers.get("mtu"),
        advmss=numbers.get("advmss"),
    )
