"""`check --snapshots`: how many nodes have which problem, and what repairs it, the worst first."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from signal import SIG_IGN, SIGINT, signal
from typing import Any

from hostrouting.cli.failure import BAD_INPUT, VERDICT_CODES, worst_code
from hostrouting.cli.output import Answer, progress
from hostrouting.cli.source import GetHost, read_question
from hostrouting.errors import ConfigError, Fault
from hostrouting.fleet import check_snapshots, find_snapshots, group_nodes
from hostrouting.text import counted, spoken


def check_nodes(arguments: argparse.Namespace, host: GetHost) -> Answer:
    """Check the snapshots in processes of our own, one for each processor."""
    if arguments.snapshot is not None:
        raise ConfigError([Fault("--snapshot", "", "cannot be used together with --snapshots", "use one of them")])
    config, paths = read_question(arguments, host).config, find_snapshots(arguments.snapshots)
    # New interpreters, because a fork of a process with threads can hang. Ctrl-C is for this process.
    pool = ProcessPoolExecutor(mp_context=get_context("spawn"), initializer=signal, initargs=(SIGINT, SIG_IGN))
    with pool:
        try:
            groups = group_nodes(progress(check_snapshots(paths, config, pool), len(paths)))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    code = worst_code(VERDICT_CODES.get(group.verdict, BAD_INPUT) for group in groups)

    def lines() -> Iterator[str]:
        verdicts = Counter[str]()
        for group in groups:
            verdicts[group.verdict] += len(group.nodes)
        yield f"{counted(len(paths), 'node')}: {', '.join(f'{count:,} {name}' for name, count in verdicts.items())}"
        for group in groups:
            if group.verdict != "ok":
                yield from ("", f"{group.verdict.upper()}: {counted(len(group.nodes), 'node')}: {group.problem}")
                yield f"  {spoken(group.nodes, most=6)}"
                if group.repair:
                    yield "  repair, for staticRoutes.routes of their configuration:"
                    routes = [json.dumps(route.to_mapping()) for route in group.repair]
                    yield from (*(f"    {route}," for route in routes[:-1]), f"    {routes[-1]}")

    def document() -> dict[str, Any]:
        return {"schema": "hostrouting/nodes/1", "groups": [group.to_mapping() for group in groups]}

    return Answer(code, document, lines)
