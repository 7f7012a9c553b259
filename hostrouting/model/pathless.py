"""Route types without a next hop, and the kernel's answer for each.

Here: facts that tables, backends and tests share. Not here: the decisions based on them.
"""

import errno
from typing import Literal

from hostrouting.model.route import RouteType

__all__ = ["PATHLESS", "REFUSING"]

PATHLESS: dict[RouteType, int] = {
    "blackhole": errno.EINVAL,
    "unreachable": errno.EHOSTUNREACH,
    "prohibit": errno.EACCES,
    "throw": errno.EAGAIN,
}
"""Route types without a next hop, and the error that each gives to a lookup; `throw` only ends that of its table."""

REFUSING: frozenset[Literal["blackhole", "unreachable", "prohibit"]] = frozenset(
    {"blackhole", "unreachable", "prohibit"}
)
"""Types that end the whole lookup; each is also a possible action of a rule."""
