"""The edge to the link layer: devices, MAC addresses at both ends of veths, and neighbours.

base      the contract, and its input and output values
kernel    Linux, by pyroute2
memory    the fake one
"""

from hostrouting.neighbours.base import (
    STATES,
    EthernetLink,
    LinkLayer,
    LinkLayerView,
    Neighbour,
    PeerMac,
    State,
    UnknownPeer,
    canonical_mac,
)
from hostrouting.neighbours.kernel import KernelLinkLayer
from hostrouting.neighbours.memory import MemoryLinkLayer

__all__ = [
    # the edge
    "LinkLayer",
    "KernelLinkLayer",
    "MemoryLinkLayer",
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
