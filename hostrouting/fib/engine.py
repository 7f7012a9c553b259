"""What Linux does with a packet, computed from rules and routes: for one address, or for every
address of a prefix.

Theory of operation. A lookup goes through the rules by priority. The first rule that selects the
packet and whose table has a usable route decides; in a table, the longest prefix wins, then the
lowest metric. As a function of the destination alone, the decision can change only where a prefix
of a route or of a `to` selector begins or ends. So one decision in each range between two such
borders is the decision for the whole range, and the ranges (cells) of a prefix say what happens to
all of its addresses.

Rules also select by other things. A plain packet of this host has no mark, user 0, and no bound
device or source (IPv4 compares `from` with 0.0.0.0 then, and IPv6 with nothing). `Packet` can also
be a forwarded one, whose source and device are known. Every other condition of a rule splits the
packets: those that it selects end there, and the rest goes on. One pass over the rules collects
both, so the possible ends of a destination are one list: the plain end, and *other ends*, each with
the rule at which its packets differ from the plain one. No end is missed, because each such rule
contributes its end. The list may contain an end that no packet has, which errs on the safe side.

`not_judged` names what the engine does not look at. Where such a rule or route may decide, the kind
of the decision is not-judged, because the lookup may not get past it. `check` judges whether a
decision is right.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from hostrouting.model.prefix import IP, IPV4, Prefix, as_ip, borders_of, width_of
from hostrouting.model.route import PREFERENCES, REFUSING, Route

if TYPE_CHECKING:
    from hostrouting.model.rule import Rule
    from hostrouting.model.snapshot import Snapshot


def pieces(first: int, last: int, borders: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The range, cut at these borders, which are in order."""
    starts = [first, *borders[bisect_right(borders, first) : bisect_right(borders, last)]]
    return zip(starts, [*(start - 1 for start in starts[1:]), last], strict=True)


class Packet(NamedTuple):
    """What is known about a packet, except its destination. The default is a plain packet that this
    host sends.
    """

    source: Prefix | None = None
    """For a forwarded packet: a block of sources that no `from` selector cuts."""
    iif: str = "lo"


PLAIN = Packet()

Conditions: TypeAlias = "tuple[tuple[str, str], ...]"


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
        """The devices by which the packet can leave: those of all next hops in use."""
        if self.route is None or self.kind in REFUSING:
            return ()
        return tuple(
            {hop.dev: None for hop in self.route.next_hops if hop.dev is not None and not hop.dead}
        )


NO_ROUTE = Decision("no-route")
NOT_JUDGED = "not-judged"
"""The kind of a decision that is not computed: for a goto, a group of devices, or an IPv6 route for
some sources.
"""


class End(NamedTuple):
    """Where other packets to the same destination end, which differ from the plain packet at this
    rule.
    """

    rule: Rule
    decision: Decision
    meets: bool
    """Whether these packets meet the conditions of the rule, or are those that do not."""


class Cell(NamedTuple):
    """A range of addresses with no border inside it, so that all have the same decision and the
    same other ends.
    """

    first: int
    last: int
    decision: Decision
    others: tuple[End, ...] = ()


class Table:
    """One routing table: its usable routes, the preferred one of each prefix."""

    def __init__(self, routes: Iterable[Route]) -> None:
        """Leave out what Linux does not use for plain packets: dead and expired routes, and routes
        for a tos.

        An IPv6 route for some sources hides the other routes to its prefix: even for packets from
        other sources, Linux passes over those and goes on with a wider prefix.
        """
        self.defaults: dict[Prefix, list[Route]] = {}
        """The routes to all addresses, and to either half of them, the preferred one of each prefix
        first.
        """
        self._by_length: dict[int, dict[int, Route]] = {}
        """The routes to use, by the number of free bits, fewest first, and then by the other bits
        of their prefixes.
        """
        for route in sorted(routes, key=_order):
            is_dead = bool(route.next_hops) and False not in [hop.dead for hop in route.next_hops]
            if not (is_dead or route.tos or route.expired):
                family, first, length = prefix = route.prefix
                free = width_of(family) - length
                if length < 2 and route.source is None:
                    self.defaults.setdefault(prefix, []).append(route)
                self._by_length.setdefault(free, {}).setdefault(first >> free, route)

    def best(self, address: int) -> Route | None:
        """The route with the longest prefix that contains this address; None if there is none."""
        for free, routes in self._by_length.items():
            if (route := routes.get(address >> free)) is not None:
                return route
        return None


