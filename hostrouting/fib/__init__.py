"""What the kernel would do with a packet, from a snapshot alone.

Here: Linux's decision, for one destination or for all of a prefix. Not here: whether the decision is welcome;
`hostrouting.overlap` and those above it judge.

How it is built, from the bottom: `table` finds the routes that cover an address, `flow` says what is known of a
packet, `program` walks the rules for such a packet, `engine` asks it at every place where the answer can change.
"""

from hostrouting.fib.answer import Cell, Condition, Contest, Decision, Kind, Variant
from hostrouting.fib.engine import Fib
from hostrouting.fib.flow import ANY, PLAIN, Flow

__all__ = [
    "ANY",
    "PLAIN",
    "Cell",
    "Condition",
    "Contest",
    "Decision",
    "Fib",
    "Flow",
    "Kind",
    "Variant",
]
