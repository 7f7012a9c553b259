"""hostrouting.fib.trace: the last rule of a trace is the one that decides, for every address of
random nodes.
"""

from hypothesis import given

from hostrouting.fib.engine import Fib
from hostrouting.fib.trace import trace_rules
from hostrouting.model.prefix import ip_at
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


def test_a_trace_ends_at_what_is_not_judged() -> None:
    """A rule that does nothing is passed over; after a goto, nothing is known."""
    nothing = Rule(family=4, priority=7, action="nop")
    jump = Rule(family=4, priority=8, action="goto", target=32766)
    snapshot = plain_vm().snapshot()
    fib = Fib(snapshot._replace(rules=(nothing, jump, *snapshot.rules)), 4)
    tried = [(each.rule.priority, each.result) for each in trace_rules(fib, "128.0.0.0")]
    assert tried == [(0, "no-route"), (7, "skipped"), (8, "not-judged")]
