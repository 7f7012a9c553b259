"""What the kinds and the link types of devices mean for routing: which ones lead out of the host,
and which are tunnels, taps or network cards.

These are facts about Linux. `routes.uplink` and `check.expected` say through which device packets
should leave.
"""

from collections.abc import Mapping

from hostrouting.model.snapshot import ARPHRD_ETHERNET, ARPHRD_INFINIBAND, Link

_DEAD_ENDS = frozenset({"dummy", "ifb", "vrf"})
"""Kinds of devices that send nothing out of the host; a VRF routes packets again, with its own
table.
"""
_TAP = "tun"
"""The kind of a tap, and of a tunnel whose packets have no Ethernet header (`is_tap`)."""
_LIKE_ETHERNET = frozenset(
    {"batadv", "erspan", "geneve", "gretap", "ip6erspan", "ip6gretap", "vxlan", _TAP}
)
"""Kinds of tunnels that can look like Ethernet: in Linux, those of ip_gre.c, ip6_gre.c, vxlan,
geneve.c, tun.c and net/batman-adv. An Ethernet device of L2TP is missing: it has no kind.
"""
_NO_TUNNELS = frozenset({"", "rmnet", "wwan"})
"""Kinds of devices that are hardware, whatever their link type: "rmnet" and "wwan" are modems."""
_HARDWARE = frozenset({ARPHRD_ETHERNET, ARPHRD_INFINIBAND})
"""Link types that are not tunnels'. The loopback device has no kind."""
BRIDGE = "bridge"
"""The kind of a device that may lead only to guests or pods of this host."""
OF_GUESTS = frozenset({"veth", _TAP})
"""Kinds of ports by which a bridge leads to containers and virtual machines."""
LINES = frozenset({"ppp"})
"""Kinds of tunnels that are also a provider's line, and may have the only default route."""


def leads_out(link: Link | None) -> bool:
    """Whether a default route through this device can lead out of the host: so can each tunnel
    (`is_tunnel`). An InfiniBand device has to be named.
    """
    if link is None or link.loopback:
        return False
    return link.type != ARPHRD_INFINIBAND and link.kind not in _DEAD_ENDS


def is_tunnel(link: Link | None) -> bool:
    """Whether the packets of the device go to another device again."""
    if link is None or link.kind in _NO_TUNNELS:
        return False
    return link.type not in _HARDWARE or link.kind in _LIKE_ETHERNET


def is_tap(link: Link | None) -> bool:
    """Whether the device is a program's end of a cable.

    The program is a VPN, a virtual machine, or Open vSwitch in user space.
    """
    return link is not None and link.kind == _TAP and link.type == ARPHRD_ETHERNET


def is_card(link: Link | None, links: Mapping[str, Link]) -> bool:
    """Whether the device can lead to the network of the host, and is not a tunnel.

    A bridge can if it has another port than those of containers and virtual machines.
    """
    if link is None or is_tunnel(link) or not leads_out(link):
        return False
    if link.kind != BRIDGE:
        return True
    ports = [port for port in links.values() if port.master == link.name]
    return any(port.kind not in OF_GUESTS for port in ports)
