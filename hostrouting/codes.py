"""What a program exits with: the codes of the commands, and of an agent's program."""

FINE, PROBLEM, BAD_INPUT, CANNOT_DECIDE = 0, 1, 2, 3
CODE_OF_VERDICT = {
    "overlap": PROBLEM,
    "no-default-route": CANNOT_DECIDE,  # nobody knows through which device addresses should leave
    "undecided": CANNOT_DECIDE,
    "ok": FINE,
}
"""The exit code of each verdict."""


def worst_code(*codes: int) -> int:
    """The exit code for several results: that of the worst one. A problem (1) is worse than bad
    input (2), which is worse than no answer (3): the lowest code is the worst, except 0 (fine).
    """
    return min({*codes} - {FINE}, default=FINE)
