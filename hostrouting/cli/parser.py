"""The commands, their arguments and their help.

A new command is one row in COMMANDS and one module in `commands`, which is loaded when the command
is typed.
"""

from __future__ import annotations

import argparse
from functools import partial
from importlib import import_module

from hostrouting.release import PROGRAM

TYPE_CHECKING = False  # `typing` costs as much as parsing does
if TYPE_CHECKING:
    from typing import Any

COMMANDS = {
    "check": (
        "check that all addresses of the expected CIDRs leave through an expected device",
        ("cidrs", "--dev", "--config", "--snapshot", "--snapshots", "--json"),
    ),
    "repair": (
        "print a configuration for apply that repairs what check finds",
        ("cidrs", "--dev", "--allow", "--config", "--snapshot", "--json"),
    ),
    "plan": (
        "show what apply would do; nothing is changed",
        ("--config", "--allow-removal", "--json"),
    ),
    "apply": (
        "apply a configuration to this host, now and at every boot",
        ("--config", "--wait", "--allow-removal", "--confirm", "--json"),
    ),
    "status": (
        "compare this host with the installed configuration, and check it",
        ("unit", "--metrics", "--json"),
    ),
    "remove": (
        "remove everything that hostrouting has installed, and nothing else",
        ("--dry-run", "--json"),
    ),
    "snapshot": ("print devices, addresses, rules and routes as JSON, to examine elsewhere", ()),
    "render": (
        "write the boot files of a configuration into an image",
        ("--config", "--root", "--allow-removal", "--json"),
    ),
    "clean": (
        "show or delete what azure-vnet left behind",
        ("cni", "--config", "--apply", "--json"),
    ),
}

SUMMARY = f"""\
Check which devices a host's packets leave through, and correct its routes.

  expected  networks (CIDRs) that have to be right, and the
            devices that they have to leave through: unless
            some are named, those of the default route
  escape    an address escapes if its packets leave through
            another device, have no route, or are refused
  gate      runs before each start of kubelet, or of its
            machine: it sets the routes, checks them, and
            can refuse the start
  STRICT    no unit starts while an address escapes
  WARN      units start, and the gate logs the escape
  guard     a service that sets routes again when something
            deletes them

In trouble:
  {PROGRAM} status

To see whether the addresses of your networks escape, what a repair would
change, and to repair the host for good:
  {PROGRAM} check CIDR
  {PROGRAM} repair CIDR | {PROGRAM} plan --config -
  {PROGRAM} repair CIDR | {PROGRAM} apply --config -
"""
EXIT_CODES = """\
exit codes in general:
  0  fine
  1  a problem
  2  bad input: a command line, configuration or snapshot
  3  no answer: no default route, no permission, or a rule
     or route that is not judged
"""


def seconds(text: str) -> float:
    """Read the value of an option that is a number of seconds; at most a day."""
    number = float(text)
    if not 0 <= number <= 86_400:  # this also refuses NaN
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 86400")
    return number


_ARGUMENTS: dict[str, dict[str, Any]] = {
    "cidrs": {"metavar": "CIDR", "nargs": "*", "help": "an expected CIDR, such as 172.16.64.0/24"},
    "unit": {
        "metavar": "UNIT",
        "nargs": "?",
        "help": "why this unit does not start; all gated units without it",
    },
    "cni": {
        "metavar": "azure-vnet",
        "choices": ["azure-vnet"],
        "help": "the CNI that left it behind",
    },
    "--config": {"metavar": "FILE", "help": "the configuration, as JSON; - is standard input"},
    "--snapshot": {
        "metavar": "FILE",
        "help": "read this saved snapshot instead of this host; - is standard input",
    },
    "--snapshots": {"metavar": "DIR", "help": "check the snapshots in DIR"},
    "--root": {"metavar": "DIR", "required": True, "help": "where the image is mounted"},
    "--dev": {
        "metavar": "NAME",
        "action": "append",
        "default": [],
        "help": "an expected device, instead of those of the default route; can be repeated",
    },
    "--allow": {
        "metavar": "NAME",
        "action": "append",
        "default": [],
        "help": "a device that packets may leave through, too; can be repeated",
    },
    "--dry-run": {"action": "store_true", "help": "show what would be removed; change nothing"},
    "--wait": {
        "metavar": "SECONDS",
        "type": seconds,
        "default": 60.0,
        "help": "the longest wait for a default route or device (60)",
    },
    "--confirm": {
        "metavar": "SECONDS",
        "type": seconds,
        "help": "install the earlier configuration again unless Enter is pressed within this time; "
        "it asks on the terminal",
    },
    "--allow-removal": {
        "action": "store_true",
        "help": "allow that the configuration takes away what protects the host now; plan shows "
        "what apply would do with this option",
    },
    "--apply": {
        "action": "store_true",
        "help": "delete what is stale; without this option, nothing is changed",
    },
    "--metrics": {
        "action": "store_true",
        "help": "print metrics for the textfile collector of the node exporter",
    },
    "--json": {"action": "store_true", "help": "print one JSON document"},
}
_ONLY_ONE_OF = {"check": ("--snapshot", "--snapshots"), "status": ("--metrics", "--json")}
"""By command: the options of which only one can be typed."""


class _Parser(argparse.ArgumentParser):
    """A parser: the help of a command begins with the docstring of its module, as it stands."""

    def format_help(self) -> str:
        name = self.prog.rpartition(" ")[2]  # of `hostrouting check`: check
        if name in COMMANDS:  # loads the command's module, so only when its help is printed
            self.description = module_of(name).__doc__
        return super().format_help()


class _Version(argparse.Action):
    """Prints the version."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from hostrouting.boot.program import version  # noqa: PLC0415  only --version needs it
        from hostrouting.cli.output import Page, write  # noqa: PLC0415  as above

        parser.exit(write(Page(0, {}, [f"hostrouting {version()}"]), as_json=False))


def module_of(name: str) -> Any:
    """The module of the command."""
    return import_module(f"hostrouting.cli.commands.{name}")


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    # With a fixed width, argparse does not ask the terminal again for each option, which is slow.
    common: dict[str, Any] = {
        "epilog": EXIT_CODES,
        "formatter_class": partial(argparse.RawDescriptionHelpFormatter, width=78),
        "allow_abbrev": False,
    }
    parser = _Parser(prog=PROGRAM, description=SUMMARY, **common)
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (summary, arguments) in COMMANDS.items():
        command = commands.add_parser(name, help=summary, **common)
        exclusive = _ONLY_ONE_OF.get(name, ())
        # Without exclusive arguments, no group: Python 3.11 cannot print the usage of an empty one.
        exclusive_group = command.add_mutually_exclusive_group() if exclusive else command
        for argument in arguments:
            group = exclusive_group if argument in exclusive else command
            action = group.add_argument(argument, **_ARGUMENTS[argument])
            if argument == "--config":
                # The commands that take CIDRs, `check` and `repair`, need no file.
                action.required = "cidrs" not in arguments
    return parser
