"""examples/fleet/action: the script that its last step runs, as GitHub would run it."""

import os
import sys
from pathlib import Path

import pytest
import yaml

from hostrouting.testing import h200
from tests.support.programs import completed

pytestmark = [pytest.mark.linux, pytest.mark.needs("bash")]

ACTION = Path(__file__).parents[2] / "examples/fleet/action/action.yml"


def test_each_node_with_a_problem_is_annotated(tmp_path: Path) -> None:
    """An escape and an unreadable file are errors at their files; the exit code is that of the check."""
    action = yaml.safe_load(ACTION.read_text())
    step = action["runs"]["steps"][-1]
    (tmp_path / "hostrouting").mkdir()
    (tmp_path / "hostrouting/bin").symlink_to(Path(sys.executable).parent)
    nodes = tmp_path / "nodes"
    nodes.mkdir()
    (nodes / "gpu,1.json").write_text(h200().snapshot().to_json())
    (nodes / "gpu2.json").write_text("{")
    given = {"${{ inputs.snapshots }}": str(nodes), "${{ inputs.cidrs }}": "172.16.0.0/16"}
    environment = {name: given[value] for name, value in step["env"].items()}
    done = completed(
        [step["shell"], "-e", "-c", step["run"]],
        env={**environment, "RUNNER_TEMP": str(tmp_path), "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
    )
    errors = sorted(line for line in done.stdout.splitlines() if line.startswith("::"))
    assert done.returncode != 0, done.stderr
    assert [error.split("::")[1] for error in errors] == [
        f"error file={nodes}/gpu%2C1.json",
        f"error file={nodes}/gpu2.json",
    ]
    assert "172.16.0.0/16" in errors[0]
    assert "this is not JSON" in errors[1]
    assert "1 overlap, 1 no verdict" in done.stdout
