"""What becomes of a packet of which not all is known: every end to which the rules may lead it.

Here: the walk that splits where a rule asks what nobody knows. Not here: the packet as plain as it may be (`region`).

The walk depends on a destination only through what the tables have for it. It is done once for each such find; and
there is one end for each route that may be taken, with all the cases that lead there, however many rules do.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from hostrouting.fib.answer import Cases
from hostrouting.fib.flow import Flow, tos_ask
from hostrouting.fib.supposed import ANYTHING, Case, Supposed
from hostrouting.fib.table import Entry
from hostrouting.fib.walk import Ending, Stage, Turn

__all__ = ["Branches", "End"]

# What a rule finds in its table: of each route, in order, the tos that it asks for (0: none), and whether it is kept.
Hits: TypeAlias = tuple[tuple[int, bool], ...]
# So many turns are taken by packets that are not plain and know how they came there. From then on a walk knows nothing
# and comes to each turn once: it may find an end that is not possible, and misses none.
BUDGET = 4096


class End(NamedTuple):
    """One end, and the cases that lead to it; there is one value for equal cases."""

    ending: Ending
    cases: Cases


class Branches:
    """The walks through some turns."""

    def __init__(self, turns: Sequence[Turn], flow: Flow, cases: dict[Cases, Cases]) -> None:
        """Take the turns, of which none asks for a destination; `cases` are those that are known already."""
        self._turns, self._flow, self._cases = turns, flow, cases
        self._tables = tuple({id(table): table for turn in turns if (table := turn.stage.table)}.values())
        # Stages that take the same out of the same table are asked once.
        askers = {_asks_like(turn.stage): turn.stage for turn in turns}
        self._askers = tuple(askers.values())
        places = {key: place for place, key in enumerate(askers)}
        self._asker_of = [places[_asks_like(turn.stage)] for turn in turns]
        self._known: dict[tuple[Hits, ...], tuple[tuple[Stage | None, int | None, Cases], ...]] = {}

    def ends(self, address: int) -> Iterator[End]:
        """Each end that a packet for this destination may come to."""
        flow = self._flow
        chains = {id(table): table.chain(address, flow.tos, flow.oif) for table in self._tables}
        hits = tuple([self._hits_of(stage, chains) for stage in self._askers])
        found = self._known.get(hits)
        if found is None:
            walk = _Walk(self._turns, [hits[place] for place in self._asker_of])
            found = self._known[hits] = tuple(
                [(stage, place, self._cases.setdefault(cases, cases)) for stage, place, cases in walk.ends()]
            )
        for stage, place, cases in found:
            entry = None if stage is None or place is None else chains[id(stage.table)][place][1]
            yield End((stage, entry), cases)

    def _hits_of(self, stage: Stage, chains: dict[int, tuple[tuple[int, Entry | None], ...]]) -> Hits:
        found = () if stage.table is None else chains[id(stage.table)]
        return tuple([(tos, entry is not None and stage.keeps(entry)) for tos, entry in found])


def _asks_like(stage: Stage) -> tuple[int, int | None, int | None]:
    return (id(stage.table), stage.rule.suppress_prefixlength, stage.rule.suppress_ifgroup)


class _Walk:
    """All ways through some turns, where it is known what each finds."""

    def __init__(self, turns: Sequence[Turn], hits: Sequence[Hits]) -> None:
        self._turns, self._hits = turns, hits
        self._left, self._seen = BUDGET, set[int]()
        # Where a walk goes on.
        self._pending: list[tuple[int, Supposed]] = [(0, ANYTHING)]
        self._found: dict[object, tuple[Stage | None, int | None, dict[Case, None]]] = {}

    def ends(self) -> Iterator[tuple[Stage | None, int | None, Cases]]:
        """The ends: the stage, and which of the routes that it finds."""
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
        """What a walk still knows at a turn; None where it need not go on: one that knows nothing has been there."""
        if not supposed.conditions:
            return supposed  # the plain packet's own
        self._left -= 1
        if self._left >= 0:
            return supposed
        if at in self._seen:
            return None
        self._seen.add(at)
        return ANYTHING._replace(conditions=supposed.conditions)

    def _turn(self, at: int, supposed: Supposed) -> tuple[int, Supposed | None]:
        """Where the walk goes on after a turn, and what is supposed then, if it does."""
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
        if not any(kept for _, kept in found):
            return at + 1, supposed
        left, by_tos = self._take(turn.stage, found, taking)
        if left is not None and passing is not None:
            # The rule changes nothing for packets that may take it or not: they go on as they came.
            return at + 1, supposed
        for other in by_tos:
            self._later(at + 1, other)
        return at + 1, passing if left is None else left

    def _take(self, stage: Stage, hits: Hits, supposed: Supposed) -> tuple[Supposed | None, list[Supposed]]:
        """End where the table has a route that is kept; what is supposed of those that find none, and by which tos."""
        going: list[Supposed] = []
        for place, (tos, kept) in enumerate(hits):
            if not tos:
                if kept:
                    self._end(stage, place, supposed)
                return (None if kept else supposed), going
            ask, possible = tos_ask(tos)
            taking = supposed.suppose(stage.rule, (ask,), true=True) if possible else None
            if taking is not None and kept:
                self._end(stage, place, taking)
            elif taking is not None:
                going.append(taking)
            left = supposed.suppose(stage.rule, (ask,), true=False) if possible else supposed
            if left is None:
                return None, going
            supposed = left
        return supposed, going

    def _later(self, at: int, supposed: Supposed | None) -> None:
        if supposed is not None:
            self._pending.append((at, supposed))

    def _end(self, stage: Stage | None, place: int | None, supposed: Supposed) -> None:
        """Note an end: of stages that find the same, or give the same verdict, the first one speaks for all."""
        key = None if stage is None else stage.rule.action if place is None else (id(stage.table), place)
        self._found.setdefault(key, (stage, place, {}))[2][supposed.conditions] = None


def _split(supposed: Supposed, turn: Turn) -> tuple[Supposed | None, Supposed | None]:
    """What is supposed of the packets that take the turn, and of those that pass it by."""
    if not turn.asks:
        return supposed, None
    rule, asks = turn.stage.rule, turn.asks
    return supposed.suppose(rule, asks, true=not turn.invert), supposed.suppose(rule, asks, true=turn.invert)
