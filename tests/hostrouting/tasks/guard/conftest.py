"""What the tests of the guard have in common."""

import pytest

from hostrouting.testing import h200
from tests.support.guard_play import Play
from tests.support.tasks import CIDR, REPAIR, config


@pytest.fixture
def play() -> Play:
    """An H200 node with the repair in place."""
    return Play(h200(), config(*REPAIR, cidrs=(CIDR,)))
