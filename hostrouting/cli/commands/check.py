"""`check`: does every address of the expected CIDRs leave by an expected device? Answer, evidence, remedy, limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.cli.check import Check, lasting_line, make_check
from hostrouting.cli.command import VERDICT_CODES, Command, Reply, config_option, devs_option, question_words
from hostrouting.cli.output import Line, below, line, named_lines
from hostrouting.cli.source import config_of, installed_config
from hostrouting.cli.standings import Standings, gate_findings
from hostrouting.config.settings import HostRoutingConfig

if TYPE_CHECKING:
    import argparse

    from hostrouting.finding import Finding
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

    if not (arguments.cidrs or arguments.snapshot):
        config = config_of(arguments) if arguments.config else installed_config(host()) or HostRoutingConfig()
        if config.probe_rewrite.enabled and not config.route_overlap.expected_cidrs:
            return _without_cidrs(host(), config)
    check = make_check(arguments, host)
    gate = () if arguments.snapshot else gate_findings(host())

    # CIDRs on the command line replace everything else that a configuration asks for.
    asks_all = not (arguments.snapshot or arguments.cidrs)
    standings = Standings.on(host(), check.config) if asks_all else Standings()

    def document() -> dict[str, Any]:
        return {**check.document([*gate, *standings.troubles]), "standings": standings.documents()}

    code = VERDICT_CODES[check.found.verdict] or standings.code
    return Reply(code, document, lambda: _page(check, gate, standings, arguments))


def _without_cidrs(host: Host, config: HostRoutingConfig) -> Reply:
    """The reply if there are no expected CIDRs, but other tasks are configured."""
    standings, gate = Standings.on(host, config), gate_findings(host)

    def document() -> dict[str, Any]:
        findings = [finding.to_mapping() for finding in (*gate, *standings.troubles)]
        head = {"schema": COMMAND.schema, "verdict": "ok", "verdicts": {}, "mode": config.route_overlap.mode}
        rest = {"expectedDevs": {}, "findings": findings, "repair": []}
        return {**head, **rest, "standings": standings.documents()}

    def page() -> Iterator[Line]:
        yield from islice(standings.lines(), 1, None)
        yield from below(named_lines(gate))

    return Reply(standings.code, document, page)


def _page(check: Check, gate: Sequence[Finding], standings: Standings, arguments: argparse.Namespace) -> Iterator[Line]:

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
    yield from standings.lines()
    yield from below(named_lines(gate))


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

Unless CIDRs are given, the other configured or installed tasks (the probe rewrite) are checked too: if one is not in
force or cannot work, the exit code is 1.

A line says if gated units start unchecked, or cannot start; this changes only the exit code of status.

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
