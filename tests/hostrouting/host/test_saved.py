"""Saved hosts: documents that no `hostrouting snapshot` has written are refused with their place."""

import pytest

from hostrouting.errors import ConfigError
from hostrouting.host.saved import snapshot_in
from hostrouting.testing import h200


@pytest.mark.parametrize("family", [4, 6])
def test_half_a_host(family: int) -> None:
    """A snapshot of one family is refused: a plan would not delete our routes of the other, and say that all is done.

    Kills: what was not read is taken for empty.
    """
    with pytest.raises(ConfigError, match=rf"family: only IPv{family} was read; save one with: hostrouting snapshot"):
        snapshot_in(h200().snapshot(family=family).to_json().encode())
