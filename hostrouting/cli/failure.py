"""What an error means: the exit code, the words for an operator, the document for a program.

Here: one table from errors to codes, and what to do next. Not here: the errors' own sentences (`hostrouting.errors`).
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

from hostrouting.cli.page import SHOWN, capped, plain, spoken
from hostrouting.cli.parser import LOOKS, SAVED
from hostrouting.cli.reply import FAILED, UNDECIDED, WRONG_INPUT
from hostrouting.errors import (
    BackendError,
    ConfigError,
    FileError,
    HostRoutingError,
    NetlinkUnavailable,
    NotPermitted,
    NotReady,
    RouteOverlapError,
    SnapshotError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["code_of", "document_of", "errors_in", "is_denied", "words_of"]

_DENIED = {errno.EACCES, errno.EPERM}


def code_of(error: BaseException, *, looks: bool = False) -> int:
    """What a program exits with for this error; of several, what failed is above what could not be decided.

    For a command that only looks, a file that cannot be read is an answer that it does not have, and not a bad one.
    """
    if looks and isinstance(error, FileError):
        return UNDECIDED
    if isinstance(error, BaseExceptionGroup):
        codes = {code_of(one) for one in error.exceptions}
        return FAILED if FAILED in codes else min(codes)
    if isinstance(error, RouteOverlapError) and _is_unknown(error):
        return UNDECIDED
    if isinstance(error, ConfigError | SnapshotError):
        return WRONG_INPUT
    if isinstance(error, BackendError | NotReady) or is_denied(error) or not isinstance(error, HostRoutingError):
        return UNDECIDED
    return FAILED


def errors_in(error: BaseException) -> tuple[BaseException, ...]:
    """The errors that this one stands for, each sentence once: a group's words are those of what is in it."""
    if not isinstance(error, BaseExceptionGroup):
        return (error,)
    found = {str(leaf): leaf for one in reversed(error.exceptions) for leaf in reversed(errors_in(one))}
    return tuple(reversed(found.values()))


def words_of(error: BaseException) -> Iterator[str]:
    """The error in an operator's words, and what he can do all the same."""
    if isinstance(error, ConfigError):
        yield error.told(SHOWN)
        yield from map(plain, capped((), len(error.faults)))
    else:
        yield str(error) or type(error).__name__
    if is_denied(error):
        yield f"{spoken(tuple(LOOKS), most=len(LOOKS))} work without root"
    if isinstance(error, NetlinkUnavailable):
        yield f"{spoken(SAVED)} work on a saved snapshot, with --snapshot FILE"


def document_of(error: BaseException) -> dict[str, Any]:
    """The error as the JSON value `hostrouting/error/1`."""
    faults = error.faults if isinstance(error, ConfigError) else ()
    return {
        "schema": "hostrouting/error/1",
        "error": type(error).__name__,
        "message": str(error),
        "faults": [{"path": it.path, "value": it.value, "rule": it.rule, "remedy": it.remedy} for it in faults],
    }


def _is_unknown(error: RouteOverlapError) -> bool:
    """Whether nothing was found to escape, for there was no default route to judge by."""
    return getattr(getattr(error, "report", None), "verdict", "") == "no-default-route"


def is_denied(error: BaseException | None) -> bool:
    """Whether it is, or comes from, a lack of privilege."""
    if error is None:
        return False
    denied = isinstance(error, NotPermitted) or (isinstance(error, FileError) and error.errno in _DENIED)
    return denied or is_denied(error.__cause__)
