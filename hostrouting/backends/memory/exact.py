"""The promise of `delete`: this very route, or none.

To Linux, what a request to delete leaves open matches anything. A backend promises more, and so does this one: the
very route is looked for first, and where Linux would take another one, nothing is deleted.
"""

import errno

from hostrouting.backends.memory.refused import Refused
from hostrouting.backends.memory.tables import bare
from hostrouting.model import DEFAULT_METRIC, IPV4, Route

__all__ = ["check_exact", "same"]


def check_exact(wanted: Route, standing: list[Route], taken: Route | None) -> None:
    """Refuse unless the wanted route is among those that stand, and is the one that Linux would take."""
    if not any(same(route, wanted) for route in standing):
        raise Refused(errno.ESRCH)
    if taken is not None and not same(taken, wanted):
        raise Refused(errno.ENOTUNIQ, f"{taken} would be taken away instead")


def same(one: Route, other: Route) -> bool:
    """Whether the two are one route in all that tells routes apart; the state of the legs does not."""
    return _identity(one) == _identity(other)


def _identity(route: Route) -> tuple[object, ...]:
    family = route.prefix.family
    scope, tos = (route.scope, route.tos) if family == IPV4 else (0, 0)
    legs = bare(route).legs
    ways = tuple((leg.dev, leg.gateway, leg.onlink, leg.weight if len(legs) > 1 else 1) for leg in legs)
    metric = route.metric or DEFAULT_METRIC[family]
    return (route.table, route.prefix, tos, metric, route.type, route.protocol, scope, ways)
