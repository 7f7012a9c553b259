"""What MkDocs does not know of this repository: the README is the first page, pages link to files beside docs, tours.

Here: making the files work on the site as they do in the repository, and the tour of a package its API reference. Not
here: the text of any page.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path

from mkdocs.structure.files import File, Files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

__all__ = ["on_files", "on_page_markdown"]

_ROOT = Path(__file__).resolve().parent.parent
_OUTSIDE = re.compile(r"\]\((?:\.\./)?((?:examples|tests|phases|hostrouting)/[\w/.]+)\)")
_TOUR = re.compile(r"^<!-- tour: (\w+) -->$", re.MULTILINE)
_SECTION = re.compile(r"\d+\. (.+)")
_ROW = re.compile(r"    (\w+(?:, \w+)*)  +(\S.*)")
_MEMBER = """
::: {name}
    options:
      heading_level: 4
      show_root_heading: true
      show_root_toc_entry: true
      show_root_full_path: false
"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the README, and every file beside docs that a page links to."""
    readme = (_ROOT / "README.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "index.md", content=readme))
    linked = {name for file in files.documentation_pages() for name in _OUTSIDE.findall(file.content_string)}
    for name in sorted(linked):
        files.append(File.generated(config, name, abs_src_path=str(_ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links between the README, docs and other files to where these are on the site; write out the tours."""
    del config, files
    if page.file.src_uri == "index.md":
        return markdown.replace("](docs/", "](")
    drawn = re.sub(r"^```house .*$", "```text", markdown, flags=re.MULTILINE)
    toured = _TOUR.sub(lambda found: "\n".join(_tour(found[1])), drawn)
    return toured.replace("](../README.md", "](index.md").replace("](../", "](")


def _tour(package: str) -> Iterator[str]:
    """The sections of the tour in the package's docstring: a table of names each, and then what each name is."""
    names: list[str] = []
    for line in (importlib.import_module(package).__doc__ or "").splitlines():
        if section := _SECTION.fullmatch(line):
            yield from _members(package, names)
            names = []
            yield from ("", f"### {section[1]}", "", "| name | what it is |", "|---|---|")
        elif (row := _ROW.fullmatch(line)) and row[1] != "print":
            names += row[1].split(", ")
            linked = ", ".join(f"[`{name}`](#{package}.{name})" for name in row[1].split(", "))
            yield f"| {linked} | {row[2]} |"
    yield from _members(package, names)


def _members(package: str, names: list[str]) -> Iterator[str]:
    yield from (_MEMBER.format(name=f"{package}.{name}") for name in names)
