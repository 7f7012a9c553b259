"""`render`: what was written into an image."""

import base64
import json
import re
from pathlib import Path

import pytest
import yaml

from hostrouting.testing import FakeHost, FakeManager
from tests.support.cli import say
from tests.support.ignition import carry_out_ignition
from tests.support.pages import page
from tests.support.programs import completed

UNIT = "/etc/systemd/system/static-routes.service"


def test_render(repaired: str, tmp_path: Path) -> None:
    """The boot files are written below the root; a second time there is nothing to do."""
    root = tmp_path / "image"
    root.mkdir()
    said = say("render", "--config", repaired, "--root", str(root))
    assert said.code == 0
    assert said.lines[0] == "DONE: 11 files written; it takes effect when the image boots"
    assert f"  wrote {root}{UNIT}" in said.lines
    assert (root / UNIT[1:]).is_file()
    again = say("render", "--config", repaired, "--root", str(root), "--json").json
    assert again == {
        "schema": "hostrouting/render/1",
        "ok": True,
        "root": str(root),
        "files": {"write": [], "remove": []},
        "failures": [],
    }


def test_how_long_an_image_waits(repaired: str, tmp_path: Path) -> None:
    """The boot scripts of an image wait as long as --wait says, and keep that time until another is given."""
    words = ("render", "--config", repaired, "--root", str(tmp_path))
    say(*words, "--wait", "45")
    assert "wait 45" in (tmp_path / "etc/hostrouting/static-routes.sh").read_text()
    assert say(*words, "--json").json["files"] == {"write": [], "remove": []}


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
    assert said.lines[0].startswith("FAILED: cannot ")


@pytest.mark.parametrize("kind", ["--ignition", "--cloud-init"])
def test_documents_for_a_new_node(kind: str, repaired: str, tmp_path: Path) -> None:
    """A node that is made from the document has the files, modes and links that render writes into an empty image."""
    image, node = tmp_path / "image", tmp_path / "node"
    image.mkdir()
    say("render", "--config", repaired, "--root", str(image))
    said = say("render", "--config", repaired, kind)
    assert said.code == 0
    if kind == "--ignition":
        assert json.loads(said.out)["ignition"] == {"version": "3.4.0"}
        carry_out_ignition(said.out, node)
    else:
        assert said.lines[0] == "#cloud-config"
        document = yaml.safe_load(said.out)
        for file in document["write_files"]:
            place = node / file["path"][1:]
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(base64.b64decode(file["content"]))
            place.chmod(int(file["permissions"], 8))
        for words in document["runcmd"]:
            if words[0] == "ln":
                (node / words[3][1:]).parent.mkdir(parents=True, exist_ok=True)
                (node / words[3][1:]).symlink_to(words[2])
        assert document["runcmd"][-2:] == [
            ["systemctl", "daemon-reload"],
            ["systemctl", "start", "static-routes.service"],
        ]
    assert _tree(node) == _tree(image)


@pytest.mark.linux
@pytest.mark.parametrize(("kind", "name"), [("--ignition", "node.ign"), ("--cloud-init", "user-data.txt")])
def test_what_the_page_deletes(kind: str, name: str, repaired: str, tmp_path: Path) -> None:
    """The shell of the page for operators finds all files and links of the document. Kills: a command on several lines."""
    image = tmp_path / "image"
    image.mkdir()
    say("render", "--config", repaired, "--root", str(image))
    (tmp_path / name).write_text(say("render", "--config", repaired, kind).out)
    lists = re.findall(r"grep -o .*(?= \| xargs rm -f)", page("operators"))
    assert len(lists) == 2
    found = [completed(["sh", "-c", text.replace("node.ign", name)], cwd=tmp_path).stdout for text in lists]
    assert {path[1:] for path in "".join(found[: 1 + (kind == "--cloud-init")]).split()} == _tree(image).keys()


def _tree(root: Path) -> dict[str, tuple[int, bytes | str]]:
    """The mode and the text of each file below the root, and the target of each link."""
    return {
        str(path.relative_to(root)): (
            path.lstat().st_mode,
            str(path.readlink()) if path.is_symlink() else path.read_bytes(),
        )
        for path in root.rglob("*")
        if path.is_symlink() or path.is_file()
    }


@pytest.mark.parametrize("kind", ["--ignition", "--cloud-init"])
def test_a_document_that_cannot_be_made(kind: str, tmp_path: Path) -> None:
    """A guard needs a program on the node: nothing is printed but the reason, and the exit code is not 0."""
    config = tmp_path / "agent.json"
    config.write_text('{"routeOverlap": {"expectedCidrs": ["172.16.0.0/16"]}, "guard": {"enabled": true}}')
    said = say("render", "--config", str(config), kind)
    assert (said.code, said.out) == (2, "")
    assert "guard.program: " in said.err
