"""hostrouting.installation: sets of files on a host, made to be what they should, and taken away."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostrouting.errors import FileError
from hostrouting.installation import Installation, check_installation, former_protocols, routes_installation
from hostrouting.layout import HostLayout
from hostrouting.system import LocalFiles
from hostrouting.testing import FakeFiles
from tests.support.tasks import CIDR, LAYOUT, REPAIR, config

WANTED = config(*REPAIR, cidrs=(CIDR,))
BOTH = {"routes": routes_installation(WANTED, LAYOUT), "check": check_installation(WANTED, LAYOUT)}
each = pytest.mark.parametrize("installation", BOTH.values(), ids=BOTH)


def install(installation: Installation, files: FakeFiles) -> tuple[str, ...]:
    """Gate and program."""
    return (*installation.gate.install(files), *installation.program.install(files))


def remove(installation: Installation, files: FakeFiles) -> tuple[str, ...]:
    """Gate and program."""
    return (*installation.gate.remove(files), *installation.program.remove(files))


@each
def test_there_and_back(installation: Installation) -> None:
    """What differs is what is written, what is present is what is removed; a second time there is nothing to do."""
    files = FakeFiles()
    expected = installation.differences(files)
    assert install(installation, files) == expected
    assert installation.differences(files) == ()
    assert install(installation, files) == ()
    present = installation.present(files)
    assert set(present) == set(expected) == {*files.texts, *files.links}
    assert remove(installation, files) == present
    assert (files.texts, files.links, installation.present(files)) == ({}, {}, ())


def test_a_unit_of_somebody_else_that_is_no_utf_8(tmp_path: Path) -> None:
    """It is somebody else's and not a masked one, and nothing is written."""
    layout = HostLayout(root=str(tmp_path))
    unit = Path(layout.routes_unit_path)
    unit.parent.mkdir(parents=True)
    unit.write_bytes("[Unit]\nDescription=Ré\n".encode("latin-1"))
    with pytest.raises(FileError, match="is not ours, and stands where a file of ours belongs"):
        routes_installation(WANTED, layout).gate.install(LocalFiles())
    assert [it for it in tmp_path.rglob("*") if it.is_file()] == [unit]


@each
def test_the_gate_is_shut_first(installation: Installation) -> None:
    """The drop-in is the first file of a gate to come and to go: alone it shuts the gate, and without it there is none."""
    paths = tuple(it.path for it in installation.gate.files)
    assert paths[0].endswith(".conf")
    files = FakeFiles()
    assert install(installation, files)[: len(paths)] == paths
    assert installation.gate.remove(files)[: len(paths)] == paths


@each
def test_ties_of_others(installation: Installation) -> None:
    """By whatever link, lasting or of this boot, another installer tied the unit to the machines: it goes."""
    files = FakeFiles()
    for directory in ("/etc/systemd/system", "/run/systemd/system"):
        files.links[f"{directory}/systemd-nspawn@.service.requires/{installation.unit}"] = "/x"
    if installation.unit == LAYOUT.check_unit:
        files.links["/etc/systemd/system/multi-user.target.wants/check-route-overlap.service"] = "/x"
    ties = set(files.links)
    assert ties <= set(installation.differences(files))
    install(installation, files)
    assert not ties & set(files.links)


@each
def test_what_the_manager_is_not_done_with(installation: Installation) -> None:
    """The note that the manager has yet to read, stop or run what was written is a difference, and is present."""
    files = FakeFiles()
    install(installation, files)
    files.write(installation.note, "")
    assert installation.differences(files) == (installation.note,)
    assert installation.note in installation.present(files)


@each
def test_somebody_elses(installation: Installation) -> None:
    """A unit that is not ours is not written over, nor anything beside it; it is not present, nor is what leads to it."""
    files = FakeFiles()
    [unit] = [it.path for it in installation.gate.files if it.path.endswith(".service")]
    files.texts[unit] = "[Service]\nExecStart=/opt/x\n"
    files.links |= dict(installation.gate.links)
    with pytest.raises(FileError, match=f"{unit} is not ours") as caught:
        installation.gate.install(files)
    assert caught.value.path == unit
    assert files.writes == []
    assert installation.present(files) == ()


def test_former_protocols() -> None:
    """The number that our files name is a former one as soon as another is configured."""
    files = FakeFiles()
    assert former_protocols(files, LAYOUT, now=214) == frozenset()
    install(BOTH["routes"], files)
    assert former_protocols(files, LAYOUT, now=213) == frozenset()
    assert former_protocols(files, LAYOUT, now=214) == {213}
