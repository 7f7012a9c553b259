"""Routes that do not fit into a kernel message: numbers that are too large, and fields of the other family.

Here: what cannot be put into a message. Not here: what a kernel refuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostrouting.model import IPV4

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hostrouting.model import NextHop, Route

__all__ = ["foreign", "misfit"]

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


def foreign(route: Route) -> str:
    """The field of the route that does not exist in its family, as text; empty if there is none.

    Linux ignores these fields in a request for IPv4. It would add the route for all packets and for good, so such a
    request is not sent.
    """
    if route.prefix.family == IPV4:
        asked = {
            "sources (from)": route.source is not None,
            "a preference (pref)": route.preference != "medium",
            "an end (expires)": route.expires is not None,
        }
        return next((f"only IPv6 routes have {what}" for what, is_asked in asked.items() if is_asked), "")
    if route.source is not None and route.source.family == IPV4:
        return f"the source prefix {route.source} and the route have different address families"
    return ""


def _misfits(route: Route) -> Iterator[str]:
    if problem := foreign(route):
        yield problem
    for name, bound in _BOUNDS.items():
        value, highest = getattr(route, name), bound - 1
        if value is not None and not 0 <= value <= highest:
            yield f"{name} {value} is not in 0..{highest}"
    # A route that has expired is requested with 0 seconds.
    highest = _WORD - 1
    if route.expires is not None and route.expires > highest:
        yield f"expires {route.expires} is not in 0..{highest}"
    if len(route.legs) > 1:
        for leg in route.legs:
            if not 1 <= leg.weight <= _HEAVIEST:
                yield f"the weight {leg.weight} of {leg} is not in 1..{_HEAVIEST}"
        if _ATTRIBUTE + sum(map(_size, route.legs)) > _ROOM:
            yield f"{len(route.legs)} next hops do not fit into one message"


def _size(leg: NextHop) -> int:
    return _HEAD + (_ATTRIBUTE + len(leg.gateway.packed) if leg.gateway else 0)
