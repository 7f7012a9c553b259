"""examples/custom_pipeline.py: hostrouting's tasks together with a user's."""

import runpy

import pytest

import phases
from hostrouting import HostLayout, HostRoutingConfig, Route
from hostrouting.testing import FakeHost, h200
from phases.testing import StubTask
from tests.support.programs import EXAMPLES, example

pytestmark = pytest.mark.linux


def test_it_runs() -> None:
    """The download is retried, the parallel group has one of our tasks and a user's, and the check passes."""
    done = example("custom_pipeline.py")
    assert done.returncode == 0, done.stderr
    assert "2 attempts" in done.stdout
    assert "│  ├─ configure-static-routes  ok" in done.stdout
    assert "│  └─ label-node               ok" in done.stdout
    assert "verdict=ok" in done.stdout
    assert done.stdout.endswith("our files: 8, labels: ['rdma']\n")


def test_taken_back() -> None:
    """If the last step fails, everything is undone: files, routes, and the change of the user's task."""
    done = example("custom_pipeline.py", "--fail")
    assert done.returncode == 1
    assert "RuntimeError: machine kube1 exited with code 1" in done.stdout
    assert done.stdout.endswith("our files: 0, labels: []\n")


def test_plan() -> None:
    """The dry run contains the plans of our tasks and the user's."""
    done = example("custom_pipeline.py", "--plan")
    assert "would add the label rdma to this node" in done.stdout
    assert "write /etc/hostrouting/gate.d/20-check-route-overlap.sh" in done.stdout


@pytest.mark.parametrize("routes", [(), ("172.16.0.0/17",)], ids=["nothing repairs it", "a route is another program's"])
def test_a_failure_leaves_the_gate(routes: tuple[str, ...]) -> None:
    """Whatever fails in STRICT, the gate is installed: no machine starts unchecked, as docs/library.md promises."""
    program = runpy.run_path(str(EXAMPLES / "custom_pipeline.py"))
    host = FakeHost(kernel=h200())
    for prefix in routes:
        host.kernel.ip_route("add", Route.to(prefix, dev="ib0", protocol=186))
    broken = HostRoutingConfig(
        {"enabled": bool(routes), "routes": [{"destination": route} for route in routes]},
        {"expectedCidrs": ["172.16.0.0/16"], "mode": "STRICT"},
    )
    start = StubTask("start-machine")
    report = phases.run(program["pipeline"](host, set(), start=start, config=broken), observers=[])
    assert not report.ok
    assert report.find("start-machine").status is phases.Status.SKIPPED
    assert HostLayout.drop_in_path("systemd-nspawn@.service") in host.files.texts


def test_an_option_that_is_none() -> None:
    """An unknown argument is refused, and nothing is run."""
    done = example("custom_pipeline.py", "--pretend")
    assert (done.returncode, done.stdout) == (2, "")
    assert "unrecognized arguments: --pretend" in done.stderr
