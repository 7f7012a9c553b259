"""Which snapshots there are, and what their nodes are called."""

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostrouting import ConfigError
from hostrouting.fleet import Source, find_snapshots
from hostrouting.fleet.dispatch import judge_snapshots
from hostrouting.fleet.judge import _names
from hostrouting.testing import plain_vm
from tests.support.fleets import ASKED, Inline, save


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with snapshots and other things, as the working directory."""
    for path in ("a.json", "b.json", ".hidden.json", "notes.txt", "rack1/n.json", "rack2/n.json", "rack2/deep/m.json"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("{}")
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("paths", "found"),
    [
        (["."], {"a": "./a.json", "b": "./b.json", "folder": "./folder.json"}),
        (["a.json", "b.json"], {"a": "a.json", "b": "b.json"}),
        (["b.json", "a.json", "./b.json", "."], {"b": "b.json", "a": "a.json", "folder": "./folder.json"}),
        (["*.json"], {"a": "a.json", "b": "b.json", "folder": "folder.json"}),
        (["notes.txt"], {"notes.txt": "notes.txt"}),
        (["rack?/n.json"], {"rack1/n": "rack1/n.json", "rack2/n": "rack2/n.json"}),
        (["rack*"], {"rack1/n": "rack1/n.json", "rack2/n": "rack2/n.json"}),
        (["rack2/**/*.json"], {"m": "rack2/deep/m.json", "n": "rack2/n.json"}),
        (["a.json", "rack1", "rack2"], {"a": "a.json", "rack1/n": "rack1/n.json", "rack2/n": "rack2/n.json"}),
    ],
)
def test_what_a_path_stands_for(nodes: Path, paths: list[str], found: dict[str, str]) -> None:
    """A file is itself, a directory whatever is visible in it as *.json, a pattern its matches; each file once."""
    del nodes
    assert find_snapshots(paths) == tuple(Source(name, path) for name, path in found.items())


def test_what_is_not_a_file(tmp_path: Path) -> None:
    """A loop of links, a dangling link and a folder each have a result that says so, and the rest is judged.

    Kills: an error of the system that ends the run, and a name that vanishes.
    """
    save(tmp_path, {"good": plain_vm().snapshot()})
    (tmp_path / "loop.json").symlink_to("loop.json")
    (tmp_path / "gone.json").symlink_to("nowhere")
    (tmp_path / "folder.json").mkdir()
    for path in (tmp_path, tmp_path / "*.json"):
        results = judge_snapshots(find_snapshots([path]), ASKED, executor=Inline())
        told = {result.name: result.verdict or str(result.error).partition(".json: ")[2] for result in results}
        assert told.pop("good") == "ok"
        assert {name: text.partition(";")[0] for name, text in told.items()} == {
            "loop": "cannot be read: Too many levels of symbolic links",
            "gone": "cannot be read: No such file or directory",
            "folder": "cannot be read: Is a directory",
        }


def test_a_name_with_the_signs_of_a_pattern(nodes: Path) -> None:
    """The name of an existing file is not taken for a pattern."""
    (nodes / "[a].json").write_text("{}")
    assert find_snapshots(["[a].json"]) == (Source("[a]", "[a].json"),)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("nothing", "'nothing' does not exist; check the path"),
        ("nothing/*.json", "'nothing/*.json' matches no file; check the pattern"),
        ("empty", "'empty' has no .json file; save the snapshot of each node there"),
        ("empty*", "'empty*' matches no file"),
        ("-", "'-' is standard input, which is one snapshot; check it with --snapshot -"),
    ],
)
def test_paths_without_a_snapshot(nodes: Path, path: str, said: str) -> None:
    """Each path without a snapshot is named, with the reason and a remedy."""
    del nodes
    with pytest.raises(ConfigError) as caught:
        find_snapshots(["a.json", path, "neither"])
    assert [str(fault).partition(said)[1] or fault.value for fault in caught.value.faults] == [said, "'neither'"]


def test_no_path() -> None:
    """No path at all is an error, and a single one that is not in a list is a mistake of the caller."""
    with pytest.raises(ConfigError, match="no path is given"):
        find_snapshots([])
    with pytest.raises(TypeError, match=r'write \["nodes"\]'):
        find_snapshots("nodes")


def test_a_directory_that_is_not_readable(nodes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is that of the system."""
    del nodes

    def denied(_: str) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "scandir", denied)
    with pytest.raises(ConfigError, match="'rack1' cannot be read: Permission denied; check the path and"):
        find_snapshots(["rack1"])


PARTS = st.sampled_from(["a", "b", "a.json", "b.json", "c"])


@given(st.lists(st.lists(PARTS, min_size=1, max_size=4).map(lambda its: "/" + "/".join(its)), unique=True))
def test_no_two_nodes_have_one_name(paths: list[str]) -> None:
    """Whatever the paths, every name is used once, and is the end of its path as far as that is possible."""
    names = list(_names(paths))
    assert len(set(names)) == len(paths)
    for name, path in zip(names, paths, strict=True):
        assert f"/{path.removesuffix('.json')}".endswith(f"/{name}") or name == path
        if sum(Path(it).name.removesuffix(".json") == Path(path).name.removesuffix(".json") for it in paths) == 1:
            assert name == Path(path).name.removesuffix(".json")
