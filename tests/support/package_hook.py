"""What hatchling asks for when it builds the sdist or the wheel.

The metadata depends on where the repository is: the addresses of the project, and the links of its README. The address
itself is `tool.hostrouting.repository` in pyproject.toml. An index shows the README alone, so a link to a file beside it leads
nowhere there: it becomes a link to the file in the repository or, while there is no address, the text without a link. A
picture comes from the repository as well; without an address, the README has none.

The completion script and the manual page are not in the repository: they are written into the wheel and the Debian
package when these are built. What the program needs for this is in `build-system.requires` of pyproject.toml.
"""

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
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


class ShareHook(BuildHookInterface[Any]):
    """Puts the completion script and the manual page into the wheel, where an environment in PATH has them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002  as the interface has it
        """See BuildHookInterface."""
        sys.path.insert(0, self.root)  # pip builds where hostrouting is not installed
        self._folder = tempfile.TemporaryDirectory()
        for name, content in shared().items():
            file = Path(self._folder.name, name)
            file.parent.mkdir(parents=True)
            file.write_bytes(content)
            build_data["shared_data"][str(file)] = f"share/{name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """See BuildHookInterface."""
        self._folder.cleanup()


def shared() -> dict[str, bytes]:
    """The completion script and the manual page, by their paths below /usr/share or that of an environment."""
    from hostrouting.cli.commands import every_command  # noqa: PLC0415  the hook knows only now where they are
    from hostrouting.cli.commands.completion import completion_script  # noqa: PLC0415
    from tests.support.manual import manual_page  # noqa: PLC0415

    texts = {
        "bash-completion/completions/hostrouting": completion_script(),
        "man/man1/hostrouting.1": manual_page(every_command()),
    }
    return {path: text.encode() for path, text in texts.items()}


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
