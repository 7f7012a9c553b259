"""examples/bootstrap.py: a small bootstrap agent."""

import shlex
from pathlib import Path

import pytest

from tests.support.machine import private_machine
from tests.support.programs import EXAMPLES, example

pytestmark = pytest.mark.linux


def test_it_starts_the_machine() -> None:
    """With the repair in the configuration, the check passes, and then the machine is started."""
    done = example("bootstrap.py")
    assert done.returncode == 0, done.stderr
    assert "verdict=ok" in done.stdout
    assert done.stderr.index("check-route-overlap ok") < done.stderr.index("kube1 runs")


def test_a_bootstrap_without_the_repair() -> None:
    """Without the repair, the bootstrap fails, its log names the repair once, and the machine is
    not started.
    """
    done = example("bootstrap.py", "--broken")
    assert done.returncode == 1
    said = done.stdout + done.stderr
    assert said.count("OVERLAP: 172.16.0.0/16 leaves through ib0") == 1
    assert 'ACTION: 2 static routes would repair it; add to staticRoutes.routes: [{"dest' in said
    assert "kube1 runs" not in said


def test_plan() -> None:
    """The dry run lists routes and files, and changes nothing."""
    done = example("bootstrap.py", "--plan")
    assert (
        "+ 172.16.0.0/17 via 10.0.0.1 dev eth0 proto hostrouting    # add: missing" in done.stdout
    )
    assert "write /etc/systemd/system/static-routes.service" in done.stdout
    assert "would start the machine kube1" in done.stdout
    assert done.stderr == ""
    assert done.returncode == 0


@pytest.mark.needs("root")
def test_on_a_host(tmp_path: Path) -> None:
    """With --host the configuration of a file is used; a fault in it is reported before anything is
    changed.
    """
    config = tmp_path / "agent.json"
    config.write_text(
        '{"hostRouting": {"staticRoutes": {"routes": [{"destination": "10.0.0.1/8"}]}}}'
    )
    with private_machine() as machine:
        listed = "find /etc /run -mindepth 1"
        before = machine.shell(listed)
        program = shlex.quote(str(EXAMPLES / "bootstrap.py"))
        started = f'"$PYTHON" -W error {program} --host {shlex.quote(str(config))}'
        said = machine.shell(f"{started} && exit 1; echo status $?")
        assert "status 1" in said
        assert "hostRouting.staticRoutes" in said
        assert "Traceback" not in said
        assert machine.shell(listed) == before
