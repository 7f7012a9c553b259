"""From a failure at the link layer to the error that an operator reads.

Here: one sentence for each kind of error, the same for Linux and for the fake one. Not here: when the kernel refuses.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from hostrouting.errors import BackendError, BackendTimeout, NetlinkUnavailable, NotPermitted, Unsettled

if TYPE_CHECKING:
    from hostrouting.neighbours.base import Neighbour

__all__ = ["cannot_load", "no_device", "refused", "timed_out", "unavailable", "unsettled"]


def refused(what: str, number: int, words: str = "") -> BackendError:
    """The kernel refused with this errno and this text."""
    if number in {errno.EPERM, errno.EACCES}:
        return NotPermitted(
            f"this process may not {what}; run it as root with the capability CAP_NET_ADMIN", errno=number, kernel=words
        )
    return BackendError(f"the kernel refused to {what}", errno=number, kernel=words or os.strerror(number))


def no_device(neighbour: Neighbour) -> BackendError:
    """The device of the entry does not exist."""
    return BackendError(
        f"device {neighbour.dev} of the neighbour {neighbour} does not exist; add the neighbour when the device exists",
        errno=errno.ENODEV,
    )


def timed_out(what: str, seconds: float) -> BackendTimeout:
    """No answer came in time."""
    return BackendTimeout(f"could not {what} within {seconds:g} s: the kernel did not answer; try again")


def unsettled(times: int) -> Unsettled:
    """The lists changed while they were read."""
    return Unsettled(f"devices or neighbours changed during each of {times} attempts to read them; try again")


def unavailable(error: OSError) -> NetlinkUnavailable:
    """A netlink socket cannot be opened."""
    return NetlinkUnavailable(
        "netlink is not available, so devices and neighbours cannot be read; run this on the host, not in a sandbox",
        errno=error.errno,
        kernel=error.strerror or str(error),
    )


def cannot_load(error: BaseException, requirement: str) -> BackendError:
    """pyroute2, which is used for netlink here, is missing or broken."""
    return BackendError(
        f"pyroute2, which reads devices and neighbours, cannot be loaded ({type(error).__name__}: {error}); "
        f"install it with `pip install '{requirement}'`",
        can_retry=False,
    )
