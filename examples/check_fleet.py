"""Check the snapshots of many nodes: which have the same problem, and which repair is right for all
of them.

Without arguments, it checks a few nodes that it makes up, in processes of this computer.
"""

import argparse
import json
import tempfile
from concurrent.futures import Executor, ProcessPoolExecutor
from ipaddress import ip_network
from pathlib import Path

from hostrouting import HostRoutingConfig, RouteOverlapConfig, fleet
from hostrouting.testing import h200, plain_vm

CONFIG = HostRoutingConfig(route_overlap=RouteOverlapConfig((ip_network("172.16.0.0/16"),)))


def made_up(folder: Path) -> None:
    """Save the snapshots of six nodes with GPUs and of two without, and a file that is not a
    snapshot.
    """
    for kind, make, count in (("gpu", h200, 6), ("cpu", plain_vm, 2)):
        text = make().snapshot().to_json()
        for number in range(count):
            (folder / f"{kind}-{number}.json").write_text(
                text.replace('"10.0.0.', f'"10.{number}.0.')
            )
    (folder / "gpu-6.json").write_text("ssh: connect to host gpu-6 port 22: Connection refused\n")


def check(folder: str, executor: Executor) -> None:
    """Print one line for each group, and the repair."""
    results = fleet.check_snapshots(folder, CONFIG, executor)
    for problem, nodes in fleet.group_nodes(results).items():
        print(f"{len(nodes)} {problem.verdict}: {problem.sentence or 'nothing is wrong'}")
        for route in problem.repair:
            print(f"  {json.dumps(route.to_mapping())}")


# A process that judges snapshots may import this file, and must not begin a check of its own.
if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", metavar="PATH", nargs="?", help="a directory with snapshots")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor() as executor:
        if given.folder is None:
            made_up(Path(folder))
        check(given.folder or folder, executor)
