"""IPv4 as Linux keeps it: what a route has to be like (`checks`), where it is put (`routes`), what addresses bring.

Not here: IPv6, which has the same rooms, and differs in what is in them.
"""

from hostrouting.backends.memory.ipv4.addresses import Addresses
from hostrouting.backends.memory.ipv4.routes import Routes

__all__ = ["Addresses", "Routes"]
