"""IPv6 as in Linux: conditions for a route (`checks`), its place (`routes`), routes of addresses (`addresses`).

Not here: IPv4, which has the same modules with different content.
"""

from hostrouting.backends.memory.ipv6.addresses import Addresses
from hostrouting.backends.memory.ipv6.routes import Routes

__all__ = ["Addresses", "Routes"]