def _order(route: Route) -> tuple[int, bool, int, int]:
    """The route with the lowest value is used. Sorting is stable, so equal routes stay in the
    kernel's order.
    """
    return (
        -route.prefix.length,
        route.source is None,
        route.metric,
        -PREFERENCES.index(route.preference),
    )


class Fib:
    """The rules and tables of one host for one family."""

    def __init__(
        self, snapshot: Snapshot, family: int, known: Mapping[int, Table] | None = None
    ) -> None:
        """Make each table that a rule looks up, unless it is in `known`. The other tables are left
        out.

        Raises ValueError if the snapshot does not contain this family.
        """
        if family not in (families := [snapshot.family] if snapshot.family else [4, 6]):
            raise ValueError(
                f"the snapshot has IPv{' and IPv'.join(map(str, families))}, not IPv{family}"
            )
        self.snapshot, self.family, self.width = snapshot, family, width_of(family)
        rules = (rule for rule in snapshot.rules if rule.family == family and not rule.l3mdev)
        self.rules: tuple[Rule, ...] = tuple(sorted(rules, key=lambda rule: rule.priority))
        by_table: dict[int, list[Route]] = {
            rule.table: [] for rule in self.rules if rule.action == "to_table"
        }
        for route in snapshot.routes:
            if route.table in by_table and route.prefix.family == family:
                by_table[route.table].append(route)
        self.routes = tuple(route for routes in by_table.values() for route in routes)
        self.tables = {
            number: (known or {}).get(number) or Table(routes)
            for number, routes in by_table.items()
        }
        self._steps: dict[Packet, tuple[Step, ...]] = {}

    def with_routes(self, added: Iterable[Route]) -> Fib:
        """The same host with more routes; tables that stay the same are shared."""
        snapshot = self.snapshot.with_routes(added)
        changed = {route.table for route in snapshot.routes[len(self.snapshot.routes) :]}
        same = {number: table for number, table in self.tables.items() if number not in changed}
        return Fib(snapshot, self.family, same)

    def without_routes(self, removed: Iterable[Route]) -> Fib:
        """The same host without these routes, which it has; unchanged tables are shared."""
        gone = {id(route): route.table for route in removed}  # an equal route stays
        kept = tuple(route for route in self.snapshot.routes if id(route) not in gone)
        changed = frozenset(gone.values())
        same = {number: table for number, table in self.tables.items() if number not in changed}
        return Fib(self.snapshot._replace(routes=kept), self.family, same)

    def equals(self, route: Route) -> list[Route]:
        """The route, and those that Linux may use instead: of several equal default routes, it may
        use any.
        """
        table = None if route.prefix.length else self.tables.get(route.table)
        others = table.defaults.get(route.prefix, []) if table else []
        rank = ("unicast", route.metric, route.preference)
        return [
            route,
            *(other for other in others if (other.type, other.metric, other.preference) == rank),
        ]

    def number_of(self, destination: IP | str) -> int:
        """The address as an integer. Raises ValueError for an address of the other family."""
        address = as_ip(destination)
        if address.version != self.family:
            raise ValueError(f"{address} is not an IPv{self.family} address")
        return int(address)

    def lookup(self, destination: IP | str, packet: Packet = PLAIN) -> Decision:
        """What happens to this packet. Raises ValueError for an address of the other family."""
        return self.ends(self.number_of(destination), packet)[0]

    def cells(self, first: int, last: int, packet: Packet = PLAIN) -> Iterator[Cell]:
        """The cells that these addresses consist of, in order."""
        for low, high in pieces(first, last, self.borders):
            yield Cell(low, high, *self.ends(low, packet))

    @cached_property
    def borders(self) -> list[int]:
        """Where each prefix of a route or of a rule begins, and the address after its last one, in
        order.
        """
        prefixes = {route.prefix for route in self.routes}
        return borders_of(prefixes | {rule.dst for rule in self.rules if rule.dst is not None})

    def ends(self, address: int, packet: Packet = PLAIN) -> tuple[Decision, tuple[End, ...]]:
        """The decision for the plain packet, and the other ends, from one pass over the rules."""
        plain: Decision | None = None
        left: tuple[Rule, bool] | None = (
            None  # the rule where the plain packet left the others, and if they meet it
        )
        gone: dict[
            Conditions, bool
        ] = {}  # which packets have ended: those that meet these conditions, or the rest
        others: list[End] = []
        for step in self.steps(packet):
            conditions = step.inside if step.first <= address <= step.last else step.outside
            if conditions is None or (conditions and gone.get(conditions) is step.takes):
                continue
            decision = step.decision_for(address)
            if decision is None:
                continue
            if plain is None and step.takes_plain(conditions):
                plain, left = decision, (step.rule, not step.takes) if conditions else None
            elif conditions:
                others.append(End(step.rule, decision, step.takes))
            elif left is not None:
                others.append(End(left[0], decision, left[1]))
            if not conditions:
                break
            gone[conditions] = step.takes
        else:
            if left is not None:
                others.append(End(left[0], NO_ROUTE, left[1]))
        return plain or NO_ROUTE, tuple(others)

    def steps(self, packet: Packet = PLAIN) -> tuple[Step, ...]:
        """The rules, with what is known of them for this packet."""
        if packet not in self._steps:
            self._steps[packet] = tuple(Step.of(self, rule, packet) for rule in self.rules)
        return self._steps[packet]


