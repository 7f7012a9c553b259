"""A node in a box: days of its life in a second, under a pipeline of yours, with laws that hold at every step.

    Life             a life from a seed; a failing one prints its story, shrunk to a few steps
    Node             the node: kernel, files, systemd with the gate, the boot scripts and the guard
    Actor            who changes the host; subclass it for an actor of your own
    Network          systemd-networkd with DHCP and router advertisements
    Fabric           InfiniBand, whose addresses come late
    Program          a CNI, a VPN or another program, given as the links, addresses, routes and rules that it adds
    Administrator    somebody with `ip`
    Agent            the node's agent, which applies, starts, resets and reboots
    Mishaps          kills, a full disk, a kernel or a systemd that does not answer, and steps that come in between
    BrokenLaw        raised when a law does not hold

docs/testing.md has an example.
"""

from hostrouting.testing.node.actors import Actor, Administrator, Agent, Fabric, Mishaps, Network, Program
from hostrouting.testing.node.life import Life, Step
from hostrouting.testing.node.machine import BrokenLaw, Event, Node

__all__ = [
    # a life
    "Life",
    "Step",
    "Node",
    "Event",
    "BrokenLaw",
    # who acts
    "Actor",
    "Network",
    "Fabric",
    "Program",
    "Administrator",
    "Agent",
    "Mishaps",
]
