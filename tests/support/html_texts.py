"""HTML as a parser reads it, and texts that could be taken for markup."""

from html.parser import HTMLParser
from typing import Any

from hypothesis import strategies as st


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


NASTY = st.sampled_from(
    ["<script>alert(1)</script>", "<", '"', "'", "&lt;", "-->", "]]>", "\x00", "\n", "\u2028", "\udc80", "{{title}}"]
)
TEXTS = st.lists(NASTY | st.text(max_size=8), max_size=4).map("".join)
"""Texts with whatever has a meaning in HTML, in a script or in a template."""
