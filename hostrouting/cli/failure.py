"""The exit codes: of a verdict and of an error, whose words and document are here as well.

0 fine, 1 a problem, 2 bad input, 3 cannot decide. Not here: the messages of the errors (`hostrouting.errors`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hostrouting.cli.output import SHOWN, Answer, say, write
from hostrouting.errors import (
    BackendError,
    ConfigError,
    HostError,
    HostRoutingError,
    NotReady,
    RouteOverlapError,
    is_denied,
)

FINE, PROBLEM, BAD_INPUT, CANNOT_DECIDE = 0, 1, 2, 3
VERDICT_CODES = {"ok": FINE, "overlap": PROBLEM, "undecided": CANNOT_DECIDE, "no-default-route": CANNOT_DECIDE}
"""The exit code for each verdict of a check."""

_UNANSWERED = {"missing", "not-permitted", "not-loaded", "wrong-backend", "timeout", "executor-lost"}
"""The kinds of a HostError that leave the answer open; with the others the work has failed."""


def code_of(error: BaseException) -> int:
    """The exit code for this error. A bug is none of a verdict's."""
    if isinstance(error, ConfigError):
        return BAD_INPUT
    if isinstance(error, HostError):
        return CANNOT_DECIDE if error.kind in _UNANSWERED or is_denied(error) else PROBLEM
    is_late = isinstance(error, RouteOverlapError | NotReady) and error.can_retry and error.kind != "busy"
    is_open = isinstance(error, BackendError) or is_late or is_denied(error)
    return CANNOT_DECIDE if is_open or not isinstance(error, HostRoutingError) else PROBLEM


def worst_code(codes: Iterable[int]) -> int:
    """A problem is worse than bad input, and that is worse than not to know."""
    return min({*codes} - {FINE}, default=FINE)


def words_of(error: BaseException) -> list[str]:
    """The message of an error in lines, and what to do where that is the same for many errors."""
    if isinstance(error, RouteOverlapError) and error.report is not None:  # whose page comes as well
        verdict = error.check and error.check["verdict"]
        return [f"the verdict is {verdict}, and the mode is STRICT; no gated unit starts"]
    lines = error.summary(SHOWN) if isinstance(error, ConfigError) else str(error) or type(error).__name__
    words = lines.splitlines()
    if is_denied(error):
        words.append("check, explain, repair, plan, status and snapshot work without root")
    if isinstance(error, BackendError) and error.kind == "unavailable":
        words.append("check, explain, repair and plan work on a saved snapshot, with --snapshot FILE")
    return words


def error_document(error: BaseException) -> dict[str, Any]:
    """The error as the JSON value `hostrouting/error/2`."""
    ours = error if isinstance(error, HostRoutingError) else HostRoutingError()
    faults = error.faults if isinstance(error, ConfigError) else ()
    return {
        "schema": "hostrouting/error/2",
        "error": type(error).__name__,
        "kind": ours.kind,
        "message": str(error),
        "canRetry": ours.can_retry,
        "findings": [finding.to_mapping() for finding in ours.findings],
        "faults": [fault._asdict() for fault in faults],
    }


def write_error(error: Exception, *, as_json: bool) -> int:
    """Print the error, on standard output as a document; return its exit code."""
    if isinstance(error, HostRoutingError):
        say(*words_of(error))
    else:
        from traceback import format_exception  # noqa: PLC0415  only a bug needs it

        trace = "".join(format_exception(error)).splitlines()
        say("this is a bug in hostrouting; please report it with the following text", *trace)
    return write(Answer(code_of(error), error_document(error), ()), as_json=as_json)
