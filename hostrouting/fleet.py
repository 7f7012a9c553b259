"""Many nodes: any executor checks their saved snapshots, and nodes with the same problem are
grouped.

    with ProcessPoolExecutor() as executor:
        for problem, nodes in group_nodes(check_snapshots("nodes", config, executor)).items():
            print(len(nodes), problem)

The workers read the files themselves, so on a cluster the paths have to lead to the same files.
Nothing here asks this host.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.check.check import check_snapshot, require_cidrs
from hostrouting.errors import ConfigError, Fault
from hostrouting.model.snapshot import SAVE, Snapshot
from hostrouting.routes.plan import plan_static_routes
from hostrouting.text import spoken

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from hostrouting.config.settings import HostRoutingConfig, StaticRoute

NO_VERDICT = "no verdict"
_NUMBER = re.compile(r"\d+")


class NodeProblem(NamedTuple):
    """What is wrong with a node; equal on nodes with the same problem."""

    verdict: str
    """The verdict of the check, or NO_VERDICT for a snapshot that cannot be read."""
    sentence: str = ""
    """In it, N stands for the numbers in the names of devices, such as ib0."""
    repair: tuple[StaticRoute, ...] = ()
    """The routes that the configuration lacks to repair the node."""


def check_snapshots(
    folder: str | os.PathLike[str], config: HostRoutingConfig, executor: Executor
) -> Iterator[tuple[str, NodeProblem]]:
    """Check the *.json files in this folder against `config`, the whole configuration of the nodes.
    Yield the name of each node with its problem, in the order of the names.

    Any `concurrent.futures.Executor` will do, also that of a cluster. Raises ConfigError at once if
    the folder has no snapshot, or there is nothing to check.
    """
    require_cidrs(config)
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".json"))
    except OSError as error:
        fault = Fault("--snapshots", str(folder), f"cannot be read: {error.strerror}", SAVE)
        raise ConfigError([fault]) from error
    if not names:
        raise ConfigError([Fault("--snapshots", str(folder), "has no *.json file", SAVE)])
    paths = [os.path.join(folder, name) for name in names]
    # Called here, and not in a generator, which would begin only when the caller takes the first
    # result: the executor may be shut down by then.
    problems = executor.map(partial(_judge_file, config=config), paths, chunksize=16)
    return zip([name.removesuffix(".json") for name in names], problems, strict=True)


def _judge_file(path: str, *, config: HostRoutingConfig) -> NodeProblem:
    # Find the problem of the node whose snapshot is in this file. Its sentence is about the node as
    # it is. The repair is for the node after `config` is applied, so the routes of `config` are not
    # proposed again.
    if not os.path.isfile(path):  # such as a named pipe, which nobody may ever write into
        return NodeProblem(NO_VERDICT, "the snapshot is not a file")
    try:
        snapshot = Snapshot.load(path)
    except ConfigError as error:
        # Without the path, so that all nodes with the same fault are one group.
        return NodeProblem(NO_VERDICT, str(ConfigError(error.faults, "the snapshot")))
    report = report_after = check_snapshot(snapshot, config)
    plan = plan_static_routes(config, snapshot)
    if plan.changes:
        report_after = check_snapshot(plan.apply_to(snapshot), config)
    sentences = [
        f"leaves through {spoken(escape.devs)}" if escape.devs else f"is lost ({escape.kind})"
        for escape in report.escapes
    ]
    sentences += report.missing_defaults
    sentences += [doubt.name.upper() for doubt in report.doubts]
    # The numbers are taken out, so that a node with an escape through ib0 and one with an escape
    # through ib1 have the same problem.
    sentence = "; ".join(dict.fromkeys(_NUMBER.sub("N", each) for each in sentences))
    return NodeProblem(report.verdict, sentence, report_after.routes)


def group_nodes(results: Iterable[tuple[str, NodeProblem]]) -> dict[NodeProblem, list[str]]:
    """Group the nodes: for each problem the names of the nodes that have it. The problem that most
    nodes have comes first, and the nodes without a problem come last.
    """
    groups: dict[NodeProblem, list[str]] = {}
    for name, problem in results:
        groups.setdefault(problem, []).append(name)
    order = sorted(groups, key=lambda problem: (problem.verdict == "ok", -len(groups[problem])))
    return {problem: groups[problem] for problem in order}
