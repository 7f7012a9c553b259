"""Saved hosts: they answer as the host did, and documents that no `ip` has printed are refused with their place.

Documents of a real `ip`: tests/hostrouting/boot/test_snapshot_script.py.
"""

import json
import struct
from collections.abc import Iterable, Iterator
from sys import byteorder
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostrouting.boot.scripts import render_snapshot_script
from hostrouting.errors import InputError
from hostrouting.host.saved import SCHEMA, is_ip_document, read_ip_document, snapshot_in
from hostrouting.kernel.netlink.channel import HEADER
from hostrouting.kernel.netlink.route_message import RTMSG, encode_change
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Link, Snapshot
from hostrouting.testing import h200
from tests.support.rawmessages import pack_rule
from tests.support.strategies import DEVICES, blocks, routes

INDEX = {name: index for index, name in enumerate(DEVICES, start=2)}
LINKS = [
    {"ifindex": index, "ifname": name, "flags": ["UP", "LOWER_UP"], "link_type": "[1]", "group": "0"}
    for name, index in INDEX.items()
]
RULES, ROUTES = b"\x86\x69\x70\x71", b"\x24\x12\x31\x45"


def saved(first: bytes, *messages: bytes) -> str:
    """A list as the script prints it."""
    return (first if byteorder == "little" else first[::-1]).hex() + b"".join(messages).hex()


def rule_message(rule: Rule) -> bytes:
    """The kernel's message about a rule."""
    body = pack_rule(rule)
    return HEADER.pack(HEADER.size + len(body), 32, 0, 0, 0) + body


def document(**parts: Any) -> dict[str, Any]:
    """A document of a host that has only devices and these parts."""
    empty = {f"{name}{family}": "" for name in ("addresses", "rules", "routes") for family in (4, 6)}
    return {
        "schema": SCHEMA,
        "ip": "",
        "links": LINKS,
        "settings4": [],
        "settings6": [],
        "on": [],
        "nexthops": [],
        **empty,
        **parts,
    }


def read(said: object) -> Snapshot:
    """The snapshot in a document."""
    return read_ip_document(json.dumps(said).encode())


def test_the_script_writes_this_schema() -> None:
    """The script prints the schema that is read, and a document is recognised by it."""
    assert f'"schema": "{SCHEMA}"' in render_snapshot_script()
    assert is_ip_document(json.dumps(document()).encode())
    assert not is_ip_document(Snapshot().to_json().encode())


@given(data=st.data())
def test_routes_of_both_families(data: st.DataObject) -> None:
    """Routes are read in their order, those of IPv4 first."""
    found = {family: data.draw(st.lists(routes(data.draw(blocks(family))), max_size=6)) for family in (4, 6)}
    lists = {
        f"routes{family}": saved(ROUTES, *(encode_change("add", it, INDEX.__getitem__) for it in some))
        for family, some in found.items()
    }
    expected = read_back([*found[4], *found[6]])
    assert [str(route) for route in read(document(**lists)).routes] == expected


def read_back(routes: Iterable[Route]) -> list[str]:
    """The routes in words, without the flags that only the kernel sets."""
    return [str(route).replace(" dead", "").replace(" linkdown", "") for route in routes]


def test_settings_of_all_devices() -> None:
    """A setting of "all" holds for every device; of rp_filter, the larger number."""
    said = [
        {"interface": "all", "rp_filter": "strict", "ignore_routes_with_linkdown": True},
        {"interface": "eth0", "rp_filter": "loose", "ignore_routes_with_linkdown": False},
        {"interface": "ib0", "rp_filter": "unknown", "ignore_routes_with_linkdown": False},
    ]
    found = {link.name: link for link in read(document(settings4=said)).links}
    assert all(link.ignore_routes_with_linkdown for link in found.values())
    assert [found[name].rp_filter for name in ("eth0", "ib0", "eth1")] == [2, 2, 1]


