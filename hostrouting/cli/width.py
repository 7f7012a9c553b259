"""How wide the terminal is. Loaded for the help, so it imports only `os`; shutil, which also knows it, loads more."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # `typing` costs as much as parsing does
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TextIO

__all__ = ["width_of"]


def width_of(stream: TextIO | None, environment: Mapping[str, str]) -> int:
    """The columns of a line: what COLUMNS says, or else the terminal, or else 80."""
    if (asked := environment.get("COLUMNS", "")).isascii() and asked.isdigit():
        return int(asked) or 80
    try:
        return os.get_terminal_size(stream.fileno() if stream else -1).columns or 80
    except (OSError, ValueError):
        return 80
