"""The parts of a host's routing as plain frozen values, and how values are read from JSON; no decisions about them.

prefix       addresses and networks, and the reserved ranges
route        routes, and the numbers and names that Linux uses for their fields
rule         policy rules
reader       JSON as objects of a class, with every fault at once
snapshot     devices, their addresses, rules and routes at one moment; their JSON
"""
