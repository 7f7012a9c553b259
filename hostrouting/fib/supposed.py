"""What may be true of a packet of which not everything is known.

Here: suppositions about one packet, which may contradict each other. Not here: which rules give rise to them.
"""

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from hostrouting.fib.answer import Condition
from hostrouting.fib.flow import Ask
from hostrouting.model import Rule

__all__ = ["ANYTHING", "Case", "Supposed"]

Case: TypeAlias = tuple[Condition, ...]


class Supposed(NamedTuple):
    """What is true of a packet, all of it together, and the conditions under which it is.

    `holds` has a yes for each thing that was asked for; of each of the `refused` not every part is true. That several
    which are refused leave nothing between them (users up to 9, and users from 10 on) is not seen.
    """

    holds: dict[str, Ask]
    refused: tuple[tuple[Ask, ...], ...]
    conditions: Case

    def suppose(self, rule: Rule, asks: tuple[Ask, ...], *, true: bool) -> "Supposed | None":
        """With all of this true as well, or with not all of it; None when that cannot be."""
        still = tuple(ask for ask in asks if not self._says(ask))
        if not still:
            return self if true else None
        holds = self._with(still)
        if holds is None:
            return None if true else self
        # What holds for a plain packet anyway is no condition.
        conditions = self.conditions
        if all(ask.plain for ask in still) is not true:
            conditions = (*conditions, Condition(rule, tuple(ask.words for ask in still), true))
        if not true:
            return Supposed(self.holds, (*self.refused, still), conditions)
        found = Supposed(holds, self.refused, conditions)
        return (
            None if any(found._says_all(refused) for refused in self._touched({ask.name for ask in still})) else found
        )

    def _touched(self, names: set[str]) -> Iterator[tuple[Ask, ...]]:
        """What was refused and asks for one of these."""
        return (refused for refused in self.refused if refused[0].name in names or len(refused) > 1)

    def _says_all(self, asks: tuple[Ask, ...]) -> bool:
        return all(map(self._says, asks))

    def _says(self, ask: Ask) -> bool:
        """Whether what is supposed to be true answers this with yes."""
        held = self.holds.get(ask.name)
        return held is not None and held.implies(ask)

    def _with(self, asks: tuple[Ask, ...]) -> dict[str, Ask] | None:
        """What is true when these are too; None where that cannot be."""
        holds = dict(self.holds)
        for ask in asks:
            joined = holds[ask.name].joined(ask) if ask.name in holds else ask
            if joined is None:
                return None
            holds[ask.name] = joined
        return holds


# Nothing is supposed.
ANYTHING = Supposed({}, (), ())
