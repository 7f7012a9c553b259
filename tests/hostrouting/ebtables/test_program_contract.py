"""The contract of Ebtables, on the programs and Linux, in a private network namespace for each test."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from hostrouting.kernel.ebtables import EbtablesProgram
from hostrouting.testing.filter_contracts import EbtablesContract
from tests.support.namespace import private_namespace

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.linux, pytest.mark.needs("root", "ebtables-nft")]


class TestEbtablesProgram(EbtablesContract):
    """Every promise, on the real kernel."""

    @contextmanager
    def make(self) -> Iterator[EbtablesProgram]:
        """The ebtables of this machine in a namespace without rules."""
        with private_namespace() as namespace:
            yield EbtablesProgram(words=namespace.enter)
