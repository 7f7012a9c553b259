"""What Linux does with a packet that this host sends, computed from rules and routes: for one
address, or for every address of a prefix.

Theory of operation.

One lookup. Linux goes through the policy rules in the order of their priority. A rule that does not
select the packet is skipped. A rule that selects the packet refuses it or looks up a table, in
which the route with the longest prefix is used, and of several routes to this prefix the one with
the lowest metric. The lookup ends with this route. Linux goes on with the next rule if the table
has no route for the packet, if the route has the type throw, or if the rule suppresses the route.

Every address. As a function of the destination alone, the decision can change only where the prefix
of a route, or the `to` of a rule, begins or ends. These places are the borders. All addresses
between two neighbouring borders (a cell) have the same decision, so one lookup in each cell of a
prefix says what happens to every address of the prefix.

Every packet. Rules select by more than the destination. The plain packet has no mark, user 0, no
protocol or port that a rule selects, and no device or source that it is bound to. (IPv4 compares
the `from` of a rule with 0.0.0.0 then; in IPv6 no `from` matches.) Of all packets that this host
sends, a rule selects every one, none, or those that meet its conditions, such as a mark. So one
pass over the rules follows all of them at once: a rule with conditions captures some packets (it
decides about them, and they go no further), and the others go on to the next rule; a rule without
conditions captures those that are left, and the pass is over. The result is the decision for the
plain packet, and the other ends: the decisions for packets that differ from the plain one at some
rule. No end is missed, because each capture adds one. Some may be the end of no packet at all,
because conditions of different rules can exclude each other; that errs on the safe side.

What this host forwards is not followed. So a rule for sources that this host does not have (`from
10.244.1.7`) selects nothing, and a rule for all but what arrives on a device (`not iif eth0`)
selects everything. There is one exception: what a rule selects by its incoming device (`iif cni0`)
has an end, as packets with a mark have, even after a rule for all that this host sends (`iif lo`).

The rules and routes that the engine does not evaluate are named in `hostrouting.fib.not_judged`.
Where such a rule or route would decide, the kind of the decision is not-judged. Whether a decision
is right is the question of `hostrouting.check`.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple, TypeAlias

from hostrouting.model.prefix import IP, IPV4, Prefix, as_ip, width_of
from hostrouting.model.route import REFUSING, TABLE_LOCAL, TABLE_MAIN, Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Snapshot

Condition: TypeAlias = tuple[str, str]
"""A selector of a rule, with its value, in the words of `ip rule`: ("fwmark", "0x1/0xff")."""


class Decision(NamedTuple):
    """What happens to a packet."""

    kind: str
    """The type of the route, the refusing action of the rule, no-route, or not-judged."""
    route: Route | None = None
    rule: Rule | None = None

    def __str__(self) -> str:
        return str(self.route or self.rule or self.kind)

    @property
    def devs(self) -> tuple[str, ...]:
        """The devices by which the packet can leave; none if no route decides."""
        if self.route is None:
            return ()
        return self.route.usable_devs


NO_ROUTE = Decision("no-route")
"""The decision if no rule decides."""
NOT_JUDGED = "not-judged"
"""The kind of a decision that is not computed, because of a rule with goto or suppress_ifgroup, or
of an IPv6 route for some sources only.
"""


class OtherEnd(NamedTuple):
    """The decision for packets that this rule treats differently from the plain packet to the same
    destination.
    """

    rule: Rule
    decision: Decision
    met_conditions: tuple[Condition, ...]
    """The conditions of the rule that these packets meet, and the plain one does not. Empty if it
    is the other way round: the packets differ by not meeting all conditions.
    """


# One table.


class ByPrefix:
    """An index of routes by prefix: finds the routes to an address without a look at all others."""

    def __init__(self, family: int, routes: Iterable[Route]) -> None:
        """Sort the routes by the length and the first address of their prefix. Routes to the same
        prefix stay in the given order.
        """
        by_length: dict[int, dict[int, list[Route]]] = {}
        for route in routes:
            _, first, length = route.prefix
            by_length.setdefault(length, {}).setdefault(first, []).append(route)
        every_bit = (1 << width_of(family)) - 1
        self._by_netmask: list[tuple[int, dict[int, list[Route]]]] = []
        """Each netmask, the longest first; with it, the routes by the first address of their
        prefix.
        """
        for length in sorted(by_length, reverse=True):
            netmask = every_bit ^ (every_bit >> length)  # the first `length` bits
            self._by_netmask.append((netmask, by_length[length]))

    def covering(self, address: int) -> Iterator[Route]:
        """Yield the routes whose prefix contains the address, the longest prefix first."""
        for netmask, by_first in self._by_netmask:
            yield from by_first.get(address & netmask, ())


class Table(ByPrefix):
    """A routing table: the routes that Linux may use for plain packets. Routes with a tos are left
    out, and so are routes that Linux does not use because they are dead or have expired.
    """

    def __init__(self, family: int, routes: Iterable[Route]) -> None:
        """Keep the routes that Linux may use for plain packets. Those that it prefers come first.

        `routes` are in the order of the kernel. Routes of equal rank stay in this order, because
        Linux uses the first of them.
        """
        # A route with a tos is only for packets with this tos, and the plain packet has none.
        usable = [route for route in routes if not route.tos and not route.is_passed_over]
        # An IPv6 route that is only for packets from some sources comes first (False < True), so
        # that `decision_for` sees it and says not-judged. Beside such a route, Linux does not use
        # the others to the prefix, even for packets from other sources: it goes on to a shorter
        # prefix.
        usable.sort(key=lambda route: (route.source is None, *route.rank))
        super().__init__(family, usable)

    def best(self, address: int) -> Route | None:
        """The route that Linux uses for plain packets to this address; None if the table has none.
        The longest prefix decides, and of several routes to that prefix, the rank.
        """
        return next(self.covering(address), None)  # `__init__` has sorted them by rank

    def routes_to(self, prefix: Prefix) -> list[Route]:
        """The routes to exactly this prefix, the preferred one first. IPv6 routes that are only for
        packets from some sources are left out.
        """
        covering = self.covering(prefix.first)
        return [route for route in covering if route.prefix == prefix and route.source is None]


# Which packets a rule selects, and what it does with them.


def suppresses(rule: Rule, route: Route) -> bool:
    """Whether the rule passes over this route of its table, because the prefix is too short for
    `suppress_prefixlength`. Linux never passes over a route that refuses packets.
    """
    limit = rule.suppress_prefixlength
    return limit is not None and route.prefix.length <= limit and route.type not in REFUSING


class AppliedRule(NamedTuple):
    """A policy rule, and which packets it selects of all that this host sends to an address."""

    rule: Rule
    to: Prefix | None
    invert: bool
    """Whether it selects the packets that are not to these addresses or do not meet the conditions.
    """
    conditions: tuple[Condition, ...]
    """The selectors, except the destination, that some packets of this host meet and others do
    not.
    """
    is_met_by_plain: bool
    """Whether the plain packet meets all conditions."""
    table: Table | None
    """The table that the rule looks up; None if it has another action."""

    def selects_some(self, address: int) -> bool:
        """Whether the rule selects at least one of the packets to this address."""
        if self.invert:  # with `not`: packets outside `to`, or that do not meet the conditions
            return bool(self.conditions) or not self._is_inside(address)
        return self._is_inside(address)

    def selects_all(self, address: int) -> bool:
        """Whether the rule selects every packet to this address, whatever its mark or source."""
        if self.invert:  # with `not`: every packet outside `to`, whatever the conditions
            return not self._is_inside(address)
        return self._is_inside(address) and not self.conditions

    def selects_plain(self, address: int) -> bool:
        """Whether the rule selects the plain packet to this address, which has no mark, no source
        and no device.
        """
        meets_all = self._is_inside(address) and self.is_met_by_plain
        return meets_all != self.invert  # with `not`, the other way round

    def _is_inside(self, address: int) -> bool:
        return self.to is None or self.to.first <= address <= self.to.last

    def decision_for(self, address: int) -> Decision | None:
        """The decision for the packets to this address that the rule selects; None if they go on
        to the next rule.

        The engine does not evaluate `goto`, `suppress_ifgroup`, and IPv6 routes that are only for
        some sources. If one of these would decide, the decision is not-judged.
        """
        rule = self.rule
        if rule.action in REFUSING:
            return Decision(rule.action, None, rule)
        if rule.action == "goto":
            return Decision(NOT_JUDGED, None, rule)
        route = None if self.table is None else self.table.best(address)
        if route is None:  # the table has no such route, or the action is nop
            return None
        if route.source is not None:
            return Decision(NOT_JUDGED, None, rule)
        if route.type == "throw" or suppresses(rule, route):
            return None
        # Whether the rule passes over the route depends on the groups of devices, which a snapshot
        # does not have. But Linux never passes over a route that refuses packets.
        if rule.suppress_ifgroup is not None and route.type not in REFUSING:
            return Decision(NOT_JUDGED, None, rule)
        return Decision(route.type, route, rule)


def conditions_of(rule: Rule) -> tuple[Condition, ...]:
    """The selectors of a rule that can tell apart two packets that this host sends to the same
    address. So `to` is left out, and `iif lo`, which every packet of this host meets.
    """
    return tuple(
        selector
        for selector in rule.selectors()
        if selector[0] != "to" and selector != ("iif", "lo")
    )


def _is_never_met(rule: Rule, condition: Condition, fib: "Fib") -> bool:
    """Whether no packet that the engine follows meets this condition of the rule, such as `from
    10.0.0.0/8`. Two conditions are never met: a `from` that contains no address of this host, and
    the `iif` of a rule with `not`. The caller applies the `not` to the answer.
    """
    name, _ = condition
    if name == "iif":
        # For a rule `iif cni0`, the engine follows packets that arrive on cni0, and they meet the
        # condition. For `not iif cni0`, it follows only packets that this host sends, and these do
        # not arrive on cni0.
        return rule.invert
    sources = rule.src
    if name != "from" or sources is None:
        return False
    if rule.family == IPV4 and sources.first == 0:
        return False  # met by packets without a source: IPv4 compares `from` with 0.0.0.0 then
    # A loopback address does not count, because packets from it never leave this host.
    for block, _ in fib.own_blocks:
        if sources.overlaps(block) and not block.ip.is_loopback:
            return False
    return True


def _plain_meets(rule: Rule, condition: Condition) -> bool:
    """Whether the plain packet meets this condition of the rule, such as ("fwmark", "0x1"). The
    plain packet is an ordinary one: from user 0, without a mark, and without a source, device,
    protocol or port that a rule selects.
    """
    name, value = condition
    if name == "fwmark":
        return (rule.fwmark & rule.fwmask) == 0  # the rule selects packets without a mark
    if name == "uidrange":  # the first and the last user, such as "0-99"
        return value.startswith("0-")
    if name == "from" and rule.src is not None:
        # For a packet without a source, IPv4 compares `from` with 0.0.0.0; no IPv6 `from` matches.
        return rule.family == IPV4 and rule.src.first == 0
    return False  # the condition names a device, a protocol or a port, for example


# All rules.


class Fib:
    """What one host does with each packet that it sends, by its rules and tables for one family."""

    def __init__(self, snapshot: Snapshot, family: int) -> None:
        """Keep what a lookup needs: the rules of this family in order, and the tables that they
        look up.
        """
        self.snapshot = snapshot
        self.family = family
        rules = [rule for rule in snapshot.rules if rule.family == family and not rule.l3mdev]
        rules.sort(key=lambda rule: rule.priority)
        self.rules = tuple(rules)
        """In the order of the lookup. The rule for VRFs is left out: it selects only packets in a
        VRF, which are not followed.
        """
        # Table main is made even if no rule looks it up, because `not_judged` and a repair look at
        # its routes.
        by_table: dict[int, list[Route]] = {TABLE_MAIN: []}
        for rule in self.rules:
            if rule.action == "to_table":
                by_table[rule.table] = []
        for route in snapshot.routes:
            if route.table in by_table and route.prefix.family == family:
                by_table[route.table].append(route)
        self.routes = [route for routes in by_table.values() for route in routes]
        """The routes of these tables, table by table."""
        self.tables = {number: Table(family, routes) for number, routes in by_table.items()}

    @cached_property
    def own_blocks(self) -> list[tuple[Prefix, str]]:
        """The addresses that a socket of this host may have, with the device of each: the addresses
        of devices, and each range that belongs to this host by a `local` route (AnyIP).
        """
        blocks = [(Prefix.of(address.ip), address.dev) for address in self.snapshot.addresses]
        for route in self.snapshot.routes:
            if route.type == "local" and route.table == TABLE_LOCAL:
                blocks += [(route.prefix, dev) for dev in route.devs]
        return blocks

    @cached_property
    def applied(self) -> list[AppliedRule]:
        """The rules that select some packets that the engine follows, in order. A rule with a
        condition that no packet meets selects nothing and is left out, but with `not`, it selects
        every packet.
        """
        applied: list[AppliedRule] = []
        for rule in self.rules:
            table = self.tables.get(rule.table) if rule.action == "to_table" else None
            conditions = conditions_of(rule)
            if not any(_is_never_met(rule, condition, self) for condition in conditions):
                plain_meets_all = all(_plain_meets(rule, condition) for condition in conditions)
                applied.append(
                    AppliedRule(rule, rule.dst, rule.invert, conditions, plain_meets_all, table)
                )
            elif rule.invert:  # no packet meets all conditions, so `not` selects every packet
                for_all_packets = AppliedRule(
                    rule, None, invert=False, conditions=(), is_met_by_plain=True, table=table
                )
                applied.append(for_all_packets)
        return applied

    def lookup(self, destination: IP | str) -> Decision:
        """What Linux does with the plain packet to this address, which has no mark, no source and
        no device. ValueError if the address is of the other family.
        """
        address = as_ip(destination)
        if address.version != self.family:
            raise ValueError(f"{address} is not an IPv{self.family} address")
        plain, _other_ends = self.ends(int(address))
        return plain

    def cells(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield the first and the last address of each cell from `first` to `last`, in order."""
        # Each border begins a cell. One at `first` itself cuts nothing off.
        borders = self.borders
        for border in borders[bisect_right(borders, first) : bisect_right(borders, last)]:
            yield first, border - 1
            first = border
        yield first, last

    @cached_property
    def borders(self) -> list[int]:
        """The addresses at which the decision can change, sorted: for the prefix of each route and
        the `to` of each rule, the first address and the address after the last one.
        """
        prefixes = [route.prefix for route in self.routes]
        prefixes += [rule.dst for rule in self.rules if rule.dst is not None]
        borders: set[int] = set()
        for prefix in prefixes:
            borders.add(prefix.first)
            borders.add(prefix.first + prefix.size)
        return sorted(borders)

    def ends(self, address: int) -> tuple[Decision, tuple[OtherEnd, ...]]:
        """The decision for the plain packet to this address (without a mark, a source or a device),
        and the other ends: the decisions for packets to this address that some rule treats
        differently.

        One pass over the rules finds all ends. A rule captures packets if it decides about them;
        the other packets go on to the next rule. For example, wg-quick has these rules, and both
        tables have a default route:

            50: lookup main suppress_prefixlength 0   passes over the default route: all go on
            51: not fwmark 51820 lookup 51820         captures the plain packet; the packets with
                                                      the mark go on
            32766: lookup main                        captures all packets that are left

        So the decision for the plain packet is that of rule 51. The only other end is the decision
        of rule 32766, for packets that differ from the plain one at rule 51 because of their mark.
        """
        plain: Decision | None = None
        captor: AppliedRule | None = None
        """The rule with conditions that captures the plain packet, if there is one."""
        others: list[OtherEnd] = []
        rest: Decision | None = None
        """The decision for all packets of this host that no rule with conditions has captured."""
        captured_selections: set[tuple[bool, tuple[Condition, ...]]] = set()
        """The conditions of the rules that have captured packets: for a later rule with equal
        conditions, no packets are left.
        """
        for applied in self.applied:
            selection = (applied.invert, applied.conditions)
            selects_all = applied.selects_all(address)
            if not selects_all and (
                selection in captured_selections or not applied.selects_some(address)
            ):
                continue
            decision = applied.decision_for(address)
            if decision is None:  # the packets go on to the next rule
                continue
            if selects_all:
                # An earlier rule `iif lo` may have captured all packets that this host sends.
                rest = decision if rest is None else rest
                # A rule `iif lo` leaves the packets that this host forwards, and later rules such
                # as `iif cni0` may capture these. Any other rule for all packets leaves none.
                if applied.rule.iif != "lo":
                    break
            # With `rest` decided, only packets that this host forwards are left. Only a rule for
            # the device on which they arrive (`iif cni0`) selects these.
            elif rest is None or applied.rule.iif not in {None, "lo"}:
                captured_selections.add(selection)
                if plain is None and applied.selects_plain(address):
                    plain = decision
                    captor = applied
                else:
                    # With `not`, these packets do not meet the conditions.
                    met_conditions = () if applied.invert else applied.conditions
                    others.append(OtherEnd(applied.rule, decision, met_conditions))
        rest = NO_ROUTE if rest is None else rest
        if plain is None or captor is None:  # no rule with conditions captured the plain packet
            return rest, tuple(others)
        # The captor does not select the rest. If it is a rule with `not`, the rest are the packets
        # that meet its conditions.
        met_conditions = captor.conditions if captor.invert else ()
        return plain, (*others, OtherEnd(captor.rule, rest, met_conditions))

    def possible_devs(self, decision: Decision) -> tuple[str, ...]:
        """The devices by which packets with this decision may leave. For a default route, these
        include the devices of the default routes with the same rank: Linux uses such a route while
        the gateway of the first one does not answer.
        """
        route = decision.route
        if route is None or route.prefix.length:
            return decision.devs
        devs = dict.fromkeys(decision.devs)
        for other in self.tables[route.table].routes_to(route.prefix):
            if other.type == "unicast" and other.rank == route.rank:
                devs |= dict.fromkeys(other.usable_devs)
        return tuple(devs)

    @cached_property
    def tables_for_plain(self) -> set[int]:
        """The tables that some rule may look up for plain packets (root's, without a mark, a source
        or a device). A rule with `not` always counts, because nearly every such rule selects some
        plain packets: `not fwmark 1` selects all of them, and `not to 10.0.0.0/8` those to other
        addresses.
        """
        rules = [
            applied.rule for applied in self.applied if applied.is_met_by_plain or applied.invert
        ]
        return {rule.table for rule in rules}

    def with_routes(self, added: Iterable[Route]) -> "Fib":
        """The host after these routes were added (`Snapshot.with_routes`)."""
        return Fib(self.snapshot.with_routes(added), self.family)

    def with_rules(self, added: Iterable[Rule]) -> "Fib":
        """The host after these rules were added, each as the last of its priority."""
        return Fib(self.snapshot._replace(rules=(*self.snapshot.rules, *added)), self.family)
