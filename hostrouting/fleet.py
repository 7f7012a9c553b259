"""Many nodes: any executor checks their saved snapshots, and nodes with the same problem are
grouped.

    with ProcessPoolExecutor() as executor:
        for problem, nodes in group_nodes(check_snapshots("nodes", config, executor)).items():
            print(len(nodes), problem)

The workers read the files themselves, so on a cluster the paths have to lead to the same files.
Nothing here asks this host.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.check.check import check_snapshot, require_cidrs
from hostrouting.check.sentences import repair_commands
from hostrouting.errors import ConfigError, Fault
from hostrouting.model.snapshot import SAVE, Snapshot
from hostrouting.routes.plan import plan_static_routes
from hostrouting.text import grouped, spoken

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from os import PathLike

    from hostrouting.config.settings import HostRoutingConfig, StaticRoute

NO_VERDICT = "no verdict"
_WORST_FIRST = ("overlap", NO_VERDICT, "no-default-route", "undecided", "ok")
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
    folder: str | PathLike[str], config: HostRoutingConfig, executor: Executor
) -> Iterator[tuple[str, NodeProblem]]:
    """Check the *.json files in this folder against `config`, the whole configuration of the nodes.
    Yield the name of each node with its problem, in the order of the names. The problem of a
    healthy node has the verdict ok, and no sentence.

    Any `concurrent.futures.Executor` will do, also that of a cluster. Raises ConfigError at once if
    the folder has no snapshot, or there is nothing to check.
    """
    require_cidrs(config)
    paths = sorted(Path(folder).glob("*.json"))  # none if the folder cannot be read
    if not paths:
        raise ConfigError(
            [Fault("--snapshots", str(folder), "is no folder with files *.json", SAVE)]
        )
    # If this function were a generator, it would call the executor only when the caller takes the
    # first result: the executor may be shut down by then.
    problems = executor.map(partial(_judge_file, config=config), paths, chunksize=16)
    return zip([path.stem for path in paths], problems, strict=True)


def _judge_file(path: Path, *, config: HostRoutingConfig) -> NodeProblem:
    # Find the problem of the node whose snapshot is in this file: the verdict and the escapes of
    # the node as it is now, and the repair that it still needs once `config` is applied.
    try:
        snapshot = Snapshot.load(path)
    except ConfigError as error:
        # Without the path, so that all nodes with the same fault are one group.
        return NodeProblem(NO_VERDICT, str(ConfigError(error.faults, "the snapshot")))
    report_now = check_snapshot(snapshot, config)
    report_with_config = report_now
    plan = plan_static_routes(config, snapshot)
    # If nothing escapes, there is nothing to repair, and `config` is not applied: it may lack a
    # route that the node has, without which something would escape.
    if report_now.escapes and plan.changes:
        report_with_config = check_snapshot(plan.apply_to(snapshot), config)
    sentences: list[str] = []
    for escape in report_now.escapes:
        # Without the numbers, so that an escape through ib0 and one through ib1 are one problem.
        devs = dict.fromkeys(_NUMBER.sub("N", dev) for dev in escape.devs)
        sentences.append(
            f"leaves through {spoken([*devs])}" if devs else f"is lost ({escape.kind})"
        )
    sentences += report_now.missing_defaults
    # A doubt keeps the verdict open; a flaw is a warning that does not change it.
    sentences += [doubt.name.upper() for doubt in (*report_now.doubts, *report_with_config.doubts)]
    for family in report_with_config.families:
        sentences += [flaw.name.upper() for flaw in family.flaws]
        for range_ in family.repair.unrepairable:
            sentences.append(f"no route repairs some addresses ({range_.why.reason})")
    # The repair of the node as it is now has no commands if it would replace a route of ours. No
    # routes are proposed then, because ours may be right.
    repair = report_with_config.routes if repair_commands(report_now) else ()
    return NodeProblem(report_now.verdict, "; ".join(dict.fromkeys(sentences)), repair)


def group_nodes(results: Iterable[tuple[str, NodeProblem]]) -> dict[NodeProblem, list[str]]:
    """Group the names of the nodes by their problem. The worst verdict comes first. Problems with
    the same verdict are sorted by the number of their nodes, most nodes first.
    """
    groups = grouped((problem, name) for name, problem in results)
    order = sorted(
        groups, key=lambda problem: (_WORST_FIRST.index(problem.verdict), -len(groups[problem]))
    )
    return {problem: groups[problem] for problem in order}
