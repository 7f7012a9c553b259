"""tests.benchmarks.plot: SVG from values."""

import re
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from tests.benchmarks.contest import Contest
from tests.benchmarks.plot import panels_of, render_plot, spread

POSITIVE = st.floats(1e-7, 1e7)
LINES = st.dictionaries(
    st.sampled_from(["ours", "C", "ip -batch", "a < b & c"]),
    st.lists(st.tuples(POSITIVE, POSITIVE), min_size=1, max_size=5),
    min_size=1,
)
PANELS = st.dictionaries(st.sampled_from(["install", "read"]), LINES, min_size=1)
SVG = "{http://www.w3.org/2000/svg}"


def panels_in(svg: str) -> list[ET.Element]:
    """The panels of a plot."""
    return ET.fromstring(svg).findall(f"{SVG}g")  # noqa: S314  our own text


@given(PANELS)
def test_every_point_is_drawn_inside_the_picture(panels: dict[str, dict[str, list[tuple[float, float]]]]) -> None:
    """Whatever the values, it is well-formed, and has one mark a point within the panel."""
    svg = render_plot(panels, title="speed")
    for element, lines in zip(panels_in(svg), panels.values(), strict=True):
        marks = element.findall(f"{SVG}circle")
        assert len(marks) == sum(map(len, lines.values()))
        for mark in marks:
            assert 0 <= float(mark.attrib["cx"]) <= 250
            assert 0 <= float(mark.attrib["cy"]) <= 260


@given(st.lists(POSITIVE, min_size=1))
def test_the_axes_hold_all_values(values: list[float]) -> None:
    """The axes go from one power of ten to another one above it, with all values between."""
    low, high = spread(values)
    assert low < high
    assert all(10.0**low <= value * (1 + 1e-9) and value <= 10.0**high * (1 + 1e-9) for value in values)


def test_ten_times_as_much_is_as_far_everywhere() -> None:
    """Both axes are logarithmic: work that grows with its size is a straight line."""
    (panel,) = panels_in(render_plot({"read": {"ours": [(100, 0.001), (1000, 0.01), (10_000, 0.1)]}}, title=""))
    places = [(float(match.attrib["cx"]), float(match.attrib["cy"])) for match in panel.findall(f"{SVG}circle")]
    assert places == [(0, 260), (125, 130), (250, 0)]


def test_a_method_looks_the_same_in_every_panel() -> None:
    """Colour and dashes go by the method, and the legend shows each once."""
    line = [(1.0, 1.0), (10.0, 10.0)]
    svg = render_plot({"install": {"ours": line, "C": line}, "read": {"C": line, "ip": line}}, title="")
    looks = [
        [match.attrib["class"] for match in panel.findall(f"{SVG}path") if "line" in match.attrib["class"]]
        for panel in panels_in(svg)
    ]
    assert looks == [["line c0", "line c1"], ["line c1", "line c2"]]
    legend = [match.text for match in ET.fromstring(svg).findall(f"{SVG}text")]  # noqa: S314  our own text
    assert legend == ["ours", "C", "ip"]


def test_no_two_methods_look_the_same() -> None:
    """Colour and dashes together tell a dozen of them apart."""
    lines = {f"method {number}": [(1.0, 1.0)] for number in range(12)}
    found = re.findall(
        r'class="(line c\d)" stroke-dasharray="([^"]*)" d="M\d+ \d+h', render_plot({"read": lines}, title="")
    )
    assert len(found) == len(set(found)) == 12


def test_panels_are_made_of_the_contests_that_are_in_one() -> None:
    """By method, the medians in the order of the sizes."""
    contests = [
        Contest("read 1,000", {"ours": [3.0, 1.0, 2.0]}, panel="read", size=1000),
        Contest("import", {"ours": [1.0]}),
        Contest("read 10", {"ours": [0.5], "pyroute2": [7.0]}, panel="read", size=10),
    ]
    assert panels_of(contests) == {"read": {"ours": [(10, 0.5), (1000, 2.0)], "pyroute2": [(10, 7.0)]}}
