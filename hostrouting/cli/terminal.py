"""What only a terminal shows, with rich: colours, and for each expected CIDR a strip that shows
where it leaves.

A strip is the CIDR from its first address to its last, in cells of one size: green where every
address of the cell leaves as expected, yellow where that is in doubt, red where one escapes. The
devices follow with their shares.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.text import Text

from hostrouting.check.results import CheckReport, Grade, Part
from hostrouting.model.prefix import Prefix
from hostrouting.text import spoken

# The first pattern that matches a line decides its colour.
_STYLES = (
    (r"^(OK|DONE|NOTHING TO DO|INSTALLED):", "bold green"),
    (r"^(OVERLAP|FAILED|REFUSED|DIFFERENT|GATE-OPEN|GATE-SHUT):", "bold red"),
    (r"^[A-Z][A-Z-]+( [A-Z]+)*:", "bold yellow"),
    (r"^  (\+|add|wrote) .*", "green"),
    (r"^  (-|delete|removed) .*", "red"),
    (r"^\S.*:$", "bold"),
)
_COLOURS, _CELLS, _MOST = ("green", "yellow", "red"), 40, 20
"""The colours of a strip, by the grade of what happens there; its length in cells; and how many
strips are shown.
"""


def print_page(
    lines: Sequence[str], report: CheckReport | None, console: Console | None = None
) -> None:
    """Print the lines in colour, and the strips of the report before the first empty line, or at
    the end.
    """
    console = console or Console(highlight=False, soft_wrap=True)
    place = lines.index("") if "" in lines else len(lines)
    strips = (
        [] if report is None else [*_strips(report, "#" if console.options.ascii_only else "█")]
    )
    for text in (*map(_coloured, lines[:place]), *strips[:_MOST], *map(_coloured, lines[place:])):
        console.print(text)


def _coloured(line: str) -> Text:
    text = Text(line)
    any(
        text.highlight_regex(pattern, style) for pattern, style in _STYLES
    )  # up to the first that matches
    return text


def _strips(report: CheckReport, cell: str) -> Iterator[Text]:
    for family in report.families:
        for cidr in family.cidrs if family.parts else ():
            inside = [
                part for part in family.parts if part.first <= cidr.last and cidr.first <= part.last
            ]
            yield _strip(cidr, inside, cell)


def _strip(cidr: Prefix, parts: Iterable[Part], cell: str) -> Text:
    size, grades = cidr.last - cidr.first + 1, [Grade.FINE] * _CELLS
    shares = Counter[tuple[int, str]]()
    for part in parts:
        first, end = (
            max(part.first, cidr.first) - cidr.first,
            min(part.last, cidr.last) - cidr.first + 1,
        )
        for place in range(first * _CELLS // size, -(-end * _CELLS // size)):
            grades[place] = max(grades[place], part.worst_grade)
        devs = part.opinion.devs or part.decision.devs
        shares[part.worst_grade, spoken(devs) or part.decision.kind] += end - first
    text = Text(f"  {cidr!s:<18} ").append_tokens((cell, _COLOURS[grade]) for grade in grades)
    for (grade, way), count in sorted(shares.items(), reverse=True):
        if grade or count * 100 >= size:  # own addresses are not worth a word
            percent = f"{count / size:.0%}" if count * 100 >= size else "<1%"
            text.append(f"  {way} {percent}", _COLOURS[grade])
    return text
