"""The contract of Nftables, on nft and Linux, in a private network namespace for each test."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from hostrouting.kernel.nftables import NftProgram
from hostrouting.testing.filter_contracts import NftablesContract
from tests.support.namespace import private_namespace

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.linux, pytest.mark.needs("root", "nft")]


class TestNftProgram(NftablesContract):
    """Every promise, on the real kernel."""

    @contextmanager
    def make(self) -> Iterator[NftProgram]:
        """The nft of this machine in a namespace without tables."""
        with private_namespace() as namespace:
            yield NftProgram(words=namespace.enter)
