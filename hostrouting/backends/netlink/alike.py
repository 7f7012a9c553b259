"""Routes out of messages, one after the other, most of which say the same but for their destination.

Why: of ten thousand answers nearly all differ in the destination alone, and to read one takes twice the time in which
the kernel gives it. So of each sort one is read, and the others are made of it. A property test has both read the same.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import attrs

from hostrouting.backends.netlink.sorts import DST, FAMILY, LENGTH, REST, is_usual
from hostrouting.model import IPV4, Prefix, Route

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Alike"]

_MOST = 4096  # sorts that are remembered
_SAID = tuple(field for field in attrs.fields_dict(Route) if field != "prefix")


class Alike:
    """Reads messages; of those it has met it knows all but the destination."""

    def __init__(self, read: Callable[[bytes], Route]) -> None:
        """`read` makes the route of a message."""
        self._read = read
        self._made: dict[tuple[int, bytes, bytes], Callable[[Prefix], Route]] = {}

    def read(self, data: bytes) -> Route:
        """The route of this message."""
        sort = (data[FAMILY], data[LENGTH + 1 : DST], data[REST:])
        make = self._made.get(sort)
        if make is not None:
            return make(Prefix(IPV4, int.from_bytes(data[DST:REST], "big"), data[LENGTH]))
        route = self._read(data)
        if is_usual(data, 0) and len(self._made) < _MOST:
            said = {field: getattr(route, field) for field in _SAID}
            self._made[sort] = partial(Route, **said)
        return route
