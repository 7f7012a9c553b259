"""What Linux does with a packet, computed from rules and routes: for one address, or for every
address of a prefix.

Theory of operation.

One lookup. Linux goes through the policy rules in the order of their priority. A rule that does not
select the packet is passed over. A rule that selects the packet refuses it or looks up a table, in
which the route with the longest prefix is used, and of several routes to this prefix the one with
the lowest metric. The lookup ends with this route. Linux goes on with the next rule if the table
has no route for the packet, if the route has the type throw, or if the rule suppresses the route.

Every address. As a function of the destination alone, the decision can change only where the prefix
of a route, or the `to` of a rule, begins or ends. These places are the borders. All addresses
between two neighbouring borders (a cell) have the same decision, so one lookup in each cell of a
prefix says what happens to every address of the prefix. Between the addresses of pods there are
many cells for which the tables have the same routes; these have the same decision, too, and one
lookup says what happens to them all (`Cell.sight`).

Every packet. Rules select by more than the destination. A `PacketKind` is all that this host sends
(`FROM_HOST`), all that its connections send from one source, or all that it forwards from a block
of sources and an incoming device. One packet of each kind is the plain packet: it has no mark, user
0, no protocol or port that a rule selects and, if this host sends it, no device or source that it
is bound to. (IPv4 compares the `from` of a rule with 0.0.0.0 then; in IPv6 no `from`
matches.) Of all packets of a kind, a rule selects every one, none, or those that meet its
conditions, such as a mark. So one pass over the rules follows all packets of a kind at once:

- A rule that selects some packets captures these: they end there, and the others go on.
- A rule that selects all packets captures those that are left, and the pass is over. If the last
  rule leaves some, there is no route for them.
- The pass for `FROM_HOST` also follows what arrives on a device, if a rule with conditions selects
  it: there may be no other pass that does. So a rule for all that this host sends (`iif lo`) does
  not end this pass: the rules behind it, such as one with `iif cni0` or a mark, are still asked.
  Some of these select nothing that arrives (`oif`); to ask them errs on the safe side. The pass
  ends with a rule that selects all packets, which adds no outcome then.

The result is the decision for the plain packet, and the other outcomes: the decisions for packets
that differ from the plain packet at some rule. There are four ways to differ, by the rule:

    rule                 the plain packet   with the mark   what is known of these
    fwmark 0x1           goes on            take the rule   they meet the conditions (`Outcome.met`)
    not fwmark 0x1       takes the rule     go on           they meet the conditions
    fwmark 0x0/0x1       takes the rule     go on           they do not meet the conditions
    not fwmark 0x0/0x1   goes on            take the rule   they do not meet the conditions

No outcome is missed, because each capture adds one. Some may be the outcome of no packet at all,
because conditions of different rules can exclude each other; that errs on the safe side.

Many rules. A CNI may have two rules for each pod: one `to` the pod, and one `from` it. The pass
asks only those that are about the destination, and about the source if it is known.

What the engine does not look at is named in `hostrouting.fib.not_judged`. Where such a rule or
route would decide, the kind of the decision is not-judged, because nobody knows here whether the
lookup ends there. Whether a decision is right is the question of `hostrouting.check`.

Where to change what: which packets meet a selector is in `_is_met` and `_plain_meets`; what a rule
does with the packets that it selects, in `effect_of`; which routes of a table are used, and which
comes first, in `Table` and `_rank`. The pass itself is `Fib._captures`, and `Fib.outcomes` makes
the decision and the outcomes of it.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from heapq import merge
from itertools import chain
from typing import Generic, Literal, NamedTuple, TypeAlias, TypeVar

from hostrouting.model.prefix import IP, IPV4, IPV6, Prefix, as_ip, borders_of, width_of
from hostrouting.model.route import REFUSING, Route
from hostrouting.model.rule import Rule, default_rules
from hostrouting.model.snapshot import Snapshot

T = TypeVar("T")

Condition: TypeAlias = tuple[str, str]
"""A selector of a rule, with its value, in the words of `ip rule`: ("fwmark", "0x1/0xff")."""


class PacketKind(NamedTuple):
    """A kind of packets: what is known about each of them, except its destination. The default is
    any packet that this host sends.
    """

    source: Prefix | None = None
    """A block of sources that no `from` selector cuts: of what this host forwards from the device,
    or the address that Linux has chosen for a connection of this host.
    """
    iif: str = "lo"


FROM_HOST = PacketKind()
"""All packets that this host sends."""


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
        """The devices by which the packet can leave."""
        if self.route is None:
            return ()
        return self.route.usable_devs


NO_ROUTE = Decision("no-route")
"""The decision for a packet that no rule ends."""
NOT_JUDGED = "not-judged"
"""The kind of a decision that is not computed: for a goto, a group of devices, or an IPv6 route for
some sources.
"""


class Outcome(NamedTuple):
    """Where packets end that differ from the plain packet to the same destination at this rule."""

    rule: Rule
    decision: Decision
    met: tuple[Condition, ...]
    """The conditions of the rule, whether or not it has a `not`, that these packets meet and others
    of their kind do not. Empty if these are the packets that do not meet them: no more is known.
    """


Sight: TypeAlias = tuple[int, ...]
"""What tables and rules see of a destination: the route of each table to it, by identity, and each
`to` of a rule that it lies in, by number.
"""


class Cell(NamedTuple):
    """A range of addresses with no border inside it, so that all have the same outcomes."""

    first: int
    last: int
    sight: Sight
    """Cells with the same sight have the same outcomes."""


# One table.


class ByPrefix(Generic[T]):
    """Routes or rules by a prefix, so that those around an address are found without asking all."""

    def __init__(self, family: int, pairs: Iterable[tuple[Prefix, T]]) -> None:
        """Each item comes after its prefix; those of one prefix stay in this order."""
        by_length: dict[int, dict[int, list[T]]] = {}
        for (_, first, length), item in pairs:
            by_length.setdefault(length, {}).setdefault(first, []).append(item)
        every_bit = (1 << width_of(family)) - 1
        self._by_netmask: list[tuple[int, dict[int, list[T]]]] = []
        """By the netmask, the longest first, and by the first address of the prefix."""
        for length in sorted(by_length, reverse=True):
            netmask = every_bit ^ (every_bit >> length)
            self._by_netmask.append((netmask, by_length[length]))

    def around(self, address: int) -> list[T]:
        """Those whose prefix contains the address, the longest prefix first."""
        items: list[T] = []
        for netmask, by_first in self._by_netmask:
            items += by_first.get(address & netmask, ())
        return items


class Table(ByPrefix[Route]):
    """One routing table: the routes that Linux may use for plain packets. Those for a type of
    service, and those that it passes over because they are dead or have expired, are left out.
    """

    def __init__(self, family: int, routes: Iterable[Route]) -> None:
        """The routes are in the kernel's order, which counts for those of one rank."""
        usable = [route for route in routes if not route.tos and not route.is_passed_over]
        super().__init__(family, [(route.prefix, route) for route in usable])
        for _, by_first in self._by_netmask:
            for several in by_first.values():
                if len(several) > 1:
                    several.sort(key=_rank)

    def best(self, address: int) -> Route | None:
        """The route that Linux uses for this address: of those with the longest prefix that
        contains it, the preferred one. None if there is none.
        """
        for netmask, by_first in self._by_netmask:
            routes = by_first.get(address & netmask)
            if routes:
                return routes[0]
        return None

    def routes_to(self, prefix: Prefix) -> list[Route]:
        """The routes to exactly this prefix that are for any source, the preferred one first."""
        around = self.around(prefix.first)
        return [route for route in around if route.prefix == prefix and route.source is None]


