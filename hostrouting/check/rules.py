"""What is wrong with the rules and the default routes of a host, whatever is expected of it.

Here: Linux's own rules, which other programs delete or overtake; default routes that compete; rules that look up an
empty table. Not here: where packets to the expected CIDRs leave (`overlap`).

- *The rule for table local.* Without it, or behind a rule that takes the packets, packets to this host's own addresses
  are sent away: it answers nobody. This is looked up for each own address, unless the rule is the first of all.
- *The rules for main and default.* Without them, the routes in these tables are not used.
- *Default routes that compete.* Of two routes with one metric, by different devices, Linux uses either. That is an
  accident, such as two devices with DHCP, unless the configuration names the devices. One route with several next hops
  is a decision, but not in IPv6 if routers advertised it: Linux makes one route of two that have the same metric.
- *A rule for an empty table* has no effect.
"""

from collections.abc import Iterator, Sequence

from hostrouting.fib.engine import Fib
from hostrouting.finding import Finding, Severity
from hostrouting.model.prefix import IPV4, IPV6, Prefix
from hostrouting.model.route import TABLE_DEFAULT, TABLE_LOCAL, TABLE_MAIN, Route, table_name
from hostrouting.model.rule import Rule, by_priority, command_adding, default_rules, missing_rules
from hostrouting.routes.uplink import bare_leg, default_route
from hostrouting.text import spoken

_LAST = 0xFFFFFFFF  # the highest metric
_ADVERTISED = 9  # the route protocol of what routers advertise

SERIOUS = ("local-rule", "default-routes")
"""No verdict is OK with one of these findings."""


def find_flaws(fib: Fib, family: int, *, is_named: bool) -> tuple[Finding, ...]:
    """The flaws of this family, the worst first. `is_named`: the configuration names the expected devices.

    Then default routes do not compete for being expected: each is judged.
    """
    rules = by_priority(rule for rule in fib.snapshot.rules if rule.family == family)
    competing = () if is_named else tuple(_competing(fib, family))
    if rules == default_rules(family):  # as on most hosts
        return competing
    return (
        *_not_local(fib, family, rules),
        *competing,
        *_missing(fib, family, rules),
        *_for_empty_tables(fib, family, rules),
    )


def is_of_main(flaw: Finding) -> bool:
    """Whether the rule for table main is missing."""
    return (flaw.name, flaw.target) == ("missing-rule", table_name(TABLE_MAIN))


def _adding(rule: Rule) -> str:
    return f"add the rule for table {table_name(rule.table)} with: {command_adding(rule)}"


def _not_local(fib: Fib, family: int, rules: tuple[Rule, ...]) -> Iterator[Finding]:
    if rules and rules[0].looks_up(TABLE_LOCAL):
        return
    own = dict.fromkeys(
        address.ip
        for address in fib.snapshot.addresses
        if address.ip.version == family
        and address.dev != "lo"
        # A device that is down has its addresses, but Linux has no route to them.
        and any(route.type == "local" for route in fib.routes(Prefix.of(address.ip), table=TABLE_LOCAL))
    )
    if lost := [str(ip) for ip in own if fib.lookup(ip).kind != "local"]:
        named = spoken(lost)
        told = f"this host does not deliver packets for its own {named}, so it does not answer there"
        why = "no rule looks up table local before another rule sends them away"
        yield Finding("local-rule", "warning", f"{told}: {why}", named, _adding(default_rules(family)[0]))


def _missing(fib: Fib, family: int, rules: tuple[Rule, ...]) -> Iterator[Finding]:
    """The rules for main and default. The latter only matters if its table has routes, or if both are gone."""
    missing = [rule for rule in missing_rules(rules, family) if rule.table != TABLE_LOCAL]
    is_used = len(missing) > 1 or not fib.is_empty(family, TABLE_DEFAULT)
    # Without any, the kernel may not have rules, or not this family; with a default route, it has lost them.
    for rule in missing if rules or fib.routes(Prefix(family, 0, 0)) else ():
        if rule.table == TABLE_MAIN or is_used:
            table = table_name(rule.table)
            unused = "are not used" if family == IPV4 else "may not be used"  # Linux uses them if IPv6 never had a rule
            told = f"no rule looks up table {table} for all packets, as on every new host, so its routes {unused}"
            severity: Severity = "warning" if rule.table == TABLE_MAIN else "note"
            yield Finding("missing-rule", severity, told, table, _adding(rule))


def _competing(fib: Fib, family: int) -> Iterator[Finding]:
    used = default_route(fib, family=family)
    if used is None:
        return
    near = fib.routes(used.prefix, table=used.table)
    alike = [
        route
        for route in near
        if _rank(route) == _rank(used) and any(not leg.dead and not leg.linkdown for leg in route.legs)
    ]
    is_advertised = family == IPV6 and any(route.protocol == _ADVERTISED and len(route.devs) > 1 for route in alike)
    if is_advertised or len({frozenset(route.devs) for route in alike}) > 1:
        yield _competition(family, alike, near)


def _competition(family: int, routes: Sequence[Route], near: Sequence[Route]) -> Finding:
    # Linux may list the next hops in any order.
    devs, ip = sorted({dev for route in routes for dev in route.devs}), "ip -6" if family == IPV6 else "ip"
    told = f"the next hops of {spoken([f'[{route}]' for route in routes])} compete"
    told += f": Linux uses one or the other, so packets leave by {spoken(devs, last='or')}"
    remedy = f"if all of them are right, name {spoken(devs)} in routeOverlap.expectedDevs"
    remedy += "; otherwise give one another metric where it comes from"
    # IPv4 has no command for one next hop of several. Instead of a route without a nexthop object, IPv6 may delete one
    # with an object, whatever its gateway.
    whole = [route for route in routes if (family == IPV6 or len(route.legs) == 1) and route.nexthop_id is None]
    taken = {route.metric for route in near if route.metric >= routes[0].metric}
    free = min({metric + 1 for metric in taken} - taken)
    if whole and free <= _LAST and (family == IPV4 or all(route.nexthop_id is None for route in near)):
        leg, moved = max(((leg, route) for route in whole for leg in route.legs), key=lambda way: way[0].dev or "")
        of = "" if moved.table == TABLE_MAIN else f" table {table_name(moved.table)}"
        way, by = f"default {bare_leg(leg)}", f" proto {moved.protocol}"
        # Of the next hops of an IPv6 route, Linux lists the protocol of the first alone.
        added, deleted = f"{way}{by}{of} metric {free}", f"{way}{by * (family == IPV4)}{of} metric {moved.metric}"
        remedy += f", and until then with: {ip} route add {added} && {ip} route del {deleted}"
    return Finding("default-routes", "warning", told, spoken(devs), remedy)


def _rank(route: Route) -> tuple[object, ...]:
    return route.type, route.metric, route.tos, route.preference, route.source


def _for_empty_tables(fib: Fib, family: int, rules: tuple[Rule, ...]) -> Iterator[Finding]:
    standing = {TABLE_LOCAL, TABLE_DEFAULT}
    for rule in rules:
        if rule.action == "to_table" and rule.table not in standing and fib.is_empty(family, rule.table):
            ip, table = "ip -6" if family == IPV6 else "ip", table_name(rule.table)
            told = f"rule {rule.priority} has no effect, because table {table} has no IPv{family} routes"
            deleted = f"{ip} rule del pref {rule.priority} lookup {table}"
            remedy = f"if no program will add routes to it, delete the rule with: {deleted}"
            yield Finding("empty-table", "note", told, f"rule {rule.priority}", remedy)
