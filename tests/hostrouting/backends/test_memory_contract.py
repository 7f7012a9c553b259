"""The memory kernel keeps the promises of RouteBackend."""

from contextlib import AbstractContextManager

from hostrouting.backends.memory import MemoryBackend
from hostrouting.testing.contract import BackendContract, contract_host


class TestMemoryBackend(BackendContract):
    """Every promise, on the fake kernel."""

    def make(self) -> AbstractContextManager[MemoryBackend]:
        """The contract's own host."""
        return contract_host()
