"""Puts a manual page into the wheel: argparse-manpage makes it from the parser of the command."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from argparse_manpage.manpage import Manpage  # type: ignore[import-untyped]  # it has no types
from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManualPage(BuildHookInterface[Any]):
    """The page is there while the wheel is packed."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the page. An editable installation has none."""
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        from hostrouting.cli.parser import make_parser, module_of  # noqa: PLC0415  see the path
        from hostrouting.release import __version__  # noqa: PLC0415  as above

        self.folder = TemporaryDirectory()
        page = Path(self.folder.name, "hostrouting.1")
        about = {
            "project_name": "hostrouting",
            "version": __version__,
            "description": "make a host's routing right, and prove it",
            "manual_title": "hostrouting",
        }
        parser: Any = make_parser()
        [commands] = [each.choices for each in parser._actions if each.dest == "command"]
        for name, command in commands.items():
            command.description = module_of(name).__doc__
        page.write_text(str(Manpage(parser, _data=about)), encoding="utf-8")
        build_data["shared_data"][str(page)] = "share/man/man1/hostrouting.1"

    def finalize(self, *_: object) -> None:
        """Forget the page."""
        if hasattr(self, "folder"):
            self.folder.cleanup()
