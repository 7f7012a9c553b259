"""Whether a file on a host is ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hostrouting.host.base import Files

MARK = "Written by hostrouting"
"""Words that each of our files in systemd's folders has: other programs have files there, too."""
SHARED = "/etc/systemd/"
"""Systemd's folders, into which other programs write, too. All our other folders are ours alone."""


def is_ours(files: Files, path: str) -> bool:
    """Whether hostrouting wrote what is at this path. The path must be one that hostrouting uses:
    in our own folders, everything counts as ours. In systemd's folders (`SHARED`), where other
    programs write, too, a file or the target of a link is ours if its text contains `MARK`,
    "Written by hostrouting".
    """
    entry = files.look(path)
    if entry is None:
        return False
    if not path.startswith(SHARED):
        return True
    return entry.kind in {"file", "link"} and MARK in (files.read(path) or "")


def existing_paths(files: Files, paths: Iterable[str]) -> list[str]:
    """Return those of the paths at which something is."""
    return list(filter(files.look, paths))
