"""What a program exits with: the codes of the commands, for an agent's program, too."""

from hostrouting import errors

TYPE_CHECKING = False  # `typing` costs as much as parsing does
if TYPE_CHECKING:
    import phases

FINE, PROBLEM, BAD_INPUT, CANNOT_DECIDE = 0, 1, 2, 3


def exit_code(report: "phases.Step") -> int:
    """The exit code for the report of a run with tasks of hostrouting, as docs/findings.md lists
    them: of several failures, the worst.

    An error that is not hostrouting's counts as a problem, whatever its `can_retry` says. After a
    signal, the code is 128 plus its number.
    """
    codes: list[int] = []
    for step in report.failures:
        if isinstance(step.error, errors.HostRoutingError):
            codes.append(code_of(step.error))
        else:
            codes.append(PROBLEM)
    return worst_code(*codes) or report.exit_code


def worst_code(*codes: int) -> int:
    """The worst of these exit codes: a problem is worse than bad input, and bad input worse than no
    answer.
    """
    return min({*codes} - {FINE}, default=FINE)


def code_of(error: BaseException) -> int:
    """The exit code for this error. After a bug, or without a permission or an answer, nothing can
    be decided.
    """
    if errors.is_denied(error) or not isinstance(error, errors.HostRoutingError):
        return CANNOT_DECIDE
    if isinstance(error, errors.ConfigError):
        return BAD_INPUT
    if isinstance(error, errors.RouteOverlapError) and error.can_retry:
        return CANNOT_DECIDE  # a default route may still come
    if isinstance(error, errors.BackendError | errors.NotReady) or error.has_no_answer:
        return CANNOT_DECIDE
    return PROBLEM
