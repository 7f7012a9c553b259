"""hostrouting.host.fileset and ours: whose files are, and what would change."""

import re

import pytest

from hostrouting.host.fileset import File, FileChanges
from hostrouting.host.ours import is_ours
from hostrouting.testing import FakeFiles

UNIT = "/etc/systemd/system/static-routes.service"
NETWORKD = "/etc/systemd/networkd.conf.d/50-hostrouting.conf"
CONFIG = "/etc/hostrouting/config.json"
OURS = "# Written by hostrouting; changes are overwritten.\n"


@pytest.mark.parametrize(
    ("path", "text", "ours", "refused"),
    [
        (UNIT, OURS, True, "has the mode 644, and not 600"),
        (UNIT, "[Service]\nExecStart=/etc/aks-flex-node/static-routes.sh\n", False, ""),
        (UNIT, "[Unit]\nBefore=systemd-nspawn@.service\n", False, ""),
        (NETWORKD, "[Network]\n", False, "was not written by hostrouting, .*; move the file"),
        (CONFIG, "", True, ""),
    ],
)
def test_whose(path: str, text: str, *, ours: bool, refused: str) -> None:
    """Elsewhere than in our folders a file says whose it is; only ours are replaced."""
    files = FakeFiles({path: text})
    assert is_ours(files, path) is ours
    file = File(path, OURS, 0o600)
    obstacle = file.find_obstacle(files)
    if refused:
        assert obstacle is not None
        assert (obstacle.target, obstacle.severity) == (path, "warning" if ours else "error")
        assert re.match(f"{path} {refused}", str(obstacle))
    else:
        assert obstacle is None
        file.write(files)
        assert is_ours(files, path)
    assert not is_ours(files, "/etc/systemd/system/absent.service")
    assert File("/etc/systemd/system/absent.service").find_obstacle(files) is None


@pytest.mark.parametrize("target", [UNIT, "/dev/null", "/etc/another.service"])
def test_the_place_of_a_link(target: str) -> None:
    """A link or file in a link's place is replaced; a folder is not, nor a link for a file."""
    path = "/etc/systemd/system/multi-user.target.wants/static-routes.service"
    files = FakeFiles({"/etc/another.service": "[Service]\n", UNIT: OURS})
    link = File(path, target=UNIT)
    files.link(path, target)
    assert link.find_obstacle(files) is None
    assert is_ours(files, path) is (target == UNIT)
    files.write(f"{path}s/file", "text")
    assert not is_ours(files, f"{path}s")
    files.link(CONFIG, target)
    rule = "where a file of hostrouting has to be; move it away; "
    for file, kind in ((File(f"{path}s", target=UNIT), "directory"), (File(CONFIG), "link to")):
        assert re.match(f"{file.path} is a {kind}.*, {rule}", str(file.find_obstacle(files)))


def test_difference() -> None:
    """A file differs until it is written, and if its text, mode, owner or target is another."""
    assert [bool(FileChanges(removes=paths)) for paths in ((), (CONFIG,))] == [False, True]
    files = FakeFiles()
    file, link = File(CONFIG, "text\n", 0o600), File("/etc/a.wants/b.service", target=UNIT)
    new = "text\n"
    for mode, text, owner in ((0o600, "", 0), (0o644, new, 0), (0o600, "old", 0), (0o600, new, 1)):
        if text:
            files.modes[CONFIG], files.texts[CONFIG], files.owners[CONFIG] = mode, text, owner
        assert file.differs(files)
        file.write(files)
        assert not file.differs(files)
        assert files.modes[CONFIG] == 0o600
        assert files.texts[CONFIG] == "text\n"
    files.texts[link.path] = "anything"
    for _ in range(2):
        assert link.differs(files)
        link.write(files)
        assert not link.differs(files)
        files.links[link.path] = "/dev/null"
