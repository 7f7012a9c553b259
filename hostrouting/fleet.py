"""Many nodes: any executor checks their saved snapshots, and nodes with the same problem are
grouped.

    with ProcessPoolExecutor() as executor:
        for group in group_nodes(check_snapshots(["nodes"], config, executor)):
            print(len(group.nodes), group.verdict, group.problem)

A snapshot that cannot be read or judged also has a result: its verdict is "no verdict". The workers
read the files themselves, so on a cluster the paths have to lead to the same files. Nothing here
asks this host.

Two nodes have the same problem if addresses of the same CIDRs escape through devices that differ
only in their numbers, and the same routes repair both. The ranges may differ (on one node
Linux uses ib0's route, on another ib3's), and so may the addresses that packets are sent from.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple

from hostrouting.check.check import check_snapshot, require_cidrs
from hostrouting.errors import ConfigError, Fault, HostError
from hostrouting.model.snapshot import SAVE, Snapshot
from hostrouting.routes.plan import plan_static_routes
from hostrouting.text import agreeing, grouped, spoken

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from hostrouting.check.results import CheckReport, Escape
    from hostrouting.config.settings import HostRoutingConfig, StaticRoute

NO_VERDICT = "no verdict"
_WORST_FIRST = ("overlap", NO_VERDICT, "no-default-route", "undecided", "ok")
# Also the hexadecimal one of a bridge: br-1f3bf2e4c5d6.
_NUMBER = re.compile(r"(?<=[a-z-])[0-9a-f]{7,}$|\d+")
_BATCH = 16  # snapshots sent together: sending them costs little compared with judging them


class NodeResult(NamedTuple):
    """The result for one node: a verdict with its reasons, or why there is none."""

    path: str
    verdict: str
    problem: str = ""
    """What is wrong; equal on nodes with the same problem. In names of devices, N stands for the
    numbers.
    """
    repair: tuple[StaticRoute, ...] = ()
    """The routes that the configuration lacks to repair the node; empty if no routes repair all of
    it.
    """

    @property
    def name(self) -> str:
        """The name of the node, which is that of its file."""
        return os.path.basename(self.path).removesuffix(".json")


class NodeGroup(NamedTuple):
    """Nodes with the same problem and the same repair."""

    verdict: str
    problem: str
    repair: tuple[StaticRoute, ...]
    results: tuple[NodeResult, ...]

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the nodes."""
        return tuple(result.name for result in self.results)

    def to_mapping(self) -> dict[str, Any]:
        """The group as JSON."""
        return {
            "verdict": self.verdict,
            "problem": self.problem,
            "repair": [route.to_mapping() for route in self.repair],
            "nodes": list(self.nodes),
        }


def find_snapshots(directories: Iterable[str | os.PathLike[str]]) -> tuple[str, ...]:
    """The paths of everything named *.json in these directories, each once.

    Whether they are snapshots is found out when they are judged. Raises ConfigError if no directory
    is given, and with every directory that cannot be read or has no such file.
    """
    files: list[str] = []
    faults: list[Fault] = []
    for given in directories:
        directory = os.fspath(given)
        try:
            names = sorted(os.listdir(directory))
        except OSError as error:
            rule = f"cannot be read: {error.strerror}"
            faults.append(Fault("--snapshots", quote(directory), rule, SAVE))
            continue
        inside = [os.path.join(directory, name) for name in names if name.endswith(".json")]
        files += inside
        if not inside:
            faults.append(Fault("--snapshots", quote(directory), "has no *.json file", SAVE))
    if not files and not faults:
        faults.append(Fault("--snapshots", "", "names no directory", SAVE))
    if faults:
        raise ConfigError(faults)
    return tuple(dict.fromkeys(files))


def check_snapshots(
    directories: Iterable[str | os.PathLike[str]], config: HostRoutingConfig, executor: Executor
) -> Iterator[NodeResult]:
    """Check the snapshots in these directories against this configuration; the results are in the
    order of the files.

    The configuration is the whole one of the nodes: the repair is what it lacks once it is applied,
    which deletes the routes of hostrouting that are not in it. Any `concurrent.futures.Executor`
    will do, such as Dask's (`Client.get_executor()`). Raises ConfigError at once if a directory has
    no snapshot, or there is nothing to check; HostError, among the results, if a worker was killed.
    """
    given: object = directories  # not every author checks types
    if isinstance(given, str | bytes | os.PathLike):
        raise TypeError(f"directories is {given!r:.80}; it must be a list of them: [directory]")
    pool: object = executor
    if isinstance(pool, type) or not callable(getattr(pool, "map", None)):
        raise TypeError(f"executor is {pool!r:.80}; it must be an executor: ProcessPoolExecutor()")
    require_cidrs(config)
    files = find_snapshots(directories)
    batches = [files[begin : begin + _BATCH] for begin in range(0, len(files), _BATCH)]
    # At once, and not when the first result is taken: the executor may be shut down by then.
    judged = executor.map(partial(_judge_batch, config=config), batches)
    return _results(judged, len(files))


