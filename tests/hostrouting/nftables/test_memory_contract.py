"""The fake nftables fulfil the contract of Nftables."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from hostrouting.testing.filter_contracts import NftablesContract
from hostrouting.testing.kernel.nftables import MemoryNftables

if TYPE_CHECKING:
    from collections.abc import Iterator


class TestMemoryNftables(NftablesContract):
    """Every promise, on a dictionary."""

    @contextmanager
    def make(self) -> Iterator[MemoryNftables]:
        """Without tables."""
        yield MemoryNftables()
