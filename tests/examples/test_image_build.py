"""examples/image_build.py: an image with its routing configured."""

from pathlib import Path

import pytest

from tests.support.programs import example

pytestmark = pytest.mark.linux


def test_it_builds(tmp_path: Path) -> None:
    """The image has the scripts, the units and the link that enables them; a second run has nothing to do."""
    done = example("image_build.py", str(tmp_path))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "/etc/hostrouting/gate.d/10-static-routes.sh (755)" in lines
    enabled = "/etc/systemd/system/multi-user.target.wants/static-routes.service"
    assert f"{enabled} -> /etc/systemd/system/static-routes.service" in lines
    assert (tmp_path / "etc/hostrouting/gate.d/20-check-route-overlap.sh").is_file()
    assert "\n  nothing to do\n" in done.stdout


def test_by_itself() -> None:
    """Without a path the example uses a temporary folder, which it deletes."""
    done = example("image_build.py")
    assert done.returncode == 0, done.stderr
    assert "static-routes.service" in done.stdout
