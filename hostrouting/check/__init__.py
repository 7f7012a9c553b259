"""Whether addresses of an expected CIDR are lost on a host, which static routes would mend this, and the report.

check     the whole check: of a kernel, once it is ready, or of a snapshot
expected  which devices are expected, and the doubt about them
judge     what is right: each end of packets is fine, in doubt, or an escape
repair    the fewest routes that close the escapes, and the proof
flaws     what is wrong with the rules and the default routes themselves, and what stands in the way beside them
report    all of it in sentences and as JSON

Decisions are functions from values to values. Hosts are changed by `routes` and `tasks`, and `cli` prints.
"""
