"""A sandbox: the real kernel in a network namespace, and files below a directory. What is asked of either stays there.

Here: what keeps it apart from this machine, and the files. Not here: what a host is made of (`host`).
"""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

import attrs

from hostrouting.backends.netlink.sockets import inside, namespace_path, open_namespace
from hostrouting.system import ImageFiles, LocalFiles

if TYPE_CHECKING:
    from collections.abc import Callable

    from hostrouting.neighbours import LinkLayer, LinkLayerView, Neighbour

__all__ = ["Namespace", "SandboxFiles", "SandboxLinkLayer"]

T = TypeVar("T")

_MACHINE = "/proc/1/ns/net"


@attrs.frozen
class Namespace:
    """A network namespace that is not this machine's own, by its path."""

    path: str

    @classmethod
    def of(cls, netns: str | os.PathLike[str]) -> Namespace:
        """By a path, or a name as in `ip netns`.

        NetlinkUnavailable where there is none, ValueError for the one in which this machine itself is.
        """
        path = namespace_path(netns)
        with closing(open_namespace(path)) as there:
            found = os.fstat(there.fileno())
        try:
            machine = os.stat(_MACHINE)
        except OSError:
            machine = None  # not every container lets its processes know
        if machine is not None and os.path.samestat(found, machine):
            raise ValueError(
                f"netns: {os.fspath(netns)!r} is this machine's own network; make another: ip netns add sandbox"
            )
        return cls(path)

    def call(self, make: Callable[[], T]) -> T:
        """What `make` returns when it is called there."""
        with closing(open_namespace(self.path)) as there:
            return inside(there, make)

    @property
    def words(self) -> tuple[str, ...]:
        """What goes before a command so that it runs there."""
        return ("nsenter", f"--net={self.path}")


class SandboxFiles(ImageFiles):
    """The files below a directory, and under its /proc what the kernel says of the namespace."""

    def __init__(self, root: str, namespace: Namespace) -> None:
        """ValueError where the directory is not there, or is this machine's own root."""
        if not os.path.isdir(root) or os.path.samefile(root, "/"):
            raise ValueError(f"root: {root!r} is not a directory below /; make one, such as mktemp -d gives")
        super().__init__(root)
        self._kernel, self._namespace = f"{root.rstrip('/')}/proc/", namespace

    def read(self, path: str) -> str | None:
        """See Files."""
        if not path.startswith(self._kernel):
            return super().read(path)
        # What /proc/self has is the network of the process, and only the thread is in the namespace.
        there = "/proc/" + path.removeprefix(self._kernel).replace("self/", "thread-self/", 1)
        return self._namespace.call(lambda: LocalFiles().read(there))


@attrs.frozen
class SandboxLinkLayer:
    """The link layer of the namespace, by one that works where the calling thread is."""

    inner: LinkLayer
    namespace: Namespace

    def look(self) -> LinkLayerView:
        """See LinkLayer."""
        return self.namespace.call(self.inner.look)

    def delete_neighbour(self, neighbour: Neighbour) -> bool:
        """See LinkLayer."""
        return self.namespace.call(lambda: self.inner.delete_neighbour(neighbour))

    def add_neighbour(self, neighbour: Neighbour) -> bool:
        """See LinkLayer."""
        return self.namespace.call(lambda: self.inner.add_neighbour(neighbour))
