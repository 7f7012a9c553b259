"""The values that make up an nftables table."""

from __future__ import annotations

import re
from ipaddress import IPv6Address, IPv6Network
from typing import Any

import attrs
import pytest
from hypothesis import given

from hostrouting.kernel.nftables import Chain, Match, Rewrite, Rule, Table, Unknown, Verdict
from hostrouting.testing.filter_contracts import contract_table
from hostrouting.testing.nftables_strategies import matches, networks

HOST = attrs.evolve(contract_table(), others=[Unknown("{}")])


@given(matches())
def test_the_order_of_values_means_nothing(match: Match) -> None:
    """The order and repetition of a match's values make no difference."""
    assert Match(match.field, [*reversed(match.values), *match.values], match.negated) == match


@given(networks(), networks())
def test_networks_are_compared_as_addresses(one: IPv6Network, other: IPv6Network) -> None:
    """A network inside another one, or adjacent to one, is joined with it."""
    found = Match("ip6 daddr", [one, other])
    halves = one.subnets() if one.prefixlen < 128 else [one]
    assert Match("ip6 daddr", [other, *halves, one]) == found
    kept = [it for it in found.values if isinstance(it, IPv6Network)]
    assert not any(it.overlaps(that) for it in kept for that in kept if it != that)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("iif", "eth0", "'iif' is not a supported field; use one of iifname, oifname"),
        ("iifname", "eth*", "iifname cannot be 'eth*': use a name that matches [A-Za-z0-9_.-]{1,15}"),
        ("iifname", 'eth0";x', "iifname cannot be"),
        ("iifname", ".", "iifname cannot be '.'"),
        ("iifname", "x" * 16, "iifname cannot be"),
        ("iifname", 5, "iifname cannot be 5"),
        ("iifname", "fe80::1", "iifname cannot be fe80::1/128"),
        ("icmpv6 type", 256, "icmpv6 type cannot be 256: use a number in 0..255"),
        ("icmpv6 type", True, "icmpv6 type cannot be True"),
        ("icmpv6 type", "echo-request", "icmpv6 type cannot be 'echo-request'"),
        ("ip6 saddr", "eth0", "ip6 saddr cannot be 'eth0': use an IPv6 address"),
        ("ip6 saddr", "fe80::1%eth0", "'fe80::1%eth0' has a zone"),
        ("ip6 saddr", IPv6Address("fe80::1%eth0"), "'fe80::1%eth0' has a zone"),
        ("ip6 saddr", "fe80::1/64", "fe80::1/64 has host bits set"),
    ],
    ids=ascii,
)
def test_what_is_not_a_match(field: Any, value: Any, words: str) -> None:
    """A match with a value that does not fit its field raises an error that names the allowed values."""
    with pytest.raises(ValueError, match=re.escape(words)):
        Match(field, [value])


def test_what_is_not_a_statement() -> None:
    """A statement that we do not support raises an error."""
    other: Any = "iifname"
    with pytest.raises(ValueError, match="iifname has no values"):
        Match(other, [])
    with pytest.raises(ValueError, match="'iifname' cannot be rewritten; use ip6 saddr or ip6 daddr"):
        Rewrite(other, "fe80::1")
    with pytest.raises(ValueError, match="'fe80::1%eth0' has a zone"):
        Rewrite("ip6 saddr", "fe80::1%eth0")
    with pytest.raises(ValueError, match="'iifname' is not a supported verdict; use return"):
        Verdict(other)


def test_text() -> None:
    """A table prints as in nft, without handles and packet counts."""
    assert str(contract_table()) == (
        "table ip6 first {\n"
        "\tchain incoming {\n"
        "\t\ttype filter hook prerouting priority -300; policy accept;\n"
        '\t\tiifname != { "eth0", "eth1" } return comment "by another device"\n'
        "\t\tip6 daddr { fe80::/10, ff00::/8 } counter return\n"
        "\t\ticmpv6 type { 130, 143 } return\n"
        "\t\tip6 saddr fe80::5 counter ip6 saddr set 2001:db8::5\n"
        "\t}\n"
        "\n"
        "\tchain outgoing {\n"
        "\t\ttype filter hook postrouting priority -300; policy accept;\n"
        '\t\toifname "eth0" counter\n'
        "\t}\n"
        "\n"
        "\tchain spare {\n"
        "\t}\n"
        "}"
    )


def test_text_of_what_is_not_ours() -> None:
    """Unknown parts are printed as they were found, and a table that nft could not read says so."""
    strange = Table("slb", [Chain("a", [Rule([Unknown('{"drop": null}')])])], others=[Unknown('{"set": {}}')])
    assert str(strange) == 'table ip6 slb {\n\t# {"set": {}}\n\n\tchain a {\n\t\t# {"drop": null}\n\t}\n}'
    unread = Table("slb", flags=["owner", "dormant"], is_readable=False)
    assert str(unread) == "table ip6 slb {\n\tflags dormant,owner\n\t# nft cannot tell what is in it\n}"
    assert str(Table("slb")) == "table ip6 slb {\n}"


OTHER: dict[type, dict[str, Any]] = {
    Table: {"name": "other", "chains": [], "flags": ["dormant"], "is_readable": False, "others": []},
    Chain: {"name": "other", "rules": [], "hook": "input", "priority": 5, "policy": "drop", "type": "nat"},
    Rule: {"statements": [], "comment": "other"},
    Match: {"field": "ip6 saddr", "values": ["::/0"], "negated": True},
    Rewrite: {"field": "ip6 daddr", "address": "::5"},
}


@pytest.mark.parametrize(
    "value", [HOST, HOST.chains[0], HOST.chains[0].rules[0], Match("ip6 daddr", ["::1"]), Rewrite("ip6 saddr", "::1")]
)
def test_every_field_is_compared_and_shown(value: Any) -> None:
    """Two values that differ in one field are not equal and print differently."""
    fields = {field.name for field in attrs.fields(type(value))}
    assert fields == set(OTHER[type(value)])
    for name in fields:
        other = attrs.evolve(value, **{name: OTHER[type(value)][name]})
        assert other != value
        assert str(other) != str(value), name
