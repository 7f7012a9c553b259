"""NetlinkBackend, the routing edge to Linux: the verbs of the contract."""

from __future__ import annotations

import errno
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from hostrouting.errors import BackendError
from hostrouting.kernel.base import Answer, Outcome, RouteBackend, RouteRequest, settled
from hostrouting.kernel.netlink.host import forwards_ipv6, list_addresses, list_links, list_rules
from hostrouting.kernel.netlink.lists import RouteReader, list_routes
from hostrouting.kernel.netlink.numbers import groups_of
from hostrouting.kernel.netlink.routes import Names, change_routes, lookup_routes
from hostrouting.kernel.netlink.socket import NetlinkSocket, kernel_errors
from hostrouting.kernel.netlink.watch import NetlinkWatch
from hostrouting.kernel.refusals import refusal
from hostrouting.model.prefix import IP, IPV4, IPV6, Prefix
from hostrouting.model.rule import Rule, reached_tables
from hostrouting.model.snapshot import Address, Snapshot

if TYPE_CHECKING:
    from hostrouting.model.route import Route


class NetlinkBackend(RouteBackend):
    """Linux's routing in the network namespace of the thread that creates it: see `RouteBackend`.

    The backend may be used inside a running event loop, which a call blocks. A forked child needs
    its own backend.
    """

    def __init__(self, *, timeout: float = 30.0) -> None:
        """Connect; BackendError if that is not possible.

        `timeout` is how long an answer may take, in seconds.
        """
        self._is_closed = False
        with kernel_errors("use netlink"):
            self._netlink = NetlinkSocket(timeout=timeout)

    def snapshot(
        self,
        *,
        family: int | None = None,
        reached: bool = False,
        near: Collection[Prefix] | None = None,
    ) -> Snapshot:
        """The present links, addresses, rules and routes, in the kernel's order."""
        with self._open("read the host's routes") as netlink:
            # The kernel sends a list in parts. For IPv4 routes it does not say if they changed in
            # between: a guard listens.
            guard = NetlinkSocket(groups=groups_of(family))
            with closing(guard):
                return settled(partial(_read, netlink, guard, family, near, is_reached=reached))

    def lookup(self, destinations: Sequence[IP]) -> tuple[Answer, ...]:
        """What the kernel would do with a plain packet of this host to each destination."""
        with self._open("look up destinations") as netlink:
            return lookup_routes(netlink, destinations)

    def change(self, requests: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        """Carry out each request, in order, and return the result of each."""
        every = tuple(requests)
        with self._open("change routes") as netlink:
            refused = change_routes(netlink, every)
            for error in refused.values():
                if error.number == errno.EPERM:  # the kernel looks at the rights first
                    raise error
        errors: list[BackendError | None] = [None] * len(every)
        for place, error in refused.items():
            errors[place] = refusal(every[place], error.number, error.words)
        return tuple(map(Outcome, every, errors))

    def watch(self) -> NetlinkWatch:
        """Begin to listen for changes of links, addresses, rules and routes."""
        with self._open("listen to changes of routes"):
            return NetlinkWatch()

    def close(self) -> None:
        """Release the socket. May be called twice."""
        self._is_closed = True
        self._netlink.close()

    @contextmanager
    def _open(self, attempt: str) -> Iterator[NetlinkSocket]:
        if self._is_closed:
            raise BackendError("this backend was closed", kind="unusable")
        with kernel_errors(attempt):
            yield self._netlink


def _read(
    netlink: NetlinkSocket,
    guard: NetlinkSocket,
    family: int | None,
    near: Collection[Prefix] | None,
    *,
    is_reached: bool,
) -> Snapshot:
    """One reading; it is restless if anything changed meanwhile."""
    guard.reports()  # what changed before does not count
    netlink.is_torn = False
    families = (IPV4, IPV6) if family is None else (family,)

    links = list_links(netlink)
    names = Names({link.index: link.name for link in links})
    addresses: list[Address] = []
    rules: list[Rule] = []
    for each in families:
        addresses += list_addresses(netlink, each, names)
        rules += list_rules(netlink, each)
    tables = reached_tables(rules) if is_reached else None
    reader = RouteReader(names, near)
    routes: list[Route] = []
    for each in families:
        routes += list_routes(netlink, each, tables, reader)

    return Snapshot(
        links=links,
        addresses=tuple(addresses),
        rules=tuple(rules),
        routes=tuple(routes),
        ipv6_forwarding=forwards_ipv6(),
        family=family,
        restless=netlink.is_torn or bool(guard.reports()),
    )
