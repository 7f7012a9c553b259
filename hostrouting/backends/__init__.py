"""The edge to the kernel's routing: what a backend promises, the real one, and the fake one.

base      the promises, and the words in which changes and answers are spoken
deletion  which route a delete is about; bounds: which routes no kernel can be told; refusal: errors, in words
netlink   Linux itself
memory    a kernel in a dictionary
"""

from hostrouting.backends.base import Answer, Change, Outcome, RouteBackend, Verb, Watch

__all__ = ["Answer", "Change", "Outcome", "RouteBackend", "Verb", "Watch"]
