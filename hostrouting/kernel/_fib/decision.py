"""What a lookup can end with."""

from typing import Literal, TypeAlias

from hostrouting.model.route import RouteType

# A route's type, or no-route if no route decides.
Kind: TypeAlias = RouteType | Literal["no-route"]
