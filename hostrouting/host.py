"""A host as the tasks meet it: kernel, files, manager, filters, and where everything lives. Nothing is decided here.

`Host.local()` is this machine, `Host.offline(root)` an image that is mounted somewhere, `Host.sandbox(root, netns=…)` a
network namespace of this machine's kernel, and `hostrouting.testing.FakeHost` a host that exists in memory only.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import attrs

from hostrouting.door import require, uncalled
from hostrouting.errors import HostBusy
from hostrouting.layout import HostLayout
from hostrouting.system import Files, ImageFiles, LocalFiles, Manager, SystemdManager

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from os import PathLike

    import phases
    from hostrouting.backends.base import RouteBackend
    from hostrouting.ebtables import Ebtables, EbtablesProgram
    from hostrouting.ingress import Programs, ProgramsAt
    from hostrouting.metadata import Fetch, Reply
    from hostrouting.neighbours import KernelLinkLayer, LinkLayer
    from hostrouting.nftables import Nftables, NftProgram

__all__ = ["Host", "made", "makes_edge", "needs_host"]

_A_KERNEL = (
    "a kernel is a part of a host: FakeHost(kernel=…) in a test, attrs.evolve(Host.local(), backend=…) elsewhere"
)
_HOSTS = "Host.local() is this machine, Host.offline(root) an image, hostrouting.testing.FakeHost() a host in memory"


def needs_host(instance: object, _attribute: object, value: Any) -> None:
    """For a class that works on a host: TypeError with the remedy when it is given anything else."""
    require(value, Host, type(instance).__name__, _A_KERNEL if hasattr(value, "snapshot") else _HOSTS)


def makes_edge(_instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    """For a host: TypeError where an edge itself is given, and not what makes one."""
    if value is not None and not callable(value):
        name, given = attribute.name, type(value).__name__
        raise TypeError(f"a host's {name} is a function that makes one, not a {given}; write {name}=lambda: …")


def made(_instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    """For a host: TypeError for a class or a function in the place of what it makes."""
    if name := uncalled(value):
        raise TypeError(f"a host's {attribute.name}: {name} is a {type(value).__name__}; call it: {name}()")


def _is_layout(_instance: object, _attribute: object, value: Any) -> None:
    require(value, HostLayout, "a host's layout", "write HostLayout(root=…)")


# What most hosts never need is loaded when it is used.


def _nft(words: tuple[str, ...] = ()) -> NftProgram:
    from hostrouting.nftables import NftProgram  # noqa: PLC0415

    return NftProgram(words=words)


def _ebtables(words: tuple[str, ...] = ()) -> EbtablesProgram:
    from hostrouting.ebtables import EbtablesProgram  # noqa: PLC0415

    return EbtablesProgram(words=words)


def _link_layer() -> KernelLinkLayer:
    from hostrouting.neighbours import KernelLinkLayer  # noqa: PLC0415

    return KernelLinkLayer()


def _fetch(url: str, timeout: float) -> Reply:
    from hostrouting.metadata import fetch  # noqa: PLC0415

    return fetch(url, timeout)


def _programs_at(dev: str) -> Programs:
    from hostrouting.ingress import programs_at  # noqa: PLC0415

    return programs_at(dev)


@attrs.frozen(kw_only=True)
class Host:
    """The edges of one host. Each can be replaced on its own."""

    backend: Callable[[], RouteBackend] | None = attrs.field(validator=makes_edge)
    """How the kernel's routing is reached; None for an image, which has no kernel."""
    files: Files = attrs.field(validator=made)
    manager: Manager | None = attrs.field(validator=made)
    """None for an image, where what is enabled takes effect when it boots, and for a sandbox, which never does."""
    layout: HostLayout = attrs.field(factory=HostLayout, validator=_is_layout)
    nftables: Callable[[], Nftables] | None = attrs.field(default=None, validator=makes_edge)
    """How nftables is reached; None where nothing may be asked of it: in an image."""
    ebtables: Callable[[], Ebtables] | None = attrs.field(default=None, validator=makes_edge)
    """How ebtables is reached; None for an image."""
    link_layer: Callable[[], LinkLayer] | None = attrs.field(default=None, validator=makes_edge)
    """How MAC addresses and neighbours are reached; None for an image."""
    fetch: Fetch = _fetch
    """How the instance metadata is asked for."""
    programs_at: ProgramsAt = _programs_at
    """The BPF programs that a packet meets before nftables, by the device it comes in by."""
    lock_wait: float = 60.0
    """How many seconds are waited for the lock on the host, at most: who holds it may hang."""
    is_locked: bool = False
    """Whether whoever has this value holds the lock on the host, as `locked` gives it."""

    @classmethod
    def local(cls) -> Host:
        """The machine this runs on: its kernel by netlink, its files, its systemd."""
        from hostrouting.backends.netlink import NetlinkBackend  # noqa: PLC0415  netlink is loaded when it is used

        return cls(
            backend=NetlinkBackend,
            files=LocalFiles(),
            manager=SystemdManager(),
            nftables=_nft,
            ebtables=_ebtables,
            link_layer=_link_layer,
        )

    @classmethod
    def offline(cls, root: str) -> Host:
        """An image that is mounted at root: files and enablement are written there, and no kernel is touched.

        Its links lead where they will when it has booted, never out of it.
        """
        return cls(backend=None, files=ImageFiles(root), manager=None, layout=HostLayout(root=root))

    @classmethod
    def sandbox(cls, root: str, *, netns: str | PathLike[str]) -> Host:
        """The real kernel in a network namespace, and files below a directory: to try all of it on.

        `netns` is a path, or a name as in `ip netns`; this machine's own is refused with ValueError, and so is a `root`
        that is not a directory below /. Routes, filters, neighbours, settings under /proc/sys/net and requests to the
        metadata service are those of the namespace. There is no systemd: what is enabled is a link below the root.
        """
        from hostrouting.backends.netlink import NetlinkBackend  # noqa: PLC0415  netlink is loaded when it is used
        from hostrouting.sandbox import Namespace, SandboxFiles, SandboxLinkLayer  # noqa: PLC0415  as above

        namespace = Namespace.of(netns)
        return cls(
            backend=lambda: NetlinkBackend(netns=namespace.path),
            files=SandboxFiles(root, namespace),
            manager=None,
            layout=HostLayout(root=root),
            nftables=lambda: _nft(namespace.words),
            ebtables=lambda: _ebtables(namespace.words),
            link_layer=lambda: SandboxLinkLayer(_link_layer(), namespace),
            fetch=lambda url, timeout: namespace.call(lambda: _fetch(url, timeout)),
            programs_at=lambda dev: namespace.call(lambda: _programs_at(dev)),
        )

    @contextmanager
    def locked(self, ctx: phases.Context) -> Iterator[Self]:
        """Give the host, and nobody else of ours works on it in the meantime.

        HostBusy, which says who holds the lock, when it cannot be had within `lock_wait` seconds; the deadline of the
        run may come before. What is given takes no lock again, so that one lock can be held around several tasks.
        """
        if self.is_locked:
            yield self
            return
        files, path = self.files, self.layout.lock_path
        since = None
        while (lock := files.try_lock(path)) is None:
            now = ctx.clock.now()
            if since is None:
                since = now
                text = "another run of hostrouting is at work on this host; waiting up to %g s for it (%s)"
                ctx.log.info(text, self.lock_wait, files.holder(path))
            if now - since >= self.lock_wait:
                text = f"another run has not been done with this host within {self.lock_wait:g} s: {files.holder(path)}"
                raise HostBusy(f"{text}; wait for it, or end it if it hangs")
            ctx.sleep(0.1)
        try:
            yield attrs.evolve(self, is_locked=True)
        finally:
            lock.release()
