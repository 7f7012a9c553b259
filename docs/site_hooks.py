"""What MkDocs does not know of this repository: the README is the first page, and pages link to files beside docs.

Here: making the links of the files work on the site as they do in the repository. Not here: the text of any page.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.structure.files import File, Files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

__all__ = ["on_files", "on_page_markdown"]

_ROOT = Path(__file__).resolve().parent.parent
_OUTSIDE = re.compile(r"\]\((?:\.\./)?((?:examples|tests|phases|hostrouting)/[\w/.]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the README, and every file beside docs that a page links to."""
    readme = (_ROOT / "README.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "index.md", content=readme))
    linked = {name for file in files.documentation_pages() for name in _OUTSIDE.findall(file.content_string)}
    for name in sorted(linked):
        files.append(File.generated(config, name, abs_src_path=str(_ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links between the README, docs and other files to where these are on the site."""
    del config, files
    if page.file.src_uri == "index.md":
        return markdown.replace("](docs/", "](")
    return markdown.replace("](../README.md", "](index.md").replace("](../", "](")
