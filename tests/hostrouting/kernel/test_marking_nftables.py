"""Rules of nftables that set marks, read from JSON; `test_marking_against_kernel` has them with real packets."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostrouting.kernel.marking import ALL_BITS, Marking, MarkSetter, nft_rules

MARK = {"meta": {"key": "mark"}}
CONNECTION = {"ct": {"key": "mark"}}


def listing(*entries: dict[str, Any]) -> str:
    """What nft prints for these chains and rules."""
    return json.dumps({"nftables": [{"metainfo": {"version": "1.0.6"}}, *entries]})


def setters(text: str, *, family: int) -> tuple[MarkSetter, ...]:
    """The rules that set marks in this list."""
    return nft_rules(text, family=family).setters


def effects(text: str) -> list[tuple[str, ...]]:
    """The effect of each rule in this list."""
    found = nft_rules(text, family=4)
    return [Marking(hooks=found.hooks).effects(setter) for setter in found.setters]


def chain(name: str, *, kind: str = "filter", hook: str = "", family: str = "ip", at: int = 0) -> dict[str, Any]:
    """A chain; a base chain if it has a hook."""
    base = {"type": kind, "hook": hook, "prio": at, "policy": "accept"} if hook else {}
    return {"chain": {"family": family, "table": "t", "name": name, "handle": 1, **base}}


def rule(where: str, *statements: dict[str, Any], family: str = "ip", handle: int = 7) -> dict[str, Any]:
    """A rule in this chain."""
    return {"rule": {"family": family, "table": "t", "chain": where, "handle": handle, "expr": list(statements)}}


def sets(value: object) -> dict[str, Any]:
    """A statement that sets the mark."""
    return {"mangle": {"key": MARK, "value": value}}


def test_where_it_is() -> None:
    """A rule names its table, its chain and its handle, with which nft deletes it."""
    [found] = setters(listing(chain("out", kind="route", hook="output"), rule("out", sets(0x10))), family=4)
    assert found.place == "nftables table ip t, chain out, rule with handle 7"
    assert found.text == "sets 0x10"


def test_in_a_bridge() -> None:
    """What a bridge takes in for this host passes its hook input before IP sees it."""
    its = [(hook, chain(hook, hook=hook, family="bridge")) for hook in ("input", "forward", "output")]
    listed = [entry for hook, it in its for entry in (it, rule(hook, sets(1), family="bridge"))]
    assert effects(listing(*listed)) == [("arriving",), ("none",), ("none",)]


def test_a_named_map_of_verdicts() -> None:
    """Nft does not list its elements, so it may lead to every chain of the table."""
    its = [chain("c", hook="prerouting"), chain("s"), rule("s", sets(1))]
    assert effects(listing(*its, rule("c", {"vmap": {"key": MARK, "data": "@m"}}))) == [("arriving",)]


def test_chains_that_others_lead_to() -> None:
    """A chain counts for each base chain from which it is reached, also if chains jump to each other; others never run."""
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
    [found] = setters(its, family=4)
    assert found.value == 5
    assert effects(its) == [("arriving", "own")]


@pytest.mark.parametrize(
    ("family", "counts"),
    [("ip", [4]), ("ip6", [6]), ("inet", [4, 6]), ("netdev", [4, 6]), ("bridge", [4, 6]), ("arp", [])],
)
def test_families(family: str, counts: list[int]) -> None:
    """A table of the other family is left out."""
    its = listing(chain("c", hook="prerouting", family=family), rule("c", sets(1), family=family))
    assert [it for it in (4, 6) if setters(its, family=it)] == counts


def expressions() -> st.SearchStrategy[Any]:
    """Expressions for a mark: numbers, the packet's own mark, the connection's, and operations on them."""
    leaves = st.one_of(st.integers(0, ALL_BITS), st.just(MARK), st.just(CONNECTION))
    signs = st.sampled_from(["|", "&", "^"])

    def operations(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        shifts = st.tuples(st.sampled_from(["<<", ">>"]), parts, st.integers(0, 40)).map(lambda it: {it[0]: [*it[1:]]})
        return shifts | st.tuples(signs, st.lists(parts, min_size=2, max_size=3)).map(lambda it: {it[0]: it[1]})

    return st.recursive(leaves, operations, max_leaves=6)


def computed(expression: Any, own: int, connection: int) -> int:
    """The mark of a packet with this mark, of a connection with this mark."""
    if expression == MARK:
        return own
    if expression == CONNECTION:
        return connection
    if isinstance(expression, int):
        return expression
    [(sign, parts)] = expression.items()
    found, *others = [computed(part, own, connection) for part in parts]
    for other in others:
        found = {
            "|": found | other,
            "&": found & other,
            "^": found ^ other,
            "<<": found << min(other, 64) & ALL_BITS,
            ">>": found >> other,
        }[sign]
    return found


@given(expressions(), st.integers(0, ALL_BITS), st.integers(0, ALL_BITS), st.integers(1, ALL_BITS))
def test_what_an_expression_can_set(expression: Any, own: int, connection: int, mask: int) -> None:
    """Whatever the marks of packet and connection are: the bits that are known, and kept, are right."""
    [found] = setters(listing(chain("c", hook="prerouting"), rule("c", sets(expression))), family=4)
    mark = computed(expression, own, connection)
    assert mark & ~found.writes == own & ~found.writes
    assert mark & found.writes & ~found.unknown == found.value
    # Of a packet without a mark, every bit that is set comes from this rule.
    mark = computed(expression, 0, connection)
    assert found.can_set(mark & mask, mask) or not mark & mask


@pytest.mark.parametrize(
    "value", [{"map": {"key": "x", "data": "@m"}}, {"numgen": {"mod": 2}}, {"<<": [1, CONNECTION]}]
)
def test_a_mark_that_depends_on_the_packet(value: object) -> None:
    """A mark that depends on the packet can have any value."""
    [found] = setters(listing(chain("c", hook="prerouting"), rule("c", sets(value))), family=4)
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
    assert setters(listing(chain("c", hook="prerouting"), rule("c", *its)), family=4) == ()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"nftables": 7}', '{"nftables": [{"rule": {"family": "ip"}}]}'])
def test_other_text(text: str) -> None:
    """What nft does not print is a ValueError."""
    with pytest.raises(ValueError, match=r"nft printed|Expecting"):
        setters(text, family=4)


def test_bits_that_are_kept() -> None:
    """A rule sets its own bits, and others may have set the rest; it does not set a mark without its bits."""
    [found] = setters(listing(chain("c", hook="prerouting"), rule("c", sets({"|": [MARK, 0x20]}))), family=4)
    assert found.text == "sets 0x20, and keeps the bits outside 0x20"
    assert [found.can_set(mark, 0xFF) for mark in (0x20, 0x30, 0x10, 0)] == [True, True, False, True]
    assert not found.can_set(0, 0x40)
    [found] = setters(listing(chain("c", hook="prerouting"), rule("c", sets(0x20))), family=4)
    assert [found.can_set(mark, 0xFF) for mark in (0x20, 0x30, 0x10, 0)] == [True, False, False, True]
