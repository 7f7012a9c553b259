"""The fake ebtables fulfil the contract of Ebtables."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from hostrouting.testing.filter_contracts import EbtablesContract
from hostrouting.testing.kernel.ebtables import MemoryEbtables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hostrouting.kernel.ebtables import Ebtables


class TestMemoryEbtables(EbtablesContract):
    """Every promise, on a list."""

    @contextmanager
    def make(self) -> Iterator[MemoryEbtables]:
        """Without rules."""
        yield MemoryEbtables()


class TestOfABackend(EbtablesContract):
    """Every promise, on the same list requested by the name of its backend."""

    @contextmanager
    def make(self) -> Iterator[Ebtables]:
        """Without rules."""
        yield MemoryEbtables(backend="legacy").of("legacy")
