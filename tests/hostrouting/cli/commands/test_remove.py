"""`remove`: what was removed, and what could not be."""

from unittest import mock

from hostrouting.errors import BackendError
from hostrouting.testing import FakeHost, h200
from tests.support.cli import say

UNIT = "/etc/systemd/system/static-routes.service"
NOTHING = ["NOTHING TO DO: hostrouting has nothing installed on this host"]


def test_remove(repaired: str) -> None:
    """Everything of ours is removed and listed, as --dry-run says before; a second run has nothing to do."""
    host = FakeHost(kernel=h200())
    before = str(host.kernel)
    say("apply", "--config", repaired, host=host)
    kernel, files = str(host.kernel), dict(host.files.texts)
    planned = say("remove", "--dry-run", host=host)
    assert (planned.code, planned.err) == (0, "")
    assert planned.lines[0] == "TO DO: delete 2 routes, remove 9 files"  # with the marker of the check
    assert f"  remove {UNIT}" in planned.lines
    assert any(row.startswith("  - 172.16.0.0/17 ") for row in planned.lines)
    assert planned.lines[-1] == "To remove it, as root: hostrouting remove"
    assert say("remove", "--dry-run", "--json", host=host).json["dryRun"]
    assert (str(host.kernel), host.files.texts) == (kernel, files)
    said = say("remove", host=host)
    assert said.code == 0
    assert said.lines[0] == "DONE: 2 routes deleted, 8 files removed; nothing that hostrouting installed is left"
    assert f"  removed {UNIT}" in said.lines
    assert (str(host.kernel), host.files.texts) == (before, {})
    for words in (("remove",), ("remove", "--dry-run")):
        again = say(*words, host=host)
        assert (again.code, again.lines) == (0, NOTHING)


def test_scripts_of_somebody_else(repaired: str) -> None:
    """While they hold units back, nothing is removed; they are named, and the exit code is 1."""
    host = FakeHost(kernel=h200())
    say("apply", "--config", repaired, host=host)
    paths = [f"/etc/hostrouting/gate.d/{name}.sh" for name in ("40-licence", "50-quota")]
    host.files.texts |= dict.fromkeys(paths, "exit 0\n")
    files = dict(host.files.texts)
    said = say("remove", host=host)
    assert (said.code, host.files.texts) == (1, files)
    assert all(f"{path} is not of hostrouting" in said.lines[0] for path in paths)
    for path in paths:
        host.files.remove(path)
    assert say("remove", host=host).code == 0


def test_remove_that_fails(repaired: str) -> None:
    """The answer lists what could not be removed, and how to see what is left; exit code 1."""
    host = FakeHost(kernel=h200())
    say("apply", "--config", repaired, host=host)
    host.files.broken[UNIT] = "Operation not permitted; look whether it is immutable"
    said = say("remove", host=host)
    assert said.code == 1
    assert said.lines[0].startswith(f"FAILED: cannot remove {UNIT}: Operation not permitted")
    assert said.lines[-1] == "To see what is left: hostrouting status"


def test_remove_without_netlink(repaired: str) -> None:
    """If routes cannot be read, nothing is removed, and the exit code is 3."""
    host = FakeHost(kernel=h200())
    say("apply", "--config", repaired, host=host)
    nowhere = mock.Mock(side_effect=BackendError("there is no netlink here: a container", kind="unavailable"))
    said = say("remove", host=FakeHost(kernel=host.kernel, backend=nowhere, files=host.files))
    assert said.code == 3
    assert said.lines[0].startswith("FAILED: there is no netlink here: a container")
