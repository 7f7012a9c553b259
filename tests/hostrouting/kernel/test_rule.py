"""hostrouting.kernel._rule: one entry for each selector, and one row here for each entry; and the way to text and back."""

import struct
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostrouting.kernel._fib.engine import Fib
from hostrouting.kernel._fib.packet import PLAIN, Flow
from hostrouting.kernel._rule import SELECTORS, FullRule, Selector, selector_of
from hostrouting.kernel.netlink.read import decode_selectors
from hostrouting.model.prefix import IPV4, Prefix
from hostrouting.model.route import Route
from hostrouting.model.rule import Rule, default_rules
from hostrouting.model.snapshot import Link, Snapshot
from hostrouting.testing.kernel.text import print_rules
from tests.support.operations import rules

LINKS = (Link(name="eth0", index=2), Link(name="wg0", index=3))
# The fixed header of a rule message from Linux.
HEADER = {"family": 4, "src": 0, "dst": 0, "tos": 0}


@attrs.frozen
class Row:
    """A selector of a rule: as text, as `ip rule` prints it, as bytes; and matching packets."""

    fields: dict[str, Any]
    text: str
    shown: str
    raw: dict[int, bytes]
    header: dict[str, int] = attrs.field(factory=dict)
    has: tuple[Flow, ...] = ()
    lacks: tuple[Flow, ...] = (PLAIN,)


def plain(**known: Any) -> Flow:
    """A plain packet with this additional property."""
    return attrs.evolve(PLAIN, **known)


ROWS: dict[str, Row] = {
    "in": Row({"l3mdev": True}, "a VRF", "", {19: b"\1"}),
    "from": Row(
        {"src": Prefix.parse("10.0.0.5")},
        "10.0.0.5",
        "from 10.0.0.5",
        {2: bytes([10, 0, 0, 5])},
        {"src": 32},
        (plain(source="10.0.0.5"),),
        (plain(source="10.0.0.4"), plain(source="::a00:5"), PLAIN),
    ),
    "to": Row(
        {"dst": Prefix.parse("172.16.0.0/16")},
        "172.16.0.0/16",
        "to 172.16.0.0/16",
        {1: bytes([172, 16, 0, 0])},
        {"dst": 16},
        (PLAIN,),
        (),
    ),
    "tos": Row(
        {"tos": 0x10}, "0x10", "tos 0x10", {}, {"tos": 0x10}, (plain(tos=0x10), plain(tos=0xF1)), (PLAIN, plain(tos=8))
    ),
    "dscp": Row(
        {"dscp": (0xA, 0x3F)},
        "0xa",
        "dscp 0xa",
        {25: b"\x0a", 30: b"\x3f"},
        has=(plain(tos=0x28), plain(tos=0x2B)),
        lacks=(PLAIN, plain(tos=0x08), plain(tos=0x68)),
    ),
    "fwmark": Row(
        {"fwmark": 5, "fwmask": 0xFFFFFFFF},
        "0x5",
        "fwmark 0x5",
        {10: struct.pack("=I", 5), 16: b"\xff" * 4},
        has=(plain(mark=5),),
        lacks=(PLAIN, plain(mark=4)),
    ),
    "iif": Row(
        {"iif": "eth0"}, "eth0", "iif eth0", {3: b"eth0\0"}, has=(plain(iif="eth0"),), lacks=(PLAIN, plain(iif="wg0"))
    ),
    "oif": Row({"oif": "wg0"}, "wg0", "oif wg0", {17: b"wg0\0"}, has=(plain(oif="wg0"),)),
    "uidrange": Row(
        {"uids": (1, 9)},
        "1-9",
        "uidrange 1-9",
        {20: struct.pack("=II", 1, 9)},
        has=(plain(uid=1), plain(uid=9)),
        lacks=(PLAIN, plain(uid=10)),
    ),
    "ipproto": Row({"ipproto": 6}, "tcp", "ipproto tcp", {22: b"\6"}, has=(plain(ipproto=6),)),
    "sport": Row(
        {"sports": (1, 1023)},
        "1-1023",
        "sport 1-1023",
        {23: struct.pack("=HH", 1, 1023)},
        has=(plain(sport=1), plain(sport=1023)),
        lacks=(PLAIN, plain(sport=1024)),
    ),
    "dport": Row(
        {"dports": (53, 53)},
        "53",
        "dport 53",
        {24: struct.pack("=HH", 53, 53)},
        has=(plain(dport=53),),
        lacks=(PLAIN, plain(dport=54)),
    ),
}
# The fields of a rule other than selectors: priority, action, protocol, and selectors known only by name.
NO_SELECTORS = {
    *("family", "priority", "action", "table", "target", "invert", "others", "protocol"),
    *("suppress_prefixlength", "suppress_ifgroup"),
}


