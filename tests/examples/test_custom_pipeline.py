"""examples/custom_pipeline.py: hostrouting's tasks among a user's own."""

import pytest

from tests.support.programs import example

pytestmark = pytest.mark.processes


def test_it_runs() -> None:
    """The download is tried again, the parallel part has a task of ours and a user's, and the check passes."""
    done = example("custom_pipeline.py")
    assert done.returncode == 0, done.stderr
    assert "2 attempts" in done.stdout
    assert "│  ├─ configure-static-routes  ok" in done.stdout
    assert "│  └─ label-node               ok" in done.stdout
    assert "verdict=ok" in done.stdout
    assert done.stdout.endswith("our files: 12, labels: ['rdma']\n")


def test_taken_back() -> None:
    """When the last step fails, everything that was done is taken back: files, routes, and what the user's task did."""
    done = example("custom_pipeline.py", "--fail")
    assert done.returncode == 1
    assert "start-machine failed: RuntimeError: machine kube1 exited with code 1" in done.stdout
    assert done.stdout.endswith("our files: 0, labels: []\n")


def test_plan() -> None:
    """The dry run has the words of both."""
    done = example("custom_pipeline.py", "--plan")
    assert "would add the label rdma to this node" in done.stdout
    assert "write /etc/aks-flex-node/check-route-overlap.sh" in done.stdout


def test_an_option_that_is_none() -> None:
    """A word that it does not know is refused, and nothing is run."""
    done = example("custom_pipeline.py", "--pretend")
    assert (done.returncode, done.stdout) == (2, "")
    assert "unrecognized arguments: --pretend" in done.stderr
