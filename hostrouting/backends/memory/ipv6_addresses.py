"""IPv6 addresses: the routes that each brings, and what goes with it when it goes."""

from hostrouting.backends.memory.devices import Device
from hostrouting.backends.memory.ipv6_routes import Routes6
from hostrouting.model import Address

__all__ = ["Addresses6"]


class Addresses6:
    """The IPv6 addresses of the host's devices."""

    def __init__(self, routes: Routes6) -> None:
        """Bring and take these routes."""
        self._routes = routes

    def add(self, device: Device, address: Address) -> None: ...
    def delete(self, device: Device, address: Address) -> None: ...
    def device_up(self, device: Device) -> None: ...
    def device_down(self, device: Device) -> None: ...
    def carrier(self, device: Device) -> None: ...
