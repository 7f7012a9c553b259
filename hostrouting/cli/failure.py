"""The exit code of an error, and its JSON document.

Here: one table from errors to codes. Not here: the messages of the errors (`hostrouting.errors`), and which commands
work anyway (`entry_point`).
"""

from __future__ import annotations

from typing import Any, get_args

import attrs

from hostrouting.cli.command import FAILED, UNDECIDED, WRONG_INPUT
from hostrouting.errors import (
    BackendError,
    ConfigError,
    FileError,
    FleetError,
    HostRoutingError,
    InputError,
    NotReady,
    ProgramError,
    Refusal,
    RouteOverlapError,
    is_denied,
)

_UNANSWERED = (BackendError, FleetError, NotReady, ProgramError)
"""The errors that leave the answer open, or the work undone."""


def code_of(error: BaseException, *, needs_files: bool = True) -> int:
    """The exit code for this error; in a group of errors, a failure takes precedence over an undecided result.

    For a command that needs no files, an unreadable file means that the answer is unknown, not that the command failed.
    """
    if not needs_files and isinstance(error, FileError):
        return UNDECIDED
    if parts := _errors_in_group(error):
        codes = {code_of(one) for one in parts}
        return FAILED if FAILED in codes else min(codes)
    if isinstance(error, ConfigError | InputError):
        return WRONG_INPUT
    if isinstance(error, ProgramError) and error.kind in get_args(Refusal):
        return FAILED
    is_late = isinstance(error, RouteOverlapError) and error.can_retry  # there is no default route
    if isinstance(error, _UNANSWERED) or is_late or is_denied(error) or not isinstance(error, HostRoutingError):
        return UNDECIDED
    return FAILED


def errors_in(error: BaseException) -> tuple[BaseException, ...]:
    """The errors to print for this one, each message once; a group is replaced by its members."""
    if not (parts := _errors_in_group(error)):
        return (error,)
    found = {str(leaf): leaf for one in reversed(parts) for leaf in reversed(errors_in(one))}
    return tuple(reversed(found.values()))


def _errors_in_group(error: BaseException) -> tuple[BaseException, ...]:
    """The errors in a group; empty for any other error."""
    from phases.errors import BaseExceptionGroup  # noqa: PLC0415  only a failure needs it

    return error.exceptions if isinstance(error, BaseExceptionGroup) else ()


def document_of(error: BaseException) -> dict[str, Any]:
    """The error as the JSON value `hostrouting/error/2`."""
    ours = error if isinstance(error, HostRoutingError) else HostRoutingError()
    return {
        "schema": "hostrouting/error/2",
        "error": type(error).__name__,
        "kind": ours.kind,
        "message": str(error),
        "canRetry": ours.can_retry,
        "findings": [finding.to_mapping() for finding in ours.findings],
        "faults": [attrs.asdict(fault) for fault in error.faults]
        if isinstance(error, ConfigError | InputError)
        else [],
    }
