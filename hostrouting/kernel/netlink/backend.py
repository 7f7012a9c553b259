"""NetlinkBackend, the routing edge to Linux: the verbs of the contract."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from hostrouting.errors import BackendError
from hostrouting.kernel.base import Answer, Outcome, RouteBackend, RouteRequest, Watch
from hostrouting.kernel.netlink.host import (
    Names,
    forwards_ipv6,
    list_addresses,
    list_links,
    list_rules,
)
from hostrouting.kernel.netlink.lists import list_routes
from hostrouting.kernel.netlink.numbers import GROUPS_OF_CHANGES
from hostrouting.kernel.netlink.requests import change_routes, lookup_routes
from hostrouting.kernel.netlink.socket import Netlink, kernel_errors
from hostrouting.model.prefix import IP, IPV4, IPV6, Prefix
from hostrouting.model.snapshot import Address, Snapshot

if TYPE_CHECKING:
    from hostrouting.model.route import Route
    from hostrouting.model.rule import Rule


class NetlinkBackend(RouteBackend):
    """Linux's routing in the network namespace of the thread that calls: see `RouteBackend`.

    Each call opens sockets of its own. The backend may be used inside a running event loop, which a
    call blocks.
    """

    def __init__(self) -> None:
        """Make sure that netlink can be used; BackendError if it cannot."""
        self._is_closed = False
        with kernel_errors("use netlink"):
            self._open_netlink().close()  # only a trial: each call opens a socket of its own

    def snapshot(self, *, near: Collection[Prefix] | None = None) -> Snapshot:
        """Read links, addresses, rules and routes. If anything changed meanwhile, pause and read
        all again. If something changed during the last reading, too, the snapshot is `restless`.
        With `near`, most routes that overlap none of these prefixes are left out.
        """
        with (
            self._attempt("read the host's routes") as netlink,
            # A list comes in parts. If it changes between two parts, the kernel says so
            # (`list_has_changed`), except for a list of routes. So a second socket receives the
            # reports of changes.
            closing(self._open_netlink(GROUPS_OF_CHANGES)) as reporter,
        ):
            pauses = iter(_PAUSES)
            while True:
                netlink.list_has_changed = False
                reporter.take_reports()  # what changed before does not count
                snapshot = _read_host(netlink, near)
                has_changed = netlink.list_has_changed or reporter.take_reports()
                pause = next(pauses, None)
                if not has_changed or pause is None:
                    return snapshot._replace(restless=has_changed)
                time.sleep(pause)

    def lookup(self, destinations: Sequence[IP]) -> tuple[Answer, ...]:
        """Ask the kernel what it would do with a plain packet (ICMP, from root, without a mark) to
        each destination; return the answers in the order of the destinations.
        """
        with self._attempt("look up destinations") as netlink:
            return lookup_routes(netlink, destinations)

    def change(self, requests: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        """Carry out each request, in order, and return the result of each."""
        with self._attempt("change routes") as netlink:
            return change_routes(netlink, tuple(requests))

    def watch(self) -> Watch:
        """Begin to listen for changes of links, addresses, rules and routes."""
        from hostrouting.kernel.netlink.watch import NetlinkWatch  # noqa: PLC0415  a check needs no watch

        with self._attempt("listen to changes of routes"):
            return NetlinkWatch()

    def close(self) -> None:
        """Refuse further calls. May be called twice."""
        self._is_closed = True

    @contextmanager
    def _attempt(self, attempt: str) -> Iterator[Netlink]:
        """Open a socket for the block of a `with`. An error of the kernel in the block becomes a
        BackendError, such as "cannot change routes" if the `attempt` is "change routes".
        """
        if self._is_closed:
            raise BackendError("this backend was closed", kind="unusable")
        with kernel_errors(attempt), closing(self._open_netlink()) as netlink:
            yield netlink

    def _open_netlink(self, groups: int = 0) -> Netlink:
        return Netlink(groups=groups)


_PAUSES = (0.01, 0.05)
"""Seconds before the second and the third reading: a device that is added makes several changes."""


def _read_host(netlink: Netlink, near: Collection[Prefix] | None) -> Snapshot:
    """Read links, addresses, rules and routes once. The caller finds out whether anything changed
    meanwhile.
    """
    families = [IPV4, IPV6]
    ipv6_forwarding = forwards_ipv6(netlink)
    # A Linux without IPv6, when asked for its lists of IPv6, would list its other families.
    if ipv6_forwarding is None:
        families.remove(IPV6)
    # The devices are read first. When a device goes down or an address is deleted, Linux reports
    # this, then deletes IPv4 routes without a report. It does not list the devices before it has
    # finished, so the lists of routes, which are read later, lack the deleted routes.
    links = list_links(netlink)
    names = Names({link.index: link.name for link in links})
    addresses: list[Address] = []
    rules: list[Rule] = []
    routes: list[Route] = []
    for family in families:
        addresses += list_addresses(netlink, family, names)
        rules += list_rules(netlink, family)
        routes += list_routes(netlink, family, names, near)
    return Snapshot(
        links=links,
        addresses=tuple(addresses),
        rules=tuple(rules),
        routes=tuple(routes),
        ipv6_forwarding=ipv6_forwarding,
    )
