"""Groups of exceptions and notes on exceptions, which Python 3.10 does not have.

Here: what `phases` and `hostrouting` use of them, under the same names on every version. From Python 3.11 on these are
the builtin ones, and no package is imported.
"""

from __future__ import annotations

import sys

if sys.version_info >= (3, 11):
    from builtins import BaseExceptionGroup, ExceptionGroup
else:
    from exceptiongroup import BaseExceptionGroup, ExceptionGroup  # and tracebacks print groups and notes from now on

__all__ = ["BaseExceptionGroup", "ExceptionGroup", "add_note"]


def add_note(error: BaseException, note: str) -> None:
    """Add a line to the error that a traceback prints after its message."""
    if sys.version_info >= (3, 11):
        error.add_note(note)
    else:
        vars(error).setdefault("__notes__", []).append(note)
