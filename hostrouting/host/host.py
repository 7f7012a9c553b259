"""A host as the tasks see it: kernel, files, service manager and packet filters. Nothing is decided
here.

`Host.local()` is this host, `Host.offline(root)` a mounted image, and
`hostrouting.testing.FakeHost` a host in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from os.path import realpath
from typing import TYPE_CHECKING

from hostrouting.errors import BackendError, NotReady
from hostrouting.host.files import LocalFiles
from hostrouting.host.layout import HostLayout
from hostrouting.host.systemd import Manager, SystemdManager

if TYPE_CHECKING:
    from os import PathLike

    from typing_extensions import Self

    import phases
    from hostrouting.host.base import Files
    from hostrouting.host.interpreter import Interpreter
    from hostrouting.kernel.base import RouteBackend
    from hostrouting.kernel.netlink import NetlinkBackend
    from hostrouting.kernel.nftables import Nftables
    from hostrouting.model.snapshot import Snapshot

_LOCKED = (
    "this host is locked by another run, the guard, or the start of a gated unit (to see the "
    "process: lslocks)"
)
_LOCK_WAIT = 150.0  # seconds: a start, or a pass of the guard, holds the lock for up to 80


def _connect_to_netlink() -> NetlinkBackend:
    from hostrouting.kernel.netlink import NetlinkBackend  # noqa: PLC0415  not every command reads the kernel's routes

    return NetlinkBackend()


_LOCAL_FILES = LocalFiles()
_MANAGER = SystemdManager()


class Host:
    """A host, through which tasks reach its kernel, files and service manager. Each argument
    replaces one of these. Without a backend, the host is an image.
    """

    def __init__(
        self,
        *,
        backend: Callable[[], AbstractContextManager[RouteBackend]] | None = _connect_to_netlink,
        files: Files = _LOCAL_FILES,
        manager: Manager | None = _MANAGER,
    ) -> None:
        """Without arguments, the host is this machine.

        `backend` connects to the kernel's routing for a `with` block. With None, the host is an
        image, which has no kernel; by default it has no manager either, because its units start
        only when it boots.
        """
        if backend is None and manager is _MANAGER:
            manager = None  # the systemd of this machine does not run the units of an image
        self.backend = backend
        self.files = files
        self.manager = manager

    @classmethod
    def local(cls) -> Self:
        """The present machine: its kernel through netlink, its files, its systemd."""
        return cls()

    @classmethod
    def offline(cls, root: str | PathLike[str]) -> Self:
        """The host that is an image, mounted at `root`: files are written and units are enabled
        there; no kernel is touched.

        Symbolic links are followed as after the image has booted, and never lead out of it. Raises
        ValueError if `root` is the root of this machine itself, or empty, as a variable of a script
        that was never set.
        """
        if not root or realpath(root) == "/":
            raise ValueError(f"root is {root!r}, and not an image; for this machine: Host.local()")
        return cls(backend=None, files=LocalFiles(root))

    @property
    def nftables(self) -> Nftables:
        """The packet filter of this machine. For an image it is not used, and a FakeHost, for
        tests, has its own.
        """
        from hostrouting.kernel.nftables import NftProgram  # noqa: PLC0415  most hosts never need it

        return NftProgram()

    @property
    def interpreter(self) -> Interpreter:
        """The Python that is to run the installed program. For an image, it is looked for in the
        image's files, and not run. For any other host, it is the Python of this machine, which can
        be run, even if the `files` of the host are fakes. A FakeHost, for tests, has its own.
        """
        from hostrouting.host.interpreter import NodeInterpreter  # noqa: PLC0415  only to install

        return NodeInterpreter(
            self.files if self.is_image else _LOCAL_FILES, is_image=self.is_image
        )

    @property
    def running_manager(self) -> Manager | None:
        """The service manager; None if the host has none, or it does not run."""
        if self.manager is None or not self.manager.is_running():
            return None
        return self.manager

    @property
    def is_image(self) -> bool:
        """Whether this is an image, which has no kernel."""
        return self.backend is None

    def open_kernel(self) -> AbstractContextManager[RouteBackend]:
        """Connect to the routing of this host's kernel for a `with` block. BackendError for an
        image, which has none.
        """
        if self.backend is None:
            remedy = (
                "for a check, use a snapshot of its host (--snapshot, in Python Snapshot.load); do "
                "anything else on the host itself"
            )
            raise BackendError(f"an image has no kernel; {remedy}", kind="unavailable")
        return self.backend()

    def take_snapshot(self) -> Snapshot:
        """Read the routing of this host. BackendError for an image, which has no kernel."""
        with self.open_kernel() as kernel:
            return kernel.snapshot()

    @contextmanager
    def locked(self, ctx: phases.Context) -> Iterator[None]:
        """Hold the lock on the host during the block, so that no other run, no pass of the guard
        and no start of a gated unit changes it.

        Raises NotReady if the lock is not free within 150 seconds, and Cancelled if the run is
        cancelled or its time is up first. The lock of an image is that of its root folder, so that
        no lock file is left there.
        """
        # `clock.wait` asks its condition again after each `clock.wake`. The lock calls `wake` once
        # this process has it, and `on_cancel` calls it after a cancellation.
        clock = ctx.clock
        until = clock.now() + _LOCK_WAIT
        lock = self.files.lock("/" if self.is_image else HostLayout.lock_path, clock.wake)
        try:
            if not lock.is_held():
                ctx.log.info("%s; waiting up to %.0f s", _LOCKED, _LOCK_WAIT)
                with ctx.on_cancel(clock.wake):  # raises Cancelled at its end after a cancellation
                    clock.wait(lambda: lock.is_held() or ctx.cancelled, until)
            if not lock.is_held():
                raise NotReady(f"{_LOCKED}, still after {_LOCK_WAIT:g} s", kind="busy")
            yield
        finally:
            lock.release()
