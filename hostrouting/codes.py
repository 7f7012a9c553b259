"""What a program exits with: the codes of the commands, and of an agent's program."""

FINE, PROBLEM, BAD_INPUT, CANNOT_DECIDE = 0, 1, 2, 3
CODE_OF_VERDICT = {
    "overlap": PROBLEM,
    "no-default-route": CANNOT_DECIDE,  # nobody knows through which device addresses should leave
    "undecided": CANNOT_DECIDE,
    "ok": FINE,
}
"""The exit code of each verdict."""