def test_settings_that_ip_does_not_show() -> None:
    """Settings are listed if they are not 0; one of "all" holds for every device, and for one that is created later."""
    said = [{"interface": "default", "rp_filter": "loose", "forwarding": True}]
    found = read(document(settings4=said, on=["eth0/accept_local", "all/src_valid_mark"]))
    links = {link.name: link for link in found.links}
    assert [links[name].accept_local for name in ("eth0", "ib0")] == [True, False]
    assert all(link.src_valid_mark and not link.route_localnet for link in links.values())
    expected = Link(name="default", index=0, rp_filter=2, forwarding=True, src_valid_mark=True)
    assert found.default_link == expected


@pytest.mark.parametrize("text", [h200().snapshot().to_json(indent=1), json.dumps(document(rules4=saved(RULES)))])
def test_half_a_file(text: str) -> None:
    """Wherever a file was cut, its message is the same, so a table of many files has one row for all such files.

    Kills: a message with the place of the cut, or one that depends on what was cut.
    """
    whole = text.replace('"eth0"', '"\u00e9th0"').encode()
    told = set()
    for end in range(1, len(whole), 7):
        with pytest.raises(InputError) as caught:
            snapshot_in(whole[:end])
        told.add(caught.value.problem)
    [problem] = told
    assert problem.startswith("this is not JSON: it ends too early")


@pytest.mark.parametrize("family", [4, 6])
def test_half_a_host(family: int) -> None:
    """A snapshot of one family is refused: a plan would not delete our routes of the other, and say that all is done.

    Kills: what was not read is taken for empty.
    """
    with pytest.raises(InputError, match=rf"family: only IPv{family} was read; save one with: hostrouting snapshot"):
        snapshot_in(h200().snapshot(family=family).to_json().encode())


def lengthened(message: bytes, begin: int) -> Iterator[tuple[int, bytes]]:
    """The number of each attribute, and the message in which this one is four bytes longer."""
    at = begin
    while at < len(message):
        length, kind = struct.unpack_from("=HH", message, at)
        end = at + (length + 3 & ~3)
        longer = struct.pack("=HH", end - at + 4, kind) + message[at + 4 : end] + b"\xff" * 4
        whole = message[:at] + longer + message[end:]
        yield kind, struct.pack("=I", len(whole)) + whole[4:]
        at = end


@pytest.mark.parametrize("family", [4, 6])
def test_long_attributes(family: int) -> None:
    """A number is the first four bytes, as in Linux, so what is read can be written again; an address is refused.

    Kills: a number from all bytes of its attribute, which no document of a snapshot can have.
    """
    addresses = {1, 2, 5, 7}  # RTA_DST, RTA_SRC, RTA_GATEWAY, RTA_PREFSRC
    ends = {4: ("10.0.0.0/8", "192.0.2.1"), 6: ("fd00::/8", "fd01::1")}
    network, address = ends[family]
    route = Route.to(network, dev="eth0", gateway=address, table=300, metric=7)
    route = attrs.evolve(route, prefsrc=as_ip(address), mtu=1400, advmss=1300)
    if family == 6:
        route = attrs.evolve(route, source=Prefix.parse("fd02::/16"), preference="high", expires=9)
    message = encode_change("add", route, INDEX.__getitem__)
    for kind, longer in lengthened(message, HEADER.size + RTMSG.size):
        said = document(**{f"routes{family}": saved(ROUTES, longer)})
        if kind in addresses:
            with pytest.raises(InputError, match=f"routes{family}: this is not as ip prints it"):
                read(said)
            continue
        found = read(said)
        assert found.routes == Snapshot.from_json(found.to_json()).routes
        assert [str(one) for one in found.routes] == read_back([route])


def test_keys_of_a_newer_script_are_skipped() -> None:
    """A key that a newer script added is skipped and named, and the rest is read.

    Kills: refusing the key, and skipping it without a trace.
    """
    found = read(document(more=1))
    assert found.skipped == ("'more' in the document",)
    assert attrs.evolve(found, skipped=()) == read(document())


def test_rules_of_another_family_are_left_out() -> None:
    """A kernel without IPv6 lists its IPv4 rules when asked for those of IPv6."""
    rule = Rule(family=4, priority=5, table=100)
    found = read(document(rules4=saved(RULES, rule_message(rule)), rules6=saved(RULES, rule_message(rule))))
    assert found.rules == (rule,)


