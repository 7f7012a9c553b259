"""A host as the tasks meet it: its kernel, its files, its manager, and where everything lives. Nothing is decided here.

`Host.local()` is this machine, `Host.offline(root)` an image that is mounted somewhere, and
`hostrouting.testing.FakeHost` a host that exists in memory only.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

import attrs

from hostrouting.layout import HostLayout
from hostrouting.system import Files, ImageFiles, LocalFiles, Manager, SystemdManager

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import phases
    from hostrouting.backends.base import RouteBackend

__all__ = ["Host"]


@attrs.frozen(kw_only=True)
class Host:
    """The edges of one host. Each can be replaced on its own."""

    backend: Callable[[], RouteBackend] | None
    """How the kernel's routing is reached; None for an image, which has no kernel."""
    files: Files
    manager: Manager | None
    """None for an image: what is enabled takes effect when it boots."""
    layout: HostLayout = attrs.field(factory=HostLayout)
    is_locked: bool = False
    """Whether whoever has this value holds the lock on the host, as `locked` gives it."""

    @classmethod
    def local(cls) -> Host:
        """The machine this runs on: its kernel by netlink, its files, its systemd."""
        from hostrouting.backends.netlink import NetlinkBackend  # noqa: PLC0415  pyroute2 is loaded when it is used

        return cls(backend=NetlinkBackend, files=LocalFiles(), manager=SystemdManager())

    @classmethod
    def offline(cls, root: str) -> Host:
        """An image that is mounted at root: files and enablement are written there, and no kernel is touched.

        Its links lead where they will when it has booted, never out of it.
        """
        return cls(backend=None, files=ImageFiles(root), manager=None, layout=HostLayout(root=root))

    @contextmanager
    def locked(self, ctx: phases.Context) -> Iterator[Self]:
        """Give the host, and nobody else of ours works on it in the meantime; waits for as long as the run allows.

        What is given takes no lock again, so that one lock can be held around several tasks.
        """
        if self.is_locked:
            yield self
            return
        told, path = False, self.layout.lock_path
        while (lock := self.files.try_lock(path)) is None:
            if not told:
                ctx.log.info("another run of hostrouting is at work on this host; waiting for it (see: fuser %s)", path)
                told = True
            ctx.sleep(0.1)
        try:
            yield attrs.evolve(self, is_locked=True)
        finally:
            lock.release()
