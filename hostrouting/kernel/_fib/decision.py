"""The result of a lookup, as a plain value."""

from typing import Literal, NamedTuple, TypeAlias

from hostrouting.model.route import NextHop, Route, RouteType
from hostrouting.model.rule import Rule

# A route's type, or no-route if no route decides.
Kind: TypeAlias = RouteType | Literal["no-route"]


class Decision(NamedTuple):
    """What happens to a packet, the rule and the route that decide it, and the next hops that it may take.

    Those are the next hops of the route in use, and of the default routes that Linux uses in turn with it.
    """

    kind: Kind
    rule: Rule | None
    route: Route | None
    legs: tuple[NextHop, ...]
