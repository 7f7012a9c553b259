"""What the kernel would do with a packet, from a snapshot alone.

Here: Linux's decision, for one destination or for all of a prefix. Not here: whether the decision is wanted;
`hostrouting.check.overlap` and the layers above it judge that.

Theory of operation
-------------------
What is known: rules, route tables, and part of a packet's fields (a `Flow`): its source, its mark, its ports.
What is wanted: the rule and the route that decide, for each of up to 2^32 destinations (in IPv6, 2^128).

*The walk.* Rules are tried in the order of their priority. A rule matches a packet that has everything the rule selects
on (with `not`: a packet that lacks any of it). A matching rule continues the walk at a later rule (goto), ends it
(blackhole, unreachable, prohibit), or looks up a table. The table answers with one route: among those that cover the
destination and are in use, the longest prefix, then the tos, the lowest metric, the first in the list. This route
decides, unless it is a throw route, which continues at the next rule, or the rule suppresses it. A rule as seen by the
walk is a *stage*. The walk is implemented once, in `rules`: `Fib.lookup` uses its end, `trace_route` reports its turns.
(Until a host has custom rules, the tables local and main are merged: see `tables`.)

IPv6 has no tos here, but routes for some sources, preferred routers, and gateways that could not be reached (see
`table_ipv6`). Of several next hops it chooses one by a hash of the packet, before a rule looks at the group of its
device. So such a rule can keep a route for some packets, and suppress it for others.

*Why few lookups are enough.* The walk uses the destination in two places only: in a rule with a `to`, and in a table's
search for the longest prefix around it. So the decision can change only where a `to` block or a prefix begins, or
directly after it ends. Between two such places it is constant, so a lookup at each of them is a proof for all
addresses. The ends of the `to` blocks, and of the special addresses (multicast, broadcast), cut the address space into
regions: within a region, the same rules matter for every destination. Only the longest prefix in each table still
varies, and it is read from the sorted prefixes from left to right. Equal combinations of region and longest prefixes
have the same decision, which is computed once.

*Unknown fields of a packet.* A rule may select on a field that the flow does not give. The packet is then followed
twice. First as a plain packet sent by this host, as in `ip route get`; its end is the decision. Then through every
branch: at each such rule, the packet is assumed to match, and not to match. Assumptions that contradict each other end
a branch. The ends that differ from the plain one are the decision's `variants`, each with its assumptions. If there are
too many branches, a branch forgets its assumptions: then a variant may be reported that no packet has, but none is
missed.

The modules, from the bottom: `decision` is the result; `packet` holds the known fields of a packet, what rules select
on, and assumptions about the rest; `table` is the index of one table, in which `table_ipv4` and `table_ipv6` find the
route of each family; `tables` has all tables; `rules` walks from rule to rule and knows which rules matter where;
`engine` computes the decision at every place where it can change; `trace` reports a walk.
"""
