"""examples/check_fleet.py: the problems of a fleet, and the repair."""

import sys
from pathlib import Path

import pytest

from tests.support.programs import EXAMPLES, completed, example
from tests.support.topologies import cni_node

pytestmark = pytest.mark.linux


def test_by_itself() -> None:
    """It invents a fleet, and prints its problems and the repair."""
    done = example("check_fleet.py")
    assert done.stderr == ""
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "6 overlap: leaves through ibN",
        '  {"destination": "172.16.0.0/17"}',
        '  {"destination": "172.16.128.0/17"}',
        "1 no verdict: the snapshot is not JSON: Expecting value: line 1 column 1 (char 0)",
        "2 ok: nothing is wrong",
    ]


# A cluster has threads that outlive a test, so it is a program of its own.
CLUSTER = """\
import runpy, sys
from distributed import LocalCluster
from tests.support.topologies import cni_node
if __name__ == "__main__":
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(protocol="tcp", processes=False, **options) as cluster:
        sys.argv = [*sys.argv[1:], "--dask", cluster.scheduler_address]
        runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_on_a_cluster(tmp_path: Path) -> None:
    """The workers of a Dask cluster check the snapshots that the example is given."""
    (tmp_path / "cluster.py").write_text(CLUSTER)
    (tmp_path / "nodes").mkdir()
    (tmp_path / "nodes" / "node.json").write_text(cni_node().snapshot().to_json())
    command = [
        sys.executable,
        str(tmp_path / "cluster.py"),
        str(EXAMPLES / "check_fleet.py"),
        str(tmp_path / "nodes"),
    ]
    assert completed(command).stdout == "1 ok: nothing is wrong\n"
