"""examples/image_build.py: an image with its routing configured."""

from pathlib import Path

import pytest

from tests.support.programs import example

pytestmark = pytest.mark.linux


def test_an_image(tmp_path: Path) -> None:
    """The image has the program, the units and the links; a second run has nothing to do."""
    done = example("image_build.py", str(tmp_path))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "/etc/hostrouting/hostrouting.pyz (755)" in lines
    enabled = "/etc/systemd/system/multi-user.target.wants/static-routes.service"
    assert f"{enabled} -> /etc/systemd/system/static-routes.service" in lines
    assert (tmp_path / "etc/hostrouting/config.json").is_file()
    assert "\n  nothing to do\n" in done.stdout
    assert example("image_build.py").stdout == done.stdout
