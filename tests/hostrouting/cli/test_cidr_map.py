"""A CIDR as a map."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostrouting.check.segments import Segment, segments_of
from hostrouting.cli.check import draw_map
from hostrouting.cli.output import Style, plain
from hostrouting.fib.engine import Fib
from hostrouting.model.prefix import Prefix
from tests.support.strategies import blocks, snapshots

BLOCK = Prefix.parse("172.16.0.0/16")
WIDE, ASCII = Style(80, unicode=True), Style(80, unicode=False)


def drawn(cidr: str, *segments: tuple[str, str, str, str], style: Style = WIDE) -> list[str]:
    """The map's lines of these segments: first block, last block, label, judgement."""
    prefix = Prefix.parse(cidr)
    row = [
        Segment(Prefix.parse(one).first, Prefix.parse(other).last, label, judgement)  # type: ignore[arg-type]  # as written
        for one, other, label, judgement in segments
    ]
    return [plain(it) for it in draw_map(prefix, [("now", row)], style)]


HALVES = ("172.16.0.0/17", "172.16.0.0/17", "ib0", "escape"), ("172.16.128.0/17", "172.16.128.0/17", "eth0", "expected")


def test_ranges_stand_side_by_side_to_scale() -> None:
    """Each half takes half of the columns and bears its device's name; the ends and the middle are named."""
    assert drawn("172.16.0.0/16", *HALVES) == [
        "172.16.0.0/16; one column is a /22",
        "        172.16.0.0                      172.16.128.0      172.16.255.255",
        "  now  │█████████████ ib0 ██████████████───────────── eth0 ─────────────│",
        "        ─ expected   █ escapes",
    ]


def test_ascii() -> None:
    """If there is no UTF-8, the map is drawn in ASCII."""
    assert drawn("172.16.0.0/16", *HALVES, style=ASCII)[2:] == [
        "  now  |############# ib0 ##############------------- eth0 -------------|",
        "        - expected   # escapes",
    ]


def test_a_single_address_that_escapes_is_seen() -> None:
    """An escape has a column, however small it is; its device is named below."""
    lines = drawn(
        "172.16.0.0/16",
        ("172.16.0.0/32", "172.16.200.8/32", "eth0", "expected"),
        ("172.16.200.9/32", "172.16.200.9/32", "ib0", "escape"),
        ("172.16.200.10/32", "172.16.255.255/32", "eth0", "expected"),
    )
    assert lines[2].count("█") == 1
    assert lines[2].index("█") == len("  now  │") + 50
    assert lines[3].endswith("█ escapes (ib0)")


@pytest.mark.parametrize(
    ("length", "scale"),
    [
        (32, "; one address"),
        (30, "; one address is 16 columns"),
        (26, "; one column is a /32"),
        (0, "; one column is a /6"),
    ],
)
def test_any_length(length: int, scale: str) -> None:
    """A single address can be drawn, and so can all of them."""
    cidr = str(Prefix.around(4, BLOCK.first, length))
    lines = drawn(cidr, (cidr, cidr, "eth0", "expected"))
    assert lines[0] == cidr + scale
    assert len(lines[2]) == 73


@pytest.mark.parametrize("style", [WIDE, Style(40)])
def test_each_address_is_named_once(style: Style) -> None:
    """Of one address the axis has that one, of two both; a middle is named only where it is another."""
    for cidr, told in (
        ("172.16.5.9/32", ["172.16.5.9"]),
        ("172.16.5.8/31", ["172.16.5.8", "172.16.5.9"]),
        ("10.0.0.0/30", ["10.0.0.0", "10.0.0.2", "10.0.0.3"]),
    ):
        axis = drawn(cidr, (cidr, cidr, "eth0", "expected"), style=style)[1]
        assert [word for word in axis.split() if word != "…"] == (
            told if style is WIDE else [*told[:1], *told[1:][-1:]]
        )


@given(
    st.sampled_from([4, 6]).flatmap(
        lambda family: blocks(family).flatmap(lambda block: st.tuples(st.just(block), snapshots(block)))
    ),
    st.integers(20, 200),
)
def test_every_escape_is_on_the_map(host: tuple[Prefix, object], width: int) -> None:
    """The segments partition the block; each escape has a column where there are as many columns as addresses."""
    block, snapshot = host
    segments = segments_of(Fib(snapshot), block, expected_devs=("eth0",), allowed_devs=("eth1",))  # type: ignore[arg-type]  # a snapshot
    assert segments[0].first == block.first
    assert segments[-1].last == block.last
    assert all(one.last + 1 == other.first for one, other in pairwise(segments))
    lines = [plain(it) for it in draw_map(block, [("now", segments)], Style(width))]
    assert ("█" in lines[2]) == any(segment.judgement == "escape" for segment in segments)
    assert len(lines[2]) <= max(width, 25)
