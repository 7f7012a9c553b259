"""`check`: does every address of the expected CIDRs leave by an expected device? Answer, evidence, remedy, limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import attrs

from hostrouting.cli.check import LIMITS, Check, lasting_line, make_check
from hostrouting.cli.command import VERDICT_CODES, Command, Reply, config_option, devs_option, question_of
from hostrouting.cli.output import Line, Painted, line

if TYPE_CHECKING:
    import argparse

    from hostrouting.host.host import Host


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
    return Reply(VERDICT_CODES[check.report.verdict], check.document, lambda: _page(check, arguments))


def _page(check: Check, arguments: argparse.Namespace) -> Iterator[Line]:
    yield from check.page(question_of(arguments))
    yield line()
    yield line(Painted(LIMITS, "soft"))
    yield lasting_line()
    installed = check.installed.route_overlap if check.installed and (arguments.cidrs or arguments.devs) else None
    wanted = check.config.route_overlap
    if installed and installed.cidrs and attrs.evolve(wanted, mode=installed.mode) != installed:
        yield line("This was not the check that is installed on this host; to run that: hostrouting check")


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
