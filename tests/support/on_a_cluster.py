"""Checks the snapshots in a directory on a local Dask cluster, and prints what was found, as JSON.

A program of its own: a cluster has threads and processes that outlive a test, and listens on loopback. The arguments
are the directory and the configuration.
"""

import json
import sys
from typing import Any

import distributed

from hostrouting import HostRoutingConfig, fleet

# Its types are not complete.
Client: Any = distributed.Client
LocalCluster: Any = distributed.LocalCluster


def main(folder: str, config: str) -> None:
    """Check them."""
    here: dict[str, Any] = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(n_workers=2, threads_per_worker=1, **here) as cluster, Client(cluster) as client:
        results = fleet.check_snapshots([folder], HostRoutingConfig.load(config), executor=client.get_executor())
        print(json.dumps({result.name: result.answer or str(result.error) for result in results}))  # noqa: T201  for the test


if __name__ == "__main__":
    main(*sys.argv[1:])
