"""Log lines on standard error, and nothing on standard output but the answer."""

from __future__ import annotations

import logging

__all__ = ["log_to_stderr"]


def log_to_stderr(*, verbose: bool) -> None:
    """Have log lines on standard error: warnings, and when `verbose` what is being done. A program's own stay."""
    root = logging.getLogger()
    if not root.handlers:
        handler = _Quiet()
        handler.setFormatter(logging.Formatter("%(message)s"))
        root.addHandler(handler)
        root.setLevel(logging.INFO if verbose else logging.WARNING)


class _Quiet(logging.StreamHandler):  # type: ignore[type-arg]  # it cannot be subscripted before Python 3.14
    """What is written for a reader who has gone (a closed terminal) is lost without a word."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  logging calls it so
        """See the class."""
