"""What is wanted of a snapshot, and whether a change that was heard meanwhile may have spoilt the reading of it.

On a busy host something changes all the time. What is about other tables, or about other places of the table, does not
matter to whoever asked for a few prefixes. Only the kernel's announcements are read here, no list.
"""

from __future__ import annotations

import errno
from array import array
from functools import cached_property
from typing import TYPE_CHECKING

import attrs

from hostrouting.backends.netlink import numbers as n
from hostrouting.backends.netlink.columns import keys
from hostrouting.backends.netlink.messages import HEADER, ROOM_BEHIND
from hostrouting.errors import BackendError
from hostrouting.model import IPV4, TABLE_LOCAL, TABLE_MAIN, Prefix

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from hostrouting.model import RouteKey

__all__ = ["EVERYTHING", "Wanted", "disturbed"]

_ROOM = 1 << 16
_ROUTES = frozenset({n.RTM_NEWROUTE, n.RTM_DELROUTE})
# Until the first rule of a namespace IPv4 keeps the two in one.
_MERGED = frozenset({TABLE_LOCAL, TABLE_MAIN})


@attrs.frozen(slots=False)  # for what is cached
class Wanted:
    """Which routes are wanted; None is all."""

    family: int | None = None
    table: int | None = None
    protocol: int | None = None
    prefixes: frozenset[Prefix] | None = None

    def __contains__(self, key: RouteKey) -> bool:
        family, table, network, length, protocol = key
        return (
            self.family in {None, family}
            and self.table in {None, table}
            and self.protocol in {None, protocol}
            and (self.prefixes is None or (family, network, length) in self._places)
        )

    def disturbed_by(self, key: RouteKey) -> bool:
        """Whether the reading may be wrong after a change at this place, also one of a route that is not wanted.

        The kernel goes on where it was before a pause: in IPv4 by the first address and by counting what begins there,
        in IPv6 by counting all that it has told of the table.
        """
        family, table, network, _, _ = key
        if self.table is not None and table != self.table and not {table, self.table} <= _MERGED:
            return False
        return family != IPV4 or self.prefixes is None or network in self._networks

    @cached_property
    def _places(self) -> frozenset[tuple[int, int, int]]:
        return frozenset((it.family, it.network, it.length) for it in self.prefixes or ())

    @cached_property
    def _networks(self) -> frozenset[int]:
        return frozenset(it.network for it in self.prefixes or () if it.family == IPV4)


EVERYTHING = Wanted()


def disturbed(guard: socket.socket, wanted: Wanted) -> bool:
    """Whether anything was heard that may have spoilt the reading; also when more came than could be heard."""
    guard.settimeout(0)
    while True:
        try:
            data = guard.recv(_ROOM)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno == errno.ENOBUFS:
                return True
            raise BackendError("netlink failed", errno=error.errno, kernel=error.strerror or "") from error
        if any(_disturbs(data, offset, wanted) for offset in _places(data)):
            return True


def _places(data: bytes) -> Iterator[int]:
    offset = 0
    while offset + HEADER.size <= len(data):
        yield offset
        offset += (HEADER.unpack_from(data, offset)[0] + 3 & ~3) or len(data)


def _disturbs(data: bytes, offset: int, wanted: Wanted) -> bool:
    if HEADER.unpack_from(data, offset)[1] not in _ROUTES:
        return True  # what becomes of devices and addresses takes routes along, silently
    (key,) = keys(data + bytes(ROOM_BEHIND), array("I", [offset]))
    return wanted.disturbed_by(key)
