"""Which snapshots are there more than once, found out before any of them is judged.

A result has to be kept until the last snapshot with the same bytes has come, and no longer: so it has to be known how
many there are. Files of different sizes are different, and only those of one size are read for this, one by one.

Here: how often the bytes of a file come. Not here: what is done with it (`dispatch`).
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING

from hostrouting.errors import SnapshotError
from hostrouting.saved_snapshot import snapshot_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["count_repeated", "digest_of"]


def digest_of(data: bytes) -> bytes:
    """The same for equal bytes, and no others."""
    return blake2b(data, digest_size=16).digest()


def count_repeated(paths: Iterable[str]) -> Counter[bytes]:
    """How many files have the bytes with this digest, if more than one has. Pipes can be read only once, so not now."""
    by_size: dict[int, list[str]] = {}
    for path in paths:
        with suppress(OSError, ValueError):  # its result will say why it cannot be read
            found = os.stat(path)
            if stat.S_ISREG(found.st_mode):
                by_size.setdefault(found.st_size, []).append(path)
    counts = Counter(digest for alike in by_size.values() if len(alike) > 1 for digest in _digests(alike))
    return Counter({digest: count for digest, count in counts.items() if count > 1})


def _digests(paths: Iterable[str]) -> Iterator[bytes]:
    for path in paths:
        with suppress(SnapshotError):  # as above
            yield digest_of(snapshot_bytes(path))
