"""What a program exits with: the codes of the commands, and of an agent's program."""

FINE, PROBLEM, BAD_INPUT, CANNOT_DECIDE = 0, 1, 2, 3


def worst_code(*codes: int) -> int:
    """The lowest of these exit codes that is not 0, because a problem (1) is worse than bad input
    (2), and bad input is worse than no answer (3); else 0.
    """
    return min({*codes} - {FINE}, default=FINE)
