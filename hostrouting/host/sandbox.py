"""A sandbox: the real kernel in a network namespace, and files below a directory. No change leaves them.

Here: the isolation from this machine, and the files. Not here: the parts of a host (`host.host`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

import attrs

from hostrouting.host.files import LocalFiles
from hostrouting.host.image import ImageFiles
from hostrouting.kernel.netlink.channel import inside, namespace_path, open_namespace

if TYPE_CHECKING:
    from hostrouting.kernel.neighbours import LinkLayer, LinkLayerView, Neighbour

T = TypeVar("T")

_MACHINE = "/proc/1/ns/net"


@attrs.frozen
class Namespace:
    """A network namespace other than this machine's, given by its path."""

    path: str

    @classmethod
    def of(cls, netns: str | os.PathLike[str]) -> Namespace:
        """The namespace at a path, or with a name as in `ip netns`.

        Raises BackendError (unavailable) if it does not exist, and ValueError if it is this host's own.
        """
        path = namespace_path(netns)
        with closing(open_namespace(path)) as there:
            found = os.fstat(there.fileno())
        try:
            machine = os.stat(_MACHINE)
        except OSError:
            machine = None  # some containers hide it from their processes
        if machine is not None and os.path.samestat(found, machine):
            raise ValueError(
                f"netns: {os.fspath(netns)!r} is this host's own network; create another one: ip netns add sandbox"
            )
        return cls(path)

    def call(self, make: Callable[[], T]) -> T:
        """Call `make` in the namespace and return its result."""
        with closing(open_namespace(self.path)) as there:
            return inside(there, make)

    @property
    def words(self) -> tuple[str, ...]:
        """The words to put before a command to run it in the namespace."""
        return ("nsenter", f"--net={self.path}")


class SandboxFiles(ImageFiles):
    """The files below a directory; its /proc is that of the namespace."""

    def __init__(self, root: str, namespace: Namespace) -> None:
        """Raise ValueError if the directory does not exist or is this host's own root."""
        if not os.path.isdir(root) or os.path.samefile(root, "/"):
            raise ValueError(f"root: {root!r} is not a directory below /; create one, for example with mktemp -d")
        super().__init__(root)
        self._kernel, self._namespace = f"{root.rstrip('/')}/proc/", namespace

    def read(self, path: str) -> str | None:
        """See Files."""
        if not path.startswith(self._kernel):
            return super().read(path)
        # /proc/self shows the network of the process, but only this thread is in the namespace.
        there = "/proc/" + path.removeprefix(self._kernel).replace("self/", "thread-self/", 1)
        return self._namespace.call(lambda: LocalFiles().read(there))


@attrs.frozen
class SandboxLinkLayer:
    """The link layer of the namespace: calls another LinkLayer from a thread in the namespace."""

    inner: LinkLayer
    namespace: Namespace

    def look(self) -> LinkLayerView:
        """See LinkLayer."""
        return self.namespace.call(self.inner.look)

    def delete_neighbour(self, neighbour: Neighbour) -> bool:
        """See LinkLayer."""
        return self.namespace.call(lambda: self.inner.delete_neighbour(neighbour))
