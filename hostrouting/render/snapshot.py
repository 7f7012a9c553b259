"""The script that takes a snapshot with `ip`, for a node that does not have this library.

Here: its text. Not here: reading what it prints (`backends.ip_document`).
"""

from __future__ import annotations

from hostrouting.render.scripts import asset_lines

__all__ = ["render_snapshot_script"]


def render_snapshot_script() -> str:
    """The script, to be piped to `ssh node sh`."""
    return "".join(f"{line}\n" for line in asset_lines("snapshot.sh"))
