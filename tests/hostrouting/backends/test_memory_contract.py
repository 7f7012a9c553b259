"""The memory kernel keeps the promises of RouteBackend."""

from contextlib import AbstractContextManager

from hostrouting.testing.contract import BackendContract, contract_host
from hostrouting.testing.kernel import MemoryBackend


class TestMemoryBackend(BackendContract):
    """Every promise, on the fake kernel."""

    def make(self) -> AbstractContextManager[MemoryBackend]:
        """The contract's own host."""
        return contract_host()
