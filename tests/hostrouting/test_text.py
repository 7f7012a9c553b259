"""How many of several things are named, and how much of a value is shown."""

from ipaddress import ip_network

import pytest

from hostrouting.text import command_of, counted, first_few, grouped, printable, show, spoken


def test_the_first_texts() -> None:
    """Ten are listed, unless another number is asked for; then the others are counted."""
    texts = [f"text {number}" for number in range(1_011)]
    assert first_few(texts[:10]) == texts[:10]
    assert first_few(texts) == [*texts[:10], "and 1,001 more"]
    assert first_few(texts, 1_011) == texts


def test_words_in_a_sentence_and_in_a_command() -> None:
    """A noun agrees with its number; in groups, labels and values keep their order, each once."""
    spoken_of = [spoken("abcdef"[:count], last="or") for count in (0, 1, 2, 6)]
    assert spoken_of == ["", "a", "a or b", "a, b, c, d or 2 more"]
    assert printable("a\n\x1b") == r"a\n\x1b"
    assert command_of("ip link set", "a;b") == "ip link set 'a;b'"
    numbers = [counted(count, "route") for count in (0, 1, 1_000)]
    assert numbers == ["0 routes", "1 route", "1,000 routes"]
    pairs = [("b", 2), ("a", 3), ("b", 1), ("b", 2)]
    assert [*grouped(pairs).items()] == [("b", [2, 1]), ("a", [3])]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a" * 60, f'"{"a" * 60}"'),
        ("a" * 61, f'"{"a" * 60}"... (61 characters)'),
        ({"a": 1}, "an object"),
        ({}, "{}"),
        ([1], "a list"),
        (None, "null"),
        (65_536, "65536"),
        ({1}, "a Python set"),
        (ip_network("10.0.0.0/8"), '"10.0.0.0/8"'),
    ],
)
def test_a_long_value(value: object, shown: str) -> None:
    """Sixty characters are shown; what is longer is cut, or described."""
    assert show(value) == shown
