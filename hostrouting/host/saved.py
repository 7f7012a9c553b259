"""A saved snapshot, read from a file, a pipe or standard input.

Here: reading the bytes, and errors that name the file. Not here: what the document contains (`model.snapshot`).
"""

from __future__ import annotations

from hostrouting.errors import Fault, InputError
from hostrouting.model.document import name_of, read_bytes
from hostrouting.model.reader import Invalid
from hostrouting.model.snapshot import SAVE, Snapshot


def read_snapshot(path: str) -> Snapshot:
    """The snapshot in a file. Raises InputError, which names the file."""
    try:
        return snapshot_in(snapshot_bytes(path))
    except InputError as error:
        raise of_file(error, path) from error


def snapshot_bytes(path: str) -> bytes:
    """The bytes of a snapshot. Raises InputError if the file cannot be read; it does not name the file."""
    try:
        return read_bytes(path)
    except Invalid as error:
        raise InputError(error.faults) from error


def snapshot_in(data: bytes) -> Snapshot:
    """The snapshot of a whole host in a document of this library. Raises InputError with every fault and its path."""
    snapshot = Snapshot.from_json(data)
    if snapshot.family is not None:
        # Whoever plans or repairs by it would take our routes of the other family for gone.
        raise InputError([Fault("family", "", f"only IPv{snapshot.family} was read", SAVE)])
    return snapshot


def of_file(error: InputError, path: str) -> InputError:
    """The same error with the name of the file."""
    return InputError(error.faults, name_of(path))
