"""The commands, and their help. A new command is one line in COMMANDS and one module in `commands`.

The module of a command is loaded when the command is typed. Help and bad usage load nothing else of hostrouting.
"""

from __future__ import annotations

import argparse
import os
from functools import partial
from importlib import import_module

from hostrouting.release import __version__

TYPE_CHECKING = False  # `typing` costs as much as parsing does
if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = {
    "check": "check that every address of the expected CIDRs leaves by an expected device",
    "explain": "show how one packet is routed, rule by rule",
    "repair": "print the configuration that repairs what check finds, for apply",
    "plan": "show what apply would do; nothing is changed",
    "apply": "apply a configuration to this host, now and at every boot",
    "status": "compare this host with the installed configuration, and check it",
    "remove": "remove everything that hostrouting has installed, and nothing else",
    "snapshot": "print devices, addresses, rules and routes as JSON, to examine elsewhere",
    "render": "write the boot files of a configuration into an image",
    "clean": "show or delete what azure-vnet left behind",
}
"""Each command with its summary."""

EXIT_CODES = """\
exit codes:
  0  fine
  1  a problem; for plan also: there is something to do
  2  bad input: the command line, the configuration or a snapshot
  3  cannot decide: no default route, no permission, or something that is not judged
"""


# With the width of the terminal, argparse would load shutil for each option.
_Formatter = partial(argparse.RawDescriptionHelpFormatter, width=100)


def make_parser(words: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """The parser for these words, with the arguments of the commands that are among them; without words, of all."""
    parser = argparse.ArgumentParser(
        prog="hostrouting",
        description="Check which devices a host's packets leave by, and correct its routes.",
        epilog=EXIT_CODES,
        formatter_class=_Formatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"hostrouting {__version__}")
    commands = parser.add_subparsers(prog="hostrouting", metavar="COMMAND", required=True)
    is_completion = "_ARGCOMPLETE" in os.environ
    for name, summary in COMMANDS.items():
        if words is not None and name not in words and not is_completion:
            commands.add_parser(name, help=summary, formatter_class=_Formatter)
            continue
        module = import_module(f"hostrouting.cli.commands.{name}")
        command = commands.add_parser(
            name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.\n\n{(module.__doc__ or '').partition(chr(10))[2].strip()}",
            epilog=EXIT_CODES,
            formatter_class=_Formatter,
            allow_abbrev=False,
        )
        for key in (*getattr(module, "ARGUMENTS", ()), "--json"):
            import_module("hostrouting.cli.arguments").add_argument(command, key)
        command.set_defaults(run=module.run)
    if is_completion:
        import_module("argcomplete").autocomplete(parser)
    return parser
