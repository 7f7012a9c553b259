"""Check the snapshots of many nodes: which have the same problem, and which repair is right for all of them.

Without arguments, it checks a few nodes that it makes up. On a cluster, give check_snapshots another executor, such as
that of Dask: `executor=distributed.Client(ADDRESS).get_executor()`.
"""

import argparse
import json
import tempfile
from pathlib import Path

from hostrouting import HostRoutingConfig, fleet
from hostrouting.check.report import repair_document
from hostrouting.testing import h200, plain_vm

CONFIG = HostRoutingConfig(route_overlap={"expectedCidrs": ["172.16.0.0/16"]})


def made_up(folder: Path) -> None:
    """Save the snapshots of six nodes with GPUs and of two without, and a file that is none."""
    for kind, make, count in (("gpu", h200, 6), ("cpu", plain_vm, 2)):
        text = make().snapshot().to_json()
        for number in range(count):
            (folder / f"{kind}-{number}.json").write_text(text.replace('"10.0.0.', f'"10.{number}.0.'))
    (folder / "gpu-6.json").write_text("ssh: connect to host gpu-6 port 22: Connection refused\n")


def check(paths: list[str]) -> None:
    """Print one line for each group, and the repair."""
    groups = fleet.group_nodes(fleet.check_snapshots(paths, CONFIG))
    for group in groups:
        print(f"{len(group.nodes)} {group.verdict_words}: {group.problem or 'nothing is wrong'}")
        for route in repair_document(group.repair):
            print(f"  {json.dumps(route)}")


# Each process that judges snapshots imports this file, and must not begin a check of its own.
if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", metavar="PATH", nargs="*", help="directories, patterns or files with snapshots")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if not given.paths:
            made_up(Path(folder))
        check(given.paths or [folder])
