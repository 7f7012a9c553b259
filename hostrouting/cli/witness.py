"""What a command saw and did: wrappers around a host's edges that remember. They change nothing on the way.

Here: the last snapshot that was taken, the routes and files that were changed. Not here: what is concluded from them.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Self

import attrs

from hostrouting.errors import FileError, Unsettled
from hostrouting.model import Snapshot
from hostrouting.plan import Step
from hostrouting.uplink import bare_leg

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from types import TracebackType

    from hostrouting.backends.base import Answer, Change, Outcome, RouteBackend, Watch
    from hostrouting.fib import Flow
    from hostrouting.host import Host
    from hostrouting.layout import HostLayout
    from hostrouting.model import IP, Prefix, Route
    from hostrouting.system import Files, Lock

__all__ = ["Observed", "Witness", "WitnessedFiles"]


class Witness:
    """A host, and what was seen of it and done to its files."""

    def __init__(self, host: Host) -> None:
        """Put a wrapper around the edges of this host."""
        self.files = WitnessedFiles(host.files, host.layout)
        self.seen: list[Observed] = []
        self._make = host.backend
        self.host = attrs.evolve(host, files=self.files, backend=None if host.backend is None else self._open)

    def _open(self) -> RouteBackend:
        assert self._make is not None  # noqa: S101  or nobody would be given this
        self.seen.append(Observed(self._make()))
        return self.seen[-1]

    @property
    def last(self) -> Snapshot | None:
        """The last snapshot that was taken, if any was."""
        return next((it.taken for it in reversed(self.seen) if it.taken is not None), None)

    @property
    def steps(self) -> tuple[Step, ...]:
        """What has become of the routes in the end: what was done and undone again is none of it."""
        counts: dict[Route, int] = {}
        for change in (change for it in self.seen for change in it.done):
            # As it was asked for: the state of its legs is the kernel's to say.
            route = attrs.evolve(change.route, legs=tuple(map(bare_leg, change.route.legs)))
            counts[route] = counts.get(route, 0) + (-1 if change.verb == "delete" else 1)
        added = [Step("add", route, "it was not there") for route, count in counts.items() if count > 0]
        return (*added, *(Step("delete", route, "it was there") for route, count in counts.items() if count < 0))


class WitnessedFiles:
    """Files that remember what was changed: `wrote` and `removed`, each path once, but for what passes under /run.

    Both are about the end: a file that was written and then made what it was before is none of them.
    """

    def __init__(self, files: Files, layout: HostLayout) -> None:
        """Wrap these files."""
        self._files = files
        self._passing = {layout.ok_path, layout.detected_path, layout.report_path}
        self._before: dict[str, str | None] = {}
        self._changes: dict[str, int] = {}

    @property
    def wrote(self) -> tuple[str, ...]:
        """The files and links that were made or rewritten."""
        return tuple(path for path in self._lasting() if self._files.is_there(path))

    @property
    def removed(self) -> tuple[str, ...]:
        """The files and links that were removed."""
        return tuple(path for path in self._lasting() if not self._files.is_there(path))

    def _lasting(self) -> Iterator[str]:
        """What is not as it was before. What was changed once is another, if only in its mode or as a link."""
        for path, count in self._changes.items():
            if count == 1 or self._text(path) != self._before[path]:
                yield path

    def _text(self, path: str) -> str | None:
        with suppress(FileError):  # whoever writes it hears why not
            return self._files.read(path)
        return None

    def read(self, path: str) -> str | None:
        """See Files."""
        return self._files.read(path)

    def holds(self, path: str, text: str, *, mode: int = 0o644) -> bool:
        """See Files."""
        return self._files.holds(path, text, mode=mode)

    def leads(self, path: str, target: str) -> bool:
        """See Files."""
        return self._files.leads(path, target)

    def write(self, path: str, text: str, *, mode: int = 0o644) -> bool:
        """See Files."""
        before = self._text(path)
        return self._note(path, before, done=self._files.write(path, text, mode=mode))

    def link(self, path: str, target: str) -> bool:
        """See Files."""
        before = self._text(path)
        return self._note(path, before, done=self._files.link(path, target))

    def remove(self, path: str) -> bool:
        """See Files."""
        before = self._text(path)
        return self._note(path, before, done=self._files.remove(path))

    def is_there(self, path: str) -> bool:
        """See Files."""
        return self._files.is_there(path)

    def names(self, folder: str) -> tuple[str, ...]:
        """See Files."""
        return self._files.names(folder)

    def modified(self, path: str) -> float | None:
        """See Files."""
        return self._files.modified(path)

    def is_frozen(self, path: str) -> bool:
        """See Files."""
        return self._files.is_frozen(path)

    def try_lock(self, path: str) -> Lock | None:
        """See Files."""
        return self._files.try_lock(path)

    def holder(self, path: str) -> str:
        """See Files."""
        return self._files.holder(path)

    def _note(self, path: str, before: str | None, *, done: bool) -> bool:
        if done and path not in self._passing:
            self._before.setdefault(path, before)
            self._changes[path] = self._changes.get(path, 0) + 1
        return done


class Observed:
    """A backend that remembers the last snapshot it gave: what the answer was concluded from."""

    def __init__(self, backend: RouteBackend) -> None:
        """Look through this backend."""
        self._backend = backend
        self.taken: Snapshot | None = None
        self.done: list[Change] = []
        """What was changed, in order."""

    @property
    def last(self) -> Snapshot:
        """The last snapshot, taken now if there is none yet."""
        return self.snapshot(family=4) if self.taken is None else self.taken

    def snapshot(
        self,
        *,
        family: int | None = None,
        table: int | None = None,
        protocol: int | None = None,
        prefixes: Collection[Prefix] | None = None,
    ) -> Snapshot:
        """See RouteBackend."""
        try:
            self.taken = self._backend.snapshot(family=family, table=table, protocol=protocol, prefixes=prefixes)
        except Unsettled as error:
            # Whoever makes do with the last reading has concluded from it.
            self.taken = error.last if isinstance(error.last, Snapshot) else self.taken
            raise
        return self.taken

    def lookup(self, destinations: Sequence[IP], flow: Flow | None = None) -> tuple[Answer, ...]:
        """See RouteBackend."""
        return self._backend.lookup(destinations) if flow is None else self._backend.lookup(destinations, flow)

    def change(self, changes: Iterable[Change]) -> tuple[Outcome, ...]:
        """See RouteBackend."""
        outcomes = self._backend.change(changes)
        self.done += [outcome.change for outcome in outcomes if outcome.ok]
        return outcomes

    def watch(self) -> Watch:
        """See RouteBackend."""
        return self._backend.watch()

    def close(self) -> None:
        """See RouteBackend."""
        self._backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()
