"""IPv4 as in Linux: conditions for a route (`checks`), its place (`routes`), routes of addresses (`addresses`).

Not here: IPv6, which has the same modules with different content.
"""

from hostrouting.backends.memory.ipv4.addresses import Addresses
from hostrouting.backends.memory.ipv4.routes import Routes

__all__ = ["Addresses", "Routes"]
