"""The rules and the route that let probes reach the pods: what is wanted, what is there, and what blocks probes.

Here: values in, values out: the wanted table and route, and the plan that gets from the present state to them; the
record of what may be in the kernel; and the hindrances, which are settings and devices of a host that block probes, or
may block them, although rules and route are in force. Not here: reading the host, calling nft or the kernel, and the
order of the steps (`task`). How the rewrite works is told at the top of this folder.

The record lists the tables and routes that may be in the kernel, including those of earlier configurations. The task
and the boot script write it to a file under /run before they change the kernel. A reboot clears the kernel's state and
the file.
"""

from __future__ import annotations

from contextlib import suppress
from ipaddress import IPv6Address, IPv6Network
from itertools import zip_longest
from typing import TYPE_CHECKING, Literal

import attrs

from hostrouting.finding import Finding, Severity
from hostrouting.host.effects import Operation
from hostrouting.kernel.nftables import Chain, Counter, Match, Rewrite, Rule, Table, Verdict
from hostrouting.model import DEFAULT_METRIC, IPV6, Prefix, Route
from hostrouting.routes.plan import RoutePlan, plan_exactly

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from typing_extensions import Self

    from hostrouting.config import ProbeRewriteConfig
    from hostrouting.model import Link, Snapshot

__all__ = [
    "NotedRoute",
    "OwnAddress",
    "Record",
    "RewritePlan",
    "Surroundings",
    "differences",
    "find_hindrances",
    "has_address",
    "is_ours",
    "is_rewritten",
    "own_addresses",
    "plan_rewrite",
    "wanted_route",
    "wanted_table",
]

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
    routes = plan_exactly(wished, snapshot, ours=ours, about={*former, *(route.prefix for route in wished)})
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


# The record of what may be in the kernel.


@attrs.frozen
class NotedRoute:
    """A route to the global address that was added to the kernel, or was about to be."""

    address: IPv6Address
    dev: str
    protocol: int

    def __str__(self) -> str:
        return f"route {self.address} dev {self.dev} protocol {self.protocol}"

    @classmethod
    def parse(cls, line: str) -> Self:
        """The route in this line. Raises ValueError for any other line."""
        match line.split():
            case ["route", address, "dev", dev, "protocol", protocol]:
                return cls(IPv6Address(address), dev, int(protocol))
        raise ValueError(f"{line!r} is not a line of a route")


