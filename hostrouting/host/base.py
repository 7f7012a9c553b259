"""The contract of a host's files and their locks. `host.files` has those of a machine or an image,
and `hostrouting.testing` those for tests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from hostrouting.host.files import Entry


class Files(Protocol):
    """The files of a host. Paths are absolute, as the host sees them; a HostError names the path
    and the remedy. A path that no host could have is a ValueError.

    No method waits, even if a fifo or a file with a lease is at the path. A caller that writes,
    links or removes holds the lock of the host (`Host.locked`), unless no other process can do so
    at the same time.
    """

    def read(self, path: str) -> str | None:
        """The text of a file; None if it is absent, or a link to a missing file. Bytes that are not
        UTF-8 become lone surrogates, which `write` turns back into the same bytes.

        A link to /dev/null, by which systemd masks a unit, is read as an empty file. Anything else
        that is not a regular file raises HostError, and so does a file on which another process has
        a lease (fcntl(2)).
        """

    def read_bytes(self, path: str) -> bytes | None:
        """The content of a file as bytes; None if it is absent. Links and special files are treated
        as in `read`. Of a file over 16 MB, only the first 16 MB are read: no file of ours is as
        long.
        """

    def look(self, path: str) -> Entry | None:
        """What is at the path, without following a link there (lstat); None if it is absent."""

    def names(self, folder: str) -> tuple[str, ...]:
        """The names in a folder, sorted; empty if the folder is absent."""

    def write(self, path: str, content: str | bytes, *, mode: int = 0o644) -> None:
        """Write the whole file, atomically, even if the host loses power. A missing file is
        created, and so are missing folders.

        Raises HostError if anything but a regular file is there: nothing is written through a link.
        """

    def link(self, path: str, target: str) -> None:
        """Make the path a symbolic link to the target, atomically. A file or another link there is
        replaced, and missing folders are created.
        """

    def remove(self, path: str) -> None:
        """Remove what is at the path, and the temporary file that a killed writer of this path has
        left. Do nothing if both are absent. HostError if a folder is there.
        """

    def is_writable(self, folder: str) -> bool:
        """Whether the folder, which exists, is on a file system that root can write to."""

    def remove_empty(self, folder: str) -> None:
        """Remove the folder if it exists and is empty. A link to a folder stays."""

    def lock(self, path: str, wake: Callable[[], object]) -> Lock:
        """Take the lock of this file, or begin to wait for it if another process has it. When the
        wait is over, `wake` is called in another thread, so that a caller who sleeps asks `is_held`
        again.

        A missing file is created. The path "/" means the lock of the root folder. The end of the
        process releases a lock.
        """


class Lock(Protocol):
    """The lock of a file: held, or awaited."""

    def is_held(self) -> bool:
        """Whether this process holds the lock by now. Quick: a wait asks it again and again."""

    def release(self) -> None:
        """Release the lock, or end the wait for it. Call it only once."""
