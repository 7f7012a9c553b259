"""`remove`: what was removed, and what could not be."""

from unittest import mock

from hostrouting.cli.commands.remove import COMMAND
from hostrouting.errors import BackendError
from hostrouting.model.route import OURS
from hostrouting.testing import FakeHost, h200
from tests.support.cli import say

UNIT = "/etc/systemd/system/static-routes.service"


def test_remove(repaired: str) -> None:
    """Everything of ours is removed and listed; a second run has nothing to do."""
    host = FakeHost(kernel=h200())
    before = str(host.kernel)
    say("apply", "--config", repaired, host=host)
    said = say("remove", host=host)
    assert said.code == 0
    assert said.lines[0] == "DONE: 2 routes deleted, 12 files removed; nothing that hostrouting installed is left"
    assert "  removed /etc/systemd/system/static-routes.service" in said.lines
    assert str(host.kernel) == before
    assert not host.files.texts
    again = say("remove", host=host)
    assert (again.code, again.lines) == (0, ["NOTHING TO DO: hostrouting has nothing installed on this host"])


def test_a_preset_under_its_former_name(repaired: str) -> None:
    """Apply and remove delete the preset whose name had no unit in it. Kills: the former path is not listed."""
    host, former = FakeHost(kernel=h200()), "/etc/systemd/system-preset/50-hostrouting.preset"
    for command in ("apply", "remove"):
        say("apply", "--config", repaired, host=host)
        host.files.texts[former] = "enable static-routes.service\n"
        words = (command, "--config", repaired)
        assert f"  removed {former}" in say(*words, host=host).lines
        assert former not in host.files.texts


def test_remove_dry_run(repaired: str) -> None:
    """--dry-run lists what would be removed, and the command for it. Nothing is changed."""
    host = FakeHost(kernel=h200())
    say("apply", "--config", repaired, host=host)
    kernel, files, manager = str(host.kernel), dict(host.files.texts), host.manager
    assert manager is not None
    calls = list(manager.calls)
    said = say("remove", "--dry-run", host=host)
    document = say("remove", "--dry-run", "--json", host=host).json
    assert (str(host.kernel), host.files.texts, manager.calls) == (kernel, files, calls)
    assert (said.code, said.err) == (0, "")
    assert (said.lines[0], said.lines[-1]) == (
        "TO DO: delete 2 routes, remove 12 files",
        "To remove it, as root: hostrouting remove",
    )
    assert "  remove /etc/systemd/system/static-routes.service" in said.lines
    assert any(text.startswith("  - 172.16.0.0/17 ") for text in said.lines)
    done = say("remove", "--json", host=host).json
    assert document == {**done, "ok": False, "dryRun": True}
    assert say("remove", "--dry-run", host=host).lines == [
        "NOTHING TO DO: hostrouting has nothing installed on this host"
    ]
    named = say("remove", "--dry-run", "--config", repaired, host=host)
    assert (named.code, named.lines[0].split(":")[0]) == (0, "NOTHING TO DO")


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
    """If routes cannot be read, the gate is still removed, and the answer lists what is left; exit code 3."""
    host = FakeHost(kernel=h200())
    say("apply", "--config", repaired, host=host)

    nowhere = mock.Mock(side_effect=BackendError("there is no netlink here: a container", kind="unavailable"))
    sick = FakeHost(kernel=host.kernel, backend=nowhere, files=host.files)
    said = say("remove", host=sick)
    assert said.code == 3
    assert said.lines[0].startswith("FAILED: there is no netlink here: a container")
    assert said.lines[-1] == "To see what is left: hostrouting status"
    assert host.layout.gate_drop_in() not in host.files.texts


def test_the_protocol_in_the_help() -> None:
    """The help names our route protocol; it is written there as a number, because the help loads nothing of ours."""
    assert f"carry its route protocol: {OURS}." in COMMAND.more
