"""The library in another place."""

import shutil
from importlib.util import find_spec
from pathlib import Path

from hostrouting.boot.program import PACKAGES


def copy_library(folder: Path) -> None:
    """Copy the sources of hostrouting, and of what it needs on a node, into this folder."""
    for package in PACKAGES:
        spec = find_spec(package)
        assert spec is not None
        assert spec.submodule_search_locations is not None
        [place] = spec.submodule_search_locations
        shutil.copytree(place, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
