"""A contest: methods that do the same work in turn, what each took, and what was to be reached.

Here: values and the arithmetic on them. Not here: how they are measured (`turns`) and told (`report`, `plot`).
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

import attrs

__all__ = ["Comparison", "Contest", "Goal", "LeftOut", "Ratio", "Unit", "comparisons", "ratio"]

Unit: TypeAlias = Literal["s", "MB"]


@attrs.frozen
class Goal:
    """What a method is to reach: at most `limit` times what the method `against` takes, or `limit` units alone.

    Without a limit they are only compared.
    """

    method: str
    limit: float | None
    against: str | None = None
    takes: str = ""
    """What it would take to reach it, for a goal that is missed now."""


@attrs.frozen
class Contest:
    """What each method took in each round, in seconds or megabytes; a value of the same place is of the same round.

    `panel` and `size` are the place in the plot and the number of routes there; "" where it is in none.
    """

    work: str
    values: Mapping[str, Sequence[float]]
    goals: tuple[Goal, ...] = ()
    unit: Unit = attrs.field(default="s", kw_only=True)
    panel: str = attrs.field(default="", kw_only=True)
    size: int = attrs.field(default=0, kw_only=True)
    notes: tuple[str, ...] = attrs.field(default=(), kw_only=True)


@attrs.frozen
class LeftOut:
    """Work that was not measured, and why."""

    work: str
    reason: str


@attrs.frozen
class Ratio:
    """The rounds' ratios of one method to another."""

    median: float
    least: float
    most: float


@attrs.frozen
class Comparison:
    """A method beside another, or alone; `met` is None where nothing was to be reached."""

    work: str
    unit: Unit
    method: str
    median: float
    against: str | None = None
    other: float | None = None
    ratio: Ratio | None = None
    limit: float | None = None
    takes: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the median reaches the goal."""
        if self.limit is None:
            return None
        return (self.median if self.ratio is None else self.ratio.median) <= self.limit


def ratio(values: Sequence[float], others: Sequence[float]) -> Ratio:
    """Round by round: a machine that was busy was busy for both."""
    each = [value / other for value, other in zip(values, others, strict=True)]
    return Ratio(statistics.median(each), min(each), max(each))


def comparisons(contest: Contest) -> Iterator[Comparison]:
    """One for each goal; and for each method that no goal names, one of the first method beside it."""
    for goal in contest.goals:
        yield attrs.evolve(_compared(contest, goal.method, goal.against, goal.limit), takes=goal.takes)
    first, *rest = contest.values
    named = {name for goal in contest.goals for name in (goal.method, goal.against)}
    for name in rest:
        if name not in named:
            yield _compared(contest, first, name)
    if not rest and not contest.goals:
        yield _compared(contest, first)


def _compared(contest: Contest, method: str, against: str | None = None, limit: float | None = None) -> Comparison:
    values = contest.values[method]
    found = Comparison(contest.work, contest.unit, method, statistics.median(values), limit=limit)
    if against is None:
        return found
    others = contest.values[against]
    return attrs.evolve(found, against=against, other=statistics.median(others), ratio=ratio(values, others))
