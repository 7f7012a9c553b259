"""A saved snapshot, read from a file, a pipe or standard input.

Here: reading the bytes, and errors that name the file. Not here: what the document contains (`model.snapshot`).
"""

from __future__ import annotations

from hostrouting.errors import InputError
from hostrouting.inputs import Unreadable, name_of, read_bytes
from hostrouting.model.snapshot import ENDS_EARLY, Snapshot

_LIMIT = 64 << 20  # bytes; a snapshot with 100,000 routes has about 10 MiB
_REMEDY = "save one with: hostrouting snapshot > FILE"


def read_snapshot(path: str) -> Snapshot:
    """The snapshot in a file. Raises InputError, which names the file."""
    try:
        return snapshot_in(snapshot_bytes(path))
    except InputError as error:
        raise of_file(error, path) from error


def snapshot_bytes(path: str) -> bytes:
    """The bytes of a snapshot. Raises InputError if the file cannot be read; it does not name the file."""
    try:
        return read_bytes(path, what="a snapshot", limit=_LIMIT)
    except Unreadable as error:
        raise InputError(path="", problem=f"this {error.rule}; {error.remedy or _REMEDY}") from error


def snapshot_in(data: bytes) -> Snapshot:
    """The snapshot in a document of this library.

    Raises InputError, whose path is the place in the document.
    """
    try:
        return _decoded(data)
    except InputError as error:
        if error.path not in {"", "schema"}:  # a snapshot that was changed; otherwise it is probably another file
            raise
        raise InputError(path=error.path, problem=f"{error.problem}; {_REMEDY}") from error


def of_file(error: InputError, path: str) -> InputError:
    """The same error with the name of the file."""
    name = name_of(path) if path.isprintable() else ascii(path)  # it must not control the terminal
    return InputError(path=f"{name}: {error.path}" if error.path else name, problem=error.problem)


def _decoded(data: bytes) -> Snapshot:
    if not data.strip():
        raise InputError(path="", problem="this is empty: the command that was to write it probably failed")
    try:
        found = Snapshot.from_json(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        if error.end == len(data):  # in the middle of a character
            raise InputError(path="", problem=ENDS_EARLY) from error
        problem = f"this is not UTF-8 (byte 0x{data[error.start]:02x} at offset {error.start})"
        raise InputError(path="", problem=problem) from error
    if found.family is not None:
        # Whoever plans or repairs by it would take our routes of the other family for gone.
        raise InputError(path="family", problem=f"only IPv{found.family} was read; {_REMEDY}")
    return found
