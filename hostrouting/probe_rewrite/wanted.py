"""The rules and the route that are wanted, and the plan that gets from the present state to them.

Here: values in, values out. Not here: calling nft or the kernel (`nftables`, `backends`), and the order of the steps
(`tasks.probe_rewrite`).
"""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Network
from itertools import zip_longest
from typing import TYPE_CHECKING

import attrs

from hostrouting.effects import Operation
from hostrouting.model import DEFAULT_METRIC, IPV6, Prefix, Route
from hostrouting.nftables import Chain, Counter, Match, Rewrite, Rule, Table, Verdict
from hostrouting.plan import RoutePlan, plan_exactly

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from hostrouting.config import ProbeRewriteConfig
    from hostrouting.model import Snapshot

__all__ = ["RewritePlan", "differences", "is_ours", "is_rewritten", "plan_rewrite", "wanted_route", "wanted_table"]

_MARK = "hostrouting: "
"""Each of our rules has a comment that begins like this: a table with rules but without such a comment is not ours."""
_ON_LINK = (IPv6Network("fe80::/10"), IPv6Network("ff00::/8"))
_DISCOVERY = (130, 131, 132, 133, 134, 135, 136, 137, 143)
"""The ICMPv6 types of MLD and neighbour discovery."""


def wanted_table(config: ProbeRewriteConfig) -> Table:
    """The table that the configuration requires.

    Addresses are compared before devices, because that decides nearly every packet with one comparison. On a node that
    forwards 184,000 small packets per second, these rules cost 7 % of them, two empty chains 4 %, and the same rules
    with devices first 8 %.
    """
    uplinks, probe, known = config.interfaces, config.link_local, config.global_address
    leave, back = Verdict("return"), config.priority
    return Table(
        config.table,
        (
            Chain(
                "prerouting",
                (
                    _rule("not a probe", Match("ip6 saddr", (probe,), negated=True), leave),
                    _rule("did not come in by an uplink", Match("iifname", uplinks, negated=True), leave),
                    _rule("stays on the link", Match("ip6 daddr", _ON_LINK), leave),
                    _rule("neighbour discovery and MLD", Match("icmpv6 type", _DISCOVERY), leave),
                    _rule("from an address that may be forwarded", Counter(), Rewrite("ip6 saddr", known)),
                ),
                hook="prerouting",
                priority=back,
            ),
            Chain(
                "postrouting",
                (
                    _rule(
                        "back to the address of the probe",
                        Match("ip6 daddr", (known,)),
                        Match("oifname", uplinks),
                        Counter(),
                        Rewrite("ip6 daddr", probe),
                    ),
                ),
                hook="postrouting",
                priority=back,
            ),
        ),
    )


def _rule(why: str, *statements: Match | Counter | Rewrite | Verdict) -> Rule:
    return Rule(statements, _MARK + why)


def wanted_route(config: ProbeRewriteConfig, *, protocol: int) -> Route | None:
    """The route that sends replies to the uplink; None if no uplink is configured, or `ensure_route` is false."""
    if not (config.ensure_route and config.interfaces):
        return None
    prefix, [dev] = Prefix.of(IPv6Network(config.global_address)), config.interfaces
    return Route.to(prefix, dev=dev, metric=DEFAULT_METRIC[IPV6], protocol=protocol)


def is_rewritten(config: ProbeRewriteConfig, *, source: IPv6Address, destination: IPv6Address, iif: str | None) -> bool:
    """Whether the rules change the source of such a packet to the global address."""
    stays = any(destination in network for network in _ON_LINK)
    return config.enabled and source == config.link_local and iif in config.interfaces and not stays


def is_ours(table: Table) -> bool:
    """Whether a table with our name may be replaced or deleted: it has one of our rules, or is empty."""
    rules = [rule for chain in table.chains for rule in chain.rules]
    return not (rules or table.others) or any(rule.comment.startswith(_MARK) for rule in rules)


def differences(wanted: Table, found: Table | None) -> tuple[str, ...]:
    """The differences between the table that was found and the wanted one, each in a few words.

    Empty if there are none. The values of counters are not compared.
    """
    if found is None:
        return ("it is missing",)
    return tuple(_differences(wanted, found))


def _differences(wanted: Table, found: Table) -> Iterator[str]:
    if "dormant" in found.flags:
        yield "it is dormant, so its rules do nothing"
    elif not found.is_readable:
        yield "nft lists it incompletely"
    if not found.is_readable:
        return
    there = {chain.name: chain for chain in found.chains}
    for chain in wanted.chains:
        other = there.pop(chain.name, None)
        if other is None:
            yield f"chain {chain.name} is missing"
        elif other != chain:
            yield from _chain_differences(chain, other)
    yield from (f"chain {name} was added" for name in there)
    yield from (f"it has the flag {flag}" for flag in found.flags if flag not in {"dormant", "owner"})
    if found.others:
        yield f"something was added to it: {found.others[0].text}"


