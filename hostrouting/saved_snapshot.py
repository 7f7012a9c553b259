"""A saved snapshot: the bytes of a file, a pipe or standard input, and the Snapshot in them.

Here: which of the two documents it is, and the errors, which name the file. Not here: the documents themselves
(`model.snapshot_json`, `backends.ip_document`).
"""

from __future__ import annotations

from hostrouting.errors import SnapshotError
from hostrouting.model import Snapshot
from hostrouting.reading import Unreadable, name_of, read_bytes

__all__ = ["of_file", "read_snapshot", "snapshot_bytes", "snapshot_in"]

_LIMIT = 1 << 30  # bytes; a snapshot with 100,000 routes has about 10 MiB
_REMEDY = "save one with: hostrouting snapshot > FILE"


def read_snapshot(path: str) -> Snapshot:
    """The snapshot in a file. Raises SnapshotError, which names the file."""
    try:
        return snapshot_in(snapshot_bytes(path))
    except SnapshotError as error:
        raise of_file(error, path) from error


def snapshot_bytes(path: str) -> bytes:
    """The bytes of a snapshot. Raises SnapshotError if the file cannot be read; it does not name the file."""
    try:
        return read_bytes(path, what="a snapshot", limit=_LIMIT)
    except Unreadable as error:
        raise SnapshotError(path="", problem=f"this {error.rule}; {error.remedy or _REMEDY}") from error


def snapshot_in(data: bytes) -> Snapshot:
    """The snapshot in a document of this library, or of the script that uses `ip`.

    Raises SnapshotError, whose path is the place in the document.
    """
    try:
        return _decoded(data)
    except SnapshotError as error:
        if error.path not in {"", "schema"}:  # a snapshot that was changed; otherwise it is probably another file
            raise
        raise SnapshotError(path=error.path, problem=f"{error.problem}; {_REMEDY}") from error


def of_file(error: SnapshotError, path: str) -> SnapshotError:
    """The same error with the name of the file."""
    name = name_of(path) if path.isprintable() else ascii(path)  # it must not control the terminal
    return SnapshotError(path=f"{name}: {error.path}" if error.path else name, problem=error.problem)


def _decoded(data: bytes) -> Snapshot:
    from hostrouting.backends.ip_document import is_ip_document, read_ip_document  # noqa: PLC0415  it needs json

    if not data.strip():
        raise SnapshotError(path="", problem="this is empty: the command that was to write it probably failed")
    if is_ip_document(data):
        return read_ip_document(data)
    try:
        return Snapshot.from_json(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        problem = f"this is not UTF-8 (byte 0x{data[error.start]:02x} at offset {error.start})"
        raise SnapshotError(path="", problem=problem) from error
