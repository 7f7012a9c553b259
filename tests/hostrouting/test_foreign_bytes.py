"""The readers of bytes that others wrote (`tests/tables/foreign_bytes.py`); `make fuzz` tries many more inputs."""

from contextlib import suppress

import pytest

from tests.tables.foreign_bytes import READERS


@pytest.mark.parametrize("name", READERS)
def test_readers(name: str) -> None:
    """Each accepts its inputs, and refuses what is cut off from them or nested deeply, if at all, by the errors of the table."""
    reader = READERS[name]
    for nested in (b"[", b'{"a":'):
        with suppress(*reader.refuses):
            reader.read(nested * 20_000)
    for seed in reader.seeds:
        reader.read(seed)
        for end in range(0, len(seed), 1 + len(seed) // 50):
            with suppress(*reader.refuses):
                reader.read(seed[:end] + b"\xff" + seed[end + 1 :])
            with suppress(*reader.refuses):
                reader.read(seed[:end])
