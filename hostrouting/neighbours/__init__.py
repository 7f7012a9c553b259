"""The edge to the link layer: devices, the MAC addresses at both of their ends, and neighbours.

base      the promises, and the values that go in and out
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
    # what it shows
    "LinkLayerView",
    "EthernetLink",
    "PeerMac",
    "UnknownPeer",
    "Neighbour",
    "State",
    "STATES",
    "canonical_mac",
]
