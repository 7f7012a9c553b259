"""The commands: a module for each, with its record, its reply and how that is shown. A new command is one line here.

All are loaded for the help, whatever is typed. So a module imports only `command`, `output` and `schemas` at its top;
what a command needs to work is imported inside the functions that carry it out.
"""

from hostrouting.cli.commands import (
    apply,
    check,
    clean,
    completion,
    discover,
    explain,
    guard,
    manual,
    plan,
    preflight,
    remove,
    render,
    repair,
    snapshot,
    status,
)

__all__ = ["COMMANDS"]

COMMANDS = (
    check.COMMAND,
    discover.COMMAND,
    explain.COMMAND,
    repair.COMMAND,
    plan.COMMAND,
    preflight.COMMAND,
    status.COMMAND,
    snapshot.COMMAND,
    completion.COMMAND,
    manual.COMMAND,
    apply.COMMAND,
    remove.COMMAND,
    guard.COMMAND,
    clean.COMMAND,
    render.COMMAND,
)
"""In the order in which they are listed."""
