"""What the kernel refuses, as errors. For the details a refusal is worth another look at the host: here is that look.

One look serves for all refusals of a batch. The words are those of `hostrouting.backends.refusal`.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from hostrouting.backends.bounds import misfit
from hostrouting.backends.netlink.devices import NoDevice
from hostrouting.backends.netlink.reading import list_addresses, list_names
from hostrouting.backends.netlink.standing import Standing
from hostrouting.backends.refusal import refusal
from hostrouting.errors import NotPermitted, RouteRefused

if TYPE_CHECKING:
    import struct

    from hostrouting.backends.base import Change
    from hostrouting.backends.deletion import Obstacle
    from hostrouting.backends.netlink.channel import Channel
    from hostrouting.backends.netlink.messages import KernelError
    from hostrouting.model import Address, Route

__all__ = ["Refusals", "not_permitted"]


def not_permitted(error: KernelError) -> NotPermitted | None:
    """The error when it concerns this process and no particular route."""
    if error.number not in {errno.EPERM, errno.EACCES}:
        return None
    return NotPermitted(
        "this process may not change routing; it takes root, or the capability CAP_NET_ADMIN",
        errno=error.number,
        kernel=error.words,
    )


class Refusals:
    """Makes the error of each change that was refused; looks at the host when it has to."""

    def __init__(self, channel: Channel) -> None:
        """Look at nothing yet."""
        self._channel = channel
        self._standing = Standing(channel)
        self._addresses: dict[int, tuple[Address, ...]] = {}

    def of(self, change: Change, error: KernelError) -> RouteRefused:
        """The error of a change that the kernel refused."""
        return refusal(change, error.number, error.words, facts=self)

    def not_said(self, change: Change, problem: NoDevice | struct.error) -> RouteRefused:
        """The error of a change that could not be said to the kernel."""
        unfit = misfit(change.route)
        if isinstance(problem, NoDevice) and not unfit:
            return refusal(change, errno.ENODEV, problem.words, facts=self, problem=problem.problem)
        return refusal(change, errno.ERANGE, facts=self, problem=unfit or str(problem))

    def obstructed(self, change: Change, obstacle: Obstacle) -> RouteRefused:
        """The error of a delete for which the kernel was not asked."""
        return refusal(change, obstacle.number, facts=self, problem=obstacle.words)

    def unanswered(self, change: Change) -> RouteRefused:
        """The error of a change whose answer was lost, and which is seen not to have been made."""
        problem = "the kernel's answer was lost, and the change is not there"
        return refusal(change, errno.ENOBUFS, facts=self, problem=problem)

    def standing(self, route: Route) -> list[Route]:
        """The routes of the same table and prefix, in the kernel's order."""
        return self._standing.of_prefix(route)

    def addresses(self, family: int) -> tuple[Address, ...]:
        """The host's own addresses of this family."""
        if family not in self._addresses:
            self._addresses[family] = list_addresses(self._channel, family, list_names(self._channel))
        return self._addresses[family]
