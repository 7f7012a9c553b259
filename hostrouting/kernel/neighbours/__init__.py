"""The edge to the link layer: devices, MAC addresses at both ends of veths, and neighbours.

base      the contract, and its input and output values
kernel    Linux, by pyroute2
memory    the fake one
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
