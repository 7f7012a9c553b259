"""Which snapshots are there more than once."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from hostrouting.fleet import judge as repeats
from hostrouting.fleet.judge import count_repeated, digest_of
from hostrouting.host.saved import snapshot_bytes

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


@given(st.lists(st.sampled_from([b"", b"a", b"b", b"ab", b"ba", b"abc"])))
def test_how_often(tmp_path_factory: pytest.TempPathFactory, contents: list[bytes]) -> None:
    """For all bytes that more than one file has, and for no others, there is the number of files."""
    folder = tmp_path_factory.mktemp("files")
    paths = [str(folder / str(number)) for number in range(len(contents))]
    for path, data in zip(paths, contents, strict=True):
        with open(path, "wb") as stream:
            stream.write(data)
    counted = {digest_of(data): count for data, count in Counter(contents).items() if count > 1}
    assert count_repeated(paths) == counted


def test_what_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file whose size no other has is not read; nor is a pipe, a directory, or what is not there."""
    for name, text in {"one": "1", "other": "2", "longer": "33"}.items():
        (tmp_path / name).write_text(text)
    os.mkfifo(tmp_path / "pipe")
    read: list[str] = []

    def reading(path: str) -> bytes:
        read.append(os.path.basename(path))
        return b""

    monkeypatch.setattr(repeats, "snapshot_bytes", reading)
    names = ["one", "longer", "other", "pipe", "gone", "."]
    count_repeated([*(str(tmp_path / name) for name in names), "a\0b"])
    assert read == ["one", "other"]


def test_a_file_that_goes_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that cannot be read is like no other; its result will say so."""
    for name in ("one", "other", "gone"):
        (tmp_path / name).write_text("same")

    def reading(path: str) -> bytes:
        (tmp_path / "gone").unlink(missing_ok=True)
        return snapshot_bytes(path)

    monkeypatch.setattr(repeats, "snapshot_bytes", reading)
    assert count_repeated(str(tmp_path / name) for name in ("one", "gone", "other")) == {digest_of(b"same"): 2}
