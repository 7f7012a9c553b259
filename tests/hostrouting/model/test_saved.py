"""Saved hosts: documents that no `hostrouting snapshot` has written are refused with their place."""

from pathlib import Path

import pytest

from hostrouting.errors import ConfigError
from hostrouting.model.snapshot import Snapshot
from hostrouting.testing import h200


@pytest.mark.parametrize("family", [4, 6])
def test_half_a_host(family: int, tmp_path: Path) -> None:
    """A snapshot of one family is refused: a plan would not delete our routes of the other, and say that all is done.

    Kills: what was not read is taken for empty.
    """
    (path := tmp_path / "node.json").write_text(h200().snapshot(family=family).to_json())
    with pytest.raises(
        ConfigError, match=rf"node.json: family: only IPv{family} was read; save one with: hostrouting snapshot"
    ):
        Snapshot.load(str(path))
