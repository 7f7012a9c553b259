"""Saved hosts: documents that no `hostrouting snapshot` has written are refused with their place."""

import pytest

from hostrouting.errors import ConfigError
from hostrouting.host.saved import snapshot_in
from hostrouting.testing import h200


def test_half_a_file() -> None:
    """Wherever a file was cut, its message is the same, so a table of many files has one row for all such files.

    Kills: a message with the place of the cut, or one that depends on what was cut.
    """
    whole = h200().snapshot().to_json(indent=1).replace('"eth0"', '"\u00e9th0"').encode()
    told = set()
    for end in range(1, len(whole), 7):
        with pytest.raises(ConfigError) as caught:
            snapshot_in(whole[:end])
        told.add(str(caught.value))
    [problem] = told
    assert problem.startswith("the snapshot: is not JSON, or was not copied whole")


@pytest.mark.parametrize("family", [4, 6])
def test_half_a_host(family: int) -> None:
    """A snapshot of one family is refused: a plan would not delete our routes of the other, and say that all is done.

    Kills: what was not read is taken for empty.
    """
    with pytest.raises(ConfigError, match=rf"family: only IPv{family} was read; save one with: hostrouting snapshot"):
        snapshot_in(h200().snapshot(family=family).to_json().encode())
