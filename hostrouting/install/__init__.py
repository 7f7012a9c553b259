"""How a configuration comes onto a host: what is there, what differs, what would fail, the order of
writes.

The story of a run stands in `install`. `plan` is what the dry run prints and the run carries out.
"""
