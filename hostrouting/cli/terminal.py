"""What only a terminal shows, with rich: colours, and for each expected CIDR a strip that shows
where it leaves.

A strip is the CIDR from its first address to its last, in cells of one size: light and green where
every address of the cell leaves as expected, denser and yellow where that is in doubt, full and red
where one escapes. A line says what the cells mean.
"""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from hostrouting.check.results import CheckReport, FamilyReport, Grade
from hostrouting.fib.engine import FROM_HOST
from hostrouting.model.prefix import Prefix
from hostrouting.text import counted

# The first pattern that matches a line decides its colour.
_STYLES = (
    (r"^(OK|DONE|NOTHING TO DO|IN FORCE|RUNS):", "bold green"),
    (r"^(OVERLAP|FAILED|REFUSED|FAILS|DIFFERS|OPEN|SHUT|GATE-OPEN|GATE-SHUT):", "bold red"),
    (r"^[A-Z][A-Z-]+( [A-Z]+)*:", "bold yellow"),
    (r"^  (\+|add|wrote) .*", "green"),
    (r"^  (-|delete|removed) .*", "red"),
    (r"^\S.*:$", "bold"),
)
_COLOURS = ("green", "yellow", "red")
"""The colours of a strip, by the `Grade` of what happens there."""
_SHADES = "░▒█"
"""The cells of a strip, by the same grades, so that the strip can be read without colours."""
_CELLS = 40
"""The length of a strip, where the terminal has room for it."""
_MEANINGS = ("as expected", "in doubt", "escapes")
"""What the cells mean, by the same grades."""
_MOST_STRIPS = 20
"""How many are shown."""


def print_page(
    lines: Sequence[str], report: CheckReport | None, width: int, console: Console | None = None
) -> None:
    """Print the lines in colour, and the strips of the report after the verdict: before the first
    empty line, or at the end. The terminal has this width.
    """
    console = console or Console(soft_wrap=True)
    page = [_coloured(line) for line in lines]
    if report is not None:
        place = lines.index("") if "" in lines else len(lines)
        page[place:place] = _strips(report, width)
    for text in page:
        console.print(text)


def _coloured(line: str) -> Text:
    text = Text(line)
    for pattern, style in _STYLES:
        if text.highlight_regex(pattern, style):
            break
    return text


def _strips(report: CheckReport, width: int) -> Iterator[Text]:
    """The first strips, a line that counts the others, and what the cells mean."""
    strips: list[Text] = []
    for family in report.families:
        if family.parts:  # without an expected device, no address is judged
            strips += [_strip_of(cidr, family, width) for cidr in family.cidrs]
    yield from strips[:_MOST_STRIPS]
    if len(strips) > _MOST_STRIPS:
        yield Text(f"  ... and {counted(len(strips) - _MOST_STRIPS, 'more CIDR')}")
    if strips:
        yield _legend()


def _legend() -> Text:
    """What the cells mean."""
    legend = Text()
    for grade, meaning in zip(Grade, _MEANINGS, strict=True):
        legend.append(f"  {_SHADES[grade]} {meaning}", _COLOURS[grade])
    return legend


def _strip_of(cidr: Prefix, family: FamilyReport, width: int) -> Text:
    strip = Text(f"  {cidr!s:<18} ")
    grades = [Grade.FINE] * min(_CELLS, max(width - len(strip), _CELLS // 4))
    for part in family.parts:
        _mark(grades, cidr, part.first, part.last, part.worst_grade)
    for escape in family.escapes:
        if escape.packet != FROM_HOST:  # the parts are about the host's own packets
            _mark(grades, cidr, escape.first, escape.last, Grade.ESCAPE)
    strip.append_tokens((_SHADES[grade], _COLOURS[grade]) for grade in grades)
    return strip


def _mark(grades: list[Grade], cidr: Prefix, first: int, last: int, grade: Grade) -> None:
    """Make no cell better than this grade that has an address of this range."""
    size = cidr.last - cidr.first + 1
    begin = max(first, cidr.first) - cidr.first
    end = min(last, cidr.last) - cidr.first + 1
    if begin >= end:
        return
    last_cell = (end * len(grades) - 1) // size
    for cell in range(begin * len(grades) // size, last_cell + 1):
        grades[cell] = max(grades[cell], grade)
