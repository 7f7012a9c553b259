"""From what went wrong on the way to the link layer to the error that an operator reads.

Here: one sentence for each kind, the same for Linux and for the fake one. Not here: when the kernel refuses.
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
    """The kernel has refused with this errno and these words."""
    if number in {errno.EPERM, errno.EACCES}:
        return NotPermitted(f"this process may not {what}; run it as root", errno=number, kernel=words)
    return BackendError(f"the kernel refused to {what}", errno=number, kernel=words or os.strerror(number))


def no_device(neighbour: Neighbour) -> BackendError:
    """The device of the entry is not there."""
    return BackendError(
        f"there is no device {neighbour.dev} for the neighbour {neighbour}; add it when the device is there",
        errno=errno.ENODEV,
    )


def timed_out(what: str, seconds: float) -> BackendTimeout:
    """No answer came in time."""
    return BackendTimeout(f"could not {what} within {seconds:g} s: the kernel did not answer; try again")


def unsettled(times: int) -> Unsettled:
    """The lists changed while they were read."""
    return Unsettled(f"devices or neighbours changed each of the {times} times they were read; try again")


def unavailable(error: OSError) -> NetlinkUnavailable:
    """No socket for netlink can be had."""
    return NetlinkUnavailable(
        "there is no netlink here, so devices and neighbours cannot be read; run it on the host, outside of a sandbox",
        errno=error.errno,
        kernel=error.strerror or str(error),
    )


def cannot_load(error: BaseException, requirement: str) -> BackendError:
    """The library that speaks netlink here is not there, or is broken."""
    return BackendError(
        f"pyroute2, which reads devices and neighbours, cannot be loaded ({type(error).__name__}: {error}); "
        f"install it with `pip install '{requirement}'`"
    )
