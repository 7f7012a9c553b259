"""Why a request for a route is refused: what an errno means, the same for every backend."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from hostrouting.errors import BackendError

if TYPE_CHECKING:
    from hostrouting.kernel.base import RouteRequest

_REFUSALS: dict[int, tuple[str, str]] = {
    errno.EEXIST: ("exists", "another route has the same destination and metric"),
    errno.ESRCH: ("no-such-route", "this route does not exist"),
    errno.ENOENT: ("no-such-route", "this route does not exist"),
    errno.ENODEV: ("no-such-device", "its device does not exist"),
    errno.ENETDOWN: ("device-down", "its device is down"),
    errno.ENETUNREACH: ("gateway-not-on-link", "its gateway is not on-link"),
    errno.EHOSTUNREACH: ("gateway-not-on-link", "its gateway is not on-link"),
    errno.EINVAL: ("invalid", ""),
    errno.ERANGE: ("invalid", ""),
    errno.EOPNOTSUPP: ("invalid", ""),
    errno.EAFNOSUPPORT: ("invalid", ""),
    errno.EAGAIN: ("failed", ""),
    errno.EBUSY: ("failed", ""),
    errno.ENOBUFS: ("failed", ""),
    errno.ENOMEM: ("failed", ""),
    errno.EACCES: (
        "refused",
        "IPv6 is disabled on its device, or a rule or route prohibits its gateway",
    ),
}
"""By errno: the kind of the error, and what is wrong with the route; empty if the kernel's own
words have to say it.
"""


def refusal(request: RouteRequest, number: int, words: str = "") -> BackendError:
    """Make the error for a request that was refused with the errno `number`. `words` are the
    kernel's own, if it gave any.
    """
    kind, problem = _REFUSALS.get(number, ("refused", ""))
    message = f"cannot {request.verb} {request.route}"
    if problem:
        message += f": {problem}"
    return BackendError(
        message,
        kind=kind,
        errno=number,
        kernel=words or os.strerror(number),
        route=str(request.route),
    )
