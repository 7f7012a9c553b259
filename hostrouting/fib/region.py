"""A region: destinations for which all rules behave the same. The result for a plain packet to one of them.

Here: the stages that the packet goes through, and the length that a new route needs to decide. Not here: rules for
other destinations (`rules` has removed them), and packets that are not plain (`branches`).
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

from hostrouting.fib.answer import Cases
from hostrouting.fib.branches import Branches, End
from hostrouting.fib.flow import Sought
from hostrouting.fib.table import Entry, Table
from hostrouting.fib.walk import Ending, Turn, plain_turns

__all__ = ["Region"]

_NOTHING: Ending = (None, None)


class Region:
    """The lookups for the destinations of a region."""

    def __init__(self, turns: Sequence[Turn], sought: Sought, width: int, cases: dict[Cases, Cases]) -> None:
        """Take the turns, none with a destination left to check; `width` is the number of address bits.

        `cases` are the ones known already (see `branches`).
        """
        stages = (turn.stage for turn in plain_turns(turns) if turn.plain)
        self._lane = tuple(stage for stage in stages if stage.table is not None or stage.verdict)
        self._sought, self._width = sought, width
        self._of_branches = (turns, sought, cases)
        self._asks = any(turn.asks for turn in turns)
        # The stages that every packet goes through, whatever its unknown fields; empty if those make a difference.
        self.certain = () if self._asks or sought.oif else self._lane

    def decide(self, address: int) -> tuple[Ending, bool]:
        """The end for a plain packet, and whether its unknown fields could make a difference."""
        sought, unsure = self._sought, self._asks
        for stage in self._lane:
            entry, unclear, decides = stage.take(address, sought)
            unsure = unsure or unclear
            if decides:
                return (stage, entry), unsure
        return _NOTHING, unsure

    def ends(self, address: int) -> Iterator[End]:
        """Every possible end given the unknown fields of a packet, including that of the plain packet."""
        return self._branches.ends(address)

    @cached_property
    def _branches(self) -> Branches:
        # In most regions only the plain packet's end is needed.
        return Branches(*self._of_branches)

    def length_to_decide(
        self, address: int, table: Table, beats: Callable[[Entry], int], dev: str | None
    ) -> int | None:
        """The shortest prefix length with which a new route in the table decides; None if no length is enough.

        `beats` returns the length from which it is preferred to the route found there; the new route leaves by `dev`.
        """
        # Only a new route at least this long gets to the present stage of the walk.
        shortest, floor = self._width + 1, 0
        for stage in self._lane:
            if stage.table is None:
                break
            entry, _ = stage.table.best(address, self._sought)
            decides = entry is not None and stage.keeps(entry)
            suppressed = stage.suppresses_up_to(dev, self._width)
            if stage.table is table:
                preferred = 0 if entry is None else beats(entry)
                preferred = max(preferred, table.hides_up_to(address, self._sought) + 1)
                shortest = min(shortest, max(preferred, suppressed + 1, floor))
                floor = max(floor, preferred) if decides else floor
            # A new route that is preferred here and then suppressed continues at the next rule.
            if decides and (stage.table is not table or floor > suppressed):
                break
        return shortest if shortest <= self._width else None
