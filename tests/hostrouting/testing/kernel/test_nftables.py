"""The fake nftables: its faults, what a test does to it, and the contract."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from hostrouting.errors import HostError
from hostrouting.kernel.nftables import missing
from hostrouting.testing.filters import FakeNftables
from tests.support.filter_contracts import NftablesContract, contract_table

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_a_fault_after_the_work() -> None:
    """A fault may strike after the load, as a timeout does; every load that was done is recorded."""
    nft = FakeNftables()
    nft.fail(missing(), done=True)
    with pytest.raises(HostError, match="was not found"):
        nft.load(contract_table())
    assert nft.writes == [contract_table()]
    assert nft.names() == (("ip6", "first"),)


def test_what_another_program_does() -> None:
    """A flush deletes everything, also of other families, and may happen just before a call; a test is notified."""
    nft, heard = FakeNftables(contract_table(), others=[("inet", "filter")]), list[bool]()
    nft.on_change = lambda: heard.append(True)
    assert str(nft).startswith("table inet filter {\n}\ntable ip6 first {\n")
    nft.meanwhile(nft.flush)
    assert (nft.listing("first"), nft.names(), heard) == (None, (), [True])


def test_counts() -> None:
    """A test sets the counts of packets; other numbers than the table has counters are as if nothing was counted."""
    nft = FakeNftables(contract_table())
    nft.count("first", 1, 2)
    assert nft.counts("first") == (1, 2)
    nft.count("first", 1)
    assert nft.counts("first") == (0, 0)


class TestMemoryNftables(NftablesContract):
    """Every promise, on a dictionary."""

    @contextmanager
    def make(self) -> Iterator[FakeNftables]:
        """Without tables."""
        yield FakeNftables()
