"""examples/other_namespace.py: the routes of another namespace, and files below a folder."""

import sys
from pathlib import Path

import pytest

from tests.support.namespace import private_namespace
from tests.support.programs import EXAMPLES, completed

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]


def test_another_namespace(tmp_path: Path) -> None:
    """The route and the files are there; this namespace stays as it is."""
    with private_namespace() as here, private_namespace() as other:
        other.batch(
            [
                "link set lo up",
                "link add eth0 type veth peer name far",
                "link set far up",
                "link set eth0 up",
                "address add 10.0.0.4/24 dev eth0",
                "route add default via 10.0.0.1",
            ]
        )
        with here.inside():
            # Warnings are not errors: the process that pyroute2 starts leaves a socket open.
            words: list[str | Path] = [
                sys.executable,
                EXAMPLES / "other_namespace.py",
                other.path,
                tmp_path,
            ]
            done = completed(words, cwd="/")
        assert done.stderr.startswith("WARNING systemd does not run here: nothing holds ")
        assert done.stderr.count("\n") == 1
        assert done.returncode == 0
        assert "configure-static-routes  ok" in done.stdout
        assert "172.16.0.0/16 via 10.0.0.1" in other.ip("route").stdout
        assert here.ip("route").stdout == ""
    assert (tmp_path / "etc/hostrouting/config.json").is_file()
