"""nft's JSON, both ways, without nft."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostrouting.kernel.nftables import Chain, Counter, Match, Rule, Statement, Table, Unknown, Verdict
from hostrouting.kernel.nftables.table import listing, read_table, removing, replacing
from hostrouting.testing.filter_contracts import contract_table
from hostrouting.testing.nftables_strategies import tables

PACKETS = 7


def listed(table: Table) -> list[dict[str, Any]]:
    """What nft would list after creating the table: the added parts, with handles and packet counts."""
    commands = json.loads(replacing(table))["nftables"]
    found: list[dict[str, Any]] = [{"metainfo": {"version": "1.0.6", "json_schema_version": 1}}]
    for handle, command in enumerate(commands[2:], start=1):
        [(kind, value)] = command["add"].items()
        value["handle"] = handle
        for statement in value.get("expr", []):
            if "counter" in statement:
                statement["counter"] = {"packets": PACKETS, "bytes": 500}
        found.append({kind: value})
    return found


def read(entries: list[dict[str, Any]], name: str = "first") -> Table:
    """The table in such a listing."""
    return read_table(json.dumps({"nftables": entries}), name).table


def a_rule(*expressions: Any, **said: Any) -> list[dict[str, Any]]:
    """A listing of a table with one chain with one rule of these expressions."""
    own = {"family": "ip6", "table": "first"}
    return [
        {"table": {"family": "ip6", "name": "first", "handle": 1}},
        {"chain": {**own, "name": "c", "handle": 1}},
        {"rule": {**own, "chain": "c", "handle": 2, "expr": list(expressions), **said}},
    ]


def a_match(field: str, right: Any, op: str = "==") -> dict[str, Any]:
    """A match as nft lists it."""
    protocol, _, last = field.partition(" ")
    left = {"payload": {"protocol": protocol, "field": last}} if last else {"meta": {"key": field}}
    return {"match": {"op": op, "left": left, "right": right}}


def statements(*expressions: Any) -> tuple[Statement, ...]:
    """The rule read from such expressions."""
    [chain] = read(a_rule(*expressions)).chains
    return chain.rules[0].statements


@given(tables())
def test_what_is_told_is_what_is_read(table: Table) -> None:
    """A table listed by nft as it was created is read as an equal table, with its packet counts."""
    found = read_table(json.dumps({"nftables": listed(table)}), table.name)
    assert found.table == table
    assert found.counters == (PACKETS,) * table.counts


def test_the_transaction() -> None:
    """The table is added, deleted and added, after the tables that it replaces; there are no other commands."""
    commands = json.loads(replacing(Table("first"), without=["old", "first", "old"]))["nftables"]
    told = [(verb, it["table"]["name"]) for command in commands for verb, it in command.items()]
    assert told == [("add", "old"), ("delete", "old"), ("add", "first"), ("delete", "first"), ("add", "first")]
    assert {it["table"]["family"] for command in commands for it in command.values()} == {"ip6"}
    gone = [
        (verb, it["table"]["name"])
        for it in json.loads(removing(["a", "b", "a"]))["nftables"]
        for verb, it in it.items()
    ]
    assert gone == [("add", "a"), ("delete", "a"), ("add", "b"), ("delete", "b")]
    assert json.loads(listing("a")) == {"nftables": [{"list": {"table": {"family": "ip6", "name": "a"}}}]}


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        (a_match("icmpv6 type", "mld-listener-done"), [132]),
        (a_match("icmpv6 type", "mld-listener-reduction"), [132]),
        (a_match("icmpv6 type", {"set": ["nd-redirect", 200]}), [137, 200]),
        (a_match("icmpv6 type", {"range": ["mld-listener-query", 133]}), [130, 131, 132, 133]),
        (a_match("icmpv6 type", {"set": [{"range": [134, 135]}, 1]}), [1, 134, 135]),
        (a_match("ip6 saddr", "FE80:0:0::1"), ["fe80::1"]),
        (a_match("ip6 saddr", {"set": [{"range": ["fe80::4", "fe80::7"]}]}), ["fe80::4/126"]),
        (a_match("ip6 saddr", {"set": [{"prefix": {"addr": "fe80::", "len": 11}}, "fe80::1"]}), ["fe80::/11"]),
        (a_match("iifname", {"set": ["b", "a"]}), ["a", "b"]),
    ],
)
def test_spellings(expression: Any, values: list[Any]) -> None:
    """However nft writes numbers, ranges and addresses, and in any order, their values are read."""
    [found] = statements(expression)
    assert isinstance(found, Match)
    assert found == Match(found.field, values)


@pytest.mark.parametrize(
    "expression",
    [
        {"drop": None},
        {"accept": None},
        {"jump": {"target": "x"}},
        {"return": {"strange": 1}},
        {"counter": "named"},
        {"counter": {"packets": 1, "bytes": 1, "more": 1}},
        {"limit": {"rate": 5}},
        a_match("iifname", "eth*"),
        a_match("iifname", "@devices"),
        a_match("iifname", {"set": ["eth0", {"elem": {"val": "eth1", "timeout": 5}}]}),
        a_match("iif", "eth0"),
        a_match("iifname", "eth0", "in"),
        a_match("iifname", "eth0", "<"),
        a_match("ip6 saddr", "@sources"),
        a_match("ip6 saddr", {"range": ["fe80::9", "fe80::1"]}),
        a_match("ip6 saddr", {"prefix": {"addr": "fe80::", "len": 200}}),
        a_match("ip6 saddr", {"prefix": {"addr": "fe80::1", "len": 10}}),
        a_match("ip6 saddr", {"&": ["fe80::", "ff::"]}),
        a_match("ip6 nexthdr", 58),
        a_match("ip daddr", "10.0.0.1"),
        a_match("icmpv6 type", "strange"),
        a_match("icmpv6 type", 300),
        a_match("icmpv6 type", {"set": []}),
        a_match("icmpv6 code", 0),
        {"match": {**a_match("iifname", "eth0")["match"], "more": 1}},
        {"mangle": {"key": {"payload": {"protocol": "ip6", "field": "saddr"}}, "value": {"map": {}}}},
        {"mangle": {"key": {"payload": {"protocol": "ip6", "field": "saddr"}}, "value": "strange"}},
        {"mangle": {"key": {"payload": {"protocol": "ip6", "field": "hoplimit"}}, "value": 1}},
        {"mangle": {"key": {"meta": {"key": "iifname"}}, "value": "::1"}},
    ],
)
def test_what_is_not_ours(expression: Any) -> None:
    """A statement that we do not create is kept as JSON, at its place among the others."""
    found = statements({"counter": {"packets": 1, "bytes": 1}}, expression, {"return": None})
    assert found == (Counter(), Unknown(json.dumps(expression, sort_keys=True)), Verdict("return"))


def test_what_else_is_in_a_table() -> None:
    """Sets and other unknown parts of a table, chain or rule make it a different table; handles do not."""
    plain = read(a_rule())
    assert plain == Table("first", [Chain("c", [Rule([])])])
    more_of_the_table, more_of_the_chain = a_rule(), a_rule()
    more_of_the_table[0]["table"]["comment"] = "x"
    more_of_the_chain[1]["chain"]["comment"] = "x"
    of_no_chain = a_rule()
    of_no_chain[2]["rule"]["chain"] = "other"
    tables_found = [
        read([*a_rule(), {"set": {"family": "ip6", "name": "s", "table": "first", "handle": 5}}]),
        read(more_of_the_table),
        read(more_of_the_chain),
        read(of_no_chain),
    ]
    for found in tables_found:
        assert found.is_readable
        assert len(found.others) == 1
        assert "handle" not in found.others[0].text
    [chain] = read(a_rule(position=3)).chains
    assert chain.rules[0].statements == (Unknown('{"position": 3}'),)


@pytest.mark.parametrize(("flags", "read_as"), [("dormant", ["dormant"]), (["owner", "dormant"], ["dormant", "owner"])])
def test_flags(flags: Any, read_as: list[str]) -> None:
    """Flags are read if nft prints them, as a single one or a list."""
    entries = a_rule()
    entries[0]["table"]["flags"] = flags
    found = read(entries)
    assert list(found.flags) == read_as
    assert found.is_readable


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"nftables": [{"metainfo": {}}, {"table": {"family": "ip6", "name": "first", "handle": 1, "flags": ',
        '{"nftables": [{"table": {"family": "ip6", "name": "first", "handle": 1, "flags": "Lester Gooch #5"}}]}',
        '{"nftables": [{"table": {"family": "ip6", "name": "other", "handle": 1}}]}',
        '{"nftables": [{"table": {"name": "first"}}, {"chain": {"name": "c", "hook": "input"}}]}',
        '{"nftables": [{"table": {"name": "first"}}, {"rule": {"chain": "c", "expr": [{"a": 1, "b": 2}]}}]}',
        '{"nftables": {}}',
        "[]",
    ],
)
def test_what_cannot_be_read(text: str) -> None:
    """A truncated or invalid listing gives an unreadable table, with the flags known from elsewhere."""
    unread = Table("first", flags=["dormant"], is_readable=False)
    assert read_table(text, "first", flags=["dormant"]).table == unread


@given(st.data())
def test_cut_short(data: st.DataObject) -> None:
    """A listing truncated at any position gives no table."""
    whole = json.dumps({"nftables": listed(contract_table())})
    found = read_table(whole[: data.draw(st.integers(0, len(whole) - 1))], "first")
    assert found.table == Table("first", is_readable=False)
    assert found.counters == ()
