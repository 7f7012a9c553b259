"""What Linux does with a packet, computed from the rules and routes of a snapshot.

engine        `Fib`: the decision for an address, and for every range of addresses
not_judged    what the engine does not look at, by name
"""
