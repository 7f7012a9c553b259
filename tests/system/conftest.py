"""What the tests under a real systemd have in common: how often they are repeated."""

import pytest

from tests.support.examples import LONG


@pytest.fixture(params=range(20 if LONG else 1))
def again(request: pytest.FixtureRequest) -> int:
    """Which time it is."""
    return int(request.param)
