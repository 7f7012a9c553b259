"""The fewest static routes that close every escape, and what no route can close safely.

Here: which routes, and the proof that they do it. Not here: installing them (`plan` and those above it), and the
sentences in which they are told (`wording`).

Two halves: `cover` chooses prefixes and knows nothing but ranges and lengths; `propose` knows what the ranges
mean, makes routes of the prefixes, and proves them.
"""

from hostrouting.repair.propose import TOO_MANY, Diversion, Repair, Unsafe, UnsafeReason, propose_repair

__all__ = ["TOO_MANY", "Diversion", "Repair", "Unsafe", "UnsafeReason", "propose_repair"]