def _results(judged: Iterable[tuple[NodeResult, ...]], total: int) -> Iterator[NodeResult]:
    count = 0
    try:
        for results in judged:
            for result in results:
                count += 1
                yield result
    except Exception as error:  # each executor has errors of its own; a judgement raises none
        sentence = (
            f"{count:,} of {total:,} snapshots were judged, and then a worker was killed or could "
            "not start"
        )
        output = f"{type(error).__name__}: {error}; perhaps there is too little memory"
        raise HostError(sentence, kind="executor-lost", what="executor", output=output) from error


def _judge_batch(paths: Sequence[str], *, config: HostRoutingConfig) -> tuple[NodeResult, ...]:
    return tuple(_judge_file(path, config) for path in paths)


def _judge_file(path: str, config: HostRoutingConfig) -> NodeResult:
    """The result for the snapshot in this file, or the reason why there is none: the other nodes
    have to be judged.
    """
    if os.path.exists(path) and not os.path.isfile(path):  # to read a pipe may take for ever
        return NodeResult(path, NO_VERDICT, "the snapshot is not a regular file")
    try:
        return _judged(path, Snapshot.load(path), config)
    except ConfigError as error:
        # Without the path, so that all nodes with the same fault are one group.
        return NodeResult(path, NO_VERDICT, str(ConfigError(error.faults, "the snapshot")))
    except Exception as error:  # noqa: BLE001  a bug, or a lack of memory
        return NodeResult(
            path, NO_VERDICT, f"this is a bug in hostrouting, please report it: {error!r}"
        )


def _judged(path: str, snapshot: Snapshot, config: HostRoutingConfig) -> NodeResult:
    report = check_snapshot(snapshot, config)
    plan = plan_static_routes(config, snapshot)
    after = report
    if plan.changes:
        after = check_snapshot(plan.apply_to(snapshot), config)
    is_repairable = not any(family.repair.unrepairable for family in after.families)
    repair: tuple[StaticRoute, ...] = ()
    if report.escapes and is_repairable:
        repair = after.routes
    problem = _problem(report)
    if report.escapes and not repair:  # most often in the middle of a roll-out
        if after.escapes:
            problem += "; static routes do not repair all of it"
        else:
            problem += "; the configuration repairs it: apply it"
    return NodeResult(path, report.verdict, problem, repair)


def _problem(report: CheckReport) -> str:
    """What is wrong with the node, without what differs between nodes with the same problem."""
    escapes = grouped((_predicate(escape), str(escape.cidr)) for escape in report.escapes)
    problems = [f"addresses of {spoken(cidrs)} {verb}" for verb, cidrs in escapes.items()]
    problems += report.missing_defaults
    problems += [doubt.name.upper() for doubt in report.doubts]
    return "; ".join(dict.fromkeys(problems))


def _predicate(escape: Escape) -> str:
    """What happens to the packets to several addresses."""
    devs = {_NUMBER.sub("N", dev) for dev in escape.devs}
    return agreeing(f"{escape.verb} {spoken(sorted(devs))}".rstrip(), 2)


def group_nodes(results: Iterable[NodeResult]) -> tuple[NodeGroup, ...]:
    """The results in groups: the worst verdict first, and among equal verdicts the group with the
    most nodes. Raises ValueError if there is no result. The iterator of `check_snapshots` can be
    read only once.
    """
    members: dict[tuple[str, str, tuple[StaticRoute, ...]], list[NodeResult]] = {}
    for result in results:
        members.setdefault((result.verdict, result.problem, result.repair), []).append(result)
    if not members:
        raise ValueError("results: there are none, or they were taken before; write list(results)")
    groups = [NodeGroup(*kind, tuple(alike)) for kind, alike in members.items()]
    return tuple(sorted(groups, key=_rank))


def _rank(group: NodeGroup) -> tuple[int, int, str]:
    """The place of a group among the others."""
    return _WORST_FIRST.index(group.verdict), -len(group.nodes), group.problem
