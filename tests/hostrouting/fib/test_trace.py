"""hostrouting.fib.trace: the last rule of a trace is the one that decides, for every address of
random nodes.
"""

import pytest
from hypothesis import given

from hostrouting.fib.engine import Fib
from hostrouting.fib.trace import Tried, trace_rules
from hostrouting.model.prefix import Prefix, ip_at
from hostrouting.model.route import TABLE_MAIN, Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Snapshot
from hostrouting.testing import plain_vm
from tests.support.nodes import block_of, nodes


@given(nodes())
def test_a_trace_ends_where_the_engine_decides(node: tuple[int, Snapshot]) -> None:
    """Rules come in their order, and only the last one decides, with the route of the engine's
    decision.
    """
    family, snapshot = node
    fib = Fib(snapshot, family)
    block = block_of(family)
    for number in range(block.first, block.last + 1):
        address = ip_at(family, number)
        decision = fib.lookup(address)
        tried = list(trace_rules(fib, address))

        assert [each.rule for each in tried] == list(fib.rules[: len(tried)])
        ends = [each for each in tried if each.result in {"decides", "refuses", "not-judged"}]
        if decision.rule is None:
            assert decision.kind == "no-route"
            assert ends == []
        else:
            [end] = ends
            assert end is tried[-1]
            assert end.rule == decision.rule
            assert end.route == decision.route


def test_a_route_that_is_not_judged_is_not_shown() -> None:
    """Whether the lookup ends with it depends on which devices are in the group."""
    vm = plain_vm().snapshot()
    by_group = Rule(family=4, priority=7, table=TABLE_MAIN, suppress_ifgroup=1)
    fib = Fib(vm._replace(rules=(by_group, *vm.rules)), 4)
    *_, tried = trace_rules(fib, "128.0.0.0")
    assert tried == Tried(by_group, "not-judged", route=None)


def test_a_trace_ends_at_what_is_not_judged() -> None:
    """A rule that does nothing is passed over; after a goto, nothing is known."""
    nothing = Rule(family=4, priority=7, action="nop")
    jump = Rule(family=4, priority=8, action="goto", target=32766)
    snapshot = plain_vm().snapshot()
    fib = Fib(snapshot._replace(rules=(nothing, jump, *snapshot.rules)), 4)
    tried = [(each.rule.priority, each.result) for each in trace_rules(fib, "128.0.0.0")]
    assert tried == [(0, "no-route"), (7, "skipped"), (8, "not-judged")]


BEFORE_A_SOURCE = ("family", "source", "invert")
"""A rule with `from`, or `not from`, and a packet that has no source yet."""


@pytest.mark.parametrize("iif", [None, "lo"])
@pytest.mark.parametrize(
    BEFORE_A_SOURCE,
    [
        (4, "0.0.0.0/32", False),
        (4, "0.0.0.0/8", False),
        (4, "10.0.0.0/8", True),
        (6, "::/128", True),
    ],
)
def test_a_source_that_a_packet_without_one_has(
    family: int, source: str, *, invert: bool, iif: str | None
) -> None:
    """IPv4 compares `from` with 0.0.0.0 while a packet has no source; in IPv6 each `not from`
    matches. With `iif lo`, the rule selects the same packets of this host.
    """
    by_source = Rule(family, 9, table=7, src=Prefix.parse(source), invert=invert, iif=iif)
    local, tried = traced(by_source)
    assert local.rule.priority == 0
    assert tried.rule == by_source
    assert tried.result == "decides"
    assert tried.route == Route.to(Prefix(family, 0, 0), dev="wg0", table=7)


@pytest.mark.parametrize("iif", [None, "lo"])
@pytest.mark.parametrize(
    BEFORE_A_SOURCE,
    [
        (4, "0.0.0.1/32", False),
        (4, "10.0.0.0/8", False),
        (4, "0.0.0.0/32", True),
        (6, "::/128", False),
        (6, "::/8", False),
    ],
)
def test_a_source_that_a_packet_without_one_does_not_have(
    family: int, source: str, *, invert: bool, iif: str | None
) -> None:
    """The rule is passed over, and table main is next."""
    by_source = Rule(family, 9, table=7, src=Prefix.parse(source), invert=invert, iif=iif)
    local, tried, main, *_ = traced(by_source)
    assert local.rule.priority == 0
    assert tried.rule == by_source
    assert tried.result == "skipped"
    assert tried.route is None
    assert main.rule.priority == 32766


def traced(by_source: Rule) -> list[Tried]:
    """The trace of a packet that has no source yet, on a plain VM that has this rule between its
    own. Table 7 leads everything to wg0.
    """
    family = by_source.family
    vm = plain_vm().snapshot()
    rules = sorted((by_source, *vm.rules), key=lambda rule: rule.priority)
    default = Route.to(Prefix(family, 0, 0), dev="wg0", table=7)
    host = vm.with_routes([default])._replace(rules=tuple(rules))
    return list(trace_rules(Fib(host, family), ip_at(family, 1 << 31)))
