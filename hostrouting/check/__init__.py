"""Whether addresses of an expected CIDR are lost on a host, which static routes would mend this, and the report.

Decisions are functions from values to values. Hosts are changed by `routes` and `tasks`, and `cli` prints.
"""
