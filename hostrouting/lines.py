"""Findings and lists as lines of a page: each finding with its remedies below it, and at most
`SHOWN` things of a kind.
"""

from collections.abc import Iterable, Iterator, Sequence

from hostrouting.finding import Finding, Remedy

SHOWN = 20
"""How many things of one kind a page has; the JSON contains all."""


def capped(lines: Sequence[str]) -> Iterator[str]:
    """The first lines, each of one thing, and a line that counts the others."""
    yield from lines[:SHOWN]
    yield from count_of_others(lines)


def count_of_others(things: Sequence[object]) -> Iterator[str]:
    """A line that counts the things that are not shown, if there are any."""
    if len(things) > SHOWN:
        yield f"  ... and {len(things) - SHOWN:,} more; --json shows all"


def indented(verb: str, things: Iterable[object]) -> Iterator[str]:
    """A line for each thing, which begins with the verb; see `capped`."""
    yield from capped([f"  {verb}{thing}" for thing in things])


def finding_lines(findings: Sequence[Finding], *, without: str = "") -> Iterator[str]:
    """A line for each finding, with the ways of its remedy below it. Findings in a row with the
    same remedy have it once, below the last of them. The command `without` is left out, because it
    stands elsewhere on the page.
    """
    shown = findings[:SHOWN]
    next_remedies = [*(finding.remedy for finding in shown[1:]), None]
    # Not strict: without findings, `next_remedies` still has the None.
    for finding, next_remedy in zip(shown, next_remedies, strict=False):
        yield f"{finding.name.upper()}: {finding.sentence}"
        if finding.remedy != next_remedy:
            yield from way_lines(finding.remedy, without=without)
    yield from count_of_others(findings)


def way_lines(remedy: Remedy | None, *, indent: int = 2, without: str = "") -> Iterator[str]:
    """A line for each way of the remedy, but not for the command `without`, if one is given."""
    if remedy is None:
        return
    for way in remedy.ways():
        is_left_out = way.command == without != ""
        if not is_left_out:
            yield f"{' ' * indent}{way.line}"
