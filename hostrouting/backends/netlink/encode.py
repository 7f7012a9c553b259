"""A change of a route as a message to the kernel. The plain path.

What is sent by the hundred goes through `templates`, which are made of what is encoded here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hostrouting.backends.netlink import numbers as n
from hostrouting.backends.netlink.codec import encode
from hostrouting.backends.netlink.numbers import AF_OF
from hostrouting.model import ROUTE_TYPES, ip_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from hostrouting.backends.base import Verb
    from hostrouting.model import NextHop, Route

__all__ = ["encode_change"]

_VERBS: dict[Verb, tuple[int, int]] = {
    "add": (n.RTM_NEWROUTE, n.NLM_F_CREATE | n.NLM_F_EXCL),
    "append": (n.RTM_NEWROUTE, n.NLM_F_CREATE | n.NLM_F_APPEND),
    "prepend": (n.RTM_NEWROUTE, n.NLM_F_CREATE),
    "replace": (n.RTM_NEWROUTE, n.NLM_F_CREATE | n.NLM_F_REPLACE),
    "delete": (n.RTM_DELROUTE, 0),
}
_TYPES = {name: number for number, name in enumerate(ROUTE_TYPES)}
_RTNH_F_ONLINK = 4
_LAST_TABLE_IN_HEADER = 255
_RT_TABLE_COMPAT = 252  # says: see the attribute


def encode_change(verb: Verb, route: Route, index_of: Callable[[str], int], **raw: int) -> bytes:
    """The message that makes this change.

    `raw` takes the place of what the route says: its `sequence`, and `dst_len`, `dst`, `oif`, `gateway` and `metric`
    as numbers. So a template can be probed.
    """
    kind, flags = _VERBS[verb]
    family = route.prefix.family
    # A route by a next hop object is listed with the object's legs, and can be handed back so.
    hops = () if route.nexthop_id is not None else route.legs
    fields = {
        "family": AF_OF[family],
        "dst_len": raw.get("dst_len", route.prefix.length),
        "tos": route.tos,
        "table": route.table if route.table <= _LAST_TABLE_IN_HEADER else _RT_TABLE_COMPAT,
        "proto": route.protocol,
        "scope": route.scope,
        "type": _TYPES[route.type],
        "flags": _flags(hops[0]) if len(hops) == 1 else 0,
    }
    attributes: list[tuple[str, Any]] = [("RTA_DST", str(ip_at(family, raw.get("dst", route.prefix.network))))]
    if len(hops) == 1:
        attributes += _way(hops[0], family, index_of, raw)
    attributes += [("RTA_PRIORITY", raw.get("metric", route.metric)), ("RTA_TABLE", route.table)]
    if len(hops) > 1:
        attributes.append(("RTA_MULTIPATH", [_hop(hop, family, index_of) for hop in hops]))
    if route.nexthop_id is not None:
        attributes.append(("RTA_NH_ID", route.nexthop_id))
    if route.prefsrc is not None:
        attributes.append(("RTA_PREFSRC", str(route.prefsrc)))
    metrics = [(f"RTAX_{name.upper()}", value) for name in ("mtu", "advmss") if (value := getattr(route, name))]
    if metrics:
        attributes.append(("RTA_METRICS", {"attrs": metrics}))
    return encode(
        "route",
        kind,
        n.NLM_F_REQUEST | flags,
        sequence=raw.get("sequence", 0),
        fields=fields,
        attributes=attributes,
    )


def _way(
    hop: NextHop, family: int, index_of: Callable[[str], int], raw: dict[str, int] | None = None
) -> list[tuple[str, Any]]:
    """The attributes of one way out; its device comes first."""
    raw = raw or {}
    found: list[tuple[str, Any]] = []
    if hop.dev is not None:
        found.append(("RTA_OIF", raw["oif"] if "oif" in raw else index_of(hop.dev)))
    if hop.gateway is not None:
        version = hop.gateway.version
        gateway = ip_at(version, raw.get("gateway", int(hop.gateway)))
        if version == family:
            found.append(("RTA_GATEWAY", str(gateway)))
        else:
            found.append(("RTA_VIA", {"family": AF_OF[version], "addr": str(gateway)}))
    return found


def _hop(hop: NextHop, family: int, index_of: Callable[[str], int]) -> dict[str, Any]:
    way = dict(_way(hop, family, index_of))
    device = way.pop("RTA_OIF", 0)
    return {"oif": device, "hops": hop.weight - 1, "flags": _flags(hop), "attrs": list(way.items())}


def _flags(hop: NextHop) -> int:
    # The other flags are the kernel's own remarks.
    return _RTNH_F_ONLINK if hop.onlink else 0
