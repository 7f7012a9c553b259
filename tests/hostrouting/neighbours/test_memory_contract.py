"""The fake link layer fulfils the contract of LinkLayer."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from hostrouting.testing.filter_contracts import LinkLayerContract, contract_view
from hostrouting.testing.kernel.neighbours import MemoryLinkLayer

if TYPE_CHECKING:
    from collections.abc import Iterator


class TestMemoryLinkLayer(LinkLayerContract):
    """Every promise, on two lists."""

    @contextmanager
    def make(self) -> Iterator[MemoryLinkLayer]:
        """The contract's host."""
        view = contract_view()
        yield MemoryLinkLayer(view.links, view.neighbours)
