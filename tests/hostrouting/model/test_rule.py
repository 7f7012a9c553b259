"""hostrouting.model.rule: a rule in the words of `ip rule`, and Linux's own rules."""

from typing import Any

import pytest

from hostrouting.model.prefix import Prefix
from hostrouting.model.rule import Rule, default_rules

SRC, DST = Prefix.parse("10.0.0.5"), Prefix.parse("fd00::/8")
IN_ORDER = (
    "from 10.0.0.5 to 10.0.0.5 tos 0x10 dscp 2 fwmark 0x1/0x9 iif a oif b uidrange 0-9 "
    "ipproto tcp sport 8 dport 9 new 7"
)
OTHERS = [("new", "7"), ("dport", "9"), ("sport", "8"), ("ipproto", "tcp")]
OTHERS += [("uidrange", "0-9"), ("oif", "b"), ("dscp", "2"), ("tos", "0x10")]
IN_FIELDS = {"src": SRC, "dst": SRC, "fwmark": 1, "fwmask": 9, "iif": "a", "others": OTHERS}


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"family": 6, "dst": DST}, "to fd00::/8"),
        ({"family": 6, "src": Prefix.parse("fd00::5")}, "from fd00::5"),
        ({"fwmark": 0xCA6C, "fwmask": 0xFFFFFFFF, "invert": True}, "not fwmark 0xca6c"),
        ({"fwmask": 0xFF}, "fwmark 0x0/0xff"),
        (IN_FIELDS, IN_ORDER),
        ({"fwmark": 1, "l3mdev": True, "suppress_prefixlength": 0, "table": 9}, ""),
    ],
)
def test_a_selection_is_worded_and_ordered_as_by_ip_rule(fields: dict[str, Any], text: str) -> None:
    """Each selector with its value: a known word at its place, and an unknown one at the end."""
    rule = Rule(**{"family": 4, "priority": 7, **fields})
    assert rule.selection == text
    assert " ".join(map(" ".join, rule.selectors())) == text.removeprefix("not ")
    assert text.removeprefix("not ") in str(rule)


@pytest.mark.parametrize(
    ("fields", "effect"),
    [
        ({"l3mdev": True, "table": 9}, "lookup [l3mdev-table]"),
        ({"action": "goto", "target": 9}, "goto 9"),
        ({"action": "nop", "iif": "a"}, "iif a nop"),
        (
            {"table": 254, "suppress_prefixlength": 0, "suppress_ifgroup": 0},
            "lookup main suppress_prefixlength 0 suppress_ifgroup 0",
        ),
    ],
)
def test_an_effect(fields: dict[str, Any], effect: str) -> None:
    """What `ip rule` prints after the selectors, and takes there."""
    assert str(Rule(4, 1000, **fields)) == f"1000: from all {effect}"


def test_the_rules_of_linux() -> None:
    rules = ["0: from all lookup local", "32766: from all lookup main"]
    assert [*map(str, default_rules(6))] == rules
    assert [*map(str, default_rules(4))] == [*rules, "32767: from all lookup default"]
