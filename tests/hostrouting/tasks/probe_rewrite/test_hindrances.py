"""The facts about a host that block probes, each as a sentence."""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import Any

import attrs
import pytest

from hostrouting.config import ProbeRewriteConfig
from hostrouting.model import Address, Link, Snapshot, as_ip
from hostrouting.tasks.probe_rewrite.rules import OwnAddress, Surroundings, find_hindrances, has_address, own_addresses

CONFIG = ProbeRewriteConfig(True, ("eth0",))
KNOWN = CONFIG.global_address
ETH0 = Link(name="eth0", index=2)
WELL: dict[str, Any] = {"links": (ETH0,), "forwarding": True, "accept_ra": {"eth0": 2}, "way_back": ("eth0",)}


def test_none() -> None:
    """A host without faults has no hindrances; a fact that is not known is not a hindrance."""
    assert find_hindrances(CONFIG, Surroundings(**WELL)) == ()
    assert find_hindrances(CONFIG, Surroundings(links=(ETH0,))) == ()


@pytest.mark.parametrize(
    ("changed", "kind", "certain", "words"),
    [
        ({"links": ()}, "link-missing", True, "there is no device eth0"),
        ({"links": (Link(name="eth0", index=2, up=False),)}, "link-down", True, "eth0 is down"),
        ({"links": (Link(name="eth0", index=2, master="br0"),)}, "link-enslaved", True, "name br0 in"),
        ({"forwarding": False}, "forwarding-off", True, "net.ipv6.conf.all.forwarding is 0"),
        ({"accept_ra": {"eth0": 1}}, "accept-ra", False, "set it to 2"),
        ({"addresses": (OwnAddress(KNOWN, "eth0"),)}, "own-address", True, "is an address of this host, on eth0"),
        ({"way_back": ()}, "no-way-back", True, "has no route"),
        ({"way_back": ("eth1",)}, "no-way-back", True, "leaves by eth1"),
        ({"tables": (("ip6", "azureSLBProbe"),)}, "other-table", False, "table ip6 azureSLBProbe"),
    ],
)
def test_each(changed: dict[str, Any], kind: str, certain: bool, words: str) -> None:  # noqa: FBT001
    """Each hindrance has a kind, a text, and whether it certainly keeps the rewrite from working."""
    [found] = find_hindrances(CONFIG, Surroundings(**{**WELL, **changed}))
    assert (found.facts["kind"], found.severity) == (kind, "warning" if certain else "note")
    assert words in found.sentence


@pytest.mark.parametrize(("kind", "expected"), [("vrf", 0), ("bridge", 1), ("bond", 1), ("team", 1), ("", 1)])
def test_what_the_link_is_a_port_of(kind: str, expected: int) -> None:
    """For a port of a bridge or bond, packets arrive on the bridge or bond; for a port of a VRF, on the port."""
    around = {**WELL, "links": (attrs.evolve(ETH0, master="top"), Link(name="top", index=3, kind=kind))}
    assert len(find_hindrances(CONFIG, Surroundings(**around))) == expected


def test_own_addresses() -> None:
    """The addresses of the snapshot, each with the result of duplicate address detection."""
    text = (
        "00000000000000000000000000000001 01 80 10 80       lo\n"
        "20010db8000000000000000000000001 02 40 00 40     eth0\n"
        "fe80000000000000020d3afffe000001 02 40 20 c8     eth0\n"
    )
    known = (("::1", "lo"), ("2001:db8::1", "eth0"), ("2001:db8::1", "eth1"), ("fe80::20d:3aff:fe00:1", "eth0"))
    addresses = [Address(ip=as_ip(ip), length=64, dev=dev) for ip, dev in known]
    there = Snapshot(addresses=(Address(ip=as_ip("10.0.0.1"), length=8, dev="eth0"), *addresses))
    assert own_addresses(there, text) == (
        OwnAddress(IPv6Address("::1"), "lo"),
        OwnAddress(IPv6Address("2001:db8::1"), "eth0", "tentative"),
        OwnAddress(IPv6Address("2001:db8::1"), "eth1"),
        OwnAddress(IPv6Address("fe80::20d:3aff:fe00:1"), "eth0", "duplicate"),
    )


@pytest.mark.parametrize(
    ("address", "state", "dev", "told"),
    [
        ("2001:db8::1", "usable", "eth0", True),
        ("fd00::1", "usable", "eth0", True),
        ("fe80::1", "usable", "eth0", False),
        ("2001:db8::1", "usable", "eth1", False),
        ("2001:db8::1", "tentative", "eth0", None),
        ("2001:db8::1", "duplicate", "eth0", False),
    ],
)
def test_has_address(address: str, state: Any, dev: str, told: bool | None) -> None:  # noqa: FBT001
    """A global or unique local address of an uplink counts, once duplicate address detection has accepted it."""
    assert has_address(("eth0",), (OwnAddress(IPv6Address(address), dev, state),)) is told
