"""Whether addresses of an expected CIDR are lost on a host, which static routes would mend this, and the report.

Here: decisions, as functions from values to values, and their sentences. Not here: changing a host (`routes`, `tasks`),
and printing (`cli`).

examine     the whole check: of a kernel, once it is ready, or of a snapshot
overlap     the check of one family for one kind of packets: what escapes, and the verdict
exceptions  what does not count as an escape: the host's own pod blocks, and known packets
packets     the packets that pods send, in classes
pods        the same check for each class
repair      the routes that close the escapes, and the proof
cover       the fewest prefixes for a repair
rules       what is wrong with the rules and the default routes themselves
report      all of it in sentences and as JSON
"""
