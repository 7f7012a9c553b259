"""The fake kernel's rules and routes as `ip rule` and `ip route show table all` print them.

Here: iproute2's words and their order. Not here: reading the kernel.
"""

from collections.abc import Collection, Iterator, Sequence

from hostrouting.kernel._rule import SELECTORS, FullRule, tos_name
from hostrouting.model.prefix import IPV4, IPV6, Prefix, width_of
from hostrouting.model.route import (
    PROTOCOL_KERNEL,
    SCOPE_UNIVERSE,
    TABLE_MAIN,
    NextHop,
    Route,
    protocol_name,
    table_name,
)
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Snapshot

_PROTOCOL_BOOT = 3
_SCOPES = {200: "site", 253: "link", 254: "host", 255: "nowhere"}


def print_world(snapshot: Snapshot) -> str:
    """Rules and routes, IPv4 before IPv6, each block under the command that prints it."""
    blocks = []
    for family, option in ((IPV4, ""), (IPV6, " -6")):
        for command, lines in (
            ("rule", print_rules(snapshot.rules, family, [link.name for link in snapshot.links])),
            ("route show table all", print_routes(snapshot.routes, family)),
        ):
            text = list(lines)
            if text:
                blocks.append("\n".join([f"# ip{option} {command}", *text]))
    return "\n".join(blocks)


def print_rules(rules: Sequence[Rule], family: int, devs: Collection[str]) -> Iterator[str]:
    """One line for each rule; a rule for a device that does not exist is marked [detached]."""
    ours = [FullRule.of(rule) for rule in rules if rule.family == family]
    priorities = {rule.priority for rule in ours}
    for rule in ours:
        words = ["not"] if rule.invert else []
        words += [] if rule.src else ["from all"]
        words += [selector.shown(rule, devs) for selector in SELECTORS if selector.worded and selector.says(rule)]
        words += [f"{name} {value}" for name, value in rule.others]
        if rule.action == "goto":
            words.append(f"goto {rule.target}" + ("" if rule.target in priorities else " [unresolved]"))
        elif rule.action != "to_table":
            words.append(rule.action)
        else:
            words.append("lookup [l3mdev-table]" if rule.l3mdev else f"lookup {table_name(rule.table)}")
        if rule.suppress_prefixlength is not None:
            words.append(f"suppress_prefixlength {rule.suppress_prefixlength}")
        if rule.suppress_ifgroup is not None:
            words.append(f"suppress_ifgroup {rule.suppress_ifgroup or 'default'}")
        if rule.protocol != PROTOCOL_KERNEL:
            words.append(f"proto {protocol_name(rule.protocol)}")
        yield f"{rule.priority}:\t{' '.join(words)}"


def print_routes(routes: Sequence[Route], family: int) -> Iterator[str]:
    """One line for each route, more for one with several next hops."""
    for route in routes:
        if route.prefix.family == family:
            yield from _route_lines(route)


def _route_lines(route: Route) -> Iterator[str]:
    words: list[str] = [] if route.type == "unicast" else [route.type]
    words.append("default" if route.prefix.length == 0 else _block(route.prefix))
    words += [f"from {_block(route.source)}"] if route.source is not None else []
    words += [f"tos {tos_name(route.tos)}"] if route.tos else []
    words += [f"nhid {route.nexthop_id}"] if route.nexthop_id is not None else []
    single = route.legs[0] if len(route.legs) == 1 else None
    # In IPv4 a blackhole has no device; in IPv6 it is printed with dev lo.
    pathless = route.prefix.family == IPV6 and not route.legs
    words += _way(single, route.prefix.family) if single else ["dev lo"] if pathless else []
    words += [f"table {table_name(route.table)}"] if route.table != TABLE_MAIN else []
    words += [f"proto {protocol_name(route.protocol)}"] if route.protocol != _PROTOCOL_BOOT else []
    words += [f"scope {_SCOPES.get(route.scope, route.scope)}"] if route.scope != SCOPE_UNIVERSE else []
    words += [f"src {route.prefsrc}"] if route.prefsrc is not None else []
    words += [f"metric {route.metric}"] if route.metric or route.prefix.family == IPV6 else []
    words += _state(single) if single else []
    # The kernel lists hundredths of a second, and `ip` rounds them towards zero.
    left = route.expires
    words += [f"expires {left if left >= 0 else left + 1}sec"] if left is not None else []
    words += [f"{name} {value}" for name in ("mtu", "advmss") if (value := getattr(route, name)) is not None]
    words += [f"pref {route.preference}"] if route.prefix.family == IPV6 else []
    yield " ".join(words)
    if single is None:
        for leg in route.legs:
            yield " ".join(
                [" ", "\tnexthop", *_way(leg, route.prefix.family), f"weight {leg.weight}", *_state(leg)]
            ).replace("  \t", "\t")


def _block(prefix: Prefix | None) -> str:
    if prefix is None:
        return "all"
    return str(prefix.ip) if prefix.length == width_of(prefix.family) else str(prefix)


def _way(leg: NextHop, family: int) -> list[str]:
    words = []
    if leg.gateway is not None:
        words.append(f"via {'' if leg.gateway.version == family else 'inet6 '}{leg.gateway}")
    words += [f"dev {leg.dev}"] if leg.dev else []
    return words


def _state(leg: NextHop) -> list[str]:
    return [word for word in ("dead", "onlink", "pervasive", "linkdown") if getattr(leg, word)]
