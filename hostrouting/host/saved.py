"""A saved snapshot, read from a file, a pipe or standard input."""

from __future__ import annotations

from hostrouting.errors import ConfigError, Fault
from hostrouting.model.reader import read_file
from hostrouting.model.snapshot import SAVE, Snapshot


def read_snapshot(path: str) -> Snapshot:
    """The snapshot in a file. Raises ConfigError, which names the file."""
    return snapshot_in(*read_file(path))


def snapshot_in(data: bytes, source: str = "the snapshot") -> Snapshot:
    """The snapshot of a whole host in a document of this library. Raises ConfigError with every fault and its path."""
    snapshot = Snapshot.from_json(data, source=source)
    if snapshot.family is not None:
        # Whoever plans or repairs by it would take our routes of the other family for gone.
        raise ConfigError([Fault("family", "", f"only IPv{snapshot.family} was read", SAVE)], source)
    return snapshot
