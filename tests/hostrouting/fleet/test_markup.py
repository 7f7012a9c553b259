"""Elements of HTML: whatever is put into one is text."""

from __future__ import annotations

from hypothesis import given

from hostrouting.fleet.page import Markup, element, fill, joined
from phases.text import escaped
from tests.support.html_texts import TEXTS, Reader


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


@given(TEXTS, TEXTS)
def test_no_value_is_markup(text: str, value: str) -> None:
    """A parser finds one element, with this attribute and this text, whatever is in them."""
    found = Reader(element("p", text, title=value)).found
    assert found == [("p", {"title": escaped(value)}), *([escaped(text)] if text else []), "/p"]