def _rank(route: Route) -> tuple[bool, int, int]:
    """Of several routes to one prefix, Linux uses the one with the lowest rank, and of equal ones
    the first.

    An IPv6 route for some sources has the lowest, because it hides the other routes to its prefix
    from all packets: for those from other sources, Linux goes on with a wider prefix.
    """
    is_for_all = route.source is None
    return is_for_all, *route.rank


# Which packets a rule selects.


class Selection(NamedTuple):
    """The packets of one kind that a rule selects."""

    met: tuple[Condition, ...]
    """The conditions that these packets meet, and others of their kind do not."""
    unmet: tuple[Condition, ...]
    """The conditions that these packets do not meet, but others of their kind do: by `not`."""
    has_plain: bool
    """Whether the plain packet is one of them."""


ALL = Selection((), (), has_plain=True)
NONE = Selection((), (), has_plain=False)
_SENT_BY_THIS_HOST: Condition = ("iif", "lo")
FORWARDED = Selection((), (_SENT_BY_THIS_HOST,), has_plain=False)
"""What the rule `not iif lo` selects, if it selects by nothing else: all that this host forwards,
and nothing that it sends. Only the pass for `FROM_HOST` has this selection.

A rule that is `not iif lo` and selects by more is followed only for what this host sends.
"""


