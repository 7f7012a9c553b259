"""The rules of one family, prepared for one flow, and the walk through them.

Here: what a rule does with a packet that matches it; which rule is next (goto, suppression, throw, verdicts); where the
walk of a plain packet ends, and where the walks of other packets may end; which rules matter for which destinations.
Not here: what a rule selects on (`packet`), and which route a table has for a packet (`table_ipv4`, `table_ipv6`).

A `Stage` is one rule as the walk sees it; a `Turn` is a stage in a list, with the questions that decide whether a
packet takes it. `Rules` has the turns of all rules, without the questions that the flow answers. Rules with a `to` cut
the destinations into regions: a `Region` has only the turns that matter there, none with a destination left to check.

A plain packet goes through the region's turns from the first to the last. For packets whose unknown fields matter there
are the `Branches`: at each turn that asks for such a field, the walk splits into packets that take the turn and packets
that do not, each with what is then assumed of them. This walk depends on a destination only through the routes that the
tables have for it, so it is done once for each combination of these. There is one end for each possible route, with all
the cases that lead there, even if several rules do.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import cached_property
from itertools import chain
from typing import Literal, NamedTuple, TypeAlias

from hostrouting.kernel._fib.decision import Case, Cases
from hostrouting.kernel._fib.packet import ANYTHING, Ask, Flow, Sought, Supposed, Words, asks_of, chosen_ask, has_tos
from hostrouting.kernel._fib.table import Entry, Hit, Table
from hostrouting.model.prefix import IPV4, width_of
from hostrouting.model.route import REFUSING
from hostrouting.model.rule import Rule

# The first and the last address.
Span: TypeAlias = tuple[int, int]


class Stage:
    """One rule during the walk: its effect on packets that match it."""

    __slots__ = ("_groups", "rule", "simple", "table", "verdict")

    def __init__(self, rule: Rule, table: Table | None, groups: dict[str, int]) -> None:
        """Take the rule, the table that it looks up (if that has routes), and the groups of the devices."""
        self.rule, self.table, self._groups = rule, table, groups
        # Whether it suppresses nothing.
        self.simple = rule.suppress_prefixlength is None and rule.suppress_ifgroup is None
        # Whether the rule itself is the answer: blackhole, unreachable, prohibit.
        self.verdict = rule.action in REFUSING

    def take(self, address: int, sought: Sought) -> tuple[Entry | None, bool, bool]:
        """The route that a packet finds, whether an unknown field matters, and whether the walk ends here."""
        if self.table is None:
            return None, False, self.verdict
        entry, unclear = self.table.best(address, sought)
        if entry is None or (self.simple and not entry.throws):  # nearly every route is kept
            return entry, unclear, entry is not None
        kept = self.kept(entry, sought)
        return kept or entry, unclear or kept not in {None, entry}, kept is not None

    def kept(self, entry: Entry, sought: Sought) -> Entry | None:
        """The part of the found route that this rule keeps; None if every packet goes on to the next rule."""
        if entry.throws:
            return None
        rule, route = self.rule, entry.route
        if self.simple or route.type in REFUSING:
            return entry
        if rule.suppress_prefixlength is not None and entry.length <= rule.suppress_prefixlength:
            return None
        if rule.suppress_ifgroup is None:
            return entry
        if route.prefix.family == IPV4:
            legs = route.legs[:1]  # IPv4 checks the first next hop, in use or not
        else:
            # IPv6 has already chosen a next hop, for a bound socket one of its device.
            legs = tuple(leg for leg in entry.legs if sought.oif in {"", leg.dev})
        staying = tuple(leg for leg in legs if self._groups.get(leg.dev or "") != rule.suppress_ifgroup)
        if len(staying) == len(legs):
            return entry
        return entry.through(staying) if staying else None


# Where a walk ended: the stage and the route that decide. No stage: no rule decided. No route: the rule did.
Ending: TypeAlias = tuple[Stage | None, Entry | None]


class Turn:
    """A stage in a list, with the packets that match it and, for a goto, the stage where they continue.

    Packets that answer yes to all of `asks` take it, or (`invert`) all others; `span` are its destinations. If it is
    `impossible` that a packet answers yes, `invert` makes it match all.
    """

    __slots__ = ("asks", "impossible", "invert", "never", "plain", "span", "stage", "target", "unmet")

    def __init__(
        self,
        stage: Stage,
        asks: tuple[Ask, ...] = (),
        *,
        invert: bool,
        span: Span | None = None,
        target: int | None = None,
        impossible: bool = False,
        unmet: Words | None = None,
    ) -> None:
        """Take what is known; `unmet` is the first selector that does not match a plain packet."""
        self.stage, self.impossible, self.unmet = stage, impossible, unmet
        self.asks, self.span = ((), None) if impossible else (asks, span)
        self.invert = invert and not impossible
        # An index into the list of turns; None except for a goto that has a target.
        self.target = target
        # Whether no packet takes it.
        self.never = not invert if impossible else invert and not self.asks and self.span is None
        # Whether a plain packet of this host takes it, apart from its destination.
        self.plain = (unmet is None) is not invert

    def at(self, address: int) -> "Turn":
        """The same turn for one destination, with the check of the destination done."""
        if self.span is None:
            return self
        low, high = self.span
        if low <= address <= high:
            return Turn(self.stage, self.asks, invert=self.invert, target=self.target, unmet=self.unmet)
        unmet = next(pair for pair in self.stage.rule.selectors() if pair[0] == "to")
        return Turn(self.stage, invert=self.invert, target=self.target, impossible=True, unmet=unmet)

    def leading_to(self, target: int | None) -> "Turn":
        """The same goto in another list of turns."""
        found = copy(self)
        found.target = target
        return found


def plain_turns(turns: Sequence[Turn]) -> Iterator[Turn]:
    """The turns up to the verdict for a plain packet, including those that it does not take (not `plain`).

    None of them has a destination left to check.
    """
    at = 0
    while at < len(turns):
        turn = turns[at]
        yield turn
        at += 1
        if turn.plain and turn.target is not None:
            at = turn.target
        elif turn.plain and turn.stage.verdict:
            return


# How a rule keeps a route: not at all, for all of its packets, or for those with some of its next hops.
Keeping: TypeAlias = Literal["", "whole", "part"]
# What a rule finds in its table, in order: the questions that a packet answers with yes, how the rule keeps the route,
# and the place of the first hit with the same route.
Hits: TypeAlias = tuple[tuple[tuple[Ask, ...], Keeping, int], ...]
# The number of turns that walks of packets that are not plain may take with their assumptions. After that, a walk drops
# its assumptions and visits each turn once: it may find an end that is impossible, but it misses none.
BUDGET = 4096


class End(NamedTuple):
    """One end of the walk, and the cases that lead there; equal cases are one object."""

    ending: Ending
    cases: Cases


class Branches:
    """All possible ends of the walk through these turns, for packets with unknown fields."""

    def __init__(self, turns: Sequence[Turn], sought: Sought, cases: dict[Cases, Cases]) -> None:
        """Take turns whose destinations are already checked; `cases` are the cases known before."""
        self._turns, self._sought, self._cases = turns, sought, cases
        self._tables = tuple({id(table): table for turn in turns if (table := turn.stage.table)}.values())
        # Stages with the same table and suppression give the same result, so they are looked up once.
        askers = {_asks_like(turn.stage): turn.stage for turn in turns}
        self._askers = tuple(askers.values())
        places = {key: place for place, key in enumerate(askers)}
        self._asker_of = [places[_asks_like(turn.stage)] for turn in turns]
        self._known: dict[tuple[Hits, ...], tuple[tuple[Stage | None, int | None, Cases], ...]] = {}

    def ends(self, address: int) -> Iterator[End]:
        """Each possible end for a packet to this destination."""
        chains = {id(table): table.chain(address, self._sought) for table in self._tables}
        hits = tuple([self._hits_of(stage, chains) for stage in self._askers])
        found = self._known.get(hits)
        if found is None:
            walk = _Walk(self._turns, [hits[place] for place in self._asker_of])
            found = self._known[hits] = tuple(
                [(stage, place, self._cases.setdefault(cases, cases)) for stage, place, cases in walk.ends()]
            )
        for stage, place, cases in found:
            entry = None if stage is None or place is None else chains[id(stage.table)][place].entry
            kept = None if stage is None or entry is None else stage.kept(entry, self._sought)
            yield End((stage, kept), cases)

    def _hits_of(self, stage: Stage, chains: dict[int, tuple[Hit, ...]]) -> Hits:
        found = () if stage.table is None else chains[id(stage.table)]
        places: dict[int, int] = {}
        hits: list[tuple[tuple[Ask, ...], Keeping, int]] = []
        for place, (asks, entry) in enumerate(found):
            first = places.setdefault(id(entry), place)
            kept = None if entry is None else stage.kept(entry, self._sought)
            if kept is not None and kept is not entry:
                hits += [((*asks, chosen_ask(kept.position, kept.legs)), "part", first), (asks, "", first)]
            else:
                hits.append((asks, "" if kept is None else "whole", first))
        return tuple(hits)


def _asks_like(stage: Stage) -> tuple[int, int | None, int | None]:
    return (id(stage.table), stage.rule.suppress_prefixlength, stage.rule.suppress_ifgroup)


class _Walk:
    """Every path through the turns; the results of the tables are known."""

    def __init__(self, turns: Sequence[Turn], hits: Sequence[Hits]) -> None:
        self._turns, self._hits = turns, hits
        self._left, self._seen = BUDGET, set[int]()
        # Where walks still have to continue.
        self._pending: list[tuple[int, Supposed]] = [(0, ANYTHING)]
        self._found: dict[object, tuple[Stage | None, int | None, dict[Case, None]]] = {}

    def ends(self) -> Iterator[tuple[Stage | None, int | None, Cases]]:
        """The ends: the stage, and the index of the route in its result."""
        while self._pending:
            self._go_on(*self._pending.pop())
        for stage, place, cases in self._found.values():
            yield stage, place, tuple(cases)

    def _go_on(self, at: int, supposed: Supposed) -> None:
        going: Supposed | None = supposed
        while going is not None and (known := self._known_at(at, going)) is not None:
            if at == len(self._turns):
                self._end(None, None, known)
                return
            at, going = self._turn(at, known)

    def _known_at(self, at: int, supposed: Supposed) -> Supposed | None:
        """The assumptions at this turn; None if a walk without assumptions has been here already."""
        if not supposed.conditions:
            return supposed  # the plain packet's walk
        self._left -= 1
        if self._left >= 0:
            return supposed
        if at in self._seen:
            return None
        self._seen.add(at)
        return ANYTHING._replace(conditions=supposed.conditions)

    def _turn(self, at: int, supposed: Supposed) -> tuple[int, Supposed | None]:
        """The next turn, and the assumptions there; None if the walk ends."""
        turn, found = self._turns[at], self._hits[at]
        taking, passing = _split(supposed, turn)
        if taking is None:
            return at + 1, supposed
        if turn.target is not None:
            self._later(at + 1, passing)
            return turn.target, taking
        if turn.stage.verdict:
            self._end(turn.stage, None, taking)
            return at + 1, passing
        if not any(kept for _, kept, _ in found):
            return at + 1, supposed
        left, others = self._take(turn.stage, found, taking)
        if left is not None and passing is not None:
            # The rule makes no difference for packets that may match it or not: they continue as before.
            return at + 1, supposed
        for other in others:
            self._later(at + 1, other)
        return at + 1, passing if left is None else left

    def _take(self, stage: Stage, hits: Hits, supposed: Supposed) -> tuple[Supposed | None, list[Supposed]]:
        """End at each kept route; return what is assumed of packets that find none, in general and for each hit."""
        going: list[Supposed] = []
        for asks, kept, place in hits:
            if not asks:
                if kept:
                    self._end(stage, place, supposed, kept)
                return (None if kept else supposed), going
            taking = supposed.suppose(stage.rule, asks, true=True)
            if taking is not None and kept:
                self._end(stage, place, taking, kept)
            elif taking is not None:
                going.append(taking)
            left = supposed.suppose(stage.rule, asks, true=False)
            if left is None:
                return None, going
            supposed = left
        return supposed, going

    def _later(self, at: int, supposed: Supposed | None) -> None:
        if supposed is not None:
            self._pending.append((at, supposed))

    def _end(self, stage: Stage | None, place: int | None, supposed: Supposed, kept: Keeping = "whole") -> None:
        """Record an end. Of stages with the same result, only the first counts."""
        group = None if stage is None or kept == "whole" else stage.rule.suppress_ifgroup
        key = None if stage is None else stage.rule.action if place is None else (id(stage.table), place, group)
        self._found.setdefault(key, (stage, place, {}))[2][supposed.conditions] = None


def _split(supposed: Supposed, turn: Turn) -> tuple[Supposed | None, Supposed | None]:
    """The assumptions about packets that take the turn, and about packets that do not."""
    if not turn.asks:
        return supposed, None
    rule, asks = turn.stage.rule, turn.asks
    return supposed.suppose(rule, asks, true=not turn.invert), supposed.suppose(rule, asks, true=turn.invert)


_NOTHING: Ending = (None, None)


class Region:
    """Destinations for which all rules behave the same, and the lookups for them."""

    def __init__(self, turns: Sequence[Turn], sought: Sought, width: int, cases: dict[Cases, Cases]) -> None:
        """Take turns whose destinations are already checked; `width` is the number of bits in an address.

        `cases` are the ones known already (see `Branches`).
        """
        stages = (turn.stage for turn in plain_turns(turns) if turn.plain)
        self._lane = tuple(stage for stage in stages if stage.table is not None or stage.verdict)
        self._sought, self._width = sought, width
        self._of_branches = (turns, sought, cases)
        self._asks = any(turn.asks for turn in turns)
        # The stages that every packet goes through, whatever its unknown fields; empty if those make a difference.
        self.certain = () if self._asks or sought.oif else self._lane

    def decide(self, address: int) -> tuple[Ending, bool]:
        """The end for a plain packet, and whether its unknown fields could change it."""
        sought, unsure = self._sought, self._asks
        for stage in self._lane:
            entry, unclear, decides = stage.take(address, sought)
            unsure = unsure or unclear
            if decides:
                return (stage, entry), unsure
        return _NOTHING, unsure

    def ends(self, address: int) -> Iterator[End]:
        """Every end that is possible with the packet's unknown fields, that of a plain packet included."""
        return self._branches.ends(address)

    @cached_property
    def _branches(self) -> Branches:
        # In most regions only the plain packet's end is needed.
        return Branches(*self._of_branches)


