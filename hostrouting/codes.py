"""What a program exits with: the codes of the commands, and of an agent's program."""

FINE, PROBLEM, BAD_INPUT, CANNOT_DECIDE = 0, 1, 2, 3


def worst_code(*codes: int) -> int:
    """The worst of these exit codes: a problem is worse than bad input, and bad input worse than no
    answer.
    """
    return min({*codes} - {FINE}, default=FINE)
