"""A saved snapshot, read from a file, a pipe or standard input.

Here: reading the bytes, and errors that name the file. Not here: what the document contains (`model.snapshot`).
"""

from __future__ import annotations

from hostrouting.errors import ConfigError, Fault
from hostrouting.model.document import name_of, read_bytes
from hostrouting.model.reader import Invalid
from hostrouting.model.snapshot import SAVE, Snapshot


def read_snapshot(path: str) -> Snapshot:
    """The snapshot in a file. Raises ConfigError, which names the file."""
    try:
        return snapshot_in(snapshot_bytes(path))
    except ConfigError as error:
        raise of_file(error, path) from error


def snapshot_bytes(path: str) -> bytes:
    """The bytes of a snapshot. Raises ConfigError if the file cannot be read; it does not name the file."""
    try:
        return read_bytes(path)
    except Invalid as error:
        raise ConfigError(error.faults, kind="snapshot") from error


def snapshot_in(data: bytes) -> Snapshot:
    """The snapshot of a whole host in a document of this library. Raises ConfigError with every fault and its path."""
    snapshot = Snapshot.from_json(data)
    if snapshot.family is not None:
        # Whoever plans or repairs by it would take our routes of the other family for gone.
        raise ConfigError([Fault("family", "", f"only IPv{snapshot.family} was read", SAVE)], kind="snapshot")
    return snapshot


def of_file(error: ConfigError, path: str) -> ConfigError:
    """The same error with the name of the file."""
    return ConfigError(error.faults, name_of(path), kind="snapshot")
