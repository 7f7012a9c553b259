"""What PyInstaller cannot see in the code: a hook for each module that reads files or loads modules
by name.

PyInstaller asks each installed package for such hooks, by an entry point of the distribution.
Nothing else uses this package.
"""

from __future__ import annotations

import os


def get_hook_dirs() -> list[str]:
    """The folders that have hooks: this one."""
    return [os.path.dirname(__file__)]