BACKWARDS = saved(RULES)[6:8] + saved(RULES)[4:6] + saved(RULES)[2:4] + saved(RULES)[:2]
HALF = saved(RULES, rule_message(Rule(family=4, priority=5, table=100))[:-4])
FAULTS: dict[str, tuple[object, str, str]] = {
    "another schema": ({"schema": "x", "was": SCHEMA}, "schema", "must be 'hostrouting/ip-snapshot/1'"),
    "a list": ([SCHEMA], "schema", "must be"),
    "missing": ({"schema": SCHEMA}, "addresses4", "missing; take it again with the script"),
    "no list": (document(links=7), "links", "this is not as ip prints it (TypeError"),
    "no device": (document(links=[{}]), "links", "this is not as ip prints it (KeyError: 'ifname')"),
    "no number": (document(links=[{**LINKS[0], "ifindex": "2"}]), "links[0].index", "is not allowed here"),
    "a list as number": (document(links=[{**LINKS[0], "ifindex": []}]), "links", "(TypeError"),
    "an object as number": (document(links=[{**LINKS[0], "ifindex": {}}]), "links", "(TypeError"),
    "half a letter": (document(links=[{**LINKS[0], "ifname": "\ud800"}]), "links", "(UnicodeEncodeError"),
    "setting": (document(settings4=[7]), "settings4", "this is not as ip prints it"),
    "a setting of another kind": (
        document(on=["eth0/arp_notify"]),
        "on",
        "arp_notify is not one of accept_local, route_lo",
    ),
    "settings in another form": (document(on=[7]), "on", "(AttributeError"),
    "weight": (
        document(nexthops=[{"id": 5, "dev": "eth0"}, {"id": 6, "group": [{"id": 5, "weight": 0}]}]),
        "nexthops",
        "0 is not a weight",
    ),
    "not hexadecimal": (document(rules4="xy"), "rules4", "non-hexadecimal"),
    "of another list": (document(rules4=saved(ROUTES)), "rules4", "it does not begin with 0x71706986"),
    "another order": (document(rules4=BACKWARDS), "rules4", "-endian computer; read it on one of that kind"),
    "half a message": (document(rules6=HALF), "rules6", "at byte 4, a message of kind 32 is missing"),
    "no end": (document(routes4=saved(ROUTES, bytes(40))), "routes4", "at byte 4, a message of kind 24 is missing"),
    "no range": (
        document(rules4=saved(RULES, rule_message(Rule(family=4, priority=5, table=100, uids=(9, 5))))),
        "rules[0].uids",
        "it ends before it begins",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults(name: str) -> None:
    """Whatever is wrong is reported with its place."""
    said, path, problem = FAULTS[name]
    with pytest.raises(InputError) as caught:
        read(said)
    assert caught.value.path == path
    assert problem in caught.value.problem


@pytest.mark.parametrize("data", [b"", b"{", b"[" * 100_000, b'{"a": "\xff'])
def test_not_json(data: bytes) -> None:
    """The error says that the text is not JSON."""
    with pytest.raises(InputError, match=r"not JSON|nested too deep"):
        read_ip_document(data)


@given(data=st.data())
def test_any_other_byte(data: st.DataObject) -> None:
    """Messages with another byte somewhere are read or refused; whatever is read can be used."""
    block = data.draw(blocks(4))
    some = data.draw(st.lists(routes(block), min_size=1, max_size=3))
    listed = bytearray(bytes.fromhex(saved(ROUTES, *(encode_change("add", it, INDEX.__getitem__) for it in some))))
    for at in data.draw(st.lists(st.integers(0, len(listed) - 1), max_size=3)):
        listed[at] = data.draw(st.integers(0, 255))
    try:
        found = read(document(routes4=listed.hex()))
    except InputError:
        return
    assert found.to_json()


def test_one_of_many() -> None:
    """A route with a prefix that cannot be is refused at once, also among many that are alike."""
    many = [encode_change("add", Route.to(f"10.0.{at}.0/24", dev="eth0"), INDEX.__getitem__) for at in range(100)]
    assert len(read(document(routes4=saved(ROUTES, *many))).routes) == 100
    many[70] = many[70][: HEADER.size + 1] + b"\x99" + many[70][HEADER.size + 2 :]
    with pytest.raises(InputError, match="routes4"):
        read(document(routes4=saved(ROUTES, *many)))
