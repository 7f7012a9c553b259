"""What the kinds and the link types of devices mean for routing: which ones lead out of the host,
and which are tunnels, taps or network cards.

These are facts about Linux. `routes.uplink` and `check.expected` say through which device packets
should leave. A card is a network card, or a device that is built on one (`is_card`).
"""

from collections.abc import Mapping

from hostrouting.model.snapshot import ARPHRD_ETHERNET, ARPHRD_INFINIBAND, Link

_DEAD_ENDS = frozenset({"dummy", "ifb", "vrf"})
"""Kinds of devices that send nothing out of the host; a VRF routes packets again, with its own
table.
"""
_TAP = "tun"
"""The kind of a tap, and of a tunnel of a program: only their link types differ (`is_tap`)."""
_TUNNELS_LIKE_ETHERNET = frozenset(
    {"batadv", "erspan", "geneve", "gretap", "ip6erspan", "ip6gretap", "vxlan", _TAP}
)
"""Kinds of tunnels that can have the link type of Ethernet. They come from Linux's ip_gre.c,
ip6_gre.c, vxlan, geneve.c, tun.c and net/batman-adv. An Ethernet device of L2TP is not recognised
as a tunnel, because it has no kind.
"""
_KINDS_OF_HARDWARE = frozenset({"", "rmnet", "wwan"})
"""Kinds of devices that are hardware, whatever their link type: "rmnet" and "wwan" are modems."""
_LINK_TYPES_OF_CARDS = frozenset({ARPHRD_ETHERNET, ARPHRD_INFINIBAND})
"""Only tunnels have another link type, and loopback, which has the empty kind."""
BRIDGE = "bridge"
"""The kind of a device that may lead only to guests or pods of this host."""
OF_GUESTS = frozenset({"veth", _TAP})
"""Kinds of ports by which a bridge leads to containers and virtual machines."""
LINES = frozenset({"ppp"})
"""Kinds of tunnels that can be the line to a provider (PPPoE), and rightly have the only default
route then.
"""


def leads_out(link: Link | None) -> bool:
    """Whether a default route through this device counts as a way out of the host. Tunnels count.
    InfiniBand devices do not, because they seldom lead to an IP router, but a configuration can
    expect them. A device that the snapshot does not list (None) does not count either.
    """
    if link is None or link.loopback:
        return False
    return link.type != ARPHRD_INFINIBAND and link.kind not in _DEAD_ENDS


def is_tunnel(link: Link | None) -> bool:
    """Whether the device is a tunnel: it wraps packets or hands them to a program, and another
    device sends them. Hardware is never a tunnel, whatever its link type.
    """
    if link is None or link.kind in _KINDS_OF_HARDWARE:
        return False
    # Most tunnels have a link type that no card has; the others are recognised by their kind.
    return link.type not in _LINK_TYPES_OF_CARDS or link.kind in _TUNNELS_LIKE_ETHERNET


def is_tap(link: Link | None) -> bool:
    """Whether the device is a tap, which hands Ethernet frames to a program: a VPN, a virtual
    machine, or Open vSwitch in user space. A tun device has the same kind, but no Ethernet.
    """
    return link is not None and link.kind == _TAP and link.type == ARPHRD_ETHERNET


def is_card(link: Link | None, links: Mapping[str, Link]) -> bool:
    """Whether the device is a network card, or is built on one, and so can lead to the network of
    the host. A bridge counts if at least one of its ports leads elsewhere than to a container or
    virtual machine. InfiniBand does not count (`leads_out`).
    """
    if link is None or is_tunnel(link) or not leads_out(link):
        return False
    if link.kind != BRIDGE:
        return True
    ports = [port for port in links.values() if port.master == link.name]
    return any(port.kind not in OF_GUESTS for port in ports)
