"""The host on which most scripts are tried."""

from collections.abc import Iterator

import pytest

from tests.support.commands import fabric_host
from tests.support.namespace import Namespace


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    """The host that all this is for: eth0 leads out, ib0 has a connected 172.16.0.0/16."""
    with fabric_host() as private:
        yield private
