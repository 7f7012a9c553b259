"""The README and the pages in docs, with their blocks and tables, for the tests of documents."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in [
        *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")),
        *sorted((ROOT / "docs").glob("*.md")),
    ]
}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def page(name: str) -> str:
    """The text of one page of docs."""
    return PAGES[f"docs/{name}.md"]


def tables(text: str, comment: str) -> list[list[str]]:
    """The rows of every table that follows this comment, without the header; each cell as it is written."""
    found = []
    for part in text.split(f"<!-- {comment} -->\n")[1:]:
        lines = part.splitlines()
        rows = lines[2 : next((at for at, line in enumerate(lines) if not line.startswith("|")), len(lines))]
        found += [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]
    return found