def _chain_differences(wanted: Chain, found: Chain) -> Iterator[str]:
    for name in ("type", "hook", "priority", "policy"):
        there, meant = getattr(found, name), getattr(wanted, name)
        if there != meant:
            yield f"chain {wanted.name} has {name} {there}, not {meant}"
    if found.rules != wanted.rules:
        yield _first_difference(wanted, found)


def _first_difference(wanted: Chain, found: Chain) -> str:
    """A phrase for what is wrong: the missing rules; otherwise an added rule; otherwise the first rule out of place."""
    where = f"of chain {wanted.name}"
    missing = [rule for rule in wanted.rules if rule not in found.rules]
    added = [rule for rule in found.rules if rule not in wanted.rules]
    if missing:
        return f"{len(missing)} of {len(wanted.rules)} rules {where} are missing or changed, the first is: {missing[0]}"
    if added:
        return f"a rule was added to chain {wanted.name}: {added[0]}"
    pairs = zip_longest(wanted.rules, found.rules)
    place = next(number for number, (one, other) in enumerate(pairs, 1) if one != other)
    return f"rule {place} {where} is out of place: {found.rules[place - 1]}"


@attrs.frozen(kw_only=True)
class RewritePlan:
    """The changes to make, first to the tables and then to the route."""

    load: Table | None = None
    """The table to load; None if it exists as it should, or is not wanted."""
    delete: tuple[str, ...] = ()
    """The names of our tables to delete."""
    routes: RoutePlan = attrs.field(factory=RoutePlan)
    operations: tuple[Operation, ...] = ()
    """The same changes in words, each with its reason; those to tables first."""
    conflict: str = ""
    """Why the table cannot be loaded; empty if it can."""

    on_tables: tuple[Operation, ...] = ()
    """The operations that change tables."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.operations and not self.conflicts

    @property
    def conflicts(self) -> tuple[str, ...]:
        """Why the table or the route cannot be installed, each a sentence."""
        routes = (f"{step.route.prefix}: {step.why}" for step in self.routes.conflicts)
        return (*([self.conflict] if self.conflict else []), *routes)

    @property
    def apart(self) -> tuple[RewritePlan, RewritePlan]:
        """The changes to tables and those to routes, each as a plan of its own."""
        on_routes = self.operations[len(self.on_tables) :]
        return (
            attrs.evolve(self, routes=RoutePlan(), operations=self.on_tables),
            RewritePlan(routes=self.routes, operations=on_routes),
        )

    @property
    def coming_routes(self) -> tuple[Route, ...]:
        """The routes that are to be added or replaced."""
        return tuple(step.route for step in self.routes.steps if step.action in {"add", "replace"})


def plan_rewrite(
    wanted: Table | None,
    route: Route | None,
    tables: Mapping[str, Table | None],
    snapshot: Snapshot,
    *,
    ours: Collection[int],
    former: Collection[Prefix] = (),
) -> RewritePlan:
    """The changes that lead from the present state to the wanted table and route; None means that one is not wanted.

    `tables` maps the configured name, and the names from earlier configurations, to the tables that exist. `former` are
    the prefixes of routes from earlier configurations. `ours` are the route protocols that mark a route as ours.
    """
    operations: list[Operation] = []
    load, conflict = None, ""
    if wanted is not None:
        found = tables.get(wanted.name)
        why = differences(wanted, found)
        if why:
            load = wanted
            operations.append(Operation("create" if found is None else "replace", _table(wanted.name), "; ".join(why)))
            conflict = "" if found is None else _conflict(found)
    delete = tuple(
        name
        for name, found in tables.items()
        if found is not None and is_ours(found) and (wanted is None or name != wanted.name)
    )
    operations += [Operation("delete", _table(name), "it is no longer wanted") for name in delete]
    wished = () if route is None else (route,)
    routes = plan_exactly(wished, snapshot, ours=ours, about={*former, *(it.prefix for it in wished)})
    on_route = [Operation(step.action, f"route {step.route}", step.why) for step in routes.changes]
    return RewritePlan(
        load=load,
        delete=delete,
        routes=routes,
        operations=(*operations, *on_route),
        on_tables=tuple(operations),
        conflict=conflict,
    )


def _table(name: str) -> str:
    return f"nftables table ip6 {name}"


def _conflict(found: Table) -> str:
    if "owner" in found.flags:
        return (
            f"{_table(found.name)} is owned by another process, and only that process can change it; "
            "end that process (nft list ruleset names it), or set probeRewrite.table to another name"
        )
    if not is_ours(found):
        return (
            f"{_table(found.name)} is not ours: no rule in it has a comment that begins with {_MARK.strip()!r}; "
            "set probeRewrite.table to another name"
        )
    return ""
