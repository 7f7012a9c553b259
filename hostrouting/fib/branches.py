"""Every possible end of the walk for a packet with unknown fields.

Here: the walk that splits where a rule selects on an unknown field. Not here: the plain packet (`region`).

The walk depends on a destination only through the routes that the tables have for it. It is done once for each
combination of these. There is one end for each possible route, with all the cases that lead there, even if several
rules do.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from hostrouting.fib.answer import Cases
from hostrouting.fib.flow import Ask, Sought
from hostrouting.fib.supposed import ANYTHING, Case, Supposed
from hostrouting.fib.table import Hit
from hostrouting.fib.walk import Ending, Stage, Turn

__all__ = ["Branches", "End"]

# What a rule finds in its table, in order: the questions that a packet answers with yes, whether the rule keeps the
# route, and the place of the first hit with the same route.
Hits: TypeAlias = tuple[tuple[tuple[Ask, ...], bool, int], ...]
# The number of turns that walks of packets that are not plain may take with their assumptions. After that, a walk drops
# its assumptions and visits each turn once: it may find an end that is impossible, but it misses none.
BUDGET = 4096


class End(NamedTuple):
    """One end, and the cases that lead to it; equal cases are one object."""

    ending: Ending
    cases: Cases


class Branches:
    """The walks through the given turns."""

    def __init__(self, turns: Sequence[Turn], sought: Sought, cases: dict[Cases, Cases]) -> None:
        """Take the turns, none with a destination left to check; `cases` are the ones known already."""
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
            yield End((stage, entry), cases)

    def _hits_of(self, stage: Stage, chains: dict[int, tuple[Hit, ...]]) -> Hits:
        found = () if stage.table is None else chains[id(stage.table)]
        places: dict[int, int] = {}
        return tuple(
            [
                (asks, entry is not None and stage.keeps(entry), places.setdefault(id(entry), place))
                for place, (asks, entry) in enumerate(found)
            ]
        )


def _asks_like(stage: Stage) -> tuple[int, int | None, int | None]:
    return (id(stage.table), stage.rule.suppress_prefixlength, stage.rule.suppress_ifgroup)


class _Walk:
    """All paths through the turns, with known table results."""

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
        """The assumptions still held at a turn; None if a walk without assumptions has already been here."""
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
        """Where the walk continues after a turn, and the assumptions there; None if it ends."""
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
        """End at each route that is kept; return the assumptions of packets that find none, in general and per hit."""
        going: list[Supposed] = []
        for asks, kept, place in hits:
            if not asks:
                if kept:
                    self._end(stage, place, supposed)
                return (None if kept else supposed), going
            taking = supposed.suppose(stage.rule, asks, true=True)
            if taking is not None and kept:
                self._end(stage, place, taking)
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

    def _end(self, stage: Stage | None, place: int | None, supposed: Supposed) -> None:
        """Record an end; of stages with the same result or verdict, only the first is used."""
        key = None if stage is None else stage.rule.action if place is None else (id(stage.table), place)
        self._found.setdefault(key, (stage, place, {}))[2][supposed.conditions] = None


def _split(supposed: Supposed, turn: Turn) -> tuple[Supposed | None, Supposed | None]:
    """The assumptions about packets that take the turn, and about those that do not."""
    if not turn.asks:
        return supposed, None
    rule, asks = turn.stage.rule, turn.asks
    return supposed.suppose(rule, asks, true=not turn.invert), supposed.suppose(rule, asks, true=turn.invert)
