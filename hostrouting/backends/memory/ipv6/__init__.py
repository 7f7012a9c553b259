"""IPv6 as Linux keeps it: what a route has to be like (`checks`), where it is put (`routes`), what addresses bring.

Not here: IPv4, which has the same rooms, and differs in what is in them.
"""

from hostrouting.backends.memory.ipv6.addresses import Addresses
from hostrouting.backends.memory.ipv6.routes import Routes

__all__ = ["Addresses", "Routes"]
