"""`check`: does every address of the expected CIDRs leave by an expected device? Answer, evidence, remedy, limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import attrs

from hostrouting.cli.check import Check, lasting_line, make_check
from hostrouting.cli.command import VERDICT_CODES, Command, Reply, config_option, devs_option, question_words
from hostrouting.cli.output import Line, line

if TYPE_CHECKING:
    import argparse

    from hostrouting.host.host import Host


ADVICE = "Name the expected device (--dev DEV)."
"""What to do without a default route."""


def check_options(parser: argparse.ArgumentParser) -> None:
    """The options of a check of one host, which `repair` has as well."""
    parser.add_argument("cidrs", metavar="CIDR", nargs="*", help="an expected CIDR, such as 172.16.0.0/16")
    devs_option(parser)
    config_option(parser)


def _options(parser: argparse.ArgumentParser) -> None:
    check_options(parser)
    meaning = "check the snapshots of many nodes: directories with *.json files, patterns in quotes, or files"
    parser.add_argument("--snapshots", metavar="PATH", nargs="+", action="extend", help=meaning)


def _answer(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:
    if arguments.snapshots:
        from hostrouting.cli.fleet import check_fleet

        return check_fleet(arguments)

    check = make_check(arguments, host)
    return Reply(VERDICT_CODES[check.found.verdict], check.document, lambda: _page(check, arguments))


def _page(check: Check, arguments: argparse.Namespace) -> Iterator[Line]:
    yield from check.answer_lines()
    yield from check.evidence_lines()
    if check.found.escapes:
        from hostrouting.cli.remedy import remedy_lines

        yield from remedy_lines(
            check,
            config=arguments.config or "",
            cidrs=arguments.cidrs,
            devs=arguments.devs,
            again=_repair_command(arguments),
        )
    yield from check.limit_lines(advice=ADVICE)
    if check.found.verdict != "no-default-route":
        yield lasting_line()
    else:
        where = f" --snapshot {arguments.snapshot}" if arguments.snapshot else ""
        lost = next(found for found in check.found.families if found.verdict == "no-default-route")
        yield line(f"To see its present route: hostrouting explain {lost.report.cidrs[0].ip}{where}")
    installed = check.installed.route_overlap if check.installed and (arguments.cidrs or arguments.devs) else None
    if installed and installed.expected_cidrs:
        asked = attrs.evolve(check.config.route_overlap, mode=installed.mode)  # the mode changes no answer
        if asked != installed:
            yield line("This was not the check that is installed on this host; to run that: hostrouting check")


def _repair_command(arguments: argparse.Namespace) -> str:
    """The command line that prints only the repair."""
    words = ["hostrouting", "repair", *question_words(arguments)]
    words += ["--snapshot", arguments.snapshot] if arguments.snapshot else []
    return " ".join(words)


COMMAND = Command(
    name="check",
    answer=_answer,
    version=3,
    options=_options,
    more="""\
Without a configuration, the expected devices are those of the default route, and the CIDRs are those given here.
With a configuration, CIDRs given here replace those in it. With neither, the check installed on this host is made.
Nothing is written, and root is not required.

Only routes are checked; status also says whether what is installed is in force.

Verdicts: ok (exit code 0), overlap (1), undecided (3), no-default-route (3). Undecided: plain packets (from root,
without a mark) do not escape, but a rule by source, mark, user or port sends other packets elsewhere. IPv4 and IPv6
have a verdict and a repair each; the exit code is that of the worse verdict.

With --snapshots, nodes with the same problem are shown together, named after their files. With --json, each node has
one line, printed as soon as it is judged. The exit code is that of the worst node. From worst to best: 1 (an address
escapes), 2 (not a snapshot), 3 (there is no answer), 0.
""",
    examples="""\
# is this network captured by another device?
hostrouting check 172.16.0.0/16
# the same on any computer, for the node that the snapshot is of
hostrouting check --snapshot node.json 172.16.0.0/16
""",
    failing="an overlap was found",
    takes_snapshot=True,
)
