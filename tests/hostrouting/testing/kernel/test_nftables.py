"""The fake nftables: what a test can set up with them, and their contract."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from hostrouting.errors import ProgramError
from hostrouting.kernel.nftables import Table
from hostrouting.testing.filter_contracts import NftablesContract, contract_table
from hostrouting.testing.kernel.nftables import MemoryNftables
from tests.support.kinds import raises

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def test_what_happens_meanwhile() -> None:
    """Another program may change something just before a call."""
    nft = MemoryNftables(others=[("inet", "filter")])
    nft.replace(contract_table())
    nft.meanwhile(nft.flush)
    assert nft.table("first") is None
    assert nft.names() == ()


def test_flags() -> None:
    """A table with a flag is unreadable; a dormant one can be replaced, and one with an owner cannot be changed."""
    dormant = Table("first", contract_table().chains, ["dormant"])
    nft = MemoryNftables(dormant, Table("mine", flags=["owner"]))
    assert nft.table("first") == Table("first", flags=["dormant"], is_readable=False)
    assert nft.counters("first") == ()
    verbs: list[Callable[[], None]] = [
        lambda: nft.replace(Table("mine")),
        lambda: nft.replace(Table("first"), without=["mine"]),
        lambda: nft.remove("first", "mine"),
    ]
    for verb in verbs:
        with raises(ProgramError, "owned", match="the table ip6 mine is owned by another process, and only its owner"):
            verb()
    assert nft.tables["first"] is dormant
    nft.replace(contract_table())
    assert nft.table("first") == contract_table()
    nft.flush()
    assert nft.names() == (("ip6", "mine"),)


def test_counts() -> None:
    """A test sets the packet counts, and a new table begins at 0."""
    nft = MemoryNftables(contract_table())
    nft.count("first", 1, 2, 3)
    nft.count("first", 1, 0, 0)
    assert nft.counters("first") == (2, 2, 3)
    nft.replace(contract_table())
    assert nft.counters("first") == (0, 0, 0)
    with pytest.raises(ValueError, match="1 numbers for the table first, which has 3 counters"):
        nft.count("first", 1)


def test_text() -> None:
    """The text is what nft prints for a ruleset."""
    nft = MemoryNftables(contract_table(), others=[("inet", "filter")])
    assert str(nft) == f"table inet filter {{\n}}\n{contract_table()}"


# The fake nftables fulfil the contract of Nftables


class TestMemoryNftables(NftablesContract):
    """Every promise, on a dictionary."""

    @contextmanager
    def make(self) -> Iterator[MemoryNftables]:
        """Without tables."""
        yield MemoryNftables()
