"""A prefix is a family, a first address and a length; `ipaddress` is its oracle."""

from collections.abc import Callable, Sequence
from ipaddress import IPv6Address, ip_network
from typing import Any

import pytest
from hypothesis import given, strategies as st

from hostrouting.model.prefix import (
    Prefix,
    as_ip,
    as_ipv4,
    borders_of,
    extent,
    ip_at,
    is_reserved,
    joined,
    width_of,
)
from tests.support.routing import prefixes, small_block

FAMILIES = st.sampled_from([4, 6])
SMALL = FAMILIES.map(small_block)
ANYWHERE = FAMILIES.flatmap(lambda family: prefixes(Prefix(family, 0, 0)))


@given(ANYWHERE)
def test_text_and_back(prefix: Prefix) -> None:
    """A prefix is parsed from its own text, and made from `ipaddress`, with the same bounds."""
    network = ip_network(str(prefix))
    assert Prefix.parse(str(prefix)) == Prefix.of(network) == prefix
    assert prefix.to_network() == network
    assert prefix.first == int(network[0])
    assert prefix.last == int(network[-1])
    assert prefix.ip == network[0] == ip_at(prefix.family, prefix.first)
    if prefix.length == width_of(prefix.family):
        with pytest.raises(ValueError, match="not the first address"):
            prefix.halves()
    else:
        assert [half.to_network() for half in prefix.halves()] == list(network.subnets())


@given(
    SMALL.flatmap(lambda block: st.tuples(prefixes(block, wider=True), prefixes(block, wider=True)))
)
def test_containment(pair: tuple[Prefix, Prefix]) -> None:
    """One is in another exactly if its ends are; two overlap if one is in the other."""
    outer, inner = pair
    ends = [ip_at(inner.family, inner.first), ip_at(inner.family, inner.last)]
    inside = [end in outer.to_network() for end in ends]
    assert [end in outer for end in ends] == inside
    assert (inner in outer) == all(inside)
    overlap = outer.to_network().overlaps(inner.to_network())
    assert outer.overlaps(inner) is inner.overlaps(outer) is overlap


def test_joined_blocks() -> None:
    """Two halves are one block, one inside another goes, and a border is named once."""
    texts = ["10.128.0.0/9", "10.0.0.0/9", "10.1.0.0/16", "11.0.0.0/9"]
    blocks = [*map(Prefix.parse, texts)]
    assert [*map(str, joined(blocks))] == ["10.0.0.0/8", "11.0.0.0/9"]
    borders = ["10.0.0.0", "10.1.0.0", "10.2.0.0", "10.128.0.0", "11.0.0.0", "11.128.0.0"]
    assert [ip_at(4, border) for border in borders_of(blocks)] == [*map(as_ip, borders)]


@pytest.mark.parametrize(
    ("first", "last", "text"),
    [(8, 8, "0.0.0.8"), (8, 15, "0.0.0.8/29"), (8, 14, "0.0.0.8-0.0.0.14")],
)
def test_extent(first: int, last: int, text: str) -> None:
    """A range is one address, one prefix, or both ends."""
    assert extent(4, first, last) == text


INVALID = [(5, 0, 0), (4, 0, 33), (4, 0, -1), (6, 0, 129), (4, 1, 31), (4, 2**32, 32), (4, -1, 32)]


@pytest.mark.parametrize(
    ("make", "values", "why"),
    [
        *((Prefix, values, "not the first address") for values in INVALID),
        *(
            (Prefix.parse, [text], "host bits|does not appear")
            for text in ("10.0.0.1/8", "10.0.0.0/33", "ten", "")
        ),
        *((make, ["fe80::1%eth0"], "'fe80::1%eth0' has a zone") for make in (as_ip, Prefix.parse)),
        (Prefix.of, [IPv6Address("fe80::1%eth0")], "'fe80::1%eth0' has a zone"),
    ],
)
def test_no_other_prefix_exists(
    make: Callable[..., object], values: Sequence[Any], why: str
) -> None:
    """Host bits are refused, and so is a zone: routes have a field for the device."""
    with pytest.raises(ValueError, match=why):
        make(*values)


@pytest.mark.parametrize(
    ("blocks", "reserved"),
    [
        (
            (
                "0.0.0.1/32 0.0.0.0/9 127.0.0.1/32 224.0.0.0/4 255.255.255.255/32 "
                "::/128 ::1/128 fe80::/10 ff02::1/128"
            ),
            True,
        ),
        ("::ffff:0.0.0.0/96 ff00::/8", True),
        (
            (
                "0.0.0.0/7 126.0.0.0/7 128.0.0.0/8 192.0.0.0/3 10.0.0.0/30 "
                "::/126 fe00::/9 fec0::/10 fd00::/8"
            ),
            False,
        ),
    ],
)
def test_reserved(blocks: str, *, reserved: bool) -> None:
    """Whether each address of the block is of the host itself, a link's, multicast or reserved."""
    for block in blocks.split():
        assert is_reserved(Prefix.parse(block)) is reserved, block


@pytest.mark.parametrize(
    ("text", "ipv4"),
    [("::ffff:10.0.0.0/104", "10.0.0.0/8"), ("::ffff:0:0/96", "0.0.0.0/0"), ("::/95", None)],
)
def test_ipv4_in_ipv6(text: str, ipv4: str | None) -> None:
    """Only a block inside ::ffff:0:0/96 is one of IPv4."""
    assert as_ipv4(Prefix.parse(text)) == (Prefix.parse(ipv4) if ipv4 else None)
