"""Checks the snapshots in a directory on a local Dask cluster, and prints what was found, as JSON.

A program of its own: a cluster has threads and processes that outlive a test, and listens on loopback. The arguments
are the directory, the configuration, and what happens to the workers: "nothing"; "killed", each once, meanwhile; or
"deadly", where some snapshots kill whichever worker gets them.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import Executor
from typing import Any

import dask
import distributed

from hostrouting import HostRoutingConfig, fleet
from hostrouting.fleet import NodeResult
from hostrouting.fleet.dispatch import judge_snapshots
from hostrouting.fleet.judge import Question
from tests.support.fleets import deadly_judge

# Its types are not complete.
Client: Any = distributed.Client
LocalCluster: Any = distributed.LocalCluster
SILENT = 60  # above every level: workers that are killed would be logged


def results(folder: str, config: HostRoutingConfig, executor: Executor, fate: str) -> Iterator[NodeResult]:
    """The results for the snapshots in the directory."""
    if fate == "deadly":
        return judge_snapshots(fleet.find_snapshots([folder]), Question(config), executor=executor, judge=deadly_judge)
    return fleet.check_snapshots([folder], config, executor=executor)


def main(folder: str, config: str, fate: str) -> None:
    """Check them, and kill each worker after the first result."""
    here: dict[str, Any] = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    # By default, Dask gives a task to four workers one after the other before it takes it for lost. A worker that needs more
    # than 15 s to start again, as on a busy machine, is given up for good; tasks wait forever for a cluster without workers.
    failures = 0 if fate == "deadly" else 3
    dask.config.set(
        {"distributed.scheduler.allowed-failures": failures, "distributed.deploy.lost-worker-timeout": "10 minutes"}
    )
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, silence_logs=SILENT, **here) as cluster,
        Client(cluster) as client,
    ):
        doomed = [worker.pid for worker in cluster.workers.values()] if fate == "killed" else []
        found = {}
        for result in results(folder, HostRoutingConfig.load(config), client.get_executor(), fate):
            found[result.name] = result.answer or str(result.error)
            while doomed:
                os.kill(doomed.pop(), signal.SIGKILL)
        addresses = [cluster.scheduler_address, *(worker.worker_address for worker in cluster.workers.values())]
    print(json.dumps({"found": found, "addresses": addresses}))  # noqa: T201  for the test


if __name__ == "__main__":
    main(*sys.argv[1:])
