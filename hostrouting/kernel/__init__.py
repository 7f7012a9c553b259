"""The edge to the kernel's routing: the contract, the real backend, and the fake one.

base      the contract, and the values for changes and answers
deletion  which route a delete matches; bounds: routes that fit into no message; refusal: error messages
netlink   Linux itself
memory    a kernel in a dictionary
ip_document  a snapshot from what a node's `ip` prints
"""

from hostrouting.kernel.base import Answer, Change, Outcome, RouteBackend, Verb, Watch

__all__ = ["Answer", "Change", "Outcome", "RouteBackend", "Verb", "Watch"]
