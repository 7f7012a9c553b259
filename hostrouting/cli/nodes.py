"""`check --snapshots`: how many nodes have which problem, and what repairs it, the worst first."""

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from signal import SIG_IGN, SIGINT, signal

from hostrouting.cli.output import Answer
from hostrouting.cli.source import typed_name
from hostrouting.codes import BAD_INPUT, CANNOT_DECIDE, FINE, PROBLEM, worst_code
from hostrouting.command import Command, LineToType, Operator
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.fleet import NO_VERDICT, NodeGroup, check_snapshots, group_nodes
from hostrouting.text import counted, spoken

_MOST = 6  # names of nodes with one problem
_CODES = {
    "overlap": PROBLEM,
    NO_VERDICT: BAD_INPUT,
    "no-default-route": CANNOT_DECIDE,
    "undecided": CANNOT_DECIDE,
    "ok": FINE,
}
"""The exit code of each verdict on a node."""


def check_nodes(
    folders: list[str], config: HostRoutingConfig, check: Command, who: Operator
) -> Answer:
    """Check the snapshots in these folders in new processes, one for each processor. This operator
    checks one snapshot by this command with the option --snapshot.
    """
    # New interpreters, because a fork of a process with threads can hang. Ctrl-C is for this
    # process.
    with ProcessPoolExecutor(
        mp_context=get_context("spawn"), initializer=signal, initargs=(SIGINT, SIG_IGN)
    ) as pool:
        groups = group_nodes(check_snapshots(folders, config, pool))
    codes = [_CODES[group.verdict] for group in groups]
    document = {"schema": "hostrouting/nodes/1", "groups": [group.to_mapping() for group in groups]}
    return Answer(worst_code(*codes), document, _lines(groups, check, who))


def _lines(groups: tuple[NodeGroup, ...], check: Command, who: Operator) -> Iterator[str]:
    """How many nodes have which verdict, and then each problem; the groups come the worst first."""
    counts = Counter[str]()
    for group in groups:
        counts[group.verdict] += len(group.nodes)
    by_verdict = ", ".join(f"{count:,} {verdict}" for verdict, count in counts.items())
    yield f"{counted(counts.total(), 'node')}: {by_verdict}"
    for group in groups:
        if group.verdict != "ok":
            yield ""
            yield from _problem_lines(group, check, who)


def _problem_lines(group: NodeGroup, check: Command, who: Operator) -> Iterator[str]:
    """The nodes with one problem, and what repairs it."""
    yield f"{group.verdict.upper()}: {counted(len(group.nodes), 'node')}: {group.problem}"
    names = f"  {spoken(group.nodes, most=_MOST)}"
    if len(group.nodes) > _MOST:
        names += "; --json shows all"
    yield names
    if group.repair:
        yield "  repair, for staticRoutes.routes of their configuration:"
        *others, last = [f"    {json.dumps(route.to_mapping())}" for route in group.repair]
        for line in others:
            yield f"{line},"
        yield last
    elif group.verdict != NO_VERDICT:
        saved = typed_name(group.results[0].path)
        yield LineToType("  see: ", f"{who.line(check)} --snapshot {saved}")
