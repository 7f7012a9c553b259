"""examples/own_backend.py: it runs, and its backend passes the contract suite."""

import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from examples.own_backend import JournalBackend
from hostrouting.testing.contract import BackendContract, contract_host
from tests.support.programs import completed

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_backend.py"


class TestJournalBackend(BackendContract):
    """A custom backend of forty lines passes the contract suite."""

    def make(self) -> AbstractContextManager[JournalBackend]:
        """The journal around the contract suite's host."""
        return JournalBackend(contract_host())


@pytest.mark.linux
def test_it_runs() -> None:
    """The example prints its journal: changes that were made, and changes that were refused with the reason."""
    done = completed([sys.executable, EXAMPLE], check=True)
    first, second = done.stdout.splitlines()
    assert first == "add 172.16.8.0/24 via 10.0.0.1 dev eth0 proto hostrouting: done"
    assert second.endswith(
        "gateway 192.0.2.1 is not on-link on eth0 (10.0.0.4/24) (kernel: Nexthop has invalid gateway)"
    )
