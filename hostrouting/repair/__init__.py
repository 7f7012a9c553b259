"""The fewest static routes that close every escape, and the ranges that no route can close safely.

Here: which routes, and the proof that they work. Not here: installing them (`plan` and the layers above it), and the
messages about them (`wording`).

`cover` chooses prefixes and knows only ranges and lengths. `propose` knows the meaning of the ranges, turns the
prefixes into routes and proves them.
"""

from hostrouting.repair.propose import TOO_MANY, Diversion, Filtered, Repair, Unsafe, UnsafeReason, propose_repair

__all__ = ["TOO_MANY", "Diversion", "Filtered", "Repair", "Unsafe", "UnsafeReason", "propose_repair"]
