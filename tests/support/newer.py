"""A newer program of the node: made of the same sources, with another version, one more key in its
configuration, and another text of a unit.
"""

import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from hostrouting.release import __version__
from tests.support.library import copy_library

VERSION = "99.0.0"
KEY = "sinceNinetyNine"
"""Of `routeOverlap`; what it is for makes no difference."""
RESTARTS_AFTER = 61
"""Seconds, of static-routes.service."""
_PACK = (
    "import sys; from hostrouting.boot.program import pack, sources_of_program; "
    "sys.stdout.buffer.write(pack(sources_of_program()))"
)


def _change(path: Path, before: str, after: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1
    path.write_text(text.replace(before, after), encoding="utf-8")


@cache
def newer_program() -> bytes:
    """Its sources alone: it starts more slowly, and no compiler has to run."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_library(folder)
        package = folder / "hostrouting"
        _change(package / "release.py", f'"{__version__}"', f'"{VERSION}"')
        field = "    intended_rules: tuple[Selection, ...] = ()\n"
        _change(
            package / "config/settings.py", field, f"{field}    since_ninety_nine: bool = False\n"
        )
        _change(package / "boot/units.py", '"RestartSec=60"', f'"RestartSec={RESTARTS_AFTER}"')
        words = [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {name!r}); {_PACK}"]
        return subprocess.run(words, check=True, capture_output=True).stdout
