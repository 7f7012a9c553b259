"""examples/check_fleet.py: the problems of a fleet, and the repair."""

from pathlib import Path

import pytest

from hostrouting.testing import cni_node
from tests.support.programs import example

pytestmark = pytest.mark.linux


def test_by_itself() -> None:
    """The example invents a fleet, and prints its problems, such as a file that is not a snapshot, and the repair."""
    done = example("check_fleet.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "6 overlap: 172.16.0.0/16 by ib0",
        '  {"destination": "172.16.0.0/17", "gateway": "", "dev": "", "metric": 0}',
        '  {"destination": "172.16.128.0/17", "gateway": "", "dev": "", "metric": 0}',
        "1 no verdict: is not JSON, or was not copied whole; save one with: hostrouting snapshot > FILE",
        "2 ok: nothing is wrong",
    ]


def test_given_snapshots(tmp_path: Path) -> None:
    """The example checks the snapshots that it is given."""
    (tmp_path / "node.json").write_text(cni_node().snapshot().to_json())
    done = example("check_fleet.py", str(tmp_path))
    assert (done.returncode, done.stdout) == (0, "1 ok: nothing is wrong\n")
