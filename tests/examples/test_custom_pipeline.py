"""examples/custom_pipeline.py: hostrouting's tasks together with a user's."""

import pytest

from tests.support.programs import example

pytestmark = pytest.mark.linux


def test_a_custom_pipeline() -> None:
    """The download is retried, the parallel group has one of our tasks and a user's, and the check
    passes.
    """
    done = example("custom_pipeline.py")
    assert done.returncode == 0, done.stderr
    assert "2 attempts" in done.stdout
    assert "│  ├─ configure-static-routes  ok" in done.stdout
    assert "│  └─ label-node               ok" in done.stdout
    assert "verdict=ok" in done.stdout
    assert done.stdout.endswith("files of hostrouting: 8, labels: ['rdma']\n")


def test_taken_back() -> None:
    """If the last step fails, everything is undone: files, routes, and the change of the user's
    task.
    """
    done = example("custom_pipeline.py", "--fail")
    assert done.returncode == 1
    assert "RuntimeError: machine kube1 exited with code 1" in done.stdout
    assert done.stdout.endswith("files of hostrouting: 0, labels: []\n")


def test_plan() -> None:
    """The dry run contains the plans of our tasks and the user's."""
    done = example("custom_pipeline.py", "--plan")
    assert "would add the label rdma to this node" in done.stdout
    assert "write /etc/hostrouting/gate.d/20-check-route-overlap.sh" in done.stdout
