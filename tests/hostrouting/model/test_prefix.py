"""A prefix is a family, a first address and a length; `ipaddress` is its oracle."""

from collections.abc import Callable
from ipaddress import IPv6Address, ip_network

import pytest
from hypothesis import given, strategies as st

from hostrouting.model.prefix import Prefix, as_ip, as_ipv4, extent, ip_at, is_reserved
from tests.support.routing import prefixes, small_block

FAMILIES = st.sampled_from([4, 6])
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
    if prefix.length == network.max_prefixlen:
        with pytest.raises(ValueError, match="not the first address"):
            prefix.halves()
    else:
        assert [half.to_network() for half in prefix.halves()] == list(network.subnets())


@given(FAMILIES, st.data())
def test_containment(family: int, data: st.DataObject) -> None:
    """One is in another exactly if its ends are; two overlap if one is in the other."""
    each = prefixes(small_block(family), wider=True)
    outer, inner = data.draw(each), data.draw(each)
    ends = [ip_at(inner.family, inner.first), ip_at(inner.family, inner.last)]
    inside = [end in outer.to_network() for end in ends]
    assert [end in outer for end in ends] == inside
    assert (inner in outer) == all(inside)
    overlap = outer.to_network().overlaps(inner.to_network())
    assert outer.overlaps(inner) is inner.overlaps(outer) is overlap


INVALID = [(5, 0, 0), (4, 0, 33), (4, 0, -1), (6, 0, 129), (4, 1, 31), (4, 2**32, 32), (4, -1, 32)]


@pytest.mark.parametrize("values", INVALID)
def test_no_other_prefix_exists(values: tuple[int, int, int]) -> None:
    """Unknown families, and what is out of range or has host bits, are refused."""
    with pytest.raises(ValueError, match="not the first address"):
        Prefix(*values)


@pytest.mark.parametrize("make", [as_ip, Prefix.parse, lambda text: Prefix.of(IPv6Address(text))])
def test_a_zone(make: Callable[[str], object]) -> None:
    """It is refused: routes have a field for the device."""
    with pytest.raises(ValueError, match="'fe80::1%eth0' has a zone"):
        make("fe80::1%eth0")


def test_reserved() -> None:
    """Not a wider block, of which a reserved range is only a part."""
    for address in ("0.9.9.9", "127.9.9.9", "224.0.0.1", "240.0.0.1", "::/127", "febf::", "ff02::"):
        assert is_reserved(Prefix.parse(address))
    assert is_reserved(Prefix.parse("::ffff:0.0.0.0/96"))
    assert not any(map(is_reserved, map(Prefix.parse, ["0.0.0.0/7", "::7f00:1"])))


def test_a_range() -> None:
    """In words, it is an address, a prefix, or both ends; an IPv4 block can be written as IPv6."""
    assert extent(4, 8, 8) == "0.0.0.8"
    assert extent(4, 8, 11) == "0.0.0.8/30"
    assert extent(4, 8, 12) == "0.0.0.8-0.0.0.12"
    assert as_ipv4(Prefix.parse("::ffff:10.0.0.0/104")) == Prefix.parse("10.0.0.0/8")
    assert as_ipv4(Prefix.parse("::/0")) is None
