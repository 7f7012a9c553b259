"""hostrouting.model.link_kinds: what a device is for routing, by its kind and link type."""

import pytest

from hostrouting.model.link_kinds import is_card, is_tap, is_tunnel, leads_out
from hostrouting.model.snapshot import ARPHRD_INFINIBAND, ARPHRD_LOOPBACK, Link

NO_ETHERNET = 65534  # of most tunnels
LIKE_ETHERNET = "batadv erspan geneve gretap ip6erspan ip6gretap vxlan"


@pytest.mark.parametrize(
    ("kind", "type_", "facts"),
    [
        ("", 1, "leads out, card"),
        ("", ARPHRD_INFINIBAND, ""),
        ("ipoib", ARPHRD_INFINIBAND, ""),
        ("", ARPHRD_LOOPBACK, ""),
        ("dummy", 1, ""),
        ("ifb", 1, ""),
        ("vrf", 1, ""),
        ("wwan", NO_ETHERNET, "leads out, card"),
        ("rmnet", NO_ETHERNET, "leads out, card"),
        ("tun", 1, "leads out, tunnel, tap"),
        ("tun", NO_ETHERNET, "leads out, tunnel"),
        *((kind, 1, "leads out, tunnel") for kind in LIKE_ETHERNET.split()),
        ("wireguard", NO_ETHERNET, "leads out, tunnel"),
        ("ppp", 512, "leads out, tunnel"),
        ("bridge", 1, "leads out"),
    ],
)
def test_what_a_device_is(kind: str, type_: int, facts: str) -> None:
    """A card leads out and is not a tunnel; a bridge is one only by a port that leads out."""
    link = Link("a", 2, kind, type_)
    answers = {
        "leads out": leads_out(link),
        "tunnel": is_tunnel(link),
        "tap": is_tap(link),
        "card": is_card(link, {"a": link}),
    }
    assert ", ".join(name for name, answer in answers.items() if answer) == facts


@pytest.mark.parametrize(
    ("kind", "master", "is_one"),
    [
        ("", "br0", True),
        ("bond", "br0", True),
        ("", "br1", False),
        ("veth", "br0", False),
        ("tun", "br0", False),
    ],
)
def test_a_bridge(kind: str, master: str, *, is_one: bool) -> None:
    """It is a card by a port that is hardware, and not by those of containers and machines."""
    assert not any([leads_out(None), is_tunnel(None), is_tap(None), is_card(None, {})])
    bridge = Link("br0", 2, "bridge")
    port = Link("port", 3, kind, master=master)
    assert is_card(bridge, {"br0": bridge, "port": port}) is is_one
