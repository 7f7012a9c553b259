"""hostrouting.fib.trace: the last rule of a trace is the one that decides, for every address of random nodes."""

from hypothesis import given

from hostrouting.fib.engine import Fib
from hostrouting.fib.trace import trace_rules
from hostrouting.model.prefix import as_ip, ip_at
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Snapshot
from hostrouting.testing import plain_vm
from tests.support.nodes import block_of, nodes


@given(nodes())
def test_a_trace_ends_where_the_engine_decides(node: tuple[int, Snapshot]) -> None:
    """Rules come in their order, and only the last one decides, with the route of the engine's decision."""
    family, snapshot = node
    fib, block = Fib(snapshot, family), block_of(family)
    for number in range(block.first, block.last + 1):
        tried = tuple(trace_rules(fib, ip_at(family, number)))
        decision = fib.lookup(ip_at(family, number))
        assert [each.rule for each in tried] == list(fib.rules[: len(tried)])
        ends = [each for each in tried if each.result in {"decides", "refuses"}]
        if decision.rule is None:
            assert (decision.kind, ends) == ("no-route", [])
        else:
            assert [(each.rule, each.route) for each in ends] == [(decision.rule, decision.route)]
            assert tried[-1] is ends[0]


def test_a_rule_that_is_not_judged() -> None:
    """Such a rule is named, and the trace goes on."""
    host = plain_vm().snapshot()
    fib = Fib(host._replace(rules=(*host.rules, Rule(family=4, priority=9, action="goto", target=100))), 4)
    assert [each.result for each in trace_rules(fib, as_ip("172.16.5.9"))] == ["no-route", "not-judged", "decides"]