class Default(NamedTuple):
    """A default route, the rule that leads to it, and whether this rule suppresses it."""

    entry: Entry
    rule: Rule
    suppressed: bool


class Rules:
    """The rules of one family, prepared for one flow."""

    def __init__(
        self,
        rules: Sequence[Rule],
        family: int,
        flow: Flow,
        *,
        groups: dict[str, int],
        table_of: Callable[[Rule], Table | None],
    ) -> None:
        """Take the rules, the known fields of a packet, and the groups of the devices."""
        self._family, self._groups, self._known = family, groups, flow.known(family)
        self.sought = flow.sought(family)
        self._turns: list[Turn] = []
        starts: dict[int, int] = {}
        for rule in rules:
            starts.setdefault(rule.priority, len(self._turns))
            self._turns.append(self._of(rule, table_of))
        for turn in self._turns:
            rule = turn.stage.rule
            if rule.action == "goto" and rule.target is not None and rule.target > rule.priority:
                turn.target = starts.get(rule.target)
        tables = [turn.stage.table for turn in self._turns if not turn.never]
        self.tables = tuple({id(table): table for table in tables if table is not None}.values())
        # The places of the turns that matter for every destination, and of those for one prefix, by length and bits.
        self._common: list[int] = []
        self._local: dict[int, dict[int, list[int]]] = {}
        for place, turn in enumerate(self._turns):
            prefix = turn.stage.rule.dst
            if prefix is None or turn.span is None or turn.invert:
                self._common.append(place)
            else:
                bits = prefix.first >> (width_of(family) - prefix.length)
                self._local.setdefault(prefix.length, {}).setdefault(bits, []).append(place)
        # Where a rule for some destinations begins to matter, or has just ended.
        spans = [turn.span for turn in self._turns if turn.span is not None and not turn.never]
        self.cuts = sorted({place for low, high in spans for place in (low, high + 1)})
        self._regions: dict[int, Region] = {}
        self._cases: dict[Cases, Cases] = {}

    def _of(self, rule: Rule, table_of: Callable[[Rule], Table | None]) -> Turn:
        stage = Stage(rule, table_of(rule) if rule.action == "to_table" else None, self._groups)
        open_: list[Ask] = []
        impossible, unmet = False, None
        for ask, possible in asks_of(rule, self._groups):
            answer = ask.answer(self._known) if possible else False
            impossible = impossible or answer is False
            if answer is None:
                open_.append(ask)
            if not (ask.plain if answer is None else answer):
                unmet = unmet or ask.words
        span = None if rule.dst is None else (rule.dst.first, rule.dst.last)
        return Turn(stage, tuple(open_), invert=rule.invert, span=span, impossible=impossible, unmet=unmet)

    def turns(self, address: int) -> list[Turn]:
        """Every rule as it applies to this destination, also those that match no packet."""
        return [turn.at(address) for turn in self._turns]

    def region(self, address: int) -> Region:
        """The rules as they apply to a packet for this destination."""
        place = bisect_right(self.cuts, address) if self.cuts else 0
        found = self._regions.get(place)
        if found is None:
            found = self._regions[place] = Region(
                self._met_at(address), self.sought, width_of(self._family), self._cases
            )
        return found

    def _met_at(self, address: int) -> list[Turn]:
        """The turns that a packet for this destination may take."""
        width = width_of(self._family)
        near = [found.get(address >> (width - length), ()) for length, found in self._local.items()]
        places = sorted(chain(self._common, *near))
        turns = [(place, turn) for place in places if not (turn := self._turns[place].at(address)).never]
        met = [place for place, _ in turns]
        return [turn if turn.target is None else turn.leading_to(bisect_left(met, turn.target)) for _, turn in turns]

    @cached_property
    def defaults(self) -> tuple[Default, ...]:
        """The default routes in the order of a plain packet's lookup, if nothing else matches before.

        Suppressed ones are included: if the first default route of a table is suppressed, all of that table are.
        """
        return tuple(self._find_defaults())

    def _find_defaults(self) -> Iterator[Default]:
        at, every = 0, (0, (1 << width_of(self._family)) - 1)
        while at < len(self._turns):
            turn = self._turns[at]
            at += 1
            if turn.never:
                continue
            plain = all(ask.plain for ask in turn.asks)
            partial = plain and turn.span is not None and turn.span != every
            # Of rules with a destination, only those for all but a few addresses (`not to`) lead to the default route.
            if (partial or not plain) is not turn.invert or (partial and turn.stage.table is None):
                continue
            if turn.stage.table is not None:
                yield from self._defaults_of(turn.stage, turn.stage.table)
            elif turn.target is not None:
                at = turn.target
            elif turn.stage.verdict:
                return

    def _defaults_of(self, stage: Stage, table: Table) -> Iterator[Default]:
        tos = self.sought.tos or 0
        for_any_source = (entry for entry in table.of(0, 0) if entry.route.source is None)
        entries = [entry for entry in for_any_source if not entry.route.tos or has_tos(tos, entry.route.tos)]
        for entry in entries:
            if entry.throws:
                return
            yield Default(entry, stage.rule, stage.kept(entries[0], self.sought) is None)
