"""What a program exits with: the codes of the commands, for an agent's program, too."""

from hostrouting import errors

TYPE_CHECKING = False  # `typing` costs as much as parsing does
if TYPE_CHECKING:
    import phases

FINE, PROBLEM, BAD_INPUT, CANNOT_DECIDE = 0, 1, 2, 3


def exit_code(report: "phases.Step") -> int:
    """The exit code for the report of a run with tasks of hostrouting, as docs/findings.md lists
    them: of several failures, the worst.

    A failure of a task that is not hostrouting's counts as a problem. After a signal, the code is
    128 plus its number.
    """
    failures = [step.error for step in report.failures if step.error is not None]
    ours = [error for error in failures if isinstance(error, errors.HostRoutingError)]
    codes = [code_of(error) for error in ours]
    if len(ours) < len(failures):
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
    is_late = isinstance(error, errors.RouteOverlapError) and error.can_retry
    is_open = isinstance(error, errors.BackendError | errors.NotReady) or error.has_no_answer
    return CANNOT_DECIDE if is_late or is_open else PROBLEM
