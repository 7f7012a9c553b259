"""What the kernel would do with a packet, from a snapshot alone.

Here: Linux's decision, for one destination or for all of a prefix. Not here: whether the decision is welcome;
`hostrouting.overlap` and those above it judge.

Theory of operation
-------------------
What is known: rules, tables of routes, and something of a packet (a `Flow`): where it comes from, its mark, its ports.
What is looked for: which rule and which route decide, for each of up to 2^32 destinations (in IPv6, 2^128).

*The walk.* Rules are asked by priority. A rule is for a packet if that has all that the rule selects on (with `not`, if
it lacks any of it). Such a rule sends the walk on to a later one (goto), ends it (blackhole, unreachable, prohibit), or
asks a table. A table answers with one route: of those that cover the destination and are in use the longest prefix,
then the tos, the lowest metric, the first in the list. The route decides, unless it throws the packet to the next rule
or the rule suppresses it. A rule, as a walk comes by it, is a *stage*. This walk is written once, in `walk`:
`Fib.lookup` goes by its end, `trace_route` reports its turns. (Until a host has rules of its own, the tables local and
main are one: `tables` knows.)

*Why few questions are enough.* A destination comes into the walk in two places only: where a rule has a `to`, and where
a table looks for the longest prefix around it. So the decision can change only where a `to` or a prefix begins or has
just ended. Between two such places it is one and the same, and to ask at each of them is a proof for all addresses. The
ends of the `to` blocks, and of the addresses that are special by themselves (multicast, broadcast), cut the address
space into regions: within one, the rules that matter are the same for each destination. What is left to vary in it is
the longest prefix in each table, which is read off the sorted prefixes from left to right. Equal combinations of a
region and of longest prefixes have one decision, which is found once.

*What is unknown of a packet.* A rule may ask what the flow does not say. The packet is then followed twice: as a plain
one of the host's own, as `ip route get` has it, whose end is the decision; and through every branch, where at each rule
it is supposed to have what is asked for, or not to have it. Suppositions that contradict each other end a branch. The
ends that differ from the plain one are the decision's `variants`, each with the suppositions that lead there. If there
are too many branches, a branch forgets its suppositions: then a variant may be told that no packet has, and none is
missed.

The rooms, from the bottom: `ordered` has the routes of a table in order, `in_turn` knows which default routes Linux
exchanges for each other, `table` finds the routes that cover an address, `tables` has all of them; `flow` says what is
known of a packet and what rules ask of it, `supposed` what may be true of it; `walk` goes from rule to rule, `region`
is what a plain packet comes to in one region, `branches` what all others do; `rules` knows which rules matter where,
`engine` asks it at every place where the answer can change, and `trace` reports. One room is there for speed alone:
`bulk`, for a check.
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
