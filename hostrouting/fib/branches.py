"""What becomes of a packet of which not all is known: every end to which the rules may lead it.

Here: the walk that splits where a rule asks what nobody knows. Not here: the packet as plain as it may be (`stretch`).

The walk depends on a destination only through what the tables have for it. It is done once for each such shape; and
there is one end for each route that may be taken, with all the ways that lead there, however many rules do.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from hostrouting.fib.answer import Ways
from hostrouting.fib.flow import Flow, dscp, tos_ask
from hostrouting.fib.step import Outcome, Step, Turn
from hostrouting.fib.table import Entry
from hostrouting.fib.worlds import ANYTHING, Path, World

__all__ = ["Branches", "End"]

# What a rule finds in its table: of each route, in order, the tos that it asks for (0: none), and whether it is kept.
Shape: TypeAlias = tuple[tuple[int, bool], ...]
# How often walks arrive at one rule by gotos, each knowing something else. The next one that arrives knows nothing any
# more, and is the last: it may find an end that is not possible, and misses none.
ARRIVALS = 16


class End(NamedTuple):
    """One end, and the ways that lead to it; there is one value for equal ways."""

    outcome: Outcome
    ways: Ways


class Branches:
    """The walks through some turns."""

    def __init__(self, turns: Sequence[Turn], flow: Flow, ways: dict[Ways, Ways]) -> None:
        """Take the turns, of which none asks for a destination; `ways` are those that are known already."""
        self._turns, self._flow, self._ways = turns, flow, ways
        self._tables = tuple({id(table): table for turn in turns if (table := turn.step.table)}.values())
        # Steps that take the same out of the same table are asked once.
        askers = {_asks_like(turn.step): turn.step for turn in turns}
        self._askers = tuple(askers.values())
        places = {key: place for place, key in enumerate(askers)}
        self._asker_of = [places[_asks_like(turn.step)] for turn in turns]
        self._known: dict[tuple[Shape, ...], tuple[tuple[Step | None, int | None, Ways], ...]] = {}

    def ends(self, address: int) -> Iterator[End]:
        """Each end that a packet for this destination may come to."""
        flow = self._flow
        chains = {id(table): table.chain(address, flow.tos, flow.oif) for table in self._tables}
        shapes = tuple([self._shape(step, chains) for step in self._askers])
        found = self._known.get(shapes)
        if found is None:
            walk = _Walk(self._turns, [shapes[place] for place in self._asker_of])
            found = self._known[shapes] = tuple(
                [(step, place, self._ways.setdefault(ways, ways)) for step, place, ways in walk.ends()]
            )
        for step, place, ways in found:
            yield End((step, None if step is None or place is None else chains[id(step.table)][place]), ways)

    def _shape(self, step: Step, chains: dict[int, tuple[Entry, ...]]) -> Shape:
        if step.table is None:
            return ()
        unknown = self._flow.tos is None
        return tuple([(dscp(entry.route.tos) if unknown else 0, step.keeps(entry)) for entry in chains[id(step.table)]])


def _asks_like(step: Step) -> tuple[int, int | None, int | None]:
    return (id(step.table), step.rule.suppress_prefixlength, step.rule.suppress_ifgroup)


class _Walk:
    """All ways through some turns, where it is known what each finds."""

    def __init__(self, turns: Sequence[Turn], shapes: Sequence[Shape]) -> None:
        self._turns, self._shapes = turns, shapes
        self._arrivals: dict[int, int] = {}
        # Where a walk goes on.
        self._pending: list[tuple[int, World]] = [(0, ANYTHING)]
        self._found: dict[object, tuple[Step | None, int | None, dict[Path, None]]] = {}

    def ends(self) -> Iterator[tuple[Step | None, int | None, Ways]]:
        """The ends: the step, and which of the routes that it finds."""
        while self._pending:
            self._go_on(*self._pending.pop())
        for step, place, ways in self._found.values():
            yield step, place, tuple(ways)

    def _go_on(self, at: int, known: World) -> None:
        world: World | None = known
        while world is not None:
            if at == len(self._turns):
                self._end(None, None, world)
                return
            turn, shape = self._turns[at], self._shapes[at]
            at += 1
            taking, passing = _split(world, turn)
            if taking is None:
                continue
            if turn.target is not None:
                self._later(at, passing)
                at, world = turn.target, self._arriving(turn.target, taking)
            elif turn.step.verdict:
                self._end(turn.step, None, taking)
                world = passing
            elif any(kept for _, kept in shape):
                left, by_tos = self._take(turn.step, shape, taking)
                if left is None or passing is None:
                    for other in by_tos:
                        self._later(at, self._arriving(at, other))
                    world = passing if left is None else left
                # Else the rule changes nothing for packets that may take it or not: they go on as they came.

    def _take(self, step: Step, shape: Shape, world: World) -> tuple[World | None, list[World]]:
        """End where the table has a route that is kept; the worlds of those that find none, and by which tos."""
        going: list[World] = []
        for place, (tos, kept) in enumerate(shape):
            taking = world.suppose(step.rule, (tos_ask(tos),), true=True) if tos else world
            if taking is not None:
                if kept:
                    self._end(step, place, taking)
                elif tos:
                    going.append(taking)
            left = world.suppose(step.rule, (tos_ask(tos),), true=False) if tos else None
            if left is None:
                return (None if kept else world), going
            world = left
        return world, going

    def _later(self, at: int, world: World | None) -> None:
        if world is not None:
            self._pending.append((at, world))

    def _arriving(self, at: int, world: World) -> World | None:
        """The world in which a walk that arrives at a turn goes on there, if it still has to."""
        if not world.conditions:
            return world  # the plain packet's own
        count = self._arrivals[at] = self._arrivals.get(at, 0) + 1
        if count <= ARRIVALS:
            return world
        return ANYTHING._replace(conditions=world.conditions) if count == ARRIVALS + 1 else None

    def _end(self, step: Step | None, place: int | None, world: World) -> None:
        """Note an end: of steps that find the same, or give the same verdict, the first one speaks for all."""
        key = None if step is None else step.rule.action if place is None else (id(step.table), place)
        self._found.setdefault(key, (step, place, {}))[2][world.conditions] = None


def _split(world: World, turn: Turn) -> tuple[World | None, World | None]:
    """The world of the packets that take the turn, and that of those that pass it by."""
    if not turn.asks:
        return world, None
    rule, asks = turn.step.rule, turn.asks
    return world.suppose(rule, asks, true=not turn.invert), world.suppose(rule, asks, true=turn.invert)
