"""Routes left behind by a script: how to recognise one, and the command that deletes it.

Here: the command, with every attribute that the kernel compares, so that it cannot delete another route. Not here:
running it; an administrator who knows where the route came from has to decide.
"""

from hostrouting.model import SCOPE_LINK, SCOPE_UNIVERSE, Route, protocol_name, table_name
from hostrouting.uplink import bare_leg

__all__ = ["deletion_command", "is_left_behind"]

_BY_HAND = frozenset({3, 4})  # boot, which is the default of `ip route`, and static
_SCOPES = {SCOPE_UNIVERSE: "global", SCOPE_LINK: "link"}


def is_left_behind(standing: Route, wanted: Route) -> bool:
    """Whether a route looks as if an earlier script, such as the Go original's, had added it for the wanted route.

    True if it was added with `ip route` (proto boot or static), and has a gateway and only devices of the wanted route.
    """
    return (
        standing.protocol in _BY_HAND
        and standing.type == "unicast"
        and any(leg.gateway is not None for leg in standing.legs)
        and set(standing.devs) <= set(wanted.devs)
    )


def deletion_command(route: Route) -> str:
    """The shell command that deletes this IPv4 route, the first with its destination and metric, and no other.

    It gives every attribute, because the kernel does not compare those that a request leaves out.
    """
    legs = tuple(map(bare_leg, route.legs))
    words = ["ip route del", *([] if route.type == "unicast" else [route.type])]
    words.append("default" if route.prefix.length == 0 else str(route.prefix))
    words += [str(legs[0])] if len(legs) == 1 and route.nexthop_id is None else []
    words += [f"tos {route.tos:#04x}"] if route.tos else []
    words.append(f"table {table_name(route.table)}")
    # Every iproute2 knows the names of these two protocols.
    words.append(f"proto {protocol_name(route.protocol) if route.protocol in _BY_HAND else route.protocol}")
    words.append(f"scope {_SCOPES.get(route.scope, route.scope)}")
    words += [f"src {route.prefsrc}"] if route.prefsrc is not None else []
    words.append(f"metric {route.metric}")
    words += [f"{name} {value}" for name in ("mtu", "advmss") if (value := getattr(route, name)) is not None]
    if route.nexthop_id is not None:
        words.append(f"nhid {route.nexthop_id}")
    elif len(legs) > 1:
        words += [f"nexthop {leg} weight {leg.weight}" for leg in legs]
    return " ".join(words)
