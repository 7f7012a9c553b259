"""Routes that a script has left: how to tell one from other routes that are not ours, and what deletes it.

Here: the command, with all that the kernel compares, so that it takes no other route. Not here: carrying it out, which
is up to whoever knows where the route came from.
"""

from hostrouting.model import SCOPE_LINK, SCOPE_UNIVERSE, Route, protocol_name, table_name
from hostrouting.uplink import bare_leg

__all__ = ["deletion_command", "is_left_behind"]

_BY_HAND = frozenset({3, 4})  # boot, which is what `ip route` says when it is not told, and static
_SCOPES = {SCOPE_UNIVERSE: "global", SCOPE_LINK: "link"}


def is_left_behind(standing: Route, wanted: Route) -> bool:
    """Whether a route looks like what an earlier script, such as the Go original's, was told to have here.

    Somebody wrote it by hand, and it leads by the same devices to a gateway.
    """
    return (
        standing.protocol in _BY_HAND
        and standing.type == "unicast"
        and any(leg.gateway is not None for leg in standing.legs)
        and set(standing.devs) <= set(wanted.devs)
    )


def deletion_command(route: Route) -> str:
    """What a shell is told to delete this IPv4 route, the first of its destination and metric, and no other.

    Everything is said, for to the kernel what a request to delete leaves out may be anything.
    """
    legs = tuple(map(bare_leg, route.legs))
    words = ["ip route del", *([] if route.type == "unicast" else [route.type])]
    words.append("default" if route.prefix.length == 0 else str(route.prefix))
    words += [str(legs[0])] if len(legs) == 1 and route.nexthop_id is None else []
    words += [f"tos {route.tos:#04x}"] if route.tos else []
    words.append(f"table {table_name(route.table)}")
    # A shell knows the names of these everywhere.
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
