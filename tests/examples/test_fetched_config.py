"""examples/fetched_config.py: a configuration that is fetched in the run."""

import pytest

import phases
from examples.fetched_config import ConfigureFetched, fetch, join_cluster
from hostrouting.testing import FakeHost
from tests.support.programs import example


@pytest.mark.linux
def test_by_itself() -> None:
    """It is installed, and removed again when a later task fails."""
    done = example("fetched_config.py")
    assert done.stderr == ""
    ran, undone = " ".join(done.stdout.split()).split("agent (undo)")
    assert "configure-host-routing ok" in ran
    assert "configure-host-routing (undo) ok" in undone
    assert undone.endswith("{}")


def test_two_attempts() -> None:
    """An undo removes what the first attempt has installed, although the second changes nothing."""
    host = FakeHost()
    agent = phases.serial(fetch, phases.retry(ConfigureFetched(host)), join_cluster, name="agent")
    phases.run(agent)
    assert host.files.texts

    phases.run(agent)

    assert phases.undo(agent).ok
    assert host.files.texts == {}
