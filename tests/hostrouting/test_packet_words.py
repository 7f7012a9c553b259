"""hostrouting.check.report: the packets that rules match, in words for operators."""

import pytest

from hostrouting.check.report import packets_line
from hostrouting.fib import Condition
from hostrouting.model import Rule

RULE = Rule(family=4, priority=100)


def about(*selectors: tuple[str, str], holds: bool = True) -> Condition:
    """One condition of a rule."""
    return Condition(RULE, selectors, holds)


@pytest.mark.parametrize(
    ("selector", "words", "opposite"),
    [
        (("from", "10.0.0.5/32"), "from 10.0.0.5", "not from 10.0.0.5"),
        (("from", "10.0.0.0/8"), "from 10.0.0.0/8", "not from 10.0.0.0/8"),
        (("from", "fd00::5/128"), "from fd00::5", "not from fd00::5"),
        (("from", "fd00::/32"), "from fd00::/32", "not from fd00::/32"),
        (("iif", "lo"), "sent by this host", "forwarded by this host"),
        (("iif", "eth1"), "that arrive on eth1", "that do not arrive on eth1"),
        (("oif", "eth1"), "from sockets bound to eth1", "not from sockets bound to eth1"),
        (("uidrange", "0-0"), "of user 0", "not of user 0"),
        (("uidrange", "0-99"), "of users 0-99", "not of users 0-99"),
        (("fwmark", "0x1/0xffffffff"), "with fwmark 0x1", "without fwmark 0x1"),
        (("fwmark", "0x1/0xff"), "with fwmark 0x1/0xff", "without fwmark 0x1/0xff"),
        (("dport", "53-53"), "with dport 53", "without dport 53"),
        (("sport", "53-99"), "with sport 53-99", "without sport 53-99"),
        (("ipproto", "6"), "with ipproto 6", "without ipproto 6"),
        (("tun_id", "5"), "with tun_id 5", "without tun_id 5"),
    ],
)
def test_each_selector(selector: tuple[str, str], words: str, opposite: str) -> None:
    """A selector and its opposite are worded as properties of packets."""
    assert packets_line(((about(selector),),)) == f"packets {words} (rule 100)"
    assert packets_line(((about(selector, holds=False),),)) == f"packets {opposite} (rule 100)"


def test_a_reachable_gateway() -> None:
    """A condition about the host is worded without a rule."""
    gateway = ("reachable", "fe80::1 dev e0")
    assert packets_line(((about(gateway),),)) == "packets sent while fe80::1 dev e0 is reachable"
    assert packets_line(((about(gateway, holds=False),),)) == "packets sent while fe80::1 dev e0 is not reachable"


def test_several_selectors_of_one_rule() -> None:
    """All conditions are true; or the packets are all except those for which all are true."""
    both = (("fwmark", "0x1/0xff"), ("uidrange", "0-0"))
    assert packets_line(((about(*both),),)) == "packets with fwmark 0x1/0xff, of user 0 (rule 100)"
    assert packets_line(((about(*both, holds=False),),)) == (
        "packets unless with fwmark 0x1/0xff and of user 0 (rule 100)"
    )


def test_no_sentence_without_end() -> None:
    """Only the first few of many conditions or kinds are listed, with the number of the remaining ones."""
    many = [about(("uidrange", f"0-{number}"), holds=False) for number in range(200)]
    line = packets_line((tuple(many), *((condition,) for condition in many[:9])))
    assert line == (
        "packets not of user 0 (rule 100) and not of users 0-1 (rule 100) and not of users 0-2 (rule 100) "
        "and not of users 0-3 (rule 100) and 196 more conditions, "
        "or not of user 0 (rule 100), or not of users 0-1 (rule 100), or of 7 more kinds,"
    )
    assert packets_line((tuple(many[:5]),)).endswith(" and 1 more condition")
    assert packets_line(tuple((condition,) for condition in many[:4])).endswith(", or of 1 more kind,")
