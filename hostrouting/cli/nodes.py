"""`check --snapshots`: how many nodes have which problem, and what repairs it, the worst first."""

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from hostrouting.cli.output import Page
from hostrouting.codes import BAD_INPUT, CODE_OF_VERDICT
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.fleet import NO_VERDICT, NodeProblem, check_snapshots, group_nodes
from hostrouting.reading import json_value
from hostrouting.text import counted, printable, spoken

_CODE_OF_PROBLEM = {**CODE_OF_VERDICT, NO_VERDICT: BAD_INPUT}  # of each verdict on a node


def check_nodes(folder: str, config: HostRoutingConfig) -> Page:
    """Check the snapshots in this folder in new processes, one for each processor."""
    # "spawn" starts new interpreters: a fork of a process with threads can hang.
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        groups = group_nodes(check_snapshots(folder, config, pool))
    document = {
        "schema": "hostrouting/nodes/1",
        "groups": [
            {
                "verdict": problem.verdict,
                "problem": problem.sentence,
                "repair": json_value(problem.repair),
                "nodes": nodes,
            }
            for problem, nodes in groups.items()
        ],
    }
    worst = next(iter(groups))
    return Page(_CODE_OF_PROBLEM[worst.verdict], document, _lines(groups))


def _lines(groups: Mapping[NodeProblem, list[str]]) -> Iterator[str]:
    # For each problem: the verdict, some of the nodes that have it, and the routes that repair
    # them.
    for problem, nodes in groups.items():
        heading = f"{problem.verdict.upper()}: {counted(len(nodes), 'node')}"
        yield f"{heading}: {problem.sentence}" if problem.sentence else heading
        yield f"  {printable(spoken(nodes, most=6))}"  # a file name can have several lines
        if problem.repair:
            yield (
                "  put these into staticRoutes.routes of their configuration, in place of those to "
                "the same destination:"
            )
            yield f"    {json.dumps(json_value(problem.repair))}"
