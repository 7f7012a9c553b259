"""What MkDocs does not know of this repository: the README is the first page, pages link to files beside docs, tours.

Here: making the files work on the site as they do in the repository, and the tour of a package its API reference; which
version the site is about, and where its repository is; a search without a web server (search.js). Not here: the text of
any page.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path

from mkdocs.structure.files import File, Files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

__all__ = ["on_config", "on_files", "on_page_markdown", "on_post_build"]

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


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Show the version on each page, and a link to the repository once it has an address."""
    sys.path.insert(0, str(_ROOT))  # the hook is loaded without the folder beside docs
    hook = importlib.import_module("tests.support.package_hook")
    config.copyright = f"hostrouting {importlib.import_module('hostrouting').__version__}"
    if repository := hook.repository_of(_ROOT):
        config.repo_url, config.repo_name = repository, repository.removeprefix("https://")
    return config


def on_post_build(config: MkDocsConfig) -> None:
    """Write what the search reads into scripts: a page that was opened from a folder may read no other file."""
    site = Path(config.site_dir)
    [worker] = site.glob("assets/javascripts/workers/search.*.min.js")
    text = json.dumps(worker.read_text(encoding="utf-8"))
    (site / "search/worker.js").write_text(f"var searchWorker = {text}", encoding="utf-8")
    index = (site / "search/search_index.json").read_text(encoding="utf-8")
    (site / "search/search_index.js").write_text(f"var __index = {index}", encoding="utf-8")


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
    if page.file.src_uri == "findings.md":
        page.meta["search"] = {"boost": 20}  # whoever pastes a line is looking for its finding
        # The table there has nearly every word of any line.
        markdown = markdown.replace("## Errors and exit codes\n", "## Errors and exit codes { data-search-exclude }\n")
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
