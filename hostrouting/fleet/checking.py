"""The check of many snapshots for a program: what `hostrouting check --snapshots` does, each as one call.

Here: the arguments and their rules. Not here: the run (`dispatch`), and what is on the page (`page`).
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from hostrouting.config import HostRoutingConfig
from hostrouting.door import require
from hostrouting.errors import ConfigError, Fault
from hostrouting.fleet.dispatch import judge_snapshots
from hostrouting.fleet.judging import Question
from hostrouting.fleet.page import read_page
from hostrouting.fleet.sources import find_snapshots

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Sequence
    from concurrent.futures import Executor

    from hostrouting.fleet.grouping import NodeGroup
    from hostrouting.fleet.node import NodeResult

__all__ = ["check_snapshots", "make_page"]

_REMEDY = "write HostRoutingConfig.load(path)"


def check_snapshots(
    paths: Iterable[str | os.PathLike[str]],
    config: HostRoutingConfig,
    *,
    executor: Executor | None = None,
) -> Iterator[NodeResult]:
    """Judge each snapshot at these paths by the configuration: one result for each, in the order in which they come.

    The configuration must be complete: `apply` deletes every route of hostrouting that is not in it. So if a node has
    such a route now and needs it, its `correction` adds it. A node that is ok now may not be ok after `apply`: to find
    out, make a plan (`Configure.preview`).

    A path is a file, a directory or a pattern (see `find_snapshots`). A file without a valid snapshot has a result,
    too, which says why. Equal snapshots are judged once.

    Without an `executor`, processes of our own judge, one for each processor; they end with the iteration. Any
    `concurrent.futures.Executor` will do, such as `Client.get_executor()` of Dask for a cluster, whose workers need
    hostrouting, but none of the files. What a lost worker had is judged again.

    Raises ConfigError at once if a path has no snapshot, or the configuration expects no CIDR; during the iteration
    FleetIncomplete if the executor cannot go on.
    """
    require(config, HostRoutingConfig, "check_snapshots", _REMEDY)
    if not config.route_overlap.expected_cidrs:
        rule = "no expected CIDR is given, so there is nothing to check"
        raise ConfigError([Fault("routeOverlap.expectedCidrs", "", rule, "name one, such as 172.16.0.0/16")])
    return judge_snapshots(find_snapshots(paths), Question(config, is_whole=True), executor=executor)


def make_page(groups: Sequence[NodeGroup], config: HostRoutingConfig, *, moment: datetime | None = None) -> str:
    """The groups as an HTML page that needs no other file: what `--html` writes.

    For the maps, the snapshot of one node of each group is read again. The page names the `moment`, by default now.
    """
    require(config, HostRoutingConfig, "make_page", _REMEDY)
    return read_page(groups, Question(config, is_whole=True), moment=moment or datetime.now(timezone.utc))
