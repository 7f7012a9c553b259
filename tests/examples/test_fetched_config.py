"""examples/fetched_config.py: a configuration that is fetched in the run."""

import pytest

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
