"""What only a terminal shows, with rich: colours, and for each expected CIDR a strip that shows
where it leaves.

A strip is the CIDR from its first address to its last, in cells of one size: light and green where
every address of the cell leaves as expected, denser and yellow where that is in doubt, full and red
where one escapes. The devices follow with their shares.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from hostrouting.check.results import CheckReport, FamilyReport, Grade
from hostrouting.fib.engine import FROM_HOST
from hostrouting.model.prefix import Prefix
from hostrouting.text import counted, printable, spoken

# The first pattern that matches a line decides its colour.
_STYLES = (
    (r"^(OK|DONE|NOTHING TO DO|INSTALLED):", "bold green"),
    (r"^(OVERLAP|FAILED|REFUSED|DIFFERENT|GATE-OPEN|GATE-SHUT):", "bold red"),
    (r"^[A-Z][A-Z-]+( [A-Z]+)*:", "bold yellow"),
    (r"^  (\+|add|wrote) .*", "green"),
    (r"^  (-|delete|removed) .*", "red"),
    (r"^\S.*:$", "bold"),
)
_COLOURS = ("green", "yellow", "red")
"""The colours of a strip, by the `Grade` of what happens there."""
_SHADES = "░▒█"
"""The cells of a strip, by the same grades, so that the strip can be read without colours."""
_LETTERS = ".?#"
"""The same for a terminal that has only ASCII."""
_CELLS = 40
"""The length of a strip."""
_MOST_STRIPS = 20
"""How many are shown."""


def print_page(
    lines: Sequence[str], report: CheckReport | None, console: Console | None = None
) -> None:
    """Print the lines in colour, and the strips of the report before the first empty line, or at
    the end.
    """
    console = console or Console(soft_wrap=True)
    page = [_coloured(line) for line in lines]
    if report is not None:
        cells = _LETTERS if console.options.ascii_only else _SHADES
        place = lines.index("") if "" in lines else len(lines)
        page[place:place] = _strips(report, cells)
    for text in page:
        console.print(text)


def _coloured(line: str) -> Text:
    text = Text(line)
    for pattern, style in _STYLES:
        if text.highlight_regex(pattern, style):
            break
    return text


def _strips(report: CheckReport, cells: str) -> Iterator[Text]:
    """The first strips, and a line that counts the others."""
    strips: list[_Strip] = []
    for family in report.families:
        if family.parts:  # without an expected device, no address is judged
            strips += [_strip_of(cidr, family) for cidr in family.cidrs]
    for strip in strips[:_MOST_STRIPS]:
        yield strip.text(cells)
    if len(strips) > _MOST_STRIPS:
        yield Text(f"  … and {counted(len(strips) - _MOST_STRIPS, 'more CIDR')}")


def _strip_of(cidr: Prefix, family: FamilyReport) -> "_Strip":
    strip = _Strip(cidr)
    for part in family.parts:
        if part.first <= cidr.last and cidr.first <= part.last:
            # By which devices the part escapes, if it does; else those of the route.
            devs = part.opinion.devs or part.decision.devs
            way = spoken(devs) or part.decision.kind
            strip.add(part.first, part.last, part.worst_grade, way)
    # The parts are about the host's own packets. What other packets meet is added, so together the
    # shares can be more than 100 %.
    for escape in family.escapes:
        if escape.cidr == cidr and escape.packet != FROM_HOST:
            way = spoken(escape.devs) or escape.kind
            strip.add(escape.first, escape.last, Grade.ESCAPE, way)
    return strip


class _Strip:
    """How bad it is in each cell of a CIDR, and how many addresses go each way: out by devices, or
    to an end such as `prohibit`.
    """

    def __init__(self, cidr: Prefix) -> None:
        self._cidr = cidr
        self._size = cidr.last - cidr.first + 1
        self._grades = [Grade.FINE] * _CELLS
        self._shares = Counter[tuple[int, str]]()

    def add(self, first: int, last: int, grade: Grade, way: str) -> None:
        """Add a range, as far as it lies in the CIDR, with its grade and its way."""
        begin = max(first, self._cidr.first) - self._cidr.first
        end = min(last, self._cidr.last) - self._cidr.first + 1
        first_cell = begin * _CELLS // self._size
        end_cell = -(-end * _CELLS // self._size)  # rounded up
        for cell in range(first_cell, end_cell):
            self._grades[cell] = max(self._grades[cell], grade)
        self._shares[grade, way] += end - begin

    def text(self, cells: str) -> Text:
        """The cells with their colours, and the shares, the worst and largest first."""
        text = Text(f"  {self._cidr!s:<18} ")
        text.append_tokens((cells[grade], _COLOURS[grade]) for grade in self._grades)
        for (grade, way), count in sorted(self._shares.items(), key=_worst_first):
            is_tiny = count * 100 < self._size
            # Own addresses, for example, are not shown. So the others are rounded to 100 %.
            if is_tiny and grade == Grade.FINE:
                continue
            percent = "<1%" if is_tiny else f"{count / self._size:.0%}"
            text.append(f"  {printable(way)} {percent}", _COLOURS[grade])
        return text


def _worst_first(share: tuple[tuple[int, str], int]) -> tuple[int, int, str]:
    (grade, way), count = share
    return -grade, -count, way