def conditions_of(rule: Rule) -> tuple[Condition, ...]:
    """The selectors of a rule, except the destination, in the words of `ip rule`."""
    return tuple(selector for selector in rule.selectors() if selector[0] != "to")


def selects_all_forwarded(rule: Rule) -> bool:
    """Whether the rule is `not iif lo`, and selects by nothing else."""
    return rule.invert and conditions_of(rule) == (_SENT_BY_THIS_HOST,)


class Selections(NamedTuple):
    """What a rule selects of the packets of one kind."""

    inside: Selection
    """Of those to an address in the rule's `to`; without `to`, all addresses are in it."""
    outside: Selection
    """Of those to any other address."""


def select(rule: Rule, packet: PacketKind) -> Selections:
    """What the rule selects of packets of this kind."""
    of_unmet = ALL if rule.invert else NONE
    if packet.source is None and selects_all_forwarded(rule):
        return Selections(FORWARDED, of_unmet)
    met_by_some: list[Condition] = []
    for condition in conditions_of(rule):
        is_met = _is_met(rule, condition, packet)
        if is_met is None:
            met_by_some.append(condition)
        elif not is_met:
            return Selections(of_unmet, of_unmet)
    some = tuple(met_by_some)
    plain_meets = all(_plain_meets(rule, condition) for condition in some)
    if rule.invert:
        return Selections(Selection((), some, not plain_meets), of_unmet)
    return Selections(Selection(some, (), plain_meets), of_unmet)


def selects_plain(rule: Rule, packet: PacketKind) -> bool:
    """Whether the rule selects the plain packet of this kind (without a mark, for example), at
    least to some addresses.
    """
    return any(selection.has_plain for selection in select(rule, packet))


def _is_met(rule: Rule, condition: Condition, packet: PacketKind) -> bool | None:
    """Whether every packet of this kind meets the condition; None if some do and others do not."""
    name, value = condition
    if packet.source is None:
        if condition == _SENT_BY_THIS_HOST:
            return True
        return None
    if name == "from" and rule.src is not None:  # a rule with a `from` has one
        return packet.source in rule.src
    if name == "iif":
        return value == packet.iif
    if name == "oif":
        # Nothing that is forwarded is bound to a device. Nor is a connection of this host: it is
        # that of a plain packet, which is not bound, after Linux has chosen the source.
        return False
    if name == "uidrange" and packet.iif != "lo":
        return _has_user_0(value)  # Linux forwards as user 0
    return None


def _has_user_0(uidrange: str) -> bool:
    return uidrange.startswith("0-")


def _plain_meets(rule: Rule, condition: Condition) -> bool:
    """Whether the plain packet meets this condition, which not every packet of its kind meets. The
    plain packet has user 0, and no mark, source or device, nor a protocol or port that a rule
    selects.

    While a packet has no source, IPv4 compares `from` with 0.0.0.0. In IPv6 it meets no `from`.
    """
    name, value = condition
    if name == "fwmark":
        return (rule.fwmark & rule.fwmask) == 0
    if name == "uidrange":
        return _has_user_0(value)
    if name == "from" and rule.src is not None:
        return rule.family == IPV4 and rule.src.first == 0
    return False


# What a rule does with the packets that it selects.

Effect: TypeAlias = Literal[
    "skipped", "no-route", "thrown", "suppressed", "decides", "refuses", "not-judged"
]
"""The lookup goes on, because the rule does nothing (skipped), because its table has no route, or
because the route is passed over (thrown, suppressed). Or the lookup ends, with the route (decides)
or with the rule itself (refuses). Or nobody knows here (not-judged).
"""
GOES_ON: frozenset[Effect] = frozenset({"skipped", "no-route", "thrown", "suppressed"})
"""The effects with which the lookup goes on."""

_EFFECT_OF_ACTION: dict[str, Effect] = {
    "nop": "skipped",
    "goto": "not-judged",
    **dict.fromkeys(REFUSING, "refuses"),
}
"""What the actions do that look up no table."""