@attrs.frozen
class Record:
    """The names of the tables, and the routes."""

    tables: tuple[str, ...] = ()
    routes: tuple[NotedRoute, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """The record in this text; other lines are ignored."""
        tables, routes = [], []
        for line in text.splitlines():
            match line.split():
                case ["table", name]:
                    tables.append(name)
                case ["route", *_]:
                    with suppress(ValueError):
                        routes.append(NotedRoute.parse(line))
        return cls(tuple(tables), tuple(routes))

    def __add__(self, other: Record) -> Record:
        """Both records together, without repetitions."""
        tables, routes = (*self.tables, *other.tables), (*self.routes, *other.routes)
        return Record(tuple(dict.fromkeys(tables)), tuple(dict.fromkeys(routes)))

    def __str__(self) -> str:
        return "".join(f"{line}\n" for line in (*(f"table {name}" for name in self.tables), *self.routes))


# What blocks probes, or may block them, although rules and route are in force.

_RIVAL = "azureslbprobe"
"""A part of the name of tables that other agents create and delete for the same purpose."""


@attrs.frozen
class OwnAddress:
    """An IPv6 address of the host."""

    ip: IPv6Address
    dev: str
    state: Literal["usable", "tentative", "duplicate"] = "usable"
    """The result of duplicate address detection."""


_TENTATIVE, _DUPLICATE = 0x40, 0x08


def own_addresses(snapshot: Snapshot, listed: str) -> tuple[OwnAddress, ...]:
    """The addresses of the snapshot, with their states from `listed`, which is the text of /proc/net/if_inet6.

    No other source reports the states.
    """
    flags = {}
    for line in listed.splitlines():
        address, _, _, _, number, dev = line.split()
        flags[IPv6Address(bytes.fromhex(address)), dev] = int(number, 16)
    mine = [(address.ip, address.dev) for address in snapshot.addresses if isinstance(address.ip, IPv6Address)]
    return tuple(OwnAddress(ip, dev, _state(flags.get((ip, dev), 0))) for ip, dev in mine)


def _state(flags: int) -> Literal["usable", "tentative", "duplicate"]:
    if flags & _DUPLICATE:
        return "duplicate"
    return "tentative" if flags & _TENTATIVE else "usable"


def has_address(interfaces: Collection[str], addresses: Iterable[OwnAddress]) -> bool | None:
    """Whether a device has a global or unique local address; None while duplicate address detection is running."""
    near = {address for address in addresses if address.dev in interfaces}
    states = {address.state for address in near if not (address.ip.is_link_local or address.ip.is_site_local)}
    return True if "usable" in states else None if "tentative" in states else False


@attrs.frozen(kw_only=True)
class Surroundings:
    """The facts about a host that matter to a rewrite, except for the table. None means that a fact is not known."""

    links: tuple[Link, ...] = ()
    """The uplinks, and the devices that they are ports of."""
    addresses: tuple[OwnAddress, ...] = ()
    forwarding: bool | None = None
    accept_ra: Mapping[str, int] = attrs.field(factory=dict)
    """By device: 0 no, 1 only if the host does not forward, 2 always."""
    way_back: tuple[str, ...] | None = None
    """The outgoing devices for a packet to the global address."""
    tables: tuple[tuple[str, str], ...] = ()
    """Family and name of every nftables table."""


def find_hindrances(config: ProbeRewriteConfig, around: Surroundings) -> tuple[Finding, ...]:
    """All facts about the host that block probes, or may block them, although the rules and the route are in force."""
    return tuple(_hindrances(config, around))


def _hindrances(config: ProbeRewriteConfig, around: Surroundings) -> Iterator[Finding]:
    links = {link.name: link for link in around.links}
    for dev in config.interfaces:
        yield from _link_hindrances(dev, links)
    yield from _setting_hindrances(config, around)
    yield from _address_hindrances(config, around)
    for family, name in around.tables:
        if _RIVAL in name.lower():
            told = f"the nftables table {family} {name} has the same purpose; other agents create and delete it"
            yield _hindrance("other-table", f"{family} {name}", f"{told}; it is not changed", "note")


def _hindrance(kind: str, target: str, told: str, severity: Severity = "warning") -> Finding:
    """A fact about the host, not about the rewrite, that blocks probes, or (a note) may block them."""
    return Finding("probe-rewrite", severity, told, target, facts={"kind": kind})


def _setting_hindrances(config: ProbeRewriteConfig, around: Surroundings) -> Iterator[Finding]:
    if around.forwarding is False:
        setting = "net.ipv6.conf.all.forwarding"
        told = f"{setting} is 0, so no probe is forwarded to a pod; set it to 1, and accept_ra of the uplink to 2"
        yield _hindrance("forwarding-off", setting, told)
    for dev in config.interfaces:
        if around.accept_ra.get(dev) == 1 and around.forwarding:
            setting = f"net.ipv6.conf.{dev}.accept_ra"
            told = f"{setting} is 1, so a host that forwards ignores router advertisements, and loses the default"
            yield _hindrance("accept-ra", setting, f"{told} route that they install; set it to 2", "note")


def _address_hindrances(config: ProbeRewriteConfig, around: Surroundings) -> Iterator[Finding]:
    known = config.global_address
    for owner in around.addresses:
        if owner.ip == known:
            told = f"{known} is an address of this host, on {owner.dev}, so replies to probes do not leave the host"
            yield _hindrance("own-address", str(known), f"{told}; set probeRewrite.globalAddress to another address")
    if around.way_back is not None and not set(around.way_back) & set(config.interfaces):
        ways, uplinks = " and ".join(around.way_back), " or ".join(config.interfaces)
        told = f"a packet to {known} {f'leaves by {ways}' if ways else 'has no route'}, so replies to probes are lost"
        yield _hindrance(
            "no-way-back",
            str(known),
            f"{told}; it has to leave by {uplinks} (set ensureRoute to true to add the route)",
        )


def _link_hindrances(dev: str, links: Mapping[str, Link]) -> Iterator[Finding]:
    link = links.get(dev)
    if link is None:
        yield _hindrance("link-missing", dev, f"there is no device {dev}; name the uplink in probeRewrite.interfaces")
        return
    if not link.up:
        yield _hindrance("link-down", dev, f"{dev} is down")
    if link.master is not None and not _is_vrf(links.get(link.master)):
        told = f"{dev} is a port of {link.master}, so its packets arrive on {link.master} and no rule matches them"
        yield _hindrance("link-enslaved", dev, f"{told}; name {link.master} in probeRewrite.interfaces")


def _is_vrf(link: Link | None) -> bool:
    """Whether it is a VRF. For a port of a VRF, prerouting runs twice: with the port as the device, then with the VRF.

    For a port of a bridge or a bond it runs once, with the bridge or bond as the device. (Linux runs the hook in
    ip6_rcv for the port, passes the packet to the VRF, and runs the hook again there.)
    """
    return link is not None and link.kind == "vrf"
