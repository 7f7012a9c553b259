"""The commands: a module each, with its record, what it answers and how that is drawn. A new one is a line here.

All are loaded for the help, whatever is typed. So a module loads nothing at its top but `command`, `page` and
`schemas`; what a command works with is loaded inside the functions that carry it out.
"""

from hostrouting.cli.commands import apply, check, clean, explain, plan, remove, render, repair, snapshot, status

__all__ = ["COMMANDS"]

COMMANDS = (
    check.COMMAND,
    explain.COMMAND,
    repair.COMMAND,
    plan.COMMAND,
    status.COMMAND,
    snapshot.COMMAND,
    apply.COMMAND,
    remove.COMMAND,
    clean.COMMAND,
    render.COMMAND,
)
"""In the order in which they are listed."""