def test_each_selector_has_its_entry_and_its_row() -> None:
    """Every field of FullRule and Flow is named by an entry, and every entry has a row here."""
    assert {selector.word for selector in SELECTORS} == ROWS.keys()
    assert {name for selector in SELECTORS for name in selector.fields} == set(
        attrs.fields_dict(FullRule)
    ) - NO_SELECTORS
    assert {selector.flow for selector in SELECTORS} - {""} == set(attrs.fields_dict(Flow))
    numbers = [number for selector in SELECTORS for number in (selector.attribute, selector.mask) if number]
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize("selector", SELECTORS, ids=lambda selector: selector.word)
class TestEachSelector:
    """The entry of a selector, in every place where it is used."""

    def test_is_worded(self, selector: Selector) -> None:
        """As `ip rule` and the fake kernel print it, and as text in a `Rule`."""
        row, rule = ROWS[selector.word], FullRule(family=4, priority=7, table=100, **ROWS[selector.word].fields)
        assert (selector.says(rule), selector.text(rule)) == (True, row.text)
        assert ((selector.word, row.text) in rule.rule.selectors()) is selector.worded
        assert [selector for selector in SELECTORS if selector.says(FullRule(family=4, priority=7))] == []
        [line] = print_rules([rule.rule], IPV4, ["eth0", "wg0"])
        assert f" {row.shown} " in line.replace(":\t", " ") or not selector.worded, line

    def test_is_decoded(self, selector: Selector) -> None:
        """The attributes of a rule message set its fields and no others; without them its fields are unset."""
        row = ROWS[selector.word]
        rule = FullRule(family=4, priority=7, **decode_selectors(row.raw, HEADER | row.header))
        assert rule == FullRule(family=4, priority=7, **row.fields)
        assert FullRule(family=4, priority=7, **decode_selectors({}, HEADER)) == FullRule(family=4, priority=7)

    def test_is_matched(self, selector: Selector) -> None:
        """Packets with it match the rule, others do not; and with `not` it is the other way round."""
        row = ROWS[selector.word]
        for invert in (False, True):
            rule = FullRule(family=4, priority=7, table=100, invert=invert, **row.fields).rule
            routes = (Route.to("0.0.0.0/0", dev="eth0"), Route.to("0.0.0.0/0", dev="wg0", table=100))
            fib = Fib(Snapshot(links=LINKS, rules=(*default_rules(4)[:1], rule, *default_rules(4)[1:]), routes=routes))
            for flow in row.has:
                bound = attrs.evolve(flow, oif="wg0") if flow.oif else flow
                assert (fib.lookup("172.16.5.9", bound).rule == rule) is not invert
            for flow in row.lacks:
                assert (fib.lookup("172.16.5.9", flow).rule == rule) is invert


def test_names_of_tos() -> None:
    """A type of service with a name is printed by name."""
    rule = FullRule(family=4, priority=7, tos=0xB8)
    assert selector_of("tos").shown(rule, ()) == "tos EF"


def test_a_device_that_is_not_there() -> None:
    """A rule for a missing device is printed as detached, and matches no packet; lo always exists."""
    for word in ("iif", "oif"):
        selector = selector_of(word)
        gone: dict[str, Any] = {word: "gone"}
        rule = FullRule(family=4, priority=7, **gone)
        assert selector.shown(rule, ["eth0"]) == f"{word} gone [detached]"
        assert not selector.possible(rule, ["eth0"])
        assert selector.possible(attrs.evolve(rule, **(gone | {word: "lo"})), [])


def test_what_linux_refuses() -> None:
    """Invalid ranges, in the kernel's words."""
    users, ports = selector_of("uidrange"), selector_of("sport")
    assert users.refusal(FullRule(family=4, priority=7, uids=(2, 1))) == "Invalid uid range"
    for span in ((0, 1), (2, 1), (1, 0xFFFF)):
        assert ports.refusal(FullRule(family=4, priority=7, sports=span)) == "Invalid port range"


@given(st.sampled_from([4, 6]).flatmap(rules))
def test_text_and_back(rule: Rule) -> None:
    """Each selector is read from its text, and written the same; nothing but unknown selectors stays text."""
    full = FullRule.of(rule)
    assert full.rule == rule
    assert FullRule.of(full.rule) == full
    assert not {"oif", "tos", "dscp", "uidrange", "ipproto"} & {word for word, _ in full.others}


@pytest.mark.parametrize(
    "other", [("dscp", "0x40"), ("ipproto", "ospf"), ("sport", "0x5/0xff"), ("sport", "65536"), ("uidrange", "a-b")]
)
def test_what_cannot_be_read_stays_text(other: tuple[str, str]) -> None:
    """A rule with such a text is never one for all packets; of two texts of one selector the second stays."""
    assert FullRule.of(Rule(family=4, priority=7, others=(other,))).others == (other,)
    twice = FullRule.of(Rule(family=4, priority=7, others=(("oif", "eth0"), ("oif", "eth1"))))
    assert (twice.oif, twice.others) == ("eth0", (("oif", "eth1"),))
