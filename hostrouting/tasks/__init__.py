"""The tasks that an agent puts into its pipeline: what is done, in order. Other packages do the
work.

All of them are idempotent, can be cancelled at any moment, and are serialised by a lock on the
host.
"""
