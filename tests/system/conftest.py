"""What the tests under a real systemd have in common: how often they are repeated."""

import os

import pytest


@pytest.fixture(params=range(20 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 1))
def again(request: pytest.FixtureRequest) -> int:
    """Which time it is."""
    return int(request.param)
