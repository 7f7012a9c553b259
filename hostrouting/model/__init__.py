"""The parts of a host's routing, as plain frozen values; and how values are read from JSON.

Here: prefixes, links, addresses, rules, routes, and the snapshot that contains them. Not here: decisions about them.
What the kernel would do with them is in `fib`; what should change is in the modules above that.

prefix       addresses and networks, and the reserved ranges
route        routes, and the numbers and names that Linux uses for their fields
rule         policy rules
reader       JSON as objects of a class, with every fault at once
snapshot     devices, their addresses, rules and routes at one moment; their JSON

Where IPv4 and IPv6 differ, a value has fields that only one of them uses: `tos` (IPv4), `source`, `preference` (IPv6).
"""
