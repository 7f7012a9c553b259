"""The parts of a host's routing, as plain frozen values.

Here: prefixes, links, addresses, rules, routes, and the snapshot that contains them. Not here: decisions about them.
What the kernel would do with them is in `hostrouting.fib`; what should change is in the modules above that.

Where IPv4 and IPv6 differ, a value has fields that only one of them uses: `tos` (IPv4), `source`, `preference` (IPv6).
"""

from hostrouting.model.link import ARPHRD_INFINIBAND, RP_FILTER_STRICT, Address, Link
from hostrouting.model.pathless import PATHLESS, REFUSING
from hostrouting.model.prefix import (
    IP,
    IPV4,
    IPV6,
    Prefix,
    as_ip,
    as_prefix,
    extent,
    ip_at,
    prefixes_between,
    spans_of,
    width_of,
)
from hostrouting.model.route import (
    PREFERENCES,
    PROTOCOL_KERNEL,
    ROUTE_TYPES,
    SCOPE_HOST,
    SCOPE_LINK,
    SCOPE_UNIVERSE,
    TABLE_DEFAULT,
    TABLE_LOCAL,
    TABLE_MAIN,
    NextHop,
    Preference,
    Route,
    RouteKey,
    RouteType,
    protocol_name,
    table_name,
)
from hostrouting.model.route_table import Column, Outline, RouteEdits, RouteTable, Shapes, routes_like, shape_of
from hostrouting.model.rule import (
    SELECTORS,
    TO,
    Rule,
    RuleAction,
    Selector,
    by_priority,
    default_rules,
    selector_of,
    tos_bits,
    tos_name,
)
from hostrouting.model.snapshot import Snapshot
from hostrouting.route_defaults import DEFAULT_METRIC, OURS

__all__ = [
    "ARPHRD_INFINIBAND",
    "DEFAULT_METRIC",
    "Column",
    "IP",
    "IPV4",
    "IPV6",
    "OURS",
    "PATHLESS",
    "PREFERENCES",
    "PROTOCOL_KERNEL",
    "REFUSING",
    "ROUTE_TYPES",
    "RP_FILTER_STRICT",
    "SCOPE_HOST",
    "SCOPE_LINK",
    "SCOPE_UNIVERSE",
    "SELECTORS",
    "TABLE_DEFAULT",
    "TABLE_LOCAL",
    "TABLE_MAIN",
    "TO",
    "Address",
    "Link",
    "NextHop",
    "Outline",
    "Preference",
    "Prefix",
    "Route",
    "RouteKey",
    "RouteEdits",
    "RouteTable",
    "RouteType",
    "Rule",
    "RuleAction",
    "Selector",
    "Shapes",
    "Snapshot",
    "as_ip",
    "as_prefix",
    "by_priority",
    "default_rules",
    "extent",
    "ip_at",
    "routes_like",
    "prefixes_between",
    "protocol_name",
    "selector_of",
    "shape_of",
    "spans_of",
    "table_name",
    "tos_bits",
    "tos_name",
    "width_of",
]
