"""Durations and trees as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phases.text import draw_tree, seconds_in_words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 ms"),
        (0.012, "12 ms"),
        (0.999_4, "999 ms"),
        (0.999_6, "1.00 s"),
        (3.254, "3.25 s"),
        (59.994, "59.99 s"),
        (59.996, "1 min 00 s"),
        (125, "2 min 05 s"),
        (3725, "62 min 05 s"),
    ],
)
def test_durations(seconds: float, words: str) -> None:
    """A duration has some digits, and is never shown as 60 seconds or 1000 milliseconds."""
    assert seconds_in_words(seconds) == words


Tree = list["Tree"]
TREES: st.SearchStrategy[Tree] = st.recursive(st.just([]), lambda inner: st.lists(inner, max_size=4), max_leaves=20)


@given(TREES)
def test_tree(root: Tree) -> None:
    """Each node is one line, parents first, indented by its depth."""

    def depths(node: Tree, depth: int = 0) -> list[int]:
        return [depth, *(below for child in node for below in depths(child, depth + 1))]

    drawn = list(draw_tree(root, children=lambda node: node))
    assert [len(line) // 3 for line, _, _ in drawn] == depths(root)
    assert all(len(line) == len(further) for line, further, _ in drawn)
