"""The edge to the link layer: devices, MAC addresses at both ends of veths, and neighbours.

`kernel` has the contract, its values, and the edge to Linux. The fake one is `hostrouting.testing.MemoryLinkLayer`.
"""

from hostrouting.kernel.neighbours.kernel import (
    STATES,
    EthernetLink,
    KernelLinkLayer,
    LinkLayer,
    LinkLayerView,
    Neighbour,
    PeerMac,
    State,
    UnknownPeer,
    canonical_mac,
)

__all__ = [
    # the edge
    "LinkLayer",
    "KernelLinkLayer",
    # its values
    "LinkLayerView",
    "EthernetLink",
    "PeerMac",
    "UnknownPeer",
    "Neighbour",
    "State",
    "STATES",
    "canonical_mac",
]
