"""Whether a file on a host is ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hostrouting.host.base import Files

MARK = "Written by hostrouting"
"""The words in each of our files in systemd's folders, where other programs also have files."""
SHARED = "/etc/systemd/"
"""Systemd's folders, into which other programs write, too. All our other folders are ours alone."""


def is_ours(files: Files, path: str) -> bool:
    """Whether what is at this path, where we may write, is ours: in systemd's folders, a file with
    our mark; elsewhere, everything.
    """
    entry = files.look(path)
    if entry is None:
        return False
    if not path.startswith(SHARED):
        return True
    return entry.kind in {"file", "link"} and MARK in (files.read(path) or "")


def existing(files: Files, paths: Iterable[str]) -> list[str]:
    """The paths at which something is."""
    return [path for path in paths if files.look(path) is not None]
