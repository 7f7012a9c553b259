"""Rules of nftables that set marks, read from JSON; `test_marked_packets` has them with real packets."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostrouting.marking.nft_rules import nft_setters
from hostrouting.marking.setter import ALL_BITS

MARK = {"meta": {"key": "mark"}}
CONNECTION = {"ct": {"key": "mark"}}


def listing(*entries: dict[str, Any]) -> str:
    """What nft prints for these chains and rules."""
    return json.dumps({"nftables": [{"metainfo": {"version": "1.0.6"}}, *entries]})


def chain(name: str, *, kind: str = "filter", hook: str = "", family: str = "ip") -> dict[str, Any]:
    """A chain; a base chain if it has a hook."""
    base = {"type": kind, "hook": hook, "prio": 0, "policy": "accept"} if hook else {}
    return {"chain": {"family": family, "table": "t", "name": name, "handle": 1, **base}}


def rule(where: str, *statements: dict[str, Any], family: str = "ip", handle: int = 7) -> dict[str, Any]:
    """A rule in this chain."""
    return {"rule": {"family": family, "table": "t", "chain": where, "handle": handle, "expr": list(statements)}}


def sets(value: object) -> dict[str, Any]:
    """A statement that sets the mark."""
    return {"mangle": {"key": MARK, "value": value}}


def test_where_it_is() -> None:
    """A rule names its table, its chain and its handle, with which nft deletes it."""
    [found] = nft_setters(listing(chain("out", kind="route", hook="output"), rule("out", sets(0x10))), family=4)
    assert found.place == "nftables table ip t, chain out, rule with handle 7"
    assert (found.text, found.effects) == ("sets 0x10", ("own",))


@pytest.mark.parametrize(
    ("kind", "hook", "effects"),
    [
        ("filter", "prerouting", ("arriving",)),
        ("nat", "prerouting", ("arriving",)),
        ("filter", "ingress", ("arriving",)),
        ("route", "output", ("own",)),
        ("filter", "output", ("none",)),
        ("nat", "output", ("none",)),
        ("filter", "forward", ("none",)),
        ("filter", "postrouting", ("none",)),
    ],
)
def test_when_it_changes_a_route(kind: str, hook: str, effects: tuple[str, ...]) -> None:
    """Before the route is looked up, or in a chain that has it looked up again."""
    [found] = nft_setters(listing(chain("c", kind=kind, hook=hook), rule("c", sets(1))), family=4)
    assert found.effects == effects


def test_chains_that_others_lead_to() -> None:
    """A chain counts for each base chain that leads to it, in a circle too; one that nothing leads to never runs."""
    its = listing(
        chain("pre", hook="prerouting"),
        chain("out", kind="route", hook="output"),
        *(chain(name) for name in ("a", "b", "alone")),
        rule("pre", {"jump": {"target": "a"}}),
        rule("out", {"vmap": {"key": MARK, "data": {"set": [[1, {"goto": {"target": "b"}}]]}}}),
        rule("a", {"jump": {"target": "b"}}),
        rule("b", {"jump": {"target": "a"}}, sets(5)),
        rule("alone", sets(6)),
    )
    [found] = nft_setters(its, family=4)
    assert (found.value, found.effects) == (5, ("arriving", "own"))


@pytest.mark.parametrize(
    ("family", "counts"),
    [("ip", [4]), ("ip6", [6]), ("inet", [4, 6]), ("netdev", [4, 6]), ("bridge", [4, 6]), ("arp", [])],
)
def test_families(family: str, counts: list[int]) -> None:
    """A table of the other family is left out."""
    its = listing(chain("c", hook="prerouting", family=family), rule("c", sets(1), family=family))
    assert [it for it in (4, 6) if nft_setters(its, family=it)] == counts


def expressions() -> st.SearchStrategy[Any]:
    """Expressions for a mark: numbers, the packet's own mark, the connection's, and operations on them."""
    leaves = st.one_of(st.integers(0, ALL_BITS), st.just(MARK), st.just(CONNECTION))
    signs = st.sampled_from(["|", "&", "^"])

    def operations(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        shifts = st.tuples(st.sampled_from(["<<", ">>"]), parts, st.integers(0, 40)).map(lambda it: {it[0]: [*it[1:]]})
        return shifts | st.tuples(signs, st.lists(parts, min_size=2, max_size=3)).map(lambda it: {it[0]: it[1]})

    return st.recursive(leaves, operations, max_leaves=6)


def computed(expression: Any, connection: int) -> int:
    """The mark of a packet without one, for a connection with this mark."""
    if expression == MARK:
        return 0
    if expression == CONNECTION:
        return connection
    if isinstance(expression, int):
        return expression
    [(sign, parts)] = expression.items()
    found, *others = [computed(it, connection) for it in parts]
    for other in others:
        found = {
            "|": found | other,
            "&": found & other,
            "^": found ^ other,
            "<<": found << other & ALL_BITS,
            ">>": found >> other,
        }[sign]
    return found


@given(expressions(), st.integers(0, ALL_BITS), st.integers(1, ALL_BITS))
def test_what_an_expression_can_set(expression: Any, connection: int, mask: int) -> None:
    """Whatever the connection's mark is, the rule says of the mark that it sets that it can set it."""
    [found] = nft_setters(listing(chain("c", hook="prerouting"), rule("c", sets(expression))), family=4)
    mark = computed(expression, connection)
    assert mark & ~found.unknown == found.value
    assert found.can_set(mark & mask, mask) is bool(mark & mask)


@pytest.mark.parametrize(
    "value", [{"map": {"key": "x", "data": "@m"}}, {"numgen": {"mod": 2}}, {"<<": [1, CONNECTION]}]
)
def test_a_mark_that_depends_on_the_packet(value: object) -> None:
    """It can be any mark."""
    [found] = nft_setters(listing(chain("c", hook="prerouting"), rule("c", sets(value))), family=4)
    assert found.text == "sets a mark that depends on the packet"
    assert found.can_set(0x10, 0x10)
    assert found.can_set(0xFFFF, ALL_BITS)


def test_what_sets_no_mark() -> None:
    """Rules that change something else, match a mark, or set the connection's."""
    its = [
        {"mangle": {"key": CONNECTION, "value": 7}},
        {"match": {"op": "==", "left": MARK, "right": 7}},
        {"mangle": {"key": {"meta": {"key": "priority"}}, "value": 7}},
    ]
    assert nft_setters(listing(chain("c", hook="prerouting"), rule("c", *its)), family=4) == ()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"nftables": 7}', '{"nftables": [{"rule": {"family": "ip"}}]}'])
def test_other_text(text: str) -> None:
    """What nft does not print is a ValueError."""
    with pytest.raises(ValueError, match=r"nft printed|Expecting"):
        nft_setters(text, family=4)


def test_a_mark_that_is_too_small() -> None:
    """A rule sets exactly its own bits: another mark is not set by it."""
    [found] = nft_setters(listing(chain("c", hook="prerouting"), rule("c", sets({"|": [MARK, 0x20]}))), family=4)
    assert found.can_set(0x20, 0x20)
    assert found.can_set(0x20, ALL_BITS)
    assert not found.can_set(0x10, 0x10)
    assert not found.can_set(0x30, 0x30)
    assert not found.can_set(0, ALL_BITS)
