"""What the kernel would do with a packet, from a snapshot alone.

Here: Linux's decision, for one destination or for all of a prefix. Not here: whether the decision is welcome;
`hostrouting.overlap` and those above it judge.

How it is built, from the bottom: `ordered` has the routes of a table in order, `table` finds those that cover an
address, `flow` says what is known of a packet and what rules ask of it, `worlds` what may be true of it, `step` is one
rule, `stretch` walks the rules with a plain packet, `branches` with all others, `program` knows which rules matter
where, and `engine` asks it at every place where the answer can change. `straight` is the fast path of cells, and `bulk`
that of a check.
"""

from hostrouting.fib.answer import Cases, Cell, Condition, Contest, Decision, Kind, Variant
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
    "Cases",
]
