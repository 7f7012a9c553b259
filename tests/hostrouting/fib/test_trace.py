"""hostrouting.fib.trace: the last rule of a trace is the one that decides, for every address of
random nodes.
"""

import pytest
from hypothesis import given

from hostrouting.fib.engine import Fib
from hostrouting.fib.trace import trace_rules
from hostrouting.model.prefix import Prefix, ip_at
from hostrouting.model.route import Route
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
    fib, block = Fib(snapshot, family), block_of(family)
    for number in range(block.first, block.last + 1):
        tried = tuple(trace_rules(fib, ip_at(family, number)))
        decision = fib.lookup(ip_at(family, number))
        assert [each.rule for each in tried] == list(fib.rules[: len(tried)])
        ends = [each for each in tried if each.result in {"decides", "refuses", "not-judged"}]
        if decision.rule is None:
            assert (decision.kind, ends) == ("no-route", [])
        else:
            assert [(each.rule, each.route) for each in ends] == [(decision.rule, decision.route)]
            assert tried[-1] is ends[0]


def test_a_trace_ends_at_what_is_not_judged() -> None:
    """A rule that does nothing is passed over; after a goto, nothing is known."""
    rules = (
        Rule(family=4, priority=7, action="nop"),
        Rule(family=4, priority=8, action="goto", target=32766),
    )
    snapshot = plain_vm().snapshot()
    fib = Fib(snapshot._replace(rules=(*rules, *snapshot.rules)), 4)
    tried = [(each.rule.priority, each.result) for each in trace_rules(fib, ip_at(4, 1 << 31))]
    assert tried == [(0, "no-route"), (7, "skipped"), (8, "not-judged")]


@pytest.mark.parametrize(
    ("family", "source", "invert", "result"),
    [
        (4, "0.0.0.0/32", False, "decides"),
        (4, "0.0.0.0/8", False, "decides"),
        (4, "0.0.0.1/32", False, "skipped"),
        (4, "10.0.0.0/8", False, "skipped"),
        (4, "0.0.0.0/32", True, "skipped"),
        (4, "10.0.0.0/8", True, "decides"),
        (6, "::/128", False, "skipped"),
        (6, "::/8", False, "skipped"),
        (6, "::/128", True, "decides"),
    ],
)
@pytest.mark.parametrize("iif", [None, "lo"])
def test_a_source_before_there_is_one(
    family: int, source: str, *, invert: bool, result: str, iif: str | None
) -> None:
    """IPv4 compares `from` with 0.0.0.0 while a packet has no source; in IPv6 no `from` matches.
    With `iif lo`, the rule selects the same packets of this host.
    """
    selecting = Rule(family, 9, table=7, src=Prefix.parse(source), invert=invert, iif=iif)
    host = plain_vm().snapshot()
    rules = sorted((selecting, *host.rules), key=lambda rule: (rule.family, rule.priority))
    default = Route.to(Prefix(family, 0, 0), dev="wg0", table=7)
    fib = Fib(host.with_routes([default])._replace(rules=tuple(rules)), family)
    local, tried, *later = trace_rules(fib, ip_at(family, 1 << 31))
    assert local.rule.priority == 0
    assert (tried.rule, tried.result) == (selecting, result)
    if result == "decides":
        assert tried.route == default
        assert later == []
    else:
        assert tried.route is None
        assert later[0].rule.priority == 32766
