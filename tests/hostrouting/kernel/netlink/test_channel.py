"""Where one message ends and the next begins, in parts of every kind."""

import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hostrouting.kernel.netlink import numbers as n
from hostrouting.kernel.netlink.channel import Interrupted, KernelError, place_messages

MULTI, CLONED = 2, n.RTM_F_CLONED


def message(size: int, kind: int = n.RTM_NEWROUTE, flags: int = MULTI, route_flags: int = 0) -> bytes:
    """A message with this outline, padded to a multiple of four; its other bytes are its own."""
    content = struct.pack("=IHHIIQI", size, kind, flags, 7, 0, size * 0x0101010101, route_flags)[:size].ljust(
        size, b"x"
    )
    return content + bytes(-size % 4)


ODD = st.sampled_from([
    message(60, flags=MULTI | n.NLM_F_DUMP_INTR), message(60, route_flags=CLONED), message(64), message(58),
    message(60, kind=16, route_flags=CLONED), message(20, kind=80), message(20, kind=n.NLMSG_DONE)[:16] + bytes(4),
    message(60, route_flags=16),
])  # fmt: skip


def plainly(messages: list[bytes]) -> tuple[list[int], bool] | None:
    """Where the listed messages begin, and whether the list is complete; None if it was interrupted."""
    found: list[int] = []
    at = 0
    for data in messages:
        _, kind, flags = struct.unpack_from("=IHH", data)
        (route_flags,) = struct.unpack_from("=I", data.ljust(28, b"\0"), 24)
        if flags & n.NLM_F_DUMP_INTR:
            return None
        if kind == n.NLMSG_DONE:
            return found, True
        if kind != n.RTM_NEWROUTE or not route_flags & CLONED:
            found.append(at)
        at += len(data)
    return found, False


@given(
    many=st.integers(1, 80),
    usual=st.just(message(60)) | ODD,
    odd=st.lists(st.tuples(st.integers(0, 80), ODD), max_size=2),
)
@example(many=20, usual=message(60), odd=[(3, message(64)), (9, message(56))]).via("as long as two")
@example(many=29, usual=message(58), odd=[]).via("as long as thirty without what fills them up")
def test_each_message_is_filed(many: int, usual: bytes, odd: list[tuple[int, bytes]]) -> None:
    """Many equal outlines, with others anywhere among them: each listed message is stored, up to the end."""
    messages = [usual] * many
    for place, other in odd:
        messages.insert(place, other)
    data = b"".join(messages)
    expected = plainly(messages)
    if expected is None:
        with pytest.raises(Interrupted):
            place_messages(data)
    else:
        listing, done = place_messages(data)
        assert ([offset for run in listing.runs for offset in run], done) == expected


def test_an_error_among_many() -> None:
    """An error ends the list at any position."""
    error = struct.pack("=IHHIIi", 20, n.NLMSG_ERROR, 0, 7, 0, -22) + message(20)[:16]
    data = message(60) * 40 + error
    with pytest.raises(KernelError):
        place_messages(data)
