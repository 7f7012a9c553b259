"""What there was before a task first changed anything, for its undo.

The former configuration is all that is needed to install it again, with one exception: routes that
somebody had typed with our protocol, such as those of the commands that `check` prints. A run
deletes them, because they are not configured, and `apply --confirm` promises that all is as it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.kernel.base import RouteRequest

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.install.plan import Plan
    from hostrouting.install.wanted import Wanted
    from hostrouting.kernel.base import RouteBackend
    from hostrouting.model.route import Route


class Before(NamedTuple):
    """What there was before the first change."""

    config: HostRoutingConfig | None
    """What was installed; None if it could not be read."""
    typed: tuple[Route, ...]
    """Our routes that were not configured, in the order in which they are added again."""


def before_of(wanted: Wanted, plan: Plan) -> Before:
    """What there is before this plan is carried out."""
    deleted = [step.route for step in plan.routes.changes if step.action == "delete"]
    typed = [route for route in reversed(deleted) if route.key not in wanted.former_keys]
    return Before(wanted.former, tuple(typed))


def restore_routes(kernel: RouteBackend, routes: Iterable[Route]) -> None:
    """Add those of these routes that are missing."""
    for outcome in kernel.change(RouteRequest("append", route) for route in routes):
        if outcome.error is not None and not outcome.is_done:
            raise outcome.error
