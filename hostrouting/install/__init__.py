"""How a configuration comes onto a host: what is there, what differs, what would fail, the order of
writes.

`install` has the steps of a run. `plan` is what a dry run prints, and what a run carries out.
"""
