"""What may be typed: the commands with their help, and their arguments.

A new command is one line in COMMANDS and one module in `commands`, which names its ARGUMENTS, and
those that are REQUIRED. That module is loaded when the command is typed: help and bad usage load
nothing else of hostrouting.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from importlib import import_module

from hostrouting.release import PROGRAM, __version__

TYPE_CHECKING = False  # `typing` costs as much as parsing does
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

COMMANDS = {
    "check": "check that all addresses of the expected CIDRs leave through an expected device",
    "explain": "show how one packet is routed, rule by rule",
    "repair": "print a configuration for apply that repairs what check finds",
    "plan": "show what apply would do; nothing is changed",
    "apply": "apply a configuration to this host, now and at every boot",
    "status": "compare this host with the installed configuration, and check it",
    "remove": "remove everything that hostrouting has installed, and nothing else",
    "snapshot": "print devices, addresses, rules and routes as JSON, to examine elsewhere",
    "render": "write the boot files of a configuration into an image",
    "clean": "show or delete what azure-vnet left behind",
    # These come last, because only units run them.
    "gate": "decide whether a gated unit may start; its drop-in runs this",
    "boot": "make one part of a pass; a service at boot runs this",
    "guard": "make the routing right after each change; the guard runs this",
}
_OF_UNITS = ("gate", "boot", "guard")
"""They have no document: what they say is for the journal."""

SUMMARY = """\
Check which devices a host's packets leave through, and correct its routes.

  expected   networks (CIDRs) that have to be right, and the devices that they
             have to leave through; if none is named, those of the default route
  escape     an address escapes if its packets leave through another device,
             have no route, or are refused
  gate       runs before each start of kubelet, or of a machine in which kubelet
             runs: it sets the routes, checks them, and can refuse the start
  STRICT     the gate refuses a start while an address escapes
  WARN       the gate only logs it
  guard      a service that sets routes again when something deletes them

  azure-vnet the CNI of Azure, which can leave rules and routes of pods behind

In trouble: {program} status
To repair a host for good, first see what would change, then apply it:
  {program} repair | {program} plan --config -
  {program} repair | {program} apply --config -
"""
EXIT_CODES = """\
exit codes in general:
  0  fine
  1  a problem
  2  bad input: the command line, the configuration or a snapshot
  3  no answer: no default route, no permission, or a rule or route not judged
"""
_EXAMPLES = {
    "check": "172.16.64.0/24",
    "explain": "172.16.5.9",
    "repair": "172.16.64.0/24 > new.json",
    "plan": "--config new.json",
    "apply": "--config new.json --confirm 60",
    "status": "kubelet",
    "remove": "--dry-run",
    "snapshot": "> node.json",
    "render": "--config new.json --root /mnt/image",
    "clean": "azure-vnet --config new.json",
    "gate": "kubelet",
    "boot": "routes",
    "guard": "",
}


def seconds(text: str) -> float:
    """A number of seconds, for argparse."""
    number = float(text)
    if not 0 <= number <= 86_400:  # this also refuses NaN
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 86400")
    return number


_ARGUMENTS: dict[str, dict[str, Any]] = {
    "cidrs": {"metavar": "CIDR", "nargs": "*", "help": "an expected CIDR, such as 172.16.64.0/24"},
    "address": {"metavar": "ADDRESS", "help": "where the packet goes, such as 172.16.5.9"},
    "unit": {
        "metavar": "UNIT",
        "nargs": "?",
        "help": "why this unit does not start; all gated units without it",
    },
    "starting_unit": {"metavar": "UNIT", "help": "the unit that starts, such as kubelet.service"},
    "part": {"metavar": "PART", "help": "routes, probes or check"},
    "cni": {
        "metavar": "azure-vnet",
        "choices": ["azure-vnet"],
        "help": "the CNI that left it behind",
    },
    "--config": {
        "metavar": "FILE",
        "help": "the configuration, as JSON; - is standard input",
    },
    "--snapshot": {
        "metavar": "FILE",
        "help": "read this saved snapshot instead of this host; - is standard input",
    },
    "--snapshots": {
        "metavar": "DIR",
        "action": "append",
        "help": "check the snapshots in DIR; can be repeated",
    },
    "--root": {"metavar": "DIR", "help": "where the image is mounted"},
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
        "help": "a device that packets may leave through as well, or the selectors of an intended "
        "rule, such as 'fwmark 0x1'; can be repeated",
    },
    "--metrics": {
        "action": "store_true",
        "help": "print metrics, for the folder of Prometheus' node exporter",
    },
    "--dry-run": {"action": "store_true", "help": "show what would be removed; change nothing"},
    "--wait": {
        "metavar": "SECONDS",
        "type": seconds,
        "default": 60.0,
        "help": "the longest wait for a default route or device (60)",
    },
    "--fail-on": {
        "choices": ["warning"],
        "type": str.lower,
        "metavar": "warning",
        "help": "exit with 1 on a warning as well",
    },
    "--ignore": {
        "metavar": "NAME",
        "action": "append",
        "type": str.lower,
        "default": [],
        "help": "a finding, by its name, that does not count; can be repeated",
    },
    "--gate": {
        "metavar": "UNIT",
        "action": "append",
        "default": [],
        "help": "gate this unit, too, such as kubelet.service; can be repeated; if the file has no "
        "gate.units, systemd-nspawn@.service is gated as well",
    },
    "--confirm": {
        "metavar": "SECONDS",
        "type": seconds,
        "help": "install the earlier configuration again unless Enter is pressed within this time; "
        "it asks on the terminal, so this works behind a pipe, too",
    },
    "--confirm-if": {
        "metavar": "COMMAND",
        "help": "install the earlier configuration again unless this command of sh, which is tried "
        "each second, succeeds within the time of --confirm, or within 60 seconds; it needs no "
        "terminal",
    },
    "--commands": {
        "action": "store_true",
        "help": "print the repair as commands, which last until the next boot",
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
    "--json": {"action": "store_true", "help": "print one JSON document"},
}
CHOICES = {
    "--ignore": ("hostrouting.finding", "NAMES"),
    "part": ("hostrouting.upkeep.passes", "PARTS"),
}
"""By argument: the module that has its choices, which takes time to load, and their name there."""

# With the width of the terminal, argparse would load shutil for each option.
_Formatter = partial(argparse.RawDescriptionHelpFormatter, width=80)
_COMMON: dict[str, Any] = {
    "epilog": EXIT_CODES,
    "formatter_class": _Formatter,
    "allow_abbrev": False,
}


class BadUsage(Exception):  # noqa: N818  what is wrong with what was typed
    """Words that are not understood; the message has the usage, too."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Leave it to `parse` to end the process."""
        raise BadUsage(f"{self.format_usage()}{self.prog}: error: {message}\n")


