"""The rules of ebtables that azure-vnet adds for a pod, in every spelling that ebtables prints.

Each is in chain PREROUTING of table nat, and has exactly the options of one of three shapes. A rule
with one option more or less, a negation, or a network instead of an address is not a pod's.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.model.prefix import IP, as_ip

if TYPE_CHECKING:
    from hostrouting.azure_vnet.ebtables import BridgeRule

VIRTUAL_MAC = "12:34:56:78:9a:bc"
"""The MAC address in the rules that answer ARP in tunnel mode, for every pod."""

_IPV4 = r"(?P<ip>[0-9.]+)(?:/32|/255\.255\.255\.255)?"
_IPV6 = r"(?P<ip>[0-9a-f]*:[0-9a-f:.]+)(?:/128|/ffff(?::ffff){7})?"
_MAC = r"(?P<mac>[0-9a-f]{1,2}(?::[0-9a-f]{1,2}){5})"
_ARP = rf"--arp-op Request --arpreply-mac {_MAC} (?:--arpreply-target DROP )?-j arpreply"
_DNAT = rf"--to-dst {_MAC} -i (?P<uplink>\S+) -j dnat"

_SHAPES = (
    re.compile(rf"--arp-ip-dst {_IPV4} {_ARP} -p (?:ARP|0x0?806)"),
    re.compile(rf"(?:--dnat-target ACCEPT )?--ip-dst {_IPV4} {_DNAT} -p (?:IPv4|0x0?800)"),
    re.compile(rf"(?:--dnat-target ACCEPT )?--ip6-dst {_IPV6} {_DNAT} -p (?:IPv6|0x86dd)"),
)
"""The shapes of a pod's rule: its options, sorted.

The programs of ebtables print a default target or not, the protocol as a name or a number, an
address with or without a mask, and a MAC address with or without leading zeros.
"""


class PodRule(NamedTuple):
    """A rule that azure-vnet adds for a pod."""

    rule: BridgeRule
    ip: IP
    mac: str
    """As in a `LinkLayerView`: in lower case, with all zeros."""
    uplink: str | None  # the incoming device; None for an ARP rule


def pod_rule(rule: BridgeRule) -> PodRule | None:
    """Recognise a rule that azure-vnet has added for a pod, and read the pod's addresses in it;
    None if it is another rule.
    """
    # Each option is one text with its values, such as "-i eth0".
    chain, *options = re.split(r" +(?=-)", rule.text)
    if chain != "PREROUTING":
        return None
    text = " ".join(sorted(options))  # ebtables prints any order; the shapes are sorted
    match = next(filter(None, (shape.fullmatch(text) for shape in _SHAPES)), None)
    if match is None:
        return None
    mac = ":".join(byte.zfill(2) for byte in match["mac"].split(":"))
    if int(mac[:2], 16) & 1:  # a broadcast or multicast address, which no device has
        return None
    uplink = match.groupdict().get("uplink")  # the shape for ARP has no such group
    with suppress(ValueError):  # the shape also fits texts such as 10.1.0.555
        return PodRule(rule, as_ip(match["ip"]), mac, uplink)
    return None
