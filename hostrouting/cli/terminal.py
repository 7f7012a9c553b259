"""What only a terminal shows, with rich: colours."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

# The first pattern that matches a line decides its colour.
_STYLES = (
    (r"^(OK|DONE|NOTHING TO DO|IN FORCE|RUNS):", "bold green"),
    (r"^(OVERLAP|FAILED|REFUSED|FAILS|DIFFERS|OPEN|SHUT|GATE-OPEN|GATE-SHUT):", "bold red"),
    (r"^[A-Z][A-Z-]+( [A-Z]+)*:", "bold yellow"),
    (r"^  (\+|add|wrote) .*", "green"),
    (r"^  (-|delete|removed) .*", "red"),
    (r"^\S.*:$", "bold"),
)


def print_page(lines: Sequence[str], console: Console | None = None) -> None:
    """Print the lines in colour."""
    console = console or Console(soft_wrap=True)
    for line in lines:
        console.print(_coloured(line))


def _coloured(line: str) -> Text:
    text = Text(line)
    for pattern, style in _STYLES:
        if text.highlight_regex(pattern, style):
            break
    return text
