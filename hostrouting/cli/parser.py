"""What may be typed, and the help. Loads argparse only: usage is answered before anything of ours is loaded.

Here: names of commands and options, and their words. Not here: what a command does; each is a module of this package.
"""

from __future__ import annotations

import argparse

TYPE_CHECKING = False  # `typing` costs as much as parsing does
if TYPE_CHECKING:
    from typing import Any, NoReturn

__all__ = ["CHANGING", "COMMANDS", "LOOKS", "SAVED", "Misused", "make_parser"]

LOOKS = {
    "check": "does every address of the expected CIDRs leave by an expected device?",
    "explain": "the way of a packet: rule, table, route, owner, device",
    "repair": "the fewest static routes that close what check finds, to paste",
    "plan": "what apply would do; changes nothing",
    "status": "what of ours is on this host, and what its check says now",
    "snapshot": "links, addresses, rules and routes as JSON, to be looked at elsewhere with --snapshot",
}
CHANGES = {
    "apply": "make the host's routing what the configuration says, now and at every boot",
    "remove": "take away everything of ours, and nothing else",
    "render": "write the boot files into an image; touches no kernel and no service manager",
}
COMMANDS = {**LOOKS, **CHANGES}
SAVED = ("check", "explain", "repair", "plan")
"""Those that can look at a saved snapshot."""
CHANGING = frozenset({"apply", "remove"})
"""Those whose progress is shown on standard error."""

_CODES = """\
exit codes:
  0  {fine}
{wrong}  2  bad input: the command line, the configuration or the snapshot
  3  it cannot be decided: not permitted, no netlink, no default route
"""
_WRONG = {
    "": "an overlap was found, something is to be done or is wrong, or it failed",
    "check": "an overlap was found",
    "repair": "some of the overlap no route of ours can close",
    "plan": "there is something to do, or apply would fail",
    "status": "something of ours is not as it should be, or there is an overlap now",
    "apply": "it failed; in STRICT also where an overlap is left",
    "remove": "not everything could be removed",
    "render": "not everything could be written",
}
"""What exit code 1 says; a command that is not here never says it."""
_MORE = {
    "check": """\
Without a configuration the expected devices are those of the IPv4 default route, and the CIDRs are those given here;
with one, CIDRs given here take the place of its own. With neither, the check that is installed on this host is asked.
Nothing is written, and no privilege is needed.

Verdicts: ok (exit code 0), overlap (1), undecided (3: right for a plain packet, and a rule sends others elsewhere),
no-default-route (3).
""",
    "explain": """\
Of a packet one only has to know where it goes. Whatever else is known of it (a mark, a user, where it comes in) can
be told; for the rest it is one that the host itself makes, and where that matters the answer says so.
""",
    "repair": """\
Exit code 1 says that some of the overlap cannot be closed by any route of ours; 0 that nothing is left, or that
nothing was wrong.
""",
    "plan": """\
Exit code 0 says that the host already is as the configuration says; 1 that there is something to do, that a route
stands in the way, or that in STRICT an overlap is left; 3 that it cannot be told yet, for want of a default route or
a device. With --json, "answer" tells these apart.
""",
    "status": """\
The host is judged as it is now: by the configuration where one that expects CIDRs is given, else by the check that is
installed. What the last check said stands beside that, with whether it still holds; no exit code comes from it.

Exit code 1 says that there is an overlap now, that a unit of ours has failed, that a run did not come to its end, that
nothing brings our routes back at the next boot, or that routes are missing: of the configuration, or without one of
those that the installed script has. 3 says that not all could be found out, or that it is undecided.
""",
    "snapshot": """\
On the sick host:   hostrouting snapshot > node.json
On any other:       hostrouting check --snapshot node.json 172.16.0.0/16
Or in one go:       ssh node hostrouting snapshot | hostrouting check --snapshot - 172.16.0.0/16
""",
    "apply": """\
Takes root. Routes are applied whole or not at all; a machine that runs is not touched. An overlap that is found
afterwards is exit code 1 in STRICT, and is only told in WARN.
""",
    "remove": """\
Takes root. Routes of ours are those that carry our protocol number: 213, unless a configuration says another.
""",
    "render": """\
What apply would write on the host itself is written below DIR, where its image is mounted.
""",
}


class Misused(SystemExit):
    """The command line is none; that was said on standard error already. `message` is what was wrong with it."""

    def __init__(self, message: str) -> None:
        """Keep the message."""
        self.message = message
        super().__init__(2)


