"""The commands: a module for each, with its arguments, its answer and its lines. A new command is one line here.

A module is loaded when its command is typed: the help of all commands needs only what is here.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # `typing` costs as much as parsing does
if TYPE_CHECKING:
    from hostrouting.cli.command import Command

__all__ = ["CHANGING", "COMMANDS", "command_of", "every_command"]

_READING = {
    "check": "does every address of the expected CIDRs leave by an expected device?",
    "explain": "show the route of a packet: rule, table, route, owner, device",
    "repair": "print the fewest static routes that repair what check finds",
    "plan": "show what apply would do; changes nothing",
    "status": "show what hostrouting has installed, and the verdict now",
    "snapshot": "print devices, addresses, rules and routes as JSON, to examine elsewhere",
}
CHANGING = {
    "apply": "apply the configuration to the host, now and at every boot",
    "remove": "remove everything that hostrouting has installed, and nothing else",
    "clean": "show or delete what another CNI left behind",
    "render": "write the boot files into an image; this host is not changed",
}

COMMANDS = {**_READING, **CHANGING}
"""Each command, in the order in which they are listed, with what it does."""


def command_of(name: str) -> Command:
    """The record of this command."""
    found: Command = import_module(f"{__name__}.{name}").COMMAND
    return found


def every_command() -> tuple[Command, ...]:
    """The records of all commands."""
    return tuple(map(command_of, COMMANDS))
