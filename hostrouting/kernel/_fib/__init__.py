"""Linux's lookup for any packet, for the fake kernel: what `ip route get` answers.

packet      the fields of a packet, and whether it meets a rule's selectors
table       one table; `table_ipv4` and `table_ipv6` choose among the routes around an address
tables      all tables, and how Linux keeps two of them together
rules       the walk through the rules
engine      the decision
"""