class _Parser(argparse.ArgumentParser):
    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        # Of a command, argparse leaves what is unknown to the parser above, whose usage says nothing of it.
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        try:
            super().error(message)
        except SystemExit as stopped:
            raise Misused(message) from stopped


def make_parser(version: str) -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = _Parser(
        prog="hostrouting",
        usage="hostrouting COMMAND ... [--json]\n       hostrouting --help, or hostrouting COMMAND --help",
        description="See by which way a host's packets leave, and make it the right one.",
        epilog="\n".join([*_listed("look, as any user:", LOOKS), *_listed("change, as root:", CHANGES), _codes()]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"hostrouting {version}")
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)
    commands = parser.add_subparsers(
        prog="hostrouting", dest="command", metavar="COMMAND", required=True, help=argparse.SUPPRESS
    )
    for name, summary in COMMANDS.items():
        command = commands.add_parser(
            name,
            description=f"{name}: {summary}",
            epilog=f"{_MORE[name]}\n{_codes(name)}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        _OPTIONS[name](command)
        if name in SAVED:
            _snapshot(command)
        # Before the command it means the same; absent here, it leaves that as it is.
        told = f"print one JSON document, hostrouting/{name}/1"
        command.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help=told)
        command.add_argument("-v", "--verbose", action="store_true", help="say on standard error what is being done")
    return parser


def _listed(title: str, commands: dict[str, str]) -> list[str]:
    return [title, *(f"  {name:<10}{summary}" for name, summary in commands.items()), ""]


def _codes(command: str = "") -> str:
    wrong = _WRONG.get(command)
    told = "" if wrong is None else f"  1  {wrong}\n"
    return _CODES.format(fine="fine" if wrong else "it was told, whatever it is", wrong=told)


def _check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("cidrs", metavar="CIDR", nargs="*", help="an expected CIDR, such as 172.16.0.0/16")
    _devs(parser)
    _config(parser)
    _wait(parser, 0)


def _explain(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("address", metavar="ADDRESS", help="where the packet goes, such as 172.16.5.9")
    _devs(parser)
    _config(parser)
    known = parser.add_argument_group("what else is known of the packet")
    known.add_argument("--from", dest="source", metavar="ADDRESS", help="its source address")
    known.add_argument("--iif", metavar="DEV", help="the device by which it comes in; lo: the host makes it itself")
    known.add_argument("--oif", metavar="DEV", help="the device that its socket is bound to")
    for name, what in (
        ("mark", "its mark"),
        ("tos", "its type of service"),
        ("uid", "the user whose socket it is from"),
        ("ipproto", "its protocol number: 6 for TCP, 17 for UDP"),
        ("sport", "its source port"),
        ("dport", "its destination port"),
    ):
        known.add_argument(f"--{name}", metavar="N", type=_number, help=what)


def _plan(parser: argparse.ArgumentParser) -> None:
    _config(parser, required=True)


def _apply(parser: argparse.ArgumentParser) -> None:
    _config(parser, required=True)
    _wait(parser, 30)


def _status(parser: argparse.ArgumentParser) -> None:
    _config(parser)


def _render(parser: argparse.ArgumentParser) -> None:
    _config(parser, required=True)
    parser.add_argument("--root", metavar="DIR", required=True, help="where the image is mounted")


_OPTIONS = {
    "check": _check,
    "explain": _explain,
    "repair": _check,
    "plan": _plan,
    "status": _status,
    "snapshot": lambda _parser: None,
    "apply": _apply,
    "remove": _status,
    "render": _render,
}


def _config(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    parser.add_argument("--config", metavar="FILE", required=required, help="the configuration, as JSON")


def _devs(parser: argparse.ArgumentParser) -> None:
    told = "an expected device, in place of those of the IPv4 default route; may be given again"
    parser.add_argument("--dev", dest="devs", metavar="DEV", action="append", default=[], help=told)


def _snapshot(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--snapshot", metavar="FILE", help="look at this saved snapshot and not at this host; - is standard input"
    )


def _wait(parser: argparse.ArgumentParser, seconds: int) -> None:
    parser.add_argument(
        "--wait",
        metavar="SECONDS",
        type=_seconds,
        default=float(seconds),
        help=f"how long to wait for a default route or a device that is not there yet (now: {seconds})",
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds, such as 30") from None
    if not 0 <= seconds <= 86_400:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 86400")
    return seconds


def _number(text: str) -> int:
    try:
        number = int(text, 0)
    except ValueError:
        number = -1
    if not 0 <= number < 1 << 32:
        raise argparse.ArgumentTypeError(f"{text!r} is no number between 0 and 4294967295, such as 10 or 0xa")
    return number
