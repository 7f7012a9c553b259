"""examples/check_fleet.py: the problems of a fleet, and the repair."""

from pathlib import Path

import pytest

from tests.support.programs import example
from tests.support.topologies import cni_node

pytestmark = pytest.mark.linux


def test_by_itself() -> None:
    """It invents a fleet, and prints its problems and the repair."""
    done = example("check_fleet.py")
    assert done.stderr == ""
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "6 overlap: leaves through ibN",
        '  {"destination": "172.16.0.0/17", "metric": 2048}',
        '  {"destination": "172.16.128.0/17", "metric": 2048}',
        "1 no verdict: the snapshot is not JSON: Expecting value: line 1 column 1 (char 0)",
        "2 ok: nothing is wrong",
    ]


def test_a_folder(tmp_path: Path) -> None:
    """It checks the snapshots that it is given."""
    (tmp_path / "node.json").write_text(cni_node().snapshot().to_json())
    assert example("check_fleet.py", str(tmp_path)).stdout == "1 ok: nothing is wrong\n"
