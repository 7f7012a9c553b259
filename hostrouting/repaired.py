"""The host after the repair: the complete routes of a repair, and the tables with these routes.

Here: what would be there. Not here: which routes repair it (`repair`), and how they are installed (`apply`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostrouting.model import Route
from hostrouting.uplink import resolve_route

if TYPE_CHECKING:
    from hostrouting.examination import Examination
    from hostrouting.fib import Fib

__all__ = ["repair_routes", "with_repair"]


def repair_routes(found: Examination, *, protocol: int) -> tuple[Route, ...]:
    """The routes of the repair, with device and gateway filled in; `protocol` is that of our routes."""
    resolved = [resolve_route(wish, found.fib, protocol=protocol) for wish in found.routes]
    return tuple(it for it in resolved if isinstance(it, Route))


def with_repair(found: Examination, *, protocol: int) -> Fib | None:
    """The host with the repair applied; None if there is no repair."""
    routes = repair_routes(found, protocol=protocol)
    if not routes:
        return None
    keys = {route.key for route in routes}
    ours = [
        it for route in routes for it in found.fib.routes(route.prefix) if it.key in keys and it.protocol == protocol
    ]
    return found.fib.with_routes(routes, without=ours)
