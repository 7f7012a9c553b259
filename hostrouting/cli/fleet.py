"""The check of many snapshots from the command line: its arguments, its documents, its exit code, and its lines.

Here: what `check --snapshots` has in common with no other command. Not here: the judgement and the groups
(`hostrouting.fleet`).
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Collection, Iterator, Sequence
from ipaddress import ip_network
from typing import TYPE_CHECKING

import attrs

from hostrouting.check.report import repair_document
from hostrouting.cli.check import LIMITS, lasting_line
from hostrouting.cli.command import FINE, VERDICT_CODES, Reply, question_words
from hostrouting.cli.failure import code_of, document_of
from hostrouting.cli.output import SHOWN, Line, Painted, Piece, Tone, capped, line, table
from hostrouting.cli.source import expected_of
from hostrouting.errors import ConfigError, Fault
from hostrouting.fleet.dispatch import judge_snapshots
from hostrouting.fleet.grouping import Grouping, tally_verdicts
from hostrouting.fleet.judge import Question, find_snapshots
from hostrouting.text import counted, spoken

if TYPE_CHECKING:
    import argparse

    from hostrouting.fleet import NodeGroup, NodeResult, Source


def check_fleet(arguments: argparse.Namespace) -> Reply:
    """The reply to `check --snapshots`. With --json, the nodes are judged while the reply is printed."""
    _sort_out(arguments)
    sources = _sources_of(arguments)
    config = expected_of(arguments)
    question = Question(config, tuple(arguments.devs), is_whole=arguments.config is not None)
    grouping, codes = Grouping(), {FINE}

    def results() -> Iterator[NodeResult]:
        """Judge all snapshots."""
        for result in judge_snapshots(sources, question):
            grouping.add(result)
            codes.add(_code_of(result))
            yield result

    def lines() -> Iterator[Line]:
        for _ in results():
            pass
        name, words = arguments.config or "", shlex.join(question_words(arguments))
        return fleet_lines(grouping.groups(), name=name, question=words)

    return Reply(lambda: _worst_code(codes), lambda: map(_line_of, results()), lines)


def _worst_code(codes: Collection[int]) -> int:
    """The exit code of the worst node."""
    return min({*codes} - {FINE}, default=FINE)


def _code_of(result: NodeResult) -> int:
    if result.failure is not None:
        return code_of(result.failure, needs_files=False)
    return VERDICT_CODES[result.verdict or ""]


def _line_of(result: NodeResult) -> str:
    """The document of a node, on one line: that of its check, with its name and the correction."""
    head = json.dumps(result.heading)
    error = result.error
    rest = result.answer if error is None else json.dumps(document_of(error))
    return f"{head[:-1]}, {rest[1:]}"


def _sort_out(arguments: argparse.Namespace) -> None:
    """Move networks among the snapshot paths to the CIDRs, because operators write CIDRs last."""
    cidrs = [snapshot for snapshot in arguments.snapshots if _is_network(snapshot) and not os.path.lexists(snapshot)]
    arguments.snapshots = [snapshot for snapshot in arguments.snapshots if snapshot not in cidrs]
    arguments.cidrs = [*arguments.cidrs, *cidrs]


def _is_network(text: str) -> bool:
    try:
        ip_network(text, strict=False)
    except ValueError:
        return False
    return True


def _sources_of(arguments: argparse.Namespace) -> tuple[Source, ...]:
    """The snapshots that --snapshots names. Raises ConfigError if it names none, or if --snapshot names one."""
    if arguments.snapshot is not None:
        rule = "cannot be used together with --snapshots"
        raise ConfigError([Fault("--snapshot", repr(arguments.snapshot), rule, "add the file to --snapshots")])
    try:
        return find_snapshots(arguments.snapshots)
    except ConfigError as error:
        raise ConfigError(attrs.evolve(fault, path="--snapshots") for fault in error.faults) from error


# The lines: how many nodes have which problem, and what repairs it.

_CUT = 60  # characters of a problem in the table; all of it is below
_TONES: dict[str | None, Tone] = {"ok": "good", "overlap": "bad"}
_NAMES = 6  # nodes of a group that are named


def fleet_lines(groups: Sequence[NodeGroup], *, name: str, question: str) -> Iterator[Line]:
    """The page of lines.

    `name` is the file of the configuration, if there is one; `question` are the arguments that ask another check the
    same.
    """
    counts = tally_verdicts(groups)
    verdicts = [Painted(f"{count:,} {verdict}", _TONES.get(verdict, "warn")) for verdict, count in counts.items()]
    pieces = [piece for text in verdicts for piece in (", ", text)]
    yield line(Painted(counted(sum(counts.values()), "node"), "strong"), ": ", *pieces[1:])
    if any(group.verdict != "ok" for group in groups):
        yield line()
        rows = [_row(group) for group in groups[:SHOWN]]
        yield from capped(table(("  nodes", "verdict", "problem", "repair"), rows, indent=""), len(groups))
    for group in groups[:SHOWN]:
        if group.verdict != "ok":
            yield line()
            yield from _group_lines(group, name=name, question=question)
    yield line()
    yield line(Painted(LIMITS, "soft"))
    yield lasting_line("each node")


def _row(group: NodeGroup) -> Sequence[Piece]:
    problem = group.problem if len(group.problem) <= _CUT else f"{group.problem[: _CUT - 1]}…"
    verdict = Painted(group.verdict_words, _TONES.get(group.verdict, "warn"))
    return f"{len(group.nodes):>7,}", verdict, problem, group.repair_words


def _group_lines(group: NodeGroup, *, name: str, question: str) -> Iterator[Line]:
    yield line(Painted(counted(len(group.nodes), "node"), "strong"), ": ", group.problem or group.verdict_words)
    yield line("  ", Painted(spoken(group.nodes, most=_NAMES), "soft"))
    which = "One repair for all" if len(group.nodes) > 1 else "A repair"
    if group.repair:
        yield line(f"  {which}: add this to staticRoutes.routes of their configuration:")
        routes = [json.dumps(route) for route in repair_document(group.repair)]
        yield from (line(f"    {route},") for route in routes[:-1])
        yield line(f"    {routes[-1]}")
    elif group.is_repairable:
        yield line(f"  {which}: {name} has its routes. On each node, as root: hostrouting apply --config {name}")
    again = "check" if group.is_repairable or group.verdict != "overlap" else "repair"
    words = f"hostrouting {again} --snapshot {shlex.quote(group.example.path)} {question}".rstrip()
    yield line(f"  For {group.example.name}: {words}")
