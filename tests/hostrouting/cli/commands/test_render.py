"""`render`: what was written into an image."""

from pathlib import Path

import pytest

from hostrouting.testing import FakeHost, FakeManager
from tests.support.cli import say

UNIT = "/etc/systemd/system/static-routes.service"


def test_render(repaired: str, tmp_path: Path) -> None:
    """The boot files are written below the root; a second time there is nothing to do."""
    root = tmp_path / "image"
    root.mkdir()
    said = say("render", "--config", repaired, "--root", str(root))
    assert said.code == 0
    assert said.lines[0] == "DONE: 8 files written; it takes effect when the image boots"
    assert f"  wrote {root}{UNIT}" in said.lines
    assert (root / UNIT[1:]).is_file()
    assert any(line.startswith("PROGRAM: the program awk is not installed") for line in said.lines)
    again = say("render", "--config", repaired, "--root", str(root), "--json").json
    assert again == {
        "schema": "hostrouting/render/1",
        "ok": True,
        "root": str(root),
        "files": {"write": [], "remove": []},
        "failures": [],
    }


def test_render_where_nothing_is_mounted(repaired: str, tmp_path: Path) -> None:
    """A missing root is bad input; it is not created."""
    said = say("render", "--config", repaired, "--root", str(tmp_path / "nowhere"))
    assert said.code == 2
    assert "is not a directory; mount the image there first" in said.err
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("root", ["/", "//", "/../", "link"])
def test_render_on_the_host_itself(root: str, repaired: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A running host is not an image: its root is refused, by any path, and the error names the right command."""
    monkeypatch.setattr("hostrouting.host.host.Host.offline", None)  # nothing is written where this fails
    if root == "link":
        (tmp_path / "link").symlink_to("/")
        root = str(tmp_path / "link")
    said = say("render", "--config", repaired, "--root", root)
    assert said.code == 2
    assert said.err.startswith(f"hostrouting: --root: '{root}' is this host, and systemd is running on it; ")
    assert said.err.endswith(f"; on this host run: hostrouting apply --config {repaired}\n")


def test_render_in_a_root_where_nothing_runs(repaired: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who builds an image from inside of it, where no systemd runs, has it at the root, and that is written."""
    monkeypatch.setattr("os.path.samefile", lambda one, other: (one, other) == (str(tmp_path), "/"))
    host = FakeHost(manager=FakeManager(running=False))
    assert say("render", "--config", repaired, "--root", str(tmp_path), host=host).code == 0
    assert say("render", "--config", repaired, "--root", str(tmp_path)).code == 2


def test_render_that_fails(repaired: str, tmp_path: Path) -> None:
    """A file at the path of a folder is named; exit code 1."""
    (tmp_path / "etc").write_text("")
    said = say("render", "--config", repaired, "--root", str(tmp_path))
    assert said.code == 1
    assert said.lines[0].startswith("FAILED: ")
    assert f"{tmp_path}/etc is not a directory" in said.lines[0]
