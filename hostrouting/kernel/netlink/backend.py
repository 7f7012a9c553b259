"""NetlinkBackend, the routing edge to Linux.

Here: in which namespace its socket is, and when it is closed. Not here: what a verb does, which is in the module that
the verb calls.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from hostrouting.errors import BackendError
from hostrouting.kernel._fib.packet import ANY, Flow
from hostrouting.kernel.base import Answer, Outcome, RouteRequest, Source, asked_addresses, asked_prefixes, part_of
from hostrouting.kernel.netlink import numbers as n
from hostrouting.kernel.netlink.channel import Channel, here, inside, open_namespace, open_socket
from hostrouting.kernel.netlink.keep import Kept
from hostrouting.kernel.netlink.read import take_snapshot
from hostrouting.kernel.netlink.watch import NetlinkWatch, Wanted

if TYPE_CHECKING:
    import os
    import socket
    from types import TracebackType

    from typing_extensions import Self

    from hostrouting.kernel.concern import Concern
    from hostrouting.model.prefix import IP, Prefix
    from hostrouting.model.route import Route
    from hostrouting.model.snapshot import Snapshot

T = TypeVar("T")


class NetlinkBackend:
    """Linux's routing, with the contract of `hostrouting.kernel.base`.

    Works in any thread, in a forked child, and inside a running event loop (which it blocks during a call).
    """

    def __init__(self, *, netns: str | os.PathLike[str] | None = None, timeout: float = 30.0) -> None:
        """Connect to the kernel in this network namespace: an existing one, by its path or its `ip netns` name.

        A call that takes longer than `timeout` seconds raises BackendError (timeout): while many containers come and
        go, Linux lets each request wait for others. Without `netns` it is the namespace of the calling thread; a thread
        in another namespace cannot use the backend. Raises BackendError if netlink or the namespace does not exist
        (unavailable), or the process may not enter it (not-permitted).
        """
        self._closed = False
        self._kept: Kept | None = None
        self._namespace = None if netns is None else open_namespace(netns)
        self._home = here()
        self._channel = Channel(self._socket, timeout)
        try:
            self._channel.open()
        except BaseException:
            self.close()
            raise

    def snapshot(
        self,
        *,
        family: int | None = None,
        table: int | None = None,
        protocol: int | None = None,
        prefixes: Collection[Prefix | str] | None = None,
        reached: bool = False,
        about: Callable[[Snapshot], Concern] | None = None,
        anew: bool = False,
        near: Collection[Prefix] | None = None,
        also: Callable[[Route], bool] | None = None,
    ) -> Snapshot:
        """The present links, addresses, rules and routes, in the kernel's order."""
        channel = self._begin()
        wanted = Wanted(family, table, protocol, asked_prefixes(prefixes), reached=reached, about=about)
        take = partial(take_snapshot, channel, wanted=wanted)
        if about is None or not wanted.is_whole:
            with closing(Kept(self._listener(family))) as kept:
                return take(kept) if near is None else part_of(take(kept), family=family, near=near, also=also)
        if anew or (self._kept is not None and not self._kept.is_ours):
            self._forget()
        if self._kept is None:
            self._kept = Kept(self._listener(None))
        try:
            return take(self._kept)
        except BaseException:
            self._forget()  # a report may have been read and not applied
            raise

    def lookup(self, destinations: Sequence[IP | str], flow: Flow = ANY) -> tuple[Answer, ...]:
        """Ask the kernel what it would do with a packet to each destination."""
        from hostrouting.kernel.netlink.lookup import look_up  # noqa: PLC0415  loaded when it is used

        return look_up(self._begin(), asked_addresses(destinations), flow)

    def change(self, changes: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        """Carry out each change, in order, and return the result of each."""
        from hostrouting.kernel.netlink.change import carry_out  # noqa: PLC0415  loaded when it is used

        return carry_out(self._begin(), changes)

    def watch(self) -> NetlinkWatch:
        """Begin to listen for changes of links, addresses, rules and routes."""
        self._begin()
        return NetlinkWatch(self._listener_to)

    def close(self) -> None:
        """Release the sockets. May be called twice."""
        self._closed = True
        self._forget()
        self._channel.close()
        if self._namespace is not None:
            self._namespace.close()

    def _forget(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _begin(self) -> Channel:
        if self._closed:
            raise BackendError("this backend was closed", kind="unusable")
        self._channel.begin()
        return self._channel

    def _socket(self, groups: int = 0) -> socket.socket:
        return self._there(partial(open_socket, groups))

    def _there(self, make: Callable[[], T]) -> T:
        """Call `make` in the namespace of this backend."""
        if self._namespace is not None:
            return inside(self._namespace, make)
        if here() != self._home:
            raise BackendError(
                "this backend was created in a different network namespace than this thread is in; "
                "create a new one in this thread, or name the namespace with netns=",
                kind="unusable",
            )
        return make()

    def _listener_to(self, source: Source) -> socket.socket:
        if self._closed:
            raise BackendError("this backend was closed", kind="unusable")
        if source == "nftables":
            return self._there(partial(open_socket, n.NFTABLES, protocol=n.NETLINK_NETFILTER))
        return self._listener(None)

    def _listener(self, family: int | None) -> socket.socket:
        return self._socket(n.groups(family))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()
