"""Elements of HTML: whatever is put into one is text."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hostrouting.fleet.markup import Markup, element, fill, joined
from phases.text import escaped


class Reader(HTMLParser):
    """What a parser of HTML finds: tags with attributes, and text."""

    def __init__(self, text: str) -> None:
        """Read this."""
        super().__init__(convert_charrefs=True)
        self.found: list[Any] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """See HTMLParser."""
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        """See HTMLParser."""
        self.found.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        """See HTMLParser."""
        self.found.append(data)


def test_an_element() -> None:
    """Text is escaped, markup is not; names that Python has for itself get an underscore."""
    inner = element("b", "1 < 2")
    assert inner == "<b>1 &lt; 2</b>"
    whole = element("p", "a & b ", inner, class_="x", aria_label='say "hi"')
    assert whole == '<p class="x" aria-label="say &quot;hi&quot;">a &amp; b <b>1 &lt; 2</b></p>'
    assert joined(["<", Markup("<br>")]) == "&lt;\n<br>"


def test_a_template() -> None:
    """Each mark gets its value; a value that looks like a mark stays text."""
    assert fill("{{a}}-{{b}}-{{a}}", {"a": "{{b}}", "b": element("i", "x")}) == "{{b}}-<i>x</i>-{{b}}"


NASTY = st.sampled_from(
    ["<script>alert(1)</script>", "<", '"', "'", "&lt;", "-->", "]]>", "\x00", "\n", "\u2028", "\udc80", "{{title}}"]
)
TEXTS = st.lists(NASTY | st.text(max_size=8), max_size=4).map("".join)


@given(TEXTS, TEXTS)
def test_no_value_is_markup(text: str, value: str) -> None:
    """A parser finds one element, with this attribute and this text, whatever is in them."""
    found = Reader(element("p", text, title=value)).found
    assert found == [("p", {"title": escaped(value)}), *([escaped(text)] if text else []), "/p"]
