"""A plot: time against number of routes, both logarithmic, one panel for each sort of work and one line for each method.

Here: SVG from values. It brings its own background, dark where the reader's system is, so that it can be read wherever
it is shown.
"""

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from math import ceil, floor, log10
from typing import TypeAlias

from tests.benchmarks.contest import Contest

__all__ = ["Panel", "Point", "panels_of", "render_plot", "spread"]

Point: TypeAlias = tuple[float, float]
# Lines by their method.
Panel: TypeAlias = "Mapping[str, Sequence[Point]]"

_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP, _FOOT = 250, 260, 52, 34, 62, 34
_LEGEND = 18  # a line of the legend
_STYLE = """
  .paper { fill: #ffffff } text { fill: #1f2328; font: 12px sans-serif } .grid { stroke: #d8dee4 }
  .line { fill: none; stroke-width: 2 } .title { font-weight: bold }
  .c0 { stroke: #0969da } .c1 { stroke: #57606a } .c2 { stroke: #bc4c00 } .c3 { stroke: #8250df } .c4 { stroke: #1a7f37 }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117 } text { fill: #e6edf3 } .grid { stroke: #30363d }
    .c0 { stroke: #58a6ff } .c1 { stroke: #9198a1 } .c2 { stroke: #f0883e } .c3 { stroke: #bc8cff } .c4 { stroke: #3fb950 }
  }
"""
_COLOURS = 5
# Of a line, so that they can be told apart without colours too.
_DASHES = ("", "2 3", "8 4", "8 3 2 3", "14 4")


def panels_of(contests: Iterable[Contest]) -> dict[str, dict[str, list[Point]]]:
    """The medians of those contests that are in a panel, by panel and method, in the order of their sizes."""
    found: dict[str, dict[str, list[Point]]] = {}
    for contest in sorted((it for it in contests if it.panel), key=lambda it: it.size):
        for method, values in contest.values.items():
            found.setdefault(contest.panel, {}).setdefault(method, []).append((contest.size, statistics.median(values)))
    return found


def spread(values: Iterable[float]) -> tuple[int, int]:
    """The powers of ten between which all of the values are, at least one apart."""
    exponents = [log10(value) for value in values]
    low = floor(min(exponents))
    return low, max(ceil(max(exponents)), low + 1)


def render_plot(panels: Mapping[str, Panel], *, title: str) -> str:
    """The panels side by side, with the same axes, and what each line is under them."""
    methods = list(dict.fromkeys(method for lines in panels.values() for method in lines))
    points = [point for lines in panels.values() for line in lines.values() for point in line]
    across, up = spread(x for x, _ in points), spread(y for _, y in points)
    width = _LEFT + len(panels) * (_WIDTH + _GAP) - _GAP // 2
    legend_at = _TOP + _HEIGHT + _FOOT + 2 * _LEGEND
    height = legend_at + ceil(len(methods) / 2) * _LEGEND
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f'<rect class="paper" width="{width}" height="{height}"/>',
    ]
    for number, (name, lines) in enumerate(panels.items()):
        parts.append(f'<g transform="translate({_LEFT + number * (_WIDTH + _GAP)} {_TOP})">')
        parts.append(f'<text class="title" x="0" y="-12">{escape(name)}</text>')
        parts += _axes(across, up)
        parts += (_line(methods.index(method), line, across, up) for method, line in lines.items())
        parts.append("</g>")
    for number, method in enumerate(methods):
        x, y = _LEFT + number % 2 * (width - _LEFT) // 2, legend_at + number // 2 * _LEGEND - 6
        parts.append(f'<path {_look(number)} d="M{x} {y}h36"/><text x="{x + 44}" y="{y + 4}">{escape(method)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _axes(across: tuple[int, int], up: tuple[int, int]) -> Iterator[str]:
    for exponent in range(across[0], across[1] + 1):
        x = _along(exponent, across, _WIDTH)
        yield f'<path class="grid" d="M{x} 0V{_HEIGHT}"/>'
        yield f'<text x="{x}" y="{_HEIGHT + 18}" text-anchor="middle">{_count(exponent)}</text>'
    for exponent in range(up[0], up[1] + 1):
        y = _HEIGHT - _along(exponent, up, _HEIGHT)
        yield f'<path class="grid" d="M0 {y}H{_WIDTH}"/>'
        yield f'<text x="-8" y="{y + 4}" text-anchor="end">{_seconds(exponent)}</text>'
    yield f'<text x="{_WIDTH / 2:g}" y="{_HEIGHT + _FOOT}" text-anchor="middle">routes</text>'


def _line(number: int, points: Sequence[Point], across: tuple[int, int], up: tuple[int, int]) -> str:
    places = [(_along(log10(x), across, _WIDTH), round(_HEIGHT - _along(log10(y), up, _HEIGHT), 1)) for x, y in points]
    marks = "".join(f'<circle class="c{number % _COLOURS}" cx="{x}" cy="{y}" r="2"/>' for x, y in places)
    return f'<path {_look(number)} d="M{"L".join(f"{x} {y}" for x, y in places)}"/>{marks}'


def _look(number: int) -> str:
    # No two of many have both in common.
    dash = _DASHES[(number + number // _COLOURS) % len(_DASHES)]
    return f'class="line c{number % _COLOURS}" stroke-dasharray="{dash}"'


def _along(exponent: float, span: tuple[int, int], length: int) -> float:
    low, high = span
    return round((exponent - low) / (high - low) * length, 1)


def _count(exponent: int) -> str:
    """A power of ten as one counts routes."""
    for least, unit in ((6, "M"), (3, "k")):
        if exponent >= least:
            return f"{10 ** (exponent - least)}{unit}"
    return f"{10**exponent:g}"


def _seconds(exponent: int) -> str:
    """A power of ten in the unit in which one says it."""
    for least, unit in ((0, "s"), (-3, "ms"), (-6, "µs")):
        if exponent >= least:
            return f"{10 ** (exponent - least)} {unit}"
    return f"1e{exponent} s"