class Step(NamedTuple):
    """One rule, as it is for one kind of packet."""

    rule: Rule
    takes: bool
    """Whether the rule takes packets that meet its conditions, or those that do not."""
    first: int
    last: int
    inside: Conditions | None
    """The conditions that decide if the rule selects a packet to these addresses: empty if always,
    None if never.
    """
    outside: Conditions | None
    """The same for all other addresses."""
    table: Table | None

    @classmethod
    def of(cls, fib: Fib, rule: Rule, packet: Packet) -> Step:
        """The step for this rule."""
        every, never = Prefix(fib.family, 0, 0), () if rule.invert else None
        answers = {condition: _answer(rule, condition, packet) for condition in conditions_of(rule)}
        unknown = tuple(condition for condition, answer in answers.items() if answer is None)
        inside = never if False in answers.values() else unknown or (None if rule.invert else ())
        table = fib.tables[rule.table] if rule.action == "to_table" else None
        return cls(
            rule,
            not rule.invert,
            (rule.dst or every).first,
            (rule.dst or every).last,
            inside,
            never,
            table,
        )

    def takes_plain(self, conditions: Conditions) -> bool:
        """Whether the rule selects a plain packet, if these are its conditions."""
        if not conditions:
            return True
        return self.takes is all(_plain_meets(self.rule, condition) for condition in conditions)

    @property
    def may_take_plain(self) -> bool:
        """Whether the rule selects plain packets, at least those to some addresses."""
        every = (conditions for conditions in (self.inside, self.outside) if conditions is not None)
        return any(self.takes_plain(conditions) for conditions in every)

    def is_for_plain(self, address: int) -> bool:
        """Whether the rule selects a plain packet to this address."""
        conditions = self.inside if self.first <= address <= self.last else self.outside
        return conditions is not None and self.takes_plain(conditions)

    def decision_for(self, address: int) -> Decision | None:
        """The decision for packets that the rule selects; None if they go on to the next rule."""
        rule = self.rule
        if self.table is None:
            kind = NOT_JUDGED if rule.action == "goto" else rule.action
            return None if kind == "nop" else Decision(kind, None, rule)
        route = self.table.best(address)
        if route is None or (route.type == "throw" and route.source is None):
            return None
        if route.type not in REFUSING:
            limit = rule.suppress_prefixlength
            if limit is not None and route.prefix.length <= limit:
                return None
            if rule.suppress_ifgroup is not None:
                return Decision(NOT_JUDGED, None, rule)
        return (
            Decision(route.type, route, rule)
            if route.source is None
            else Decision(NOT_JUDGED, None, rule)
        )


def conditions_of(rule: Rule) -> Conditions:
    """The selectors of a rule, except the destination, in the words of `ip rule`."""
    return tuple((name, value) for name, value in rule.selectors() if name != "to")


def _plain_meets(rule: Rule, condition: tuple[str, str]) -> bool:
    """Whether a packet of user 0, without a mark, a source and a device, meets this condition.

    While a packet has no source, IPv4 compares `from` with 0.0.0.0. In IPv6 it meets no `from`.
    """
    name, value = condition
    if name == "fwmark":
        return not rule.fwmark & rule.fwmask
    if name == "uidrange":
        return value.startswith("0-")
    if name == "from" and rule.src is not None:
        return rule.family == IPV4 and rule.src.first == 0
    return False


def _answer(rule: Rule, condition: tuple[str, str], packet: Packet) -> bool | None:
    """Whether every packet of this kind meets the condition; None if some do and others do not."""
    name, value = condition
    if packet.source is None:
        return True if condition == ("iif", "lo") else None
    if name == "from" and rule.src is not None:
        return packet.source in rule.src
    if name == "iif":
        return value == packet.iif
    return False if name == "oif" else None
