"""The fake nftables fulfil the contract of Nftables."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from hostrouting.nftables import MemoryNftables
from hostrouting.testing.nftables_contract import NftablesContract

if TYPE_CHECKING:
    from collections.abc import Iterator


class TestMemoryNftables(NftablesContract):
    """Every promise, on a dictionary."""

    @contextmanager
    def make(self) -> Iterator[MemoryNftables]:
        """Without tables."""
        yield MemoryNftables()
