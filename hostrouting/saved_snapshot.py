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
    data = snapshot_bytes(path)
    try:
        return snapshot_in(data)
    except SnapshotError as error:
        raise of_file(error, path) from error


def snapshot_bytes(path: str) -> bytes:
    """The bytes of a snapshot. Raises SnapshotError, which names the file, if it cannot be read."""
    try:
        return read_bytes(path, what="a snapshot", limit=_LIMIT)
    except Unreadable as error:
        problem = f"this {error.rule}; {error.remedy or _REMEDY}"
        raise SnapshotError(path=_shown(path), problem=problem) from error


def snapshot_in(data: bytes) -> Snapshot:
    """The snapshot in a document of this library, or of the script that uses `ip`.

    Raises SnapshotError, whose path is the place in the document.
    """
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


def of_file(error: SnapshotError, path: str) -> SnapshotError:
    """The error of `snapshot_in` with the name of the file, and with the remedy if all of the file is wrong."""
    name = _shown(path)
    # With a fault inside, it is a snapshot that was changed; if all of it is wrong, it is probably another file.
    remedy = f"; {_REMEDY}" if error.path in {"", "schema"} else ""
    return SnapshotError(path=f"{name}: {error.path}" if error.path else name, problem=error.problem + remedy)


def _shown(path: str) -> str:
    # The name of a file must not control the terminal.
    return name_of(path) if path.isprintable() else ascii(path)
