"""Lines and tables as values."""

from hypothesis import given
from hypothesis import strategies as st

from hostrouting.cli.output import SHOWN, Painted, capped, line, plain, table


@given(st.lists(st.text()))
def test_nothing_steers_the_terminal(texts: list[str]) -> None:
    """Whatever a name holds, a line is one line of printable characters."""
    assert plain(line(*texts, *(Painted(text, "bad") for text in texts))).isprintable()


@given(st.lists(st.tuples(*[st.text(alphabet="abc \x1b", max_size=6)] * 3), max_size=5))
def test_columns_align(rows: list[tuple[str, str, str]]) -> None:
    """Each column of a table begins at the same place, and no line ends with blanks."""
    shown = [plain(it) for it in table(("one", "two", "three"), [(f"<{a}", f"<{b}", f"<{c}") for a, b, c in rows])]
    places = {tuple(at for at, char in enumerate(text) if char == "<") for text in shown[1:]}
    assert len(places) <= 1
    assert not any(len(text) < len(shown[0]) for text in shown[1:] if not places)


def test_an_empty_cell_at_the_end_leaves_no_blanks() -> None:
    """A row whose last cells are empty ends with its last word."""
    assert [plain(it) for it in table(("a", "b"), [("x", "")])] == ["  A  B", "  x"]


def test_many_are_capped_with_their_count() -> None:
    """Of a thousand, the first are shown and the rest is counted."""
    assert [plain(it) for it in capped([line("x")], 1000)] == ["x", f"  … and {1000 - SHOWN} more; --json shows all"]
    assert [plain(it) for it in capped([line("x")], SHOWN)] == ["x"]
