"""Assumptions about the unknown fields of a packet.

Here: assumptions about one packet, which may contradict each other. Not here: the rules that they come from.
"""

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from hostrouting.fib.answer import Condition
from hostrouting.fib.flow import Ask
from hostrouting.model import Rule

__all__ = ["ANYTHING", "Case", "Supposed"]

Case: TypeAlias = tuple[Condition, ...]


class Supposed(NamedTuple):
    """What is assumed to be true of a packet, all of it together, and the conditions behind it.

    `holds` has a true question for each field; of each of the `refused`, at least one part is false. If several refused
    questions together leave no value (users up to 9, and users from 10 on), this is not noticed.
    """

    holds: dict[str, Ask]
    refused: tuple[tuple[Ask, ...], ...]
    conditions: Case

    def suppose(self, rule: Rule, asks: tuple[Ask, ...], *, true: bool) -> "Supposed | None":
        """Add the assumption that all of `asks` are true, or that not all are; None if that is impossible."""
        still = tuple(ask for ask in asks if not self._says(ask))
        if not still:
            return self if true else None
        holds = self._with(still)
        if holds is None:
            return None if true else self
        # What is true for a plain packet anyway is not a condition.
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
        """The refused questions about one of these fields."""
        return (refused for refused in self.refused if refused[0].name in names or len(refused) > 1)

    def _says_all(self, asks: tuple[Ask, ...]) -> bool:
        return all(map(self._says, asks))

    def _says(self, ask: Ask) -> bool:
        """Whether the assumptions imply yes to this question."""
        held = self.holds.get(ask.name)
        return held is not None and held.implies(ask)

    def _with(self, asks: tuple[Ask, ...]) -> dict[str, Ask] | None:
        """The true questions with these added; None if that is impossible."""
        holds = dict(self.holds)
        for ask in asks:
            joined = holds[ask.name].joined(ask) if ask.name in holds else ask
            if joined is None:
                return None
            holds[ask.name] = joined
        return holds


# No assumption.
ANYTHING = Supposed({}, (), ())
