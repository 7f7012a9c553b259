"""Routes that do not fit into a kernel message: numbers that are too large, and too many next hops.

Here: what cannot be put into a message. Not here: what a kernel refuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hostrouting.model import NextHop, Route

__all__ = ["misfit"]

_BYTE, _WORD = 1 << 8, 1 << 32
_BOUNDS = {
    "tos": _BYTE,
    "scope": _BYTE,
    "protocol": _BYTE,
    "table": _WORD,
    "metric": _WORD,
    "mtu": _WORD,
    "advmss": _WORD,
    "nexthop_id": _WORD,
}
_HEAVIEST = 256
# All next hops of a route are in one attribute with a two-byte length; each has a header of eight bytes.
_ROOM, _HEAD, _ATTRIBUTE = 0xFFFF, 8, 4


def misfit(route: Route) -> str:
    """The field of the route that does not fit into a message, as text; empty if everything fits."""
    return next(_misfits(route), "")


def _misfits(route: Route) -> Iterator[str]:
    for name, bound in _BOUNDS.items():
        value = getattr(route, name)
        if value is not None and not 0 <= value < bound:
            yield f"{name} {value} is not in 0..{bound - 1}"
    if len(route.legs) > 1:
        for leg in route.legs:
            if not 1 <= leg.weight <= _HEAVIEST:
                yield f"the weight {leg.weight} of {leg} is not in 1..{_HEAVIEST}"
        if _ATTRIBUTE + sum(map(_size, route.legs)) > _ROOM:
            yield f"{len(route.legs)} next hops do not fit into one message"


def _size(leg: NextHop) -> int:
    return _HEAD + (_ATTRIBUTE + len(leg.gateway.packed) if leg.gateway else 0)
