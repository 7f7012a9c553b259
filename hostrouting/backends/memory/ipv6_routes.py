"""IPv6 routes as Linux keeps them."""

from collections.abc import Iterator

from hostrouting.backends.base import Verb
from hostrouting.backends.memory.devices import Devices
from hostrouting.backends.memory.rules import Rules
from hostrouting.backends.memory.tables import Tables
from hostrouting.model import IPV6, Route

__all__ = ["Routes6"]


class Routes6:
    """The IPv6 routes of the host."""

    def __init__(self, devices: Devices, rules: Rules) -> None:
        """Start empty."""
        self._devices = devices
        self._rules = rules
        self.tables = Tables(IPV6)

    def change(self, verb: Verb, route: Route) -> None:
        """Carry out one change; Refused when Linux would not."""

    def listed(self) -> Iterator[Route]:
        """All of them, in the order of `ip -6 route show table all`."""
        yield from ()
