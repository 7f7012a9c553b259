"""Findings and lists as lines of a page: each finding with its remedies below it, and at most
`SHOWN` things of a kind.
"""

from collections.abc import Iterator, Sequence

from hostrouting.finding import Finding, Remedy

SHOWN = 20
"""How many things of one kind a page has; the JSON contains all."""


def count_of_others(things: Sequence[object]) -> Iterator[str]:
    """A line that counts the things that a page leaves out: those after the first SHOWN. If there
    are no more things, there is no line.
    """
    if len(things) > SHOWN:
        yield f"  ... and {len(things) - SHOWN:,} more; --json shows all"


def indented(verb: str, things: Sequence[object]) -> Iterator[str]:
    """A line for each of the first SHOWN things, which begins with the verb, and a line that says
    how many more there are, so that a page stays short.
    """
    for thing in things[:SHOWN]:
        yield f"  {verb}{thing}"
    yield from count_of_others(things)


def finding_lines(findings: Sequence[Finding]) -> Iterator[str]:
    """A line for each finding, and below it a line for each way of its remedy. If findings in a row
    have the same remedy, only the last of them shows it.
    """
    unshown_remedy: Remedy | None = None
    for finding in findings[:SHOWN]:
        if finding.remedy != unshown_remedy:
            yield from remedy_lines(unshown_remedy)
        yield f"{finding.name.upper()}: {finding.sentence}"
        unshown_remedy = finding.remedy
    yield from remedy_lines(unshown_remedy)
    yield from count_of_others(findings)


def remedy_lines(remedy: Remedy | None, *, indent: int = 2) -> Iterator[str]:
    """A line for each way of the remedy."""
    if remedy is None:
        return
    for way in remedy.ways():
        yield f"{' ' * indent}{way.line}"