def parse(words: Sequence[str], program: str = PROGRAM) -> argparse.Namespace:
    """What was typed; `program` is how hostrouting was called. If it is not understood, the process
    ends, after a proposal if there is a near one.
    """
    if words and words[0] == "help":
        words = [*words[1:2], "--help"]
    try:
        return make_parser(words, program).parse_args(words)
    except BadUsage as bad:
        from hostrouting.cli.typos import meant_by  # noqa: PLC0415  only bad usage needs it

        meant = meant_by(words)
        proposal = f"did you mean: {program} {meant}\n" if meant else ""
        sys.stderr.write(f"{bad}{proposal}")
        raise SystemExit(2) from bad


def make_parser(words: Sequence[str], program: str = PROGRAM) -> argparse.ArgumentParser:
    """The parser for these words."""
    parser, commands = _make_main_parser(program)
    if words and words[0] in COMMANDS:
        # No other command can follow, and they are not listed: a parser for each of them would
        # take as long as the check of a small host.
        command = _add_command(commands, words[0], has_help=not {"-h", "--help"}.isdisjoint(words))
        vars(parser)["error"] = command.error  # for unknown arguments: the usage of the command
        return parser
    for name, summary in COMMANDS.items():
        commands.add_parser(name, help=summary)
    if not words:
        parser.error(f"which command? In trouble: {program} status; all: {program} --help")
    return parser


def make_whole_parser() -> argparse.ArgumentParser:
    """The parser with all commands and their arguments, for the manual page."""
    parser, commands = _make_main_parser(PROGRAM)
    for name, summary in COMMANDS.items():
        _add_command(commands, name, help=summary)
    return parser


def _make_main_parser(program: str) -> tuple[argparse.ArgumentParser, Any]:
    """The parser without commands, and what commands are added to."""
    summary = SUMMARY.format(program=program)
    parser = _Parser(prog=program, description=summary, **_COMMON)
    parser.add_argument("--version", action="version", version=f"hostrouting {__version__}")
    parser.set_defaults(program=program)
    return parser, parser.add_subparsers(prog=program, metavar="COMMAND", required=True)


def _add_command(
    commands: Any, name: str, *, has_help: bool = True, **options: Any
) -> argparse.ArgumentParser:
    """Add the parser of a command with its arguments; without help, what only that needs is left
    out.
    """
    module = import_module(f"hostrouting.cli.commands.{name}")
    command: argparse.ArgumentParser = commands.add_parser(name, **{**_COMMON, **options})
    if has_help:
        command.description = _description(COMMANDS[name], module.__doc__ or "")
        example = f"example:\n  {command.prog} {_EXAMPLES[name]}".rstrip()
        command.epilog = f"{example}\n\n{EXIT_CODES}"
    required = getattr(module, "REQUIRED", ())
    for argument in arguments_of(name):
        settings = dict(_ARGUMENTS[argument])
        if argument in required:
            settings["required"] = True
        if argument in CHOICES:
            module_name, attribute = CHOICES[argument]
            settings["choices"] = getattr(import_module(module_name), attribute)
        command.add_argument(argument, **settings)
    command.set_defaults(run=module.run)
    return command


def arguments_of(name: str) -> list[str]:
    """The arguments of the command with this name."""
    module = import_module(f"hostrouting.cli.commands.{name}")
    arguments = [*getattr(module, "ARGUMENTS", ())]
    if name not in _OF_UNITS:
        arguments.append("--json")
    return arguments


def _description(summary: str, docstring: str) -> str:
    """What the help of a command says first: the summary, and all but the first paragraph of the
    docstring, which is the same in other words.
    """
    import textwrap  # noqa: PLC0415  loading it takes a millisecond, and only the help needs it

    described = f"{summary[0].upper()}{summary[1:]}."
    for paragraph in docstring.split("\n\n")[1:]:
        described += f"\n\n{textwrap.fill(paragraph.strip())}"
    return described
