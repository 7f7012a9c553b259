"""What a packet is, and what happens to it, for lookups by a backend.

packet      the fields of a packet
decision    what a lookup can end with
"""
