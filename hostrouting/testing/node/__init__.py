"""A simulated node: days of its life in a second, run by a pipeline of yours, with laws that hold at every step.

    Life               a life from a seed; a failing one prints its story, shrunk to a few steps
    Node               the node: kernel, files, systemd with the gate, the boot scripts and the guard
    Act                what somebody does, and how often; an actor is a tuple of these
    networkd()         systemd-networkd on the uplink, with DHCP and router advertisements
    network_manager()  NetworkManager in its place
    program()          a CNI, a VPN or another program, given as the links, addresses, routes and rules that it adds
    FABRIC             InfiniBand, whose addresses come late
    ADMINISTRATOR      somebody with `ip`
    AGENT              the node's agent, which applies, starts, resets and reboots
    MISHAPS            kills, a full disk, a kernel that answers late or not at all, and steps that come in between
    BrokenLaw          raised when a law does not hold

docs/testing.md has an example.
"""

from hostrouting.testing.node.actors import (
    ADMINISTRATOR,
    AGENT,
    FABRIC,
    MISHAPS,
    Act,
    network_manager,
    networkd,
    program,
)
from hostrouting.testing.node.life import Life, Step
from hostrouting.testing.node.machine import BrokenLaw, Node

__all__ = [
    # a life
    "Life",
    "Step",
    "Node",
    "BrokenLaw",
    # who acts
    "Act",
    "networkd",
    "network_manager",
    "program",
    "FABRIC",
    "ADMINISTRATOR",
    "AGENT",
    "MISHAPS",
]
