"""What leads nowhere: types of routes without a way out, and what the kernel answers for each.

Here: knowledge that tables, backends and tests share. Not here: what anybody makes of it.
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
"""Types of routes without a way, and the error with which each ends a lookup; `throw` only ends that of its table."""

REFUSING: frozenset[Literal["blackhole", "unreachable", "prohibit"]] = frozenset(
    {"blackhole", "unreachable", "prohibit"}
)
"""Types that end the whole lookup; a rule may have one of them as its action."""