def effect_of(rule: Rule, route: Route | None) -> Effect:
    """What the rule does with packets that it selects, if this is the route that its table has for
    them. The order of the questions matters: each is asked of what those before have left.
    """
    if rule.action != "to_table":
        return _EFFECT_OF_ACTION[rule.action]
    if route is None:
        return "no-route"
    if route.source is not None:
        return "not-judged"
    if route.type == "throw":
        return "thrown"
    if route.type in REFUSING:  # Linux suppresses no refusal
        return "decides"
    limit = rule.suppress_prefixlength
    if limit is not None and route.prefix.length <= limit:
        return "suppressed"
    if rule.suppress_ifgroup is not None:  # which devices are in the group is not known
        return "not-judged"
    return "decides"


class Capture(NamedTuple):
    """What a rule captures: packets of one kind to one address end there."""

    rule: Rule
    selection: Selection
    """Of the packets that earlier rules have left."""
    decision: Decision


class AppliedRule(NamedTuple):
    """One rule, as it is for one kind of packet."""

    number: int
    """The place of the rule in `Fib.rules`, by which applied rules sort."""
    rule: Rule
    selections: Selections
    table: Table | None
    """The table that the rule looks up; None if it has another action."""

    def selection(self, address: int) -> Selection:
        """What the rule selects of packets to this address."""
        to = self.rule.dst
        if to is None or to.first <= address <= to.last:
            return self.selections.inside
        return self.selections.outside

    def selects_plain(self, address: int) -> bool:
        """Whether the rule selects the plain packet to this address."""
        return self.selection(address).has_plain

    @property
    def is_only_for_sent(self) -> bool:
        """Whether the rule selects by `iif lo`, so that it leaves what arrives on a device."""
        return self.rule.iif == "lo" and not self.rule.invert

    def effect_for(self, address: int) -> tuple[Effect, Route | None]:
        """What the rule does with packets to this address that it selects, and the route that its
        table has for them.
        """
        route = None
        if self.table is not None:
            route = self.table.best(address)
        return effect_of(self.rule, route), route

    def decision_for(self, address: int) -> Decision | None:
        """The decision for packets to this address that the rule selects; None if they go on to
        the next rule.
        """
        effect, route = self.effect_for(address)
        if effect in GOES_ON:
            return None
        if effect == "refuses":
            return Decision(self.rule.action, None, self.rule)
        if effect == "not-judged" or route is None:  # a rule that decides has a route
            return Decision(NOT_JUDGED, None, self.rule)
        return Decision(route.type, route, self.rule)


# All rules.


