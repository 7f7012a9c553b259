"""pyroute2: one message, from words to bytes and back. The only module that loads it, and only when it is used.

Loading it takes a tenth of a second and it has no types: what comes out of here has. What the words mean is not
known here; `decode` and `encode` do.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["Message", "Nested", "Shape", "decode", "encode"]

Shape: TypeAlias = Literal["route", "nexthop"]


_ATTRIBUTE = struct.Struct("=HH")
_KIND = 0x3FFF  # without the marks that an attribute is nested, or in network order
_READ: dict[Shape, tuple[str, ...]] = {
    "route": tuple(
        f"RTA_{name}"
        for name in ("DST", "OIF", "GATEWAY", "VIA", "PRIORITY", "PREFSRC", "METRICS", "MULTIPATH", "TABLE", "NH_ID")
    ),
    "nexthop": ("NHA_ID", "NHA_GROUP", "NHA_OIF", "NHA_GATEWAY"),
}


class Nested:
    """The fields and attributes of a message, or of an attribute that has such; read where they are asked for.

    So an attribute that nobody knows, or that this pyroute2 gets wrong, does no harm.
    """

    def __init__(self, parsed: Any) -> None:
        """Wrap what pyroute2 parsed."""
        self._parsed = parsed

    def field(self, name: str) -> int:
        """A field of the fixed part."""
        return int(self._parsed[name])

    def get(self, name: str) -> Any:
        """The value of an attribute, None when it is not there."""
        return self._parsed.get_attr(name)

    def nested(self, name: str) -> Nested | None:
        """An attribute that has attributes."""
        value = self._parsed.get_attr(name)
        return None if value is None else Nested(value)

    def listed(self, name: str) -> Iterator[Nested]:
        """The items of an attribute that is a list."""
        return map(Nested, self._parsed.get_attr(name) or ())


class Message(Nested):
    """A message of the kernel's."""


def encode(
    shape: Shape,
    kind: int,
    flags: int,
    *,
    sequence: int = 0,
    fields: Mapping[str, int] | None = None,
    attributes: Iterable[tuple[str, Any]] = (),
) -> bytes:
    """A whole message of this kind (RTM_…), with its header."""
    message = _classes()[shape]()
    message["header"] = {"type": kind, "flags": flags, "sequence_number": sequence, "pid": 0}
    for name, value in (fields or {}).items():
        message[name] = value
    message["attrs"] = list(attributes)
    message.encode()
    # Each message of several begins at a multiple of four.
    return bytes(message.data) + bytes(-len(message.data) % 4)


def decode(shape: Shape, data: bytes) -> Message:
    """Read one message, header included.

    pyroute2 makes an object of each attribute: what nobody is going to ask for is cut out before.
    """
    made, start, wanted = _wanted(shape)
    kept = [data[4:start]]
    for kind, begin, _, end in _places(data, start):
        if kind in wanted:
            kept.append(data[begin:end])
    body = b"".join(kept)
    message = made(struct.pack("=I", len(body) + 4) + body)
    message.decode()
    return Message(message)


def _places(data: bytes, start: int) -> Iterator[tuple[int, int, int, int]]:
    """Of each attribute its number, where it begins, where its value ends, and where the next one begins."""
    at = start
    while at < len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        end = at + (length + 3 & ~3 or 4)
        yield kind & _KIND, at, at + length, end
        at = end


@cache
def _wanted(shape: Shape) -> tuple[Any, int, frozenset[int]]:
    """The class of a message, where its attributes begin, and the numbers of those that are read."""
    made = _classes()[shape]
    start = 16 + struct.calcsize("=" + "".join(form for _, form in made.fields))
    # pyroute2 lists attributes with their numbers, or in the order of these.
    numbers = {
        (entry[1] if isinstance(entry[0], int) else entry[0]): entry[0] if isinstance(entry[0], int) else place
        for place, entry in enumerate(made.nla_map)
    }
    return made, start, frozenset(numbers[name] for name in _READ[shape])


@cache
def _classes() -> dict[Shape, Any]:
    # Imported by name at run time: pyroute2 has no types that an import statement could give us.
    from importlib import import_module  # noqa: PLC0415  as little as possible is loaded before it is used

    netlink = import_module("pyroute2.netlink")
    route = import_module("pyroute2.netlink.rtnl.rtmsg").rtmsg
    # A class that has its attributes looked up already would hand its table down.
    fresh = {"_nlmsg_base__compiled_nla": False}
    # What pyroute2 does not know of, in its own notation.
    by_number = tuple((number, name, kind) for number, (name, kind) in enumerate(route.nla_map[:24]))
    known = {"nla_map": (*by_number, (30, "RTA_NH_ID", "uint32"))}
    nexthop = {
        "prefix": "NHA_",
        "fields": (("family", "B"), ("scope", "B"), ("protocol", "B"), ("resvd", "B"), ("flags", "I")),
        "nla_map": (
            (1, "NHA_ID", "uint32"),
            (2, "NHA_GROUP", "cdata"),
            (4, "NHA_BLACKHOLE", "flag"),
            (5, "NHA_OIF", "uint32"),
            (6, "NHA_GATEWAY", "cdata"),
        ),
    }
    return {
        "route": type("route", (route,), fresh | known),
        "nexthop": type("nexthop", (netlink.nlmsg,), fresh | nexthop),
    }
