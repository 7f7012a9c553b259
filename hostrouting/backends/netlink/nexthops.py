"""Next hop objects: the next hops of each, by its number. Read with pyroute2, which is loaded only if there are any.

Loading it takes a tenth of a second, and few hosts have next hop objects.
"""

from __future__ import annotations

import struct
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.backends.netlink.route_message import read_leg
from hostrouting.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hostrouting.model import NextHop

__all__ = ["read_nexthops"]


_REQUIREMENT = "pyroute2<0.10,>=0.9.7"


def read_nexthops(messages: Iterable[bytes], names: Mapping[int, str]) -> dict[int, tuple[NextHop, ...]]:
    """The next hops of each next hop object; those of a group are those of its members."""
    singles: dict[int, tuple[NextHop, ...]] = {}
    grouped: dict[int, bytes] = {}
    for data in messages:
        one = _message_class()(data)
        one.decode()
        number, members, index = map(one.get_attr, ("NHA_ID", "NHA_GROUP", "NHA_OIF"))
        if members:
            grouped[number] = members
        elif index:
            singles[number] = (read_leg(index, one.get_attr("NHA_GATEWAY") or b"", one["flags"], names),)
    return singles | {number: tuple(_members(members, singles)) for number, members in grouped.items()}


def _members(packed: bytes, singles: Mapping[int, tuple[NextHop, ...]]) -> Iterable[NextHop]:
    # struct nexthop_grp: the number of the member, then its weight minus one: the low byte, and the high byte.
    for number, low, high in struct.iter_unpack("=IBB2x", packed):
        yield from (attrs.evolve(leg, weight=(high << 8 | low) + 1) for leg in singles.get(number, ()))


@cache
def _message_class() -> Any:
    """The class of these messages in pyroute2's notation; pyroute2 does not have it."""
    try:
        # Imported by name, because pyroute2 has no type annotations.
        nlmsg = import_module("pyroute2.netlink").nlmsg
    except Exception as error:
        raise BackendError(
            "this host has next hop objects, but pyroute2, which reads them, cannot be loaded "
            f"({type(error).__name__}: {error}); install it with `pip install '{_REQUIREMENT}'`",
            can_retry=False,
        ) from error
    known = {
        "prefix": "NHA_",
        "fields": (("family", "B"), ("scope", "B"), ("protocol", "B"), ("resvd", "B"), ("flags", "I")),
        "nla_map": (
            (1, "NHA_ID", "uint32"),
            (2, "NHA_GROUP", "cdata"),
            (5, "NHA_OIF", "uint32"),
            (6, "NHA_GATEWAY", "cdata"),
        ),
    }
    return type("nhmsg", (nlmsg,), known)
