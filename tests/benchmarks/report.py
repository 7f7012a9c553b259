"""What a run found, in words: the table for docs/benchmarks.md and for the terminal.

Here: text of values. Not here: where it goes (`run`).
"""

from collections.abc import Iterable, Iterator, Sequence

from tests.benchmarks.contest import Comparison, Contest, LeftOut, Ratio, Unit, comparisons
from tests.benchmarks.machine import Machine

__all__ = ["goal_words", "in_short", "markdown", "quantity", "ratio_words", "summary", "terminal"]

_HEAD = ("work", "hostrouting", "beside it", "ratio (min … max)", "goal", "")
# The work, our method, and the program that everybody has: to import their names would load what is to be measured.
_IN_SHORT = ("install 10,000 routes", "NetlinkBackend", "ip -batch")
_SECONDS = ((1.0, 1, "s"), (1e-3, 1e3, "ms"), (0.0, 1e6, "µs"))


def quantity(value: float, unit: Unit) -> str:
    """A value with three digits or so, in the unit in which one would say it."""
    if unit == "MB":
        return f"{value:.0f} MB" if value >= 1 else f"{value * 1e6:.0f} B"
    scale, name = next((scale, name) for least, scale, name in _SECONDS if value >= least)
    return f"{_digits(value * scale)} {name}"


def _digits(number: float) -> str:
    return f"{number:,.0f}" if number >= 99.5 else f"{number:.1f}" if number >= 9.95 else f"{number:.2f}"


def ratio_words(found: Ratio) -> str:
    """What takes less is so many times faster; what takes more takes so many times as much."""
    if found.median < 1:
        return f"{_times(1 / found.median)} faster ({_times(1 / found.most)} … {_times(1 / found.least)})"
    return f"{_times(found.median)} ({_times(found.least)} … {_times(found.most)})"


def _times(number: float) -> str:
    return f"{_digits(number)} ×"


def goal_words(found: Comparison) -> str:
    """The goal, in words."""
    if found.limit is None:
        return ""
    if found.against is None:
        number = found.limit * 1e3 if found.unit == "s" else found.limit
        return f"≤ {number:g} {'ms' if found.unit == 's' else found.unit}"
    return f"≤ {found.limit:g} ×" if found.limit >= 1 else f"≥ {1 / found.limit:g} × faster"


def _cells(found: Comparison) -> tuple[str, ...]:
    beside = (
        "" if found.against is None or found.other is None else f"{found.against}: {quantity(found.other, found.unit)}"
    )
    return (
        found.work,
        f"{found.method}: {quantity(found.median, found.unit)}",
        beside,
        "" if found.ratio is None else ratio_words(found.ratio),
        goal_words(found),
        {True: "met", False: "**missed**", None: ""}[found.met],
    )


def _rows(contests: Iterable[Contest]) -> list[tuple[str, ...]]:
    """One a comparison; what was said in the row above is not said again."""
    rows: list[tuple[str, ...]] = []
    for contest in contests:
        work = method = ""
        for found in comparisons(contest):
            row = _cells(found)
            rows.append(("" if row[0] == work else row[0], "" if row[:2] == (work, method) else row[1], *row[2:]))
            work, method, *_ = row
    return rows


def markdown(contests: Sequence[Contest], left_out: Sequence[LeftOut], machine: Machine) -> str:
    """What follows the plot in docs/benchmarks.md: a sentence for everybody, then the table; the plot's rows are not in it."""
    lines = [told, ""] if (told := in_short(contests)) else []
    lines += [f"{machine}. {summary(contests)}.", "", _row(_HEAD), "|" + "---|" * len(_HEAD)]
    lines += map(_row, _rows(contest for contest in contests if contest.goals or not contest.panel))
    said = [f"- {line}" for line in _remarks(contests, left_out)]
    return "\n".join([*lines, *([""] if said else []), *said])


def in_short(contests: Iterable[Contest]) -> str:
    """What a user gains, in one sentence; empty if that was not measured."""
    found = {(one.work, one.method, one.against): one for contest in contests for one in comparisons(contest)}
    one = found.get(_IN_SHORT)
    if one is None or one.other is None:
        return ""
    return (
        f"hostrouting installs 10,000 routes, and says of each whether it is there, in {quantity(one.median, one.unit)}; "
        f"`{one.against}` takes {quantity(one.other, one.unit)}."
    )


def _remarks(contests: Iterable[Contest], left_out: Iterable[LeftOut]) -> Iterator[str]:
    """What the table has no place for: what a missed goal would take, notes, and what was not measured."""
    every = list(contests)
    for found in (found for contest in every for found in comparisons(contest)):
        if found.met is False and found.takes:
            beside = "" if found.against is None else f" beside {found.against}"
            yield f"{found.work}: to reach {goal_words(found)}{beside}, {found.method} would need this: {found.takes}"
    yield from (f"{contest.work}: {note}" for contest in every for note in contest.notes)
    yield from (f"not measured: {it.work} ({it.reason})" for it in left_out)


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def terminal(contests: Sequence[Contest], left_out: Sequence[LeftOut], machine: Machine) -> str:
    """The same for a terminal, in columns."""
    rows = [_HEAD, *(tuple(cell.replace("**", "") for cell in row) for row in _rows(contests))]
    widths = [max(len(row[at]) for row in rows) for at in range(len(_HEAD))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*lines, "", *_remarks(contests, left_out), f"{machine}. {summary(contests)}."])


def summary(contests: Iterable[Contest]) -> str:
    """How many goals were met, in one sentence."""
    verdicts = [found.met for contest in contests for found in comparisons(contest) if found.met is not None]
    return f"{sum(verdicts)} of {len(verdicts)} goals met"
