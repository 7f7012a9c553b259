"""What only a terminal shows, with rich: colours, and for each expected CIDR a strip that shows
where it leaves.

A strip is the CIDR from its first address to its last, in cells of one size: light and green where
every address of the cell leaves as expected, denser and yellow where that is in doubt, full and red
where one escapes. The devices follow with their shares, and a line that says what the cells mean.
"""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from hostrouting.check.results import CheckReport, FamilyReport, Grade, Part
from hostrouting.fib.engine import FROM_HOST, NOT_JUDGED
from hostrouting.model.prefix import Prefix
from hostrouting.text import counted, printable, spoken

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
_LETTERS = ".?#"
"""The same for a terminal that has only ASCII."""
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
        cells = _LETTERS if console.options.ascii_only else _SHADES
        place = lines.index("") if "" in lines else len(lines)
        page[place:place] = _strips(report, cells, width)
    for text in page:
        console.print(text)


def _coloured(line: str) -> Text:
    text = Text(line)
    for pattern, style in _STYLES:
        if text.highlight_regex(pattern, style):
            break
    return text


def _strips(report: CheckReport, cells: str, width: int) -> Iterator[Text]:
    """The first strips, a line that counts the others, and what the cells mean."""
    strips: list[_Strip] = []
    for family in report.families:
        if family.parts:  # without an expected device, no address is judged
            strips += [_strip_of(cidr, family, width) for cidr in family.cidrs]
    for strip in strips[:_MOST_STRIPS]:
        yield from strip.lines(cells)
    if len(strips) > _MOST_STRIPS:
        yield Text(f"  … and {counted(len(strips) - _MOST_STRIPS, 'more CIDR')}")
    if strips:
        yield _legend(cells)


def _legend(cells: str) -> Text:
    """What the cells mean."""
    legend = Text()
    for grade, meaning in zip(Grade, _MEANINGS, strict=True):
        legend.append(f"  {cells[grade]} {meaning}", _COLOURS[grade])
    return legend


def _strip_of(cidr: Prefix, family: FamilyReport, width: int) -> "_Strip":
    strip = _Strip(cidr, width)
    for part in family.parts:
        strip.add(part.first, part.last, part.worst_grade, _way_of(part))
    # The parts are about the host's own packets. What other packets meet is added, so together the
    # shares can be more than 100 %.
    for escape in family.escapes:
        if escape.packet != FROM_HOST:
            way = spoken(escape.devs) or escape.kind
            strip.add(escape.first, escape.last, Grade.ESCAPE, way)
    return strip


def _way_of(part: Part) -> str:
    """The devices by which packets leave, or escape if they do; or the end that they come to."""
    if part.escape is not None:
        return spoken(part.opinion.devs) or part.opinion.name
    if part.opinion.name == NOT_JUDGED:  # the devices do not tell where packets go
        return NOT_JUDGED
    return spoken(part.decision.devs) or part.decision.kind


class _Strip:
    """How bad it is in each cell of a CIDR, and which addresses go each way: out by devices, or to
    an end such as `prohibit`.
    """

    def __init__(self, cidr: Prefix, width: int) -> None:
        self._cidr = cidr
        self._size = cidr.last - cidr.first + 1
        self._width = width
        self._name = f"  {cidr!s:<18} "
        room = max(width - len(self._name), _CELLS // 4)
        self._grades = [Grade.FINE] * min(_CELLS, room)
        self._ways: dict[tuple[Grade, str], list[tuple[int, int]]] = {}

    def add(self, first: int, last: int, grade: Grade, way: str) -> None:
        """Add the addresses of a range that lie in the CIDR, if any, with their grade and way."""
        # How far into the CIDR they begin and end; the end is not one of them.
        begin = max(first - self._cidr.first, 0)
        end = min(last - self._cidr.first + 1, self._size)
        if begin >= end:
            return
        count = len(self._grades)
        first_cell = begin * count // self._size
        end_cell = -(-end * count // self._size)  # rounded up
        for cell in range(first_cell, end_cell):
            self._grades[cell] = max(self._grades[cell], grade)
        self._ways.setdefault((grade, way), []).append((begin, end))

    def lines(self, cells: str) -> Iterator[Text]:
        """The cells with their colours, and the shares, the worst and largest first: as many in a
        line as there is room for.
        """
        line = Text(self._name)
        line.append_tokens((cells[grade], _COLOURS[grade]) for grade in self._grades)
        shares = [
            (grade, _count_addresses(ranges), way) for (grade, way), ranges in self._ways.items()
        ]
        for grade, count, way in sorted(shares, key=_worst_first):
            is_tiny = count * 100 < self._size
            # What is tiny and fine, such as the host's own addresses, would only distract.
            if is_tiny and grade == Grade.FINE:
                continue
            percent = "<1%" if is_tiny else f"{count / self._size:.0%}"
            share = f"  {printable(way)} {percent}"
            if len(line) + len(share) > self._width:
                yield line
                line = Text("  ")
            line.append(share, _COLOURS[grade])
        yield line


def _count_addresses(ranges: list[tuple[int, int]]) -> int:
    """How many addresses are in these ranges, each counted once."""
    count = 0
    counted_to = 0
    for begin, end in sorted(ranges):
        if end > counted_to:
            count += end - max(begin, counted_to)
            counted_to = end
    return count


def _worst_first(share: tuple[Grade, int, str]) -> tuple[int, int, str]:
    grade, count, way = share
    return -grade, -count, way
