"""A region: destinations that are one to all rules. What a plain packet for one of them comes to.

Here: the stages that it takes, and what a route that is yet to come would have to be. Not here: rules that are for
other destinations (`rules` has left them out), and what becomes of packets that are not plain (`branches`).
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

from hostrouting.fib.answer import Cases
from hostrouting.fib.branches import Branches, End
from hostrouting.fib.flow import Flow
from hostrouting.fib.table import Entry, Table
from hostrouting.fib.walk import Ending, Turn, plain_turns

__all__ = ["Region"]

_NOTHING: Ending = (None, None)


class Region:
    """What is asked for the destinations of a region."""

    def __init__(self, turns: Sequence[Turn], flow: Flow, width: int, cases: dict[Cases, Cases]) -> None:
        """Take the turns, none of which asks for a destination any more; `width` is that of an address.

        `cases` are those that are known already (see `branches`).
        """
        stages = (turn.stage for turn in plain_turns(turns) if turn.plain)
        self._lane = tuple(stage for stage in stages if stage.table is not None or stage.verdict)
        self._tos, self._oif, self._width = flow.tos, flow.oif, width
        self._of_branches = (turns, flow, cases)
        self._asks = any(turn.asks for turn in turns)
        # The stages that every packet takes, whatever is not known of it; none where that makes a difference.
        self.certain = () if self._asks or flow.oif else self._lane

    def decide(self, address: int) -> tuple[Ending, bool]:
        """What decides for a packet as plain as it may be, and whether what is not known of it could matter."""
        tos, oif, unsure = self._tos or 0, self._oif, self._asks
        for stage in self._lane:
            entry, passed, decides = stage.take(address, tos, oif)
            unsure = unsure or (passed and self._tos is None)
            if decides:
                return (stage, entry), unsure
        return _NOTHING, unsure

    def ends(self, address: int) -> Iterator[End]:
        """Every end that is possible given what is not known of a packet, the plain one's among them."""
        return self._branches.ends(address)

    @cached_property
    def _branches(self) -> Branches:
        # Of many regions most are not asked for more than the plain packet's end.
        return Branches(*self._of_branches)

    def length_to_decide(
        self, address: int, table: Table, beats: Callable[[Entry], int], dev: str | None
    ) -> int | None:
        """How long the prefix of a new route in the table has to be at least, to decide; None: no length will do.

        `beats` says from which length on it is preferred to the route that it would meet there; it leaves by `dev`.
        """
        # Only a route at least this long comes to where the walk is now.
        shortest, floor = self._width + 1, 0
        for stage in self._lane:
            if stage.table is None:
                break
            entry, _ = stage.table.best(address, self._tos or 0, self._oif)
            decides = entry is not None and stage.keeps(entry)
            suppressed = stage.suppresses_up_to(dev, self._width)
            if stage.table is table:
                preferred = 0 if entry is None else beats(entry)
                shortest = min(shortest, max(preferred, suppressed + 1, floor))
                floor = max(floor, preferred) if decides else floor
            # A route that is preferred here and then suppressed goes on to the next rule.
            if decides and (stage.table is not table or floor > suppressed):
                break
        return shortest if shortest <= self._width else None
