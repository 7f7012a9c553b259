"""The custom plugin for node-problem-detector, as a shell script: its container has no Python.

Here: its text. Not here: the same decision in Python (`hostrouting.npd`).
"""

from __future__ import annotations

from hostrouting.render.scripts import asset_lines

__all__ = ["render_npd_script"]


def render_npd_script() -> str:
    """The script, which node-problem-detector runs."""
    return "".join(f"{line}\n" for line in asset_lines("npd.sh"))
