"""What hatchling asks for when it builds the sdist or the wheel.

The metadata depends on where the repository is: the addresses of the project, and the links of its README. The address
itself is `tool.hostrouting.repository` in pyproject.toml. An index shows the README alone, so a link to a file beside it leads
nowhere there: it becomes a link to the file in the repository or, while there is no address, the text without a link. A
picture comes from the repository as well; without an address, the README has none.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE = re.compile(r"^!\[([^\]]*)\]\((?!https?:)([^)\s]+)\)\n\n", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:|mailto:)([^)\s]+)\)")


class RepositoryHook(MetadataHookInterface):
    """Fills in `readme` and `urls`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """See MetadataHookInterface."""
        root = Path(self.root)
        repository, version = repository_of(root), metadata["version"]
        text = (root / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": readme_elsewhere(text, repository, version)}
        metadata["urls"] = addresses(repository, version)


def repository_of(root: Path) -> str:
    """The address of the repository; empty if there is none."""
    project = (root / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(r'^\[tool\.hostrouting\]\n(?:#.*\n)*repository = "(.*)"$', project, re.MULTILINE)
    if found is None or not re.fullmatch(r"(https://[\w./-]*[\w-])?", found[1]):
        raise ValueError(
            "pyproject.toml: [tool.hostrouting] must have one line with the address, such as repository = "
            '"https://example.org/hostrouting", or repository = "" while there is none'
        )
    return found[1]


def addresses(repository: str, version: str) -> dict[str, str]:
    """The addresses of the project for an index, by name."""
    if not repository:
        return {}
    files = f"{repository}/blob/v{version}"
    return {
        "Repository": repository,
        "Documentation": f"{files}/docs/operators.md",
        "Changelog": f"{files}/CHANGELOG.md",
        "Issues": f"{repository}/issues",
        "Security": f"{files}/SECURITY.md",
    }


def readme_elsewhere(text: str, repository: str, version: str) -> str:
    """The README for readers who do not have the files beside it."""
    text = _PICTURE.sub(rf"![\1]({repository}/raw/v{version}/\2)\n\n" if repository else "", text)
    return _LINK.sub(rf"[\1]({repository}/blob/v{version}/\2)" if repository else r"\1", text)
