"""hostrouting.kernel.netlink.lists: the routes of a list that are near what is asked for."""

import socket
import struct
from collections.abc import Sequence

import pytest
from hypothesis import given, settings, strategies as st

from hostrouting.kernel.netlink.lists import list_routes
from hostrouting.kernel.netlink.routes import decode
from hostrouting.kernel.netlink.socket import Netlink, attribute, message
from hostrouting.model.prefix import Prefix, as_ip, width_of
from hostrouting.model.route import OURS, TABLE_MAIN
from tests.support.examples import scaled
from tests.support.near import kept_near

NAMES = {1: "eth0", 9: "eth1"}
AF = {4: socket.AF_INET, 6: socket.AF_INET6}
GATEWAY = {4: as_ip("10.0.0.1").packed, 6: as_ip("fd00::1").packed}
MULTIPATH, GATEWAY_AND_DEVICE, DEVICE_ONLY = range(3)


DONE = message(3, 2, bytes(4))


class Recorded(Netlink):
    """A socket to a kernel that answers with these parts of a list."""

    def __init__(self, parts: list[bytes]) -> None:
        """Take the parts."""
        self.list_has_changed = False
        self._parts = [*parts]

    def _send(self, messages: Sequence[bytes]) -> None:
        assert len(messages) == 1

    def receive(self) -> bytes:
        """The next part."""
        return self._parts.pop(0)


def network_of(family: int, number: int) -> int:
    """The first address of a network with this number. The last one ends where all end."""
    return (0xFF00 | number) << width_of(family) - 16


def u32(number: int, value: int) -> bytes:
    """An attribute of four bytes."""
    return attribute(number, struct.pack("=I", value))


def listed(family: int, number: int, kind: tuple[int, int, int, int]) -> bytes:
    """A route of this kind as the kernel lists it; one of length 0 has no destination."""
    length, protocol, metric, way = kind
    fixed = [AF[family], length, 0, 0, TABLE_MAIN, protocol, 0, 1, 0, 0, 0, 0]
    body = bytes(fixed) + u32(15, TABLE_MAIN)
    if length:
        destination = Prefix.around(family, network_of(family, number), length)
        body += attribute(1, destination.ip.packed)
    if metric:
        body += u32(6, metric)
    gateway = attribute(5, GATEWAY[family])
    if way == MULTIPATH:
        hop = struct.pack("=HBBI", 8 + len(gateway), 0, 0, 9) + gateway
        body += attribute(9, hop + hop)
    elif way == GATEWAY_AND_DEVICE:
        body += gateway + u32(4, 1)
    else:
        body += u32(4, 1)
    return message(24, 2, body)


KINDS = st.tuples(
    st.sampled_from([0, 1, 2, 16, 20, 24, 32]),
    st.sampled_from([12, OURS]),
    st.sampled_from([0, 7]),
    st.sampled_from([MULTIPATH, GATEWAY_AND_DEVICE, GATEWAY_AND_DEVICE, DEVICE_ONLY]),
)
"""Lengths, protocols, metrics and next hops."""
STRETCHES = st.lists(
    st.tuples(
        KINDS, st.integers(0, 255), st.sampled_from([1, 1, 3, -1, 0]), st.sampled_from([1, 2, 300])
    ),
    max_size=12,
)
"""Routes of a kind that follow each other: the first network, the step to the next, and how many
there are.
"""


@pytest.mark.parametrize("family", [4, 6])
@settings(max_examples=scaled(60))
@given(data=st.data())
def test_the_routes_near_some_prefixes(family: int, data: st.DataObject) -> None:
    """In any order: each route that has to be kept is, as if it were decoded alone."""
    messages: list[bytes] = []
    for kind, start, step, count in data.draw(STRETCHES):
        numbers = [start + place * step & 255 for place in range(count)]
        messages += [listed(family, number, kind) for number in numbers]
    near: list[Prefix] = []
    for number, length in data.draw(
        st.lists(st.tuples(st.integers(0, 255), st.integers(0, 32)), max_size=4)
    ):
        near.append(Prefix.around(family, network_of(family, number), length))
    near.append(Prefix.parse("::/0" if family == 4 else "0.0.0.0/0"))
    cut = data.draw(st.integers(0, len(messages)))
    parts = [b"".join(messages[:cut]), b"".join([*messages[cut:], DONE])]

    every_route = [decode(each, NAMES) for each in messages]
    assert list_routes(Recorded(parts), family, NAMES) == every_route
    assert list_routes(Recorded(parts), family, NAMES, near) == kept_near(every_route, near)
