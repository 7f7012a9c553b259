"""A snapshot survives JSON unchanged; all faults of another document are named."""

import json
from operator import itemgetter
from typing import Any

import pytest
from hypothesis import example, given

from hostrouting.errors import ConfigError
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import NextHop, Route
from hostrouting.model.rule import Rule, default_rules
from hostrouting.model.snapshot import SAVE, Address, Link, Snapshot
from tests.support.ip_text import routes_of, text_rows
from tests.support.nodes import nodes

EMPTY = json.loads(Snapshot((), (), (), ()).to_json())
BLOCK, IP = Prefix.parse("fd00::/64"), as_ip("fd00::1")
LINK = Link("n" * 255, 1, "veth", 32, up=False, master="é")
ADDRESS = Address(IP, 64, "é", 253, as_ip("fd00::2"))
RULE = Rule(6, 7, "goto", 100, 9, invert=True, src=BLOCK, dst=BLOCK, iif="lo", fwmark=1)
RULE = RULE._replace(fwmask=0xFF, others=(("tos", "0x10"),), l3mdev=True)
RULE = RULE._replace(suppress_prefixlength=0, suppress_ifgroup=7)
HOP = NextHop("é", as_ip("fe80::1"), 2, onlink=True, linkdown=True, dead=True)
ROUTE = Route(BLOCK, (HOP,), 100, 1, 0x10, "local", 253, 4, IP, 1400, 1300, 9, BLOCK, "high")
ROUTE = ROUTE._replace(expired=True, unread=("encap seg6",))
FULL = Snapshot((LINK, Link("é", 2)), (ADDRESS,), (RULE,), (ROUTE,), ipv6_forwarding=True)
FULL = FULL._replace(restless=True)


@pytest.mark.parametrize("value", [LINK, ADDRESS, RULE, HOP, ROUTE, FULL], ids=type)
def test_no_field_is_as_usual(value: Any) -> None:
    """So nothing can be lost unseen on the way there and back."""
    for name, usual in value._field_defaults.items():
        assert getattr(value, name) != usual, name


@given(nodes().map(itemgetter(1)))
@example(FULL)
def test_there_and_back(snapshot: Snapshot) -> None:
    text = snapshot.to_json()
    assert Snapshot.from_json(text) == Snapshot.from_json(text.encode()) == snapshot
    assert {"schema", "links", "addresses", "rules", "routes"} <= json.loads(text).keys()


@pytest.mark.parametrize(
    ("cls", "values"),
    [
        (Link, ["", 1, True, None]),
        (Address, [0, None]),
        (Rule, ["to_table", 0, None, False, None, None, None, 0, 0, (), False, None, None]),
        (NextHop, [None, None, 1, False, False, False]),
        (Route, [(), 254, 0, 0, "unicast", 0, 0, None, None, None, None, None, "medium", None, ()]),
        (Snapshot, [None, False]),
    ],
)
def test_what_a_document_leaves_out(cls: Any, values: list[object]) -> None:
    """A field that is left out has the same value in every release."""
    assert [*map(repr, cls._field_defaults.values())] == [*map(repr, values)]


def test_routes_of_a_snapshot() -> None:
    """Added ones take the place of ours with their keys."""
    ours, added, *others = routes_of(
        "fd00::/8 dev a proto ours; fd00::/8 dev b proto ours; fd00::/8 dev c proto 4; fc00::/9 "
        "dev a proto ours; fd00::/8 tos 4 dev a proto ours; fd00::/8 from fd::/16 dev a proto ours"
    )
    there = Snapshot((), (), default_rules(6), (ours, *others))
    assert there.with_routes([added]).routes == (*others, added)


def test_the_network_of_an_address() -> None:
    """Its own, or that of its peer, as Linux routes it."""
    own = Address(as_ip("10.0.0.4"), 24, "eth0")
    with_peer = own._replace(peer=as_ip("10.9.0.1"))
    assert str(own.network) == "10.0.0.0/24"
    assert str(with_peer.network) == "10.9.0.0/24"


@text_rows("""
{"routes": [{"prefix": "\\u001b[2J"}]} | routes[0].prefix: "\\u001b[2J" is not a network without
{"routes": [{"prefix": "::/0", "type": []}]} | routes[0].type: [] is not one of unspec, unicast
{"routes": [{"prefix": "::/0", "next_hops": [{"weight": 257}]}]} \
| routes[0].next_hops[0].weight: 257 is not an integer from 1 to 256
{"rules": [{"family": 4, "priority": 1, "others": [["a"]]}]} \
| rules[0].others[0]: a list is not of the right length
{"rules": [{"family": 4, "priority": 1, "others": [["a", "b", "c"]]}]} \
| rules[0].others[0]: a list is not of the right length
{"addresses": [{"ip": "127.0.0.1", "length": 33, "dev": "lo"}, \
{"ip": "127.0.0.1", "length": 32, "dev": "lo"}]} \
| addresses[0].length: 33 is more than the 32 bits of the address
{"addresses": [{"ip": "fd00::1", "length": 64, "dev": "lo", "peer": "10.0.0.1"}]} \
| addresses[0].length: 64 is more than the 32 bits of the address
{"links": [{"name": "a\\nACTION: b", "index": 1}]} | links[0].name: "a\\nACTION: b" has a space or
{"rules": [{"family": 7, "priority": 1}]} | rules[0].family: 7 is not 4 or 6
{"links": [{}], "routes": null} | the snapshot has 3 faults: links[0].name: missing links[0].index
""")
def test_faults(row: list[str]) -> None:
    """Each fault has the path, the value and the rule; one reading finds all of them."""
    members, fault = row
    with pytest.raises(ConfigError) as caught:
        Snapshot.from_json(json.dumps(EMPTY | json.loads(members)))
    message = " ".join(str(caught.value).split())
    assert message.removeprefix("the snapshot: ").startswith(fault)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[", "is not JSON: "),
        (b'{"links": [{"name": "\xc3', "is not JSON: "),
        ("[]", f"is not 'hostrouting/snapshot/1'; {SAVE}"),
        (
            f'{{"schema": "{0:061}"}}',
            f"is '{0:059}, and this version reads 'hostrouting/snapshot/1'",
        ),
    ],
)
def test_what_is_not_a_snapshot(text: str | bytes, fault: str) -> None:
    """Another document says what a snapshot is, and how to get one."""
    with pytest.raises(ConfigError, match=f"^the snapshot {fault}"):
        Snapshot.from_json(text)
