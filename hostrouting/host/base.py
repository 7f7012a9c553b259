"""What the files of a host and their locks have to do, whatever they are. `files` has those of a
machine or an image, and `hostrouting.testing` those for tests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from hostrouting.host.layout import HostLayout
from hostrouting.text import command_of, grouped, spoken

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hostrouting.host.files import Entry


class LockHolder(NamedTuple):
    """A process that has the lock of a file."""

    pid: int
    name: str
    service: str = ""
    """The service that it belongs to, if it does: the gate is a process of the unit that starts."""
    is_of_all: bool = False
    """Whether each process of that service has the lock, so that nothing else ends with it."""

    def __str__(self) -> str:
        words = f"process {self.pid} ({self.name})"
        return f"{words} of {self.service}" if self.service else words

    @property
    def to_end(self) -> tuple[str, str]:
        """The command that ends it, and of what. A service that is here for the lock is stopped:
        its processes change, and systemd would start the guard again. Any other service goes on.
        """
        if self.is_of_all or self.service in HostLayout.units:
            return "systemctl stop", self.service
        return "kill", str(self.pid)


def command_to_end(holders: Iterable[LockHolder]) -> str:
    """The command that ends these processes."""
    by_command = grouped(holder.to_end for holder in holders)
    commands = sorted(by_command, reverse=True)  # a killed process of a service may come again
    return " && ".join(command_of(command, *by_command[command]) for command in commands)


def in_words(holders: Iterable[LockHolder]) -> str:
    """These processes; of those that end together, the first."""
    first_of: dict[tuple[str, str], str] = {}
    for holder in holders:
        first_of.setdefault(holder.to_end, str(holder))
    return spoken([*first_of.values()])


class Files(Protocol):
    """The files of a host. Paths are absolute, as the host sees them; a HostError names the path
    and the remedy. A path that no host could have is a ValueError.

    No method waits, whatever is at the path. Whoever writes, links or removes holds the lock of the
    host (`Host.locked`), if another process may do so at the same time.
    """

    def read(self, path: str) -> str | None:
        """The text of a file; None if it is absent, or a link to a missing file. Bytes that are not
        UTF-8 become lone surrogates, of which `write` makes the same bytes.

        A link to /dev/null, by which systemd masks a unit, is read as an empty file. Anything else
        that is not a regular file raises HostError.
        """

    def read_bytes(self, path: str) -> bytes | None:
        """The content of a file, as `read` has its text."""

    def look(self, path: str) -> Entry | None:
        """What the path is; None if it is absent."""

    def names(self, folder: str) -> tuple[str, ...]:
        """The names in a folder, sorted; empty if the folder is absent."""

    def write(self, path: str, content: str | bytes, *, mode: int = 0o644) -> None:
        """Replace the file or create it, with the missing folders. Atomic, even if the host loses
        power.

        Raises HostError if anything but a regular file is there: nothing is written through a link.
        """

    def link(self, path: str, target: str) -> None:
        """Make the path a symbolic link, atomically; it replaces a file or link. Missing folders
        are created.
        """

    def remove(self, path: str) -> bool:
        """Remove whatever is at the path, and what a killed writer of it has left; False if it was
        absent, HostError for a folder.
        """

    def remove_empty(self, folder: str) -> None:
        """Remove the folder if it exists and is empty. A link to a folder stays."""

    def why_unwritable(self, folder: str, *, needs_space: bool = True) -> str:
        """Why root cannot write into the folder, which may be absent; empty if it can. Only an
        attempt is certain. To remove a file from it, no space is needed.
        """

    def lock(self, path: str, wake: Callable[[], object]) -> Lock:
        """Take the lock of this file, or begin to wait for it if another process has it; `wake` is
        called in another thread when it is held.

        A missing file is created. The path "/" is the lock of the root folder. The end of the
        process releases a lock.
        """

    def lock_holders(self, path: str) -> tuple[LockHolder, ...]:
        """The processes that have the lock of this file. Of those that this process may look at:
        for root, all in its pid namespace.
        """


class Lock(Protocol):
    """The lock of a file: held, or awaited."""

    def is_held(self) -> bool:
        """Whether it is held by now; quick, so that a wait can ask."""

    def release(self) -> None:
        """Give it back, or end the wait for it. Only once."""
