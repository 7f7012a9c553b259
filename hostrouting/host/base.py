"""What the files of a host and their locks have to do, whatever they are. `files` has those of a
machine or an image, and `hostrouting.testing` those for tests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from hostrouting.host.files import Entry


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

    def is_writable(self, folder: str) -> bool:
        """Whether root can write into this folder, which exists: not on a read-only file system."""

    def remove_empty(self, folder: str) -> None:
        """Remove the folder if it exists and is empty. A link to a folder stays."""

    def lock(self, path: str, wake: Callable[[], object]) -> Lock:
        """Take the lock of this file, or begin to wait for it if another process has it; `wake` is
        called in another thread when it is held.

        A missing file is created. The path "/" is the lock of the root folder. The end of the
        process releases a lock.
        """


class Lock(Protocol):
    """The lock of a file: held, or awaited."""

    def is_held(self) -> bool:
        """Whether it is held by now; quick, so that a wait can ask."""

    def release(self) -> None:
        """Give it back, or end the wait for it. Only once."""
