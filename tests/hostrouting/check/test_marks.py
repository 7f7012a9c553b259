"""hostrouting.check.marks: whose marks an answer depends on."""

from types import SimpleNamespace
from typing import Any

from hostrouting.check.marks import marks_of
from hostrouting.fib.decision import Condition
from hostrouting.model.prefix import IPV4, IPV6
from hostrouting.model.rule import Rule


def _rule(priority: int, mark: int = 0, mask: int = 0xFF, family: int = IPV4) -> Rule:
    return Rule(family=family, priority=priority, fwmark=mark, fwmask=mask, table=100)


def test_the_rules_that_are_asked_about() -> None:
    """Those of notes whose reason is not known, and those of the family that a dropped answer's mark matches."""
    rules = [_rule(1, 0x1), _rule(2, 0x2), _rule(3), _rule(4, mask=0), _rule(5, 0x1, family=IPV6), _rule(6, 0x6)]
    notes = [
        SimpleNamespace(known=known, cases=((Condition(rule, (), holds=True),),))
        for known, rule in ((True, rules[1]), (False, rules[5]))
    ]
    family = SimpleNamespace(
        fib=SimpleNamespace(snapshot=SimpleNamespace(rules=rules)),
        report=SimpleNamespace(family=IPV4, cidrs=()),
        dropped=[SimpleNamespace(facts={"mark": mark}) for mark in (0, 1)],
        notes=notes,
    )
    found: Any = SimpleNamespace(families=[family])
    assert [(sought.name, sought.rules) for sought in marks_of(found, None).sought] == [
        ("0x6/0xff", (6,)),
        ("0x1/0xff", (1,)),
        ("0x0/0xff", (3,)),
    ]
