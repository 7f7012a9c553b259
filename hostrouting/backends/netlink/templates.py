"""Messages of one shape, encoded once and then filled in: the fast path of writing.

Why: pyroute2 takes some 60 µs to encode a route, the kernel 3 µs to install it. Where the numbers stand in a message
is not known here: it is found by encoding the same message twice, with all bits of a number clear and all set. That
the result is what the plain path encodes, byte for byte, is checked by a property test.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from hostrouting.backends.netlink.encode import encode_change
from hostrouting.backends.netlink.questions import encode_lookup
from hostrouting.model import IPV4

if TYPE_CHECKING:
    from collections.abc import Callable

    from hostrouting.backends.base import Change
    from hostrouting.fib import Flow
    from hostrouting.model import Route

__all__ = ["ChangeEncoder", "Template", "lookup_template"]

_FORMATS = {1: "B", 4: "I"}
_BYTES_OF = {4: 4, 6: 16}


class Template:
    """A message with slots. Numbers of one or four bytes are the machine's own; addresses come as bytes."""

    __slots__ = ("pack", "parts")

    def __init__(self, encode: Callable[[dict[str, int]], bytes], slots: dict[str, int], *, packed: set[str]) -> None:
        """Find the slots, each of so many bytes; they are filled in the order given. `packed` are filled with bytes."""
        blank = dict.fromkeys(slots, 0)
        message = encode(blank)
        parts: list[bytes | int] = []
        layout, at = ["="], 0
        for name, width in slots.items():
            filled = encode({**blank, name: (1 << 8 * width) - 1})
            differing = [place for place, (zero, one) in enumerate(zip(message, filled, strict=True)) if zero != one]
            begin = differing[0] if differing else -1
            if differing != list(range(begin, begin + width)) or begin < at:
                raise AssertionError(f"{name} is not {width} bytes in one place behind the slots before it")
            layout.append(f"{begin - at}s{width}s" if name in packed else f"{begin - at}s{_FORMATS[width]}")
            parts += [message[at:begin], b""]
            at = begin + width
        layout.append(f"{len(message) - at}s")
        self.pack = struct.Struct("".join(layout)).pack
        self.parts = [*parts, message[at:]]

    def fill(self, *values: int | bytes) -> bytes:
        """The message with these values."""
        self.parts[1::2] = values
        return self.pack(*self.parts)


class ChangeEncoder:
    """Changes as messages, with a template for each shape that has come by.

    Two kinds of shape. Of a route with one leg the destination, device, gateway and metric are slots; of any other
    only the destination is one.
    """

    def __init__(self, index_of: Callable[[str], int]) -> None:
        """`index_of` gives a device's number, or raises."""
        self._index_of = index_of
        self._indexes: dict[str, int] = {}
        self._simple: dict[tuple[object, ...], Template] = {}
        self._other: dict[tuple[object, ...], Template] = {}

    def message(self, change: Change, sequence: int) -> bytes:
        """The message that makes this change."""
        route = change.route
        prefix, legs = route.prefix, route.legs
        dev = legs[0].dev if len(legs) == 1 else None
        if dev is None:
            return self._of_other(change, sequence)
        leg = legs[0]
        gateway, family = leg.gateway, prefix.family
        # The type of the gateway tells its family, and whether there is one.
        shape = (
            change.verb, family, type(gateway), leg.onlink, route.table, route.protocol, route.scope, route.type,
            route.tos, route.prefsrc, route.mtu, route.advmss, route.nexthop_id,
        )  # fmt: skip
        template = self._simple.get(shape)
        if template is None:
            if route.nexthop_id is not None:
                return self._of_other(change, sequence)  # its leg is not said
            template = self._simple[shape] = self._make_simple(change)
        device = self._indexes.get(dev)
        if device is None:
            device = self._index(dev)
        destination = prefix.network.to_bytes(4 if family == IPV4 else 16, "big")
        # As `fill` does; a call for each of 100,000 messages is worth saving.
        parts = template.parts
        if gateway is None:
            parts[1::2] = (sequence, prefix.length, destination, device, route.metric)
        else:
            parts[1::2] = (sequence, prefix.length, destination, device, gateway.packed, route.metric)
        return template.pack(*parts)

    def _index(self, dev: str) -> int:
        if dev not in self._indexes:
            self._indexes[dev] = self._index_of(dev)
        return self._indexes[dev]

    def _make_simple(self, change: Change) -> Template:
        route = change.route
        (leg,) = route.legs
        slots = {"sequence": 4, "dst_len": 1, "dst": _BYTES_OF[route.prefix.family], "oif": 4}
        if leg.gateway is not None:
            slots["gateway"] = _BYTES_OF[leg.gateway.version]
        slots["metric"] = 4
        return Template(
            lambda raw: encode_change(change.verb, route, self._index, **raw), slots, packed={"dst", "gateway"}
        )

    def _of_other(self, change: Change, sequence: int) -> bytes:
        route = change.route
        shape = (change.verb, *_all_but_prefix(route))
        template = self._other.get(shape)
        if template is None:
            template = self._other[shape] = Template(
                lambda raw: encode_change(change.verb, route, self._index, **raw),
                {"sequence": 4, "dst_len": 1, "dst": _BYTES_OF[route.prefix.family]},
                packed={"dst"},
            )
        prefix = route.prefix
        return template.fill(sequence, prefix.length, prefix.network.to_bytes(_BYTES_OF[prefix.family], "big"))


def _all_but_prefix(route: Route) -> tuple[object, ...]:
    return (
        route.prefix.family,
        route.legs,
        route.table,
        route.metric,
        route.tos,
        route.type,
        route.scope,
        route.protocol,
        route.prefsrc,
        route.mtu,
        route.advmss,
        route.nexthop_id,
    )


def lookup_template(family: int, flow: Flow, index_of: Callable[[str], int]) -> Template:
    """Questions of this flow; the sequence number and the destination are to be filled in."""
    return Template(
        lambda raw: encode_lookup(family, flow, index_of, **raw),
        {"sequence": 4, "dst": _BYTES_OF[family]},
        packed={"dst"},
    )
