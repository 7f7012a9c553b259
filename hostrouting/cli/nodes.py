"""`check --snapshots`: how many nodes have which problem, and what repairs it, the worst first."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from signal import SIG_IGN, SIGINT, signal

from hostrouting.cli.failure import BAD_INPUT, VERDICT_CODES, worst_code
from hostrouting.cli.output import Answer
from hostrouting.cli.source import GetHost, read_question
from hostrouting.errors import ConfigError, Fault
from hostrouting.fleet import NodeGroup, NodeResult, check_snapshots, find_snapshots, group_nodes
from hostrouting.text import counted, spoken


def check_nodes(arguments: argparse.Namespace, host: GetHost) -> Answer:
    """Check the snapshots in processes of our own, one for each processor."""
    for option in ("snapshot", "ignore", "fail_on"):
        if getattr(arguments, option):
            name = f"--{option.replace('_', '-')}"
            raise ConfigError([Fault(name, "", "cannot be used together with --snapshots", "use one of them")])
    config, paths = read_question(arguments, host).config, find_snapshots(arguments.snapshots)
    # New interpreters, because a fork of a process with threads can hang. Ctrl-C is for this process.
    pool = ProcessPoolExecutor(mp_context=get_context("spawn"), initializer=signal, initargs=(SIGINT, SIG_IGN))
    with pool:
        try:
            groups = group_nodes(_shown(check_snapshots(paths, config, pool), len(paths)))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    code = worst_code(VERDICT_CODES.get(group.verdict, BAD_INPUT) for group in groups)
    document = {"schema": "hostrouting/nodes/1", "groups": [group.to_mapping() for group in groups]}
    return Answer(code, document, _lines(groups))


def _shown(results: Iterable[NodeResult], total: int) -> Iterable[NodeResult]:
    """The same results; on a terminal, rich shows how many of them have come, if it is installed."""
    with suppress(ImportError):
        from rich.console import Console  # noqa: PLC0415  may not be installed
        from rich.progress import track  # noqa: PLC0415  as above

        console = Console(stderr=True)
        return track(results, "checking", total, transient=True, disable=not console.is_terminal, console=console)
    return results


def _lines(groups: tuple[NodeGroup, ...]) -> Iterator[str]:
    verdicts = Counter[str]()
    for group in groups:
        verdicts[group.verdict] += len(group.nodes)
    counts = ", ".join(f"{count:,} {name}" for name, count in verdicts.items())
    yield f"{counted(verdicts.total(), 'node')}: {counts}"
    for group in groups:
        if group.verdict != "ok":
            yield from ("", f"{group.verdict.upper()}: {counted(len(group.nodes), 'node')}: {group.problem}")
            yield f"  {spoken(group.nodes, most=6)}"
            if group.repair:
                routes = [f"    {json.dumps(route.to_mapping())}" for route in group.repair]
                yield from (
                    "  repair, for staticRoutes.routes of their configuration:",
                    *",\n".join(routes).split("\n"),
                )
