"""A host as the tasks see it: kernel, files, service manager, packet filters, and all paths. No decisions here.

`Host.local()` is this host, `Host.offline(root)` a mounted image, `Host.sandbox(root)` a network namespace of
this machine's kernel, and `hostrouting.testing.FakeHost` a host in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import attrs

from hostrouting.errors import HostError, NotReady
from hostrouting.host.files import Files, LocalFiles, Lock
from hostrouting.host.layout import HostLayout
from hostrouting.host.systemd import Manager, SystemdManager
from hostrouting.kernel.programs import BOOT_PATH, Rights, find_program, own_rights

if TYPE_CHECKING:
    from typing_extensions import Self

    import phases
    from hostrouting.kernel.base import RouteBackend
    from hostrouting.kernel.ebtables import Ebtables, EbtablesProgram
    from hostrouting.kernel.neighbours import KernelLinkLayer, LinkLayer
    from hostrouting.kernel.netlink import NetlinkBackend
    from hostrouting.kernel.nftables import Nftables, NftProgram

# These modules are imported on first use: most hosts never need them, and not every command reads the kernel's routes.


def _netlink() -> NetlinkBackend:
    from hostrouting.kernel.netlink import NetlinkBackend  # noqa: PLC0415

    return NetlinkBackend()


def _nft() -> NftProgram:
    from hostrouting.kernel.nftables import NftProgram  # noqa: PLC0415

    return NftProgram()


def _ebtables() -> EbtablesProgram:
    from hostrouting.kernel.ebtables import EbtablesProgram  # noqa: PLC0415

    return EbtablesProgram()


def _link_layer() -> KernelLinkLayer:
    from hostrouting.kernel.neighbours import KernelLinkLayer  # noqa: PLC0415

    return KernelLinkLayer()


@attrs.frozen(kw_only=True)
class Host:
    """The edges of one host. Each can be replaced separately."""

    backend: Callable[[], RouteBackend] | None
    """Opens the kernel's routing; None for an image, which has no kernel."""
    files: Files
    manager: Manager | None
    """None for an image, where enabled units start at its next boot, and for a sandbox, which never boots."""
    layout: HostLayout = attrs.field(factory=HostLayout)
    nftables: Callable[[], Nftables] | None = None
    """Opens nftables; None for an image."""
    ebtables: Callable[[], Ebtables] | None = None
    """Opens ebtables; None for an image."""
    link_layer: Callable[[], LinkLayer] | None = None
    """Opens the link layer: MAC addresses and neighbours; None for an image."""
    find_program: Callable[[str], str | None] = find_program
    """Returns the path of a program, looked for where the boot scripts look; None if it is not installed."""
    rights: Callable[[], Rights] = own_rights
    """Returns what this process may do."""
    lock_wait: float = 150.0
    """How many seconds to wait for the lock on the host: a pass of the guard may hold it, or a unit that starts."""
    is_locked: bool = False
    """Whether the lock on the host is held, as in the value that `locked` yields."""

    @classmethod
    def local(cls) -> Host:
        """The present machine: its kernel through netlink, its files, its systemd."""
        return cls(
            backend=_netlink,
            files=LocalFiles(),
            manager=SystemdManager(),
            nftables=_nft,
            ebtables=_ebtables,
            link_layer=_link_layer,
        )

    @classmethod
    def offline(cls, root: str) -> Host:
        """An image mounted at root: files are written and units are enabled there; no kernel is touched.

        Symbolic links are resolved inside the image, as after it has booted, and never outside it.
        """
        from hostrouting.host.image import ImageFiles  # noqa: PLC0415  only an image needs it

        files, layout = ImageFiles(root), HostLayout(root=root)

        def find(name: str) -> str | None:
            paths = (layout.at(f"{folder}/{name}") for folder in BOOT_PATH)
            return next(filter(files.is_there, paths), None)

        return cls(backend=None, files=files, manager=None, layout=layout, find_program=find)

    @classmethod
    def sandbox(cls, root: str) -> Host:
        """The kernel of the present network namespace, and files below a directory: to try everything out.

        Raises ValueError if that is this host's own namespace, or if `root` is not a directory below /. There is no
        systemd: enabling a unit only creates a link below the root.
        """
        from hostrouting.host.sandbox import SandboxFiles, require_own_namespace  # noqa: PLC0415  few need it

        require_own_namespace()
        return cls(
            backend=_netlink,
            files=SandboxFiles(root),
            manager=None,
            layout=HostLayout(root=root),
            nftables=_nft,
            ebtables=_ebtables,
            link_layer=_link_layer,
        )

    @property
    def running_manager(self) -> Manager | None:
        """The service manager, if one runs on this host."""
        return self.manager if self.manager is not None and self.manager.is_running() else None

    @property
    def may_have_ours(self) -> bool:
        """Whether a file of hostrouting may be on this host; True if this cannot be read.

        On a host without any, a check loads nothing that reads them: a fifth less processor time from start to end.
        """
        files, layout = self.files, self.layout
        try:
            units = files.names(layout.at(layout.unit_directory))
            drop_ins = (layout.drop_in_path(name[:-2]) for name in units if name.endswith(".d"))
            folders = map(layout.at, (layout.config_directory, layout.state_directory))
            return any(map(files.names, folders)) or any(map(files.is_there, (layout.networkd_path, *drop_ins)))
        except HostError:
            return True

    @contextmanager
    def locked(self, ctx: phases.Context) -> Iterator[Self]:
        """Hold the lock on the host for the block: no other run changes it meanwhile, and no unit passes the gate.

        Raises NotReady, which names the process that holds the lock, if it is not free within `lock_wait` seconds; the
        deadline of the run may come first. `locked` on the yielded host takes no lock again.
        """
        if self.is_locked:
            yield self
            return
        until = ctx.clock.now() + self.lock_wait
        turn = self._acquired(ctx, self.layout.turn_path, until)
        try:
            lock = self._acquired(ctx, self.layout.lock_path, until)
        finally:
            turn.release()
        try:
            yield attrs.evolve(self, is_locked=True)
        finally:
            lock.release()

    def _acquired(self, ctx: phases.Context, path: str, until: float) -> Lock:
        is_named = False
        while (lock := self.files.try_lock(path)) is None:
            if ctx.clock.now() >= until:
                sentence = f"the host was not free within {self.lock_wait:g} s: {self.files.holder(path)}"
                raise NotReady(f"{sentence}; wait for it, or stop it if it hangs", kind="busy")
            if not is_named:
                text = "another run, or the start of a gated unit, uses this host; waiting up to %g s for it (%s)"
                ctx.log.info(text, self.lock_wait, self.files.holder(path))
                is_named = True
            ctx.sleep(0.1)
        return lock
