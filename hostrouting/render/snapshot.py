"""The script that takes a snapshot with `ip`, for a node that does not have this library.

Here: its text. Not here: reading what it prints (`backends.ip_document`).
"""

from __future__ import annotations

__all__ = ["render_snapshot_script"]


def render_snapshot_script() -> str:
    """The script, to be piped to `ssh node sh`."""
    from pathlib import Path  # noqa: PLC0415  a program that renders nothing never pays for it

    return (Path(__file__).parent / "assets" / "snapshot.sh").read_text(encoding="utf-8")
