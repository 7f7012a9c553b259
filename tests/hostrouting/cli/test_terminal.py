"""What only a terminal shows: the colours of lines, and lines that are as wide as it is."""

import io
import re

import pytest
from hypothesis import example, given, strategies as st
from rich.console import Console

from hostrouting.cli.output import wrapped
from hostrouting.cli.terminal import print_page
from hostrouting.command import LineToType


def shown_by_a_terminal(line: str) -> str:
    """What a terminal shows of this line."""
    shown = io.StringIO()
    console = Console(
        file=shown,
        force_terminal=True,
        color_system="standard",
        soft_wrap=True,
        _environ={},
    )
    print_page([line], console)
    return shown.getvalue()


@pytest.mark.parametrize(
    ("line", "colours"),
    [
        ("DONE: a sentence", ["1;32"]),
        ("DIFFERS: a sentence", ["1;31"]),
        ("REPAIR-COST: a sentence", ["1;33"]),
        ("  + 10.9.0.0/16 dev eth0", ["32"]),
        ("  removed /etc/a", ["31"]),
        ("Until the next boot, as root:", ["1"]),
        ("  route  10.9.0.0/16 dev eth0", []),
    ],
)
def test_the_colour_of_a_line(line: str, colours: list[str]) -> None:
    """Green is right, red is wrong, yellow is to be read, and a headline is bold."""
    assert re.findall(r"\x1b\[([1-9;]+)m", shown_by_a_terminal(line)) == colours


@given(
    words=st.lists(st.text("ab-/", min_size=1, max_size=30), max_size=12),
    indent=st.integers(0, 4),
    command=st.sampled_from(["", "ip route del 10.0.0.0/8 dev eth0", "hostrouting status"]),
    width=st.sampled_from([1, 20, 50, 120]),
)
@example(words=["ab"], indent=0, command="hostrouting status", width=20)
def test_a_line_is_as_wide_as_the_terminal(
    words: list[str], indent: int, command: str, width: int
) -> None:
    """No word is lost or broken, and no command. Only one that is too long is; a line for which
    there is room stays as it is.
    """
    text = " " * indent + " ".join(words)
    line = LineToType(f"{text} " if command else text, command)
    rows = wrapped(line, width)
    assert " ".join(rows).split() == line.split()
    assert command in rows[-1]
    assert (rows == [line]) or len(line) > width
    for row in rows:
        assert len(row) <= width or row.strip() in {*words, command} or rows == [line]
        assert row.startswith(" " * indent)
