"""hostrouting.host.fileset: sets of files on a host, made to be what they should, and taken away."""

from pathlib import Path

import pytest

from hostrouting.boot.gate import Gate, Part
from hostrouting.errors import FileError
from hostrouting.host.files import LocalFiles
from hostrouting.host.fileset import Changes, File, FileSet
from hostrouting.host.layout import HostLayout
from hostrouting.tasks.overlap_check import CheckRouteOverlap
from hostrouting.tasks.static_routes import ConfigureStaticRoutes
from hostrouting.testing import FakeFiles, FakeHost
from tests.support.tasks import CIDR, LAYOUT, REPAIR, config

WANTED = config(*REPAIR, cidrs=(CIDR,))
HOST = FakeHost()
PARTS: dict[str, Part] = {
    "routes": ConfigureStaticRoutes(WANTED, host=HOST).part,
    "check": CheckRouteOverlap(WANTED, host=HOST).part,
}
SETS = {
    **{name: part.files for name, part in PARTS.items()},
    "drop-in": Gate(HOST).drop_ins((LAYOUT.machine_unit,)),
    "gate": Gate(HOST).rest,
}
each_set = pytest.mark.parametrize("files_of", SETS.values(), ids=SETS)
each_marked = pytest.mark.parametrize(
    ("files_of", "path"),
    [
        (SETS["routes"], LAYOUT.routes_unit_path),
        (SETS["check"], LAYOUT.check_unit_path),
        (SETS["gate"], LAYOUT.gate_unit_path),
        (SETS["drop-in"], LAYOUT.gate_drop_in()),
    ],
    ids=SETS,
)
OWN = "[Service]\nExecStart=/opt/x\n"


@each_set
def test_there_and_back(files_of: FileSet) -> None:
    """Exactly the different files are written and the present ones removed; a second call does nothing."""
    files = FakeFiles()
    expected = files_of.differences(files)
    assert expected.removes == ()
    assert files_of.install(files) == expected.writes
    assert not files_of.differences(files)
    assert files_of.install(files) == ()
    present = files_of.present(files)
    assert set(present) == set(expected.writes) == {*files.texts, *files.links}
    assert files_of.remove(files) == present
    assert (files.texts, files.links, files_of.present(files)) == ({}, {}, ())


def test_changes() -> None:
    """Changes that come together have each path once, in order; without a path there are none."""
    both = Changes(("/a", "/b", "/a"), ("/c",)) + Changes(("/b",), ("/c", "/d"))
    assert both == Changes(("/a", "/b"), ("/c", "/d"))
    assert Changes((), ("/a",))
    assert Changes(("/a",))
    assert not Changes()


@pytest.mark.parametrize("mode", [0o600, 0o755])
def test_another_mode_is_a_difference(mode: int) -> None:
    """A file with the right text and another mode is written again."""
    files, wanted = FakeFiles(), FileSet((File("/x", "text\n"),))
    files.write("/x", "text\n", mode=mode)
    assert wanted.differences(files) == Changes(("/x",))
    assert wanted.install(files) == ("/x",)
    assert files.modes["/x"] == 0o644


def test_a_unit_of_others_that_is_not_utf_8(tmp_path: Path) -> None:
    """A unit that is not UTF-8 counts as another program's file and not as masked; nothing is written."""
    layout = HostLayout(root=str(tmp_path))
    unit = Path(layout.routes_unit_path)
    unit.parent.mkdir(parents=True)
    unit.write_bytes("[Unit]\nDescription=Ré\n".encode("latin-1"))
    part = ConfigureStaticRoutes(WANTED, host=FakeHost(layout=layout)).part
    with pytest.raises(FileError, match="was not written by hostrouting, which needs this path"):
        part.files.require_room(LocalFiles())
    assert part.files.present(LocalFiles()) == ()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [unit]


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_ties_of_others(part: Part) -> None:
    """A link of another installer from the machines to the unit is removed, in /etc and in /run."""
    files = FakeFiles()
    for directory in ("/etc/systemd/system", "/run/systemd/system"):
        files.links[f"{directory}/systemd-nspawn@.service.requires/{part.unit}"] = "/x"
    if part.unit == LAYOUT.check_unit:
        files.links["/etc/systemd/system/multi-user.target.wants/check-route-overlap.service"] = "/x"
    ties = set(files.links)
    assert ties == set(part.files.differences(files).removes)
    part.files.install(files)
    assert not ties & set(files.links)


@each_marked
def test_of_others(files_of: FileSet, path: str) -> None:
    """A unit or drop-in that we did not write is an error before anything is written, and it is not ours to remove."""
    files = FakeFiles()
    files.texts[path] = OWN
    files.links |= dict(files_of.links)
    with pytest.raises(FileError, match=f"{path} was not written by hostrouting") as caught:
        files_of.require_room(files)
    assert caught.value.path == path
    assert [str(obstacle) for obstacle in files_of.obstacles(files)] == [str(caught.value)]
    assert files_of.foreign(files) == (path,)
    assert files_of.present(files) == files_of.remove(files) == ()
    assert files.texts == {path: OWN}


@each_marked
def test_masked(files_of: FileSet, path: str) -> None:
    """A masked one has its place, stays masked, and is an error when it is to be written."""
    files = FakeFiles()
    files.texts[path] = ""
    files_of.require_room(files)
    remedy = f"systemctl unmask {path.rpartition('/')[2]}" if path.endswith(".service") else "remove it"
    with pytest.raises(FileError, match=f"{path} is masked: empty, or a link to /dev/null; {remedy}") as caught:
        files_of.install(files)
    assert [str(obstacle) for obstacle in files_of.obstacles(files)] == [str(caught.value)]
    assert path not in files_of.present(files)
    assert files.texts[path] == ""


def test_what_was_written_before_a_failure_stays() -> None:
    """Files are written in order; the first that cannot be written ends the run."""
    files = FakeFiles(broken={"/b": "No space left on device"})
    with pytest.raises(FileError, match="No space left"):
        FileSet((File("/a", "1"), File("/b", "2"), File("/c", "3"))).install(files)
    assert files.texts == {"/a": "1"}


def test_removing_goes_on_past_failures() -> None:
    """With a list for the failures, the rest is still removed; without one, the first failure ends the removal."""
    wanted = FileSet((File("/a", "1"), File("/b", "2")), obsolete=("/c",))
    files = FakeFiles(texts={"/a": "1", "/b": "2", "/c": ""}, broken={"/a": "Read-only file system"})
    with pytest.raises(FileError, match="Read-only"):
        wanted.remove(files)
    assert set(files.texts) == {"/a", "/b", "/c"}
    failures: list[FileError] = []
    assert wanted.remove(files, failures) == ("/b", "/c")
    assert [error.path for error in failures] == ["/a"]
    assert set(files.texts) == {"/a"}


def test_all_obstacles() -> None:
    """All files that would make `install` fail are reported, in order; the first is the one that it fails with."""
    texts = {"/masked": "", "/foreign": OWN}
    files = FakeFiles(texts, strange={"/fifo": "a fifo", "/link": "a socket"})
    several = FileSet(
        (
            File("/fine", "x", marks=("ours",)),
            File("/masked", "x", marks=("ours",)),
            File("/foreign", "x", marks=("ours",)),
            File("/fifo", "x"),
        ),
        links=(("/link", "/fine"),),
    )
    assert [obstacle.path for obstacle in several.obstacles(files)] == ["/masked", "/foreign", "/fifo", "/link"]
    assert not several.obstacles(FakeFiles())