class Fib:
    """The rules and tables of one host for one family.

    Rules and tables are made at once, because every lookup needs them. The rest is made when it is
    first needed, and kept: the rules for a kind of packets (`rules_for`), the borders (`cells`).
    What is left for each address is one pass over these rules, and over those that are found by
    `to` (`outcomes`).
    """

    def __init__(self, snapshot: Snapshot, family: int) -> None:
        """Make each table that a rule looks up; the others are left out.

        Raises ValueError if the snapshot does not contain this family.
        """
        if family not in {IPV4, IPV6} or snapshot.family not in {None, family}:
            raise ValueError(f"the snapshot has no IPv{family}")
        self.snapshot = snapshot
        self.family = family
        self.width = width_of(family)
        usual = default_rules(family)
        of_family = [rule for rule in snapshot.rules if rule.family == family]
        listed = tuple(sorted(of_family, key=lambda rule: rule.priority))
        has_local_at_most = listed in (usual[:1], ())
        self.lacks_main = family == IPV6 and has_local_at_most and not snapshot.lacks(family)
        """Whether the rule for table main was deleted, and at most that for table local is left.
        Not if Linux runs without IPv6 (`Snapshot.lacks`).

        Until a rule is added, IPv6 looks up both tables without looking at rules. A snapshot does
        not show whether one ever was.
        """
        if self.lacks_main:
            listed = usual
        self.rules = tuple(rule for rule in listed if not rule.l3mdev)
        """In the order of the lookup. The rule for VRFs is left out: packets in a VRF are not
        judged.
        """
        by_table = self._routes_by_table()
        self.routes = tuple(chain.from_iterable(by_table.values()))
        """The routes of all tables that a rule looks up, table by table."""
        self.tables = {number: Table(family, routes) for number, routes in by_table.items()}
        self._applied: dict[PacketKind, list[AppliedRule]] = {}

    def _routes_by_table(self) -> dict[int, list[Route]]:
        by_table: dict[int, list[Route]] = {}
        for rule in self.rules:
            if rule.action == "to_table":
                by_table[rule.table] = []
        for route in self.snapshot.routes:
            if route.table in by_table and route.prefix.family == self.family:
                by_table[route.table].append(route)
        return by_table

    def lookup(self, destination: IP | str, packet: PacketKind = FROM_HOST) -> Decision:
        """What happens to the plain packet of this kind. Raises ValueError for an address of the
        other family.
        """
        decision, _ = self.outcomes(self.number_of(destination), packet)
        return decision

    def number_of(self, destination: IP | str) -> int:
        """The address as an integer. Raises ValueError for an address of the other family."""
        address = as_ip(destination)
        if address.version != self.family:
            raise ValueError(f"{address} is not an IPv{self.family} address")
        return int(address)

    def cells(self, first: int, last: int) -> Iterator[Cell]:
        """The cells that these addresses consist of, in order."""
        tables = self.tables.values()
        to_blocks = self._to_blocks
        for low, high in pieces(first, last, self.borders):
            routes = [id(table.best(low)) for table in tables]
            yield Cell(low, high, (*routes, *to_blocks.around(low)))

    @cached_property
    def borders(self) -> list[int]:
        """Where each prefix of a route or of a rule begins, and the address after its last one, in
        order.
        """
        prefixes = [route.prefix for route in self.routes]
        prefixes += [rule.dst for rule in self.rules if rule.dst is not None]
        return borders_of(prefixes)

    @cached_property
    def tables_for_plain(self) -> frozenset[int]:
        """The tables that a rule looks up for plain packets of this host, at least to some
        addresses.
        """
        rules = [rule for rule in self.rules if selects_plain(rule, FROM_HOST)]
        return frozenset(rule.table for rule in rules)

    @cached_property
    def has_rules_by_source(self) -> bool:
        """Whether a lookup with a source can have another decision than one without."""
        return any(rule.src is not None for rule in self.rules)

    def outcomes(
        self, address: int, packet: PacketKind = FROM_HOST
    ) -> tuple[Decision, tuple[Outcome, ...]]:
        """The decision for the plain packet to this address, and the outcomes of other packets of
        this kind, from one pass over the rules.

        For example, wg-quick has these rules, and both tables have a default route:

            50: lookup main suppress_prefixlength 0   passes over it: all packets go on
            51: not fwmark 51820 lookup 51820         captures the plain packet, and leaves the
                                                      packets with the mark
            32766: lookup main                        captures all packets that are left

        So the decision is that of rule 51. The packets with the mark differ there, and have the
        decision of rule 32766: the only other outcome.
        """
        plain: Capture | None = None
        others: list[Outcome] = []
        # The decision for the packets that are left after all captures by a condition.
        rest = NO_ROUTE
        for capture in self._captures(address, packet):
            rule, selection, decision = capture
            if plain is None and selection.has_plain:
                plain = capture
            elif selection == ALL:
                rest = decision
            else:
                others.append(Outcome(rule, decision, selection.met))
        if plain is None:
            return NO_ROUTE, tuple(others)
        if plain.selection != ALL:
            # The packets that this rule leaves meet what those that it captures do not meet.
            others.append(Outcome(plain.rule, rest, plain.selection.unmet))
        return plain.decision, tuple(others)

    def _captures(self, address: int, packet: PacketKind) -> Iterator[Capture]:
        """What the rules capture of these packets to this address, in order.

        The last one captures all that are left; or, if that is only what this host sends (`iif
        lo`), others follow, of what arrives on a device and meets conditions.
        """
        # The selections whose packets are all captured already.
        captured: set[Selection] = set()
        # Whether all that this host sends is captured, by a rule with `iif lo`.
        is_sent_captured = False
        for applied in self.rules_for(address, packet):
            selection = applied.selection(address)
            if selection == NONE or selection in captured:
                continue
            only_sent = packet.source is None and applied.is_only_for_sent
            if only_sent and is_sent_captured:
                continue
            decision = applied.decision_for(address)
            if decision is None:
                continue
            if is_sent_captured and selection == ALL:
                return  # the rest of what arrives ends here, too, and is not an outcome
            yield Capture(applied.rule, selection, decision)
            if not only_sent:
                if selection == ALL:
                    return
                captured.add(selection)
            elif selection == ALL:
                is_sent_captured = True

    def rules_for(self, address: int, packet: PacketKind = FROM_HOST) -> Iterable[AppliedRule]:
        """The rules that may select packets of this kind to this address, in order. Those that are
        left out are `to` other addresses, or `from` other sources.
        """
        if packet not in self._applied:
            numbers = self._numbers_without_to
            if packet.source is not None:
                numbers = sorted(self._numbers_by_from.around(packet.source.first))
            self._applied[packet] = [self.apply(number, packet) for number in numbers]
        near = self._numbers_by_to.around(address)
        if not near:
            return self._applied[packet]
        applied = [self.apply(number, packet) for number in sorted(near)]
        return merge(self._applied[packet], applied)  # by their numbers, of which none is in both

    @cached_property
    def _numbers_without_to(self) -> list[int]:
        """The rules that are not found by `to`, in order, each as its place in `rules`."""
        return [number for number, rule in enumerate(self.rules) if _only_to(rule) is None]

    @cached_property
    def _numbers_by_from(self) -> ByPrefix[int]:
        """The rules that are not found by `to`, each by the block of sources that it may select."""
        every = Prefix(self.family, 0, 0)
        by_from: list[tuple[Prefix, int]] = []
        for number in self._numbers_without_to:
            rule = self.rules[number]
            sources = rule.src
            if sources is None or rule.invert:
                sources = every
            by_from.append((sources, number))
        return ByPrefix(self.family, by_from)

    @cached_property
    def _numbers_by_to(self) -> ByPrefix[int]:
        """The rules that are found by `to`."""
        by_to: list[tuple[Prefix, int]] = []
        for number, rule in enumerate(self.rules):
            to = _only_to(rule)
            if to is not None:
                by_to.append((to, number))
        return ByPrefix(self.family, by_to)

    @cached_property
    def _to_blocks(self) -> ByPrefix[int]:
        """Each `to` of a rule once, with a number: many rules may have the same."""
        blocks = dict.fromkeys(rule.dst for rule in self.rules if rule.dst is not None)
        numbers = [(block, number) for number, block in enumerate(blocks)]
        return ByPrefix(self.family, numbers)

    def apply(self, number: int, packet: PacketKind = FROM_HOST) -> AppliedRule:
        """The rule with this number, as it is for this kind of packet."""
        rule = self.rules[number]
        table = None
        if rule.action == "to_table":
            table = self.tables[rule.table]
        return AppliedRule(number, rule, select(rule, packet), table)

    def possible_devs(self, decision: Decision) -> tuple[str, ...]:
        """The devices by which packets may leave: those of the route and, while the gateway of a
        default route does not answer, those of equal ones.

        Linux turns to an equal route only if the first has a gateway. IPv4 does so only if that is
        its single next hop, and only to a route that has a gateway, too (`fib_select_path` in
        Linux). IPv6 turns to any.
        """
        route = decision.route
        if route is None or route.prefix.length or not route.has_gateway:
            return decision.devs
        if self.family == IPV4 and len(route.next_hops) > 1:
            return decision.devs
        devs = dict.fromkeys(decision.devs)
        for other in self.tables[route.table].routes_to(route.prefix):
            if other.type != "unicast" or other.rank != route.rank:
                continue
            if self.family == IPV6 or other.has_gateway:
                devs |= dict.fromkeys(other.usable_devs)
        return tuple(devs)

    def with_routes(self, added: Iterable[Route]) -> "Fib":
        """The same host with more routes."""
        return Fib(self.snapshot.with_routes(added), self.family)

    def without_routes(self, removed: Iterable[Route]) -> "Fib":
        """The same host without these routes, which are objects of its snapshot."""
        identities = {id(route) for route in removed}
        kept = tuple(route for route in self.snapshot.routes if id(route) not in identities)
        return Fib(self.snapshot._replace(routes=kept), self.family)


def _only_to(rule: Rule) -> Prefix | None:
    """The destinations that the rule is limited to, as a CNI's `to POD` is. None if the rule is not
    limited so, or if it is found by its source.
    """
    if rule.src is not None or rule.invert:
        return None
    return rule.dst


def pieces(first: int, last: int, borders: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The range, cut at these borders, which are in order."""
    inside = borders[bisect_right(borders, first) : bisect_right(borders, last)]
    for border in inside:
        yield first, border - 1
        first = border
    yield first, last
