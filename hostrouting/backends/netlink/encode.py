"""Values as messages to the kernel: a change of a route, and a question about a destination. The plain path.

What is sent by the hundred goes through `templates`, which are made of what is encoded here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hostrouting.backends.netlink import numbers as n
from hostrouting.backends.netlink.codec import encode
from hostrouting.backends.netlink.numbers import AF_OF
from hostrouting.model import IPV4, IPV6, ROUTE_TYPES, ip_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from hostrouting.backends.base import Verb
    from hostrouting.fib import Flow
    from hostrouting.model import IP, NextHop, Route

__all__ = ["encode_change", "encode_lookup"]

_VERBS: dict[Verb, tuple[int, int]] = {
    "add": (n.RTM_NEWROUTE, n.NLM_F_CREATE | n.NLM_F_EXCL),
    "append": (n.RTM_NEWROUTE, n.NLM_F_CREATE | n.NLM_F_APPEND),
    "prepend": (n.RTM_NEWROUTE, n.NLM_F_CREATE),
    "replace": (n.RTM_NEWROUTE, n.NLM_F_CREATE | n.NLM_F_REPLACE),
    "delete": (n.RTM_DELROUTE, 0),
}
_TYPES = {name: number for number, name in enumerate(ROUTE_TYPES)}
_RTNH_F_ONLINK = 4
# Without it IPv4 names the table main whichever it was; IPv6 names the right one and refuses the flag.
_EXTRA = {IPV4: n.RTM_F_LOOKUP_TABLE, IPV6: 0}
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


def encode_lookup(family: int, flow: Flow, index_of: Callable[[str], int], *, entry: int = 1, **raw: int) -> bytes:
    """The question which entry decides for a destination; `raw` holds the `sequence` and the `dst` as numbers.

    Without `entry` it is the question what becomes of one packet, whose answer is always small.
    """
    source = None if flow.source is None or int(flow.source) == 0 else flow.source
    asked: list[tuple[str, int | str | None]] = [
        ("RTA_DST", str(ip_at(family, raw.get("dst", 0)))),
        ("RTA_SRC", None if source is None else str(source)),
        ("RTA_IIF", index_of(flow.iif) if flow.iif not in {None, "lo"} and flow.iif else None),
        ("RTA_OIF", index_of(flow.oif) if flow.oif else None),
        ("RTA_MARK", flow.mark or None),
        ("RTA_UID", flow.uid),
        ("RTA_IP_PROTO", flow.ipproto or None),
        ("RTA_SPORT", flow.sport or None),
        ("RTA_DPORT", flow.dport or None),
    ]
    bits = _bits(ip_at(family, 0))
    return encode(
        "route",
        n.RTM_GETROUTE,
        n.NLM_F_REQUEST,
        sequence=raw.get("sequence", 0),
        fields={
            "family": AF_OF[family],
            "dst_len": bits,
            "src_len": bits if source else 0,
            "tos": flow.tos or 0,
            "flags": n.RTM_F_FIB_MATCH * entry | _EXTRA[family],
        },
        attributes=[(name, value) for name, value in asked if value is not None],
    )


def _bits(address: IP) -> int:
    return address.max_prefixlen
