"""Redacted snapshots: nothing of the site is left, and everything is judged as before."""

from typing import Any, get_args, get_origin, get_type_hints

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostrouting.check.exceptions import is_like
from hostrouting.config.cni import CNIS, DEFAULT_ALLOWED_DEVS
from hostrouting.config.settings import HostRoutingConfig, RouteOverlapConfig
from hostrouting.fib.engine import Fib
from hostrouting.host.redaction import DEVICE_FIELDS, Redaction
from hostrouting.model.prefix import Prefix, as_ip, ip_at, width_of
from hostrouting.model.route import NextHop, Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Address, Link, Snapshot
from hostrouting.testing import cni_node, ecmp_node, h200, plain_vm, vpn_node
from tests.support.redacted import judged_alike
from tests.support.strategies import blocks, snapshots

KEYS = st.binary(min_size=1, max_size=8).map(Redaction)
FAMILIES = st.sampled_from([4, 6])
HOSTS = {"h200": h200, "vpn": vpn_node, "cni": cni_node, "ecmp": ecmp_node, "plain": plain_vm}


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Any, Any]:
    """Two addresses of one family, often with a long common prefix."""
    family = draw(FAMILIES)
    width = width_of(family)
    one = draw(st.integers(0, (1 << width) - 1))
    return ip_at(family, one), ip_at(
        family, one ^ draw(st.integers(0, width - 1).flatmap(lambda n: st.integers(0, 1 << n)))
    )


@given(KEYS, pairs())
def test_common_prefixes_stay(redaction: Redaction, pair: tuple[Any, Any]) -> None:
    """Two addresses with a common prefix of n bits, and not more, have one of n bits afterwards."""
    one, other = (int(redaction.address(address)) for address in pair)
    assert (one ^ other).bit_length() == (int(pair[0]) ^ int(pair[1])).bit_length()


@given(KEYS, pairs(), st.integers(0, 128))
def test_a_prefix_is_that_of_its_addresses(redaction: Redaction, pair: tuple[Any, Any], length: int) -> None:
    """An address is in a prefix before if and only if it is in it afterwards."""
    one, other = pair
    prefix = Prefix.around(one.version, int(one), min(length, width_of(one.version)))
    assert redaction.prefix(prefix).length == prefix.length
    assert (other in prefix) == (redaction.address(other) in redaction.prefix(prefix))


@pytest.mark.parametrize(
    "text", ["0.0.0.0/0", "0.0.0.0/1", "127.0.0.1/32", "169.254.169.254/32", "224.0.0.0/4", "::/0"]
)
@given(redaction=KEYS)
def test_what_stays(redaction: Redaction, text: str) -> None:
    """A block whose addresses have a meaning of their own stays."""
    assert str(redaction.prefix(Prefix.parse(text))) == text


@pytest.mark.parametrize(
    "text", ["10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fe80::/64"]
)
@given(redaction=KEYS, place=st.integers(0))
def test_what_stays_in_its_block(redaction: Redaction, text: str, place: int) -> None:
    """An address of a private or link-local network is replaced by one of the same network."""
    block = Prefix.parse(text)
    address = ip_at(block.family, block.first + place % (block.last - block.first + 1))
    assert redaction.prefix(block) == block
    assert redaction.address(address) in block


def test_the_key() -> None:
    """Each run has a key of its own, so the same address becomes different ones."""
    address = as_ip("fd12:3456:789a:1::abcd")
    assert len({Redaction().address(address) for _ in range(8)}) == 8


def test_each_network_has_its_own_bits() -> None:
    """What one address became does not tell what an address in another network became."""
    redaction = Redaction(b"key")
    addresses = [as_ip(f"10.{number}.0.1") for number in range(64)]
    assert len({int(redaction.address(address)) ^ int(address) for address in addresses}) > 48


@pytest.mark.parametrize("dev", [dev for cni in CNIS for dev in cni.devs])
def test_a_device_of_a_cni(dev: str) -> None:
    """The new name matches the same patterns, whatever the kind; what a pattern leaves open is not the old text."""
    glob, _, kind = dev.partition(" ")
    name = glob.replace("*", "secret").replace("?", "7")
    new = Redaction().device(name)
    assert [is_like(new, [it], kind) for it in DEFAULT_ALLOWED_DEVS] == [
        is_like(name, [it], kind) for it in DEFAULT_ALLOWED_DEVS
    ]
    assert is_like(new, [glob])
    assert (new == name) == (name == glob)


def test_other_devices() -> None:
    """Any other name is a number, the same wherever the device is named; and no two devices get one name."""
    redaction = Redaction()
    names = ["lo", "ib0", "acme-vpn", "dev2", *(f"wg518{number:02}" for number in range(100)), "wg518ab", "vethacme"]
    new = [redaction.device(name) for name in names]
    assert new[:4] == ["lo", "dev1", "dev2", "dev3"]
    assert new == [redaction.device(name) for name in names]
    assert len(set(new)) == len(names)
    assert new[-2:] == ["dev4", "veth0"]


def test_no_text_is_forgotten() -> None:
    """Each field that contains text is the name of a device, or a word that is the same on every host."""
    known = DEVICE_FIELDS | {"kind", "others", "skipped", "unread"}
    for kind in (Snapshot, Link, Address, Rule, Route, NextHop):
        hints = get_type_hints(kind)
        texts = {each.name for each in attrs.fields(kind) if str in leaves(hints[each.name])}
        assert texts <= known, f"what is in these fields of {kind.__name__}? redact it, or add it to the known ones"


def leaves(hint: Any) -> set[Any]:
    """The types in a type."""
    if get_origin(hint) is None or str(get_origin(hint)) == "typing.Literal":
        return {hint}
    return set().union(*map(leaves, get_args(hint)))


@given(redaction=KEYS, family=FAMILIES, data=st.data())
def test_each_packet_is_decided_as_before(redaction: Redaction, family: int, data: st.DataObject) -> None:
    """On any host, the redacted route decides for the redacted address, and the verdict is the same."""
    within = data.draw(blocks(family))
    host = data.draw(snapshots(within))
    new = redaction.snapshot(host)
    assert Snapshot.from_json(new.to_json()) == new
    before, after = Fib(host), Fib(new)
    for number in range(within.first, within.last + 1):
        address = ip_at(family, number)
        then, now = before.lookup(address), after.lookup(redaction.address(address))
        assert (then.kind, tuple(map(redaction.device, then.devs))) == (now.kind, now.devs)
    judged_alike(host, HostRoutingConfig(route_overlap=RouteOverlapConfig([within.to_network()])), redaction)


@pytest.mark.parametrize("name", HOSTS)
def test_known_hosts(name: str) -> None:
    """The verdicts on the hosts of the tests stay, and their names and addresses go."""
    host, redaction = HOSTS[name]().snapshot(), Redaction()
    check = RouteOverlapConfig(["172.16.0.0/12", "10.244.0.0/16", "fd00::/16"])
    judged_alike(host, HostRoutingConfig(route_overlap=check), redaction)
    assert '"eth0"' not in redaction.snapshot(host).to_json()
