"""What a program exits with: the codes of the commands, for an agent's program, too."""

from hostrouting import errors

TYPE_CHECKING = False  # `typing` costs as much as parsing does
if TYPE_CHECKING:
    import phases

FINE, PROBLEM, BAD_INPUT, CANNOT_DECIDE = 0, 1, 2, 3


def exit_code(outcome: "phases.Step | phases.TaskFailed | errors.HostRoutingError") -> int:
    """The exit code for the report of a run with tasks of hostrouting, or for the TaskFailed of
    `phases.execute`, as docs/scripts.md lists them: of several failures, the worst. Or the code
    for an error of hostrouting that came before the run, such as that of a configuration which
    cannot be read.

    An error that is not hostrouting's counts as a problem, whatever its `can_retry` says. After a
    signal with which no step failed, the code is 128 plus its number.
    """
    if isinstance(outcome, errors.HostRoutingError):
        return code_of(outcome)
    import phases  # noqa: PLC0415  a command that runs no task needs none of it
    from phases.errors import ReportedError  # noqa: PLC0415  see above

    codes: list[int] = []
    for step in outcome.failures:
        error = step.error
        if isinstance(error, ReportedError):
            error = _error_of(error.details)
        if isinstance(error, errors.HostRoutingError):
            codes.append(code_of(error))
        else:
            codes.append(PROBLEM)
    if isinstance(outcome, phases.TaskFailed):
        return worst_code(*codes)
    return worst_code(*codes) or outcome.exit_code


def _error_of(details: object) -> "errors.HostRoutingError | None":
    """The error of hostrouting whose `to_mapping()` has returned these details, with what its code
    is made of; None without details.
    """
    if not isinstance(details, dict):
        return None
    error = errors.HostRoutingError()
    for kind in errors.HostRoutingError.__subclasses__():
        if kind.__name__ == details.get("error"):
            error = kind.__new__(kind)
    error.kind = details.get("kind", "")
    error.can_retry = bool(details.get("canRetry"))
    vars(error)["errno"] = details.get("errno")
    return error


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
