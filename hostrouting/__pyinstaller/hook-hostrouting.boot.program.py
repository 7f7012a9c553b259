"""A frozen program needs the sources of what it puts on a node, which `hostrouting.boot.program`
reads: of hostrouting, and of what that needs there.
"""

from importlib.util import find_spec

from hostrouting.boot.program import PACKAGES

datas: list[tuple[str, str]] = []
"""Folders: where each is, and where it will be in the program."""

for package in PACKAGES:
    spec = find_spec(package)
    if spec is not None and spec.submodule_search_locations:
        datas.append((spec.submodule_search_locations[0], package))
