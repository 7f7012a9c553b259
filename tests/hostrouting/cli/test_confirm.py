"""`apply --confirm`: unless Enter is pressed, the host is as it was."""

import errno
import json
import os
import pty
from collections.abc import Iterable
from unittest import mock

import pytest

from hostrouting.cli.commands import apply
from hostrouting.cli.confirming import is_confirmed
from hostrouting.config.settings import GuardConfig, HostRoutingConfig
from hostrouting.testing import FakeHost
from tests.support.cli import say
from tests.support.tasks import LAYOUT, REPAIR, WANTED, config, configured, manager_of

OTHER = config("10.77.0.0/16", cidrs=("10.9.0.0/16",), mode="WARN")._replace(
    guard=GuardConfig(enabled=True)
)
COMMAND = ("apply", "--config", "-", "--allow-removal", "--confirm", "5")


def state(host: FakeHost) -> tuple[object, ...]:
    """All that is taken back: files, routes, and which units are active. The markers are not."""
    files = {**host.files.texts, **host.files.links}
    kept = {path: text for path, text in files.items() if path not in LAYOUT.markers}
    states = manager_of(host).states
    active = {unit for unit, state in states.items() if state == "active"}
    return kept, host.kernel.snapshot(), active


@pytest.fixture
def installed() -> FakeHost:
    return configured(OTHER)


def never_asked(*_: object) -> bool:
    raise AssertionError("nobody has to be asked")


@pytest.mark.parametrize("is_kept", [True, False])
def test_enter(monkeypatch: pytest.MonkeyPatch, installed: FakeHost, *, is_kept: bool) -> None:
    """Enter keeps the change; without it, what was installed before is installed again."""
    shown: list[str] = []

    def answer(seconds: float, changes: Iterable[str]) -> bool:
        shown.extend(changes)
        return is_kept and seconds == 5

    monkeypatch.setattr(apply, "require_terminal", lambda: None)
    monkeypatch.setattr(apply, "is_confirmed", answer)
    before = state(installed)
    said = say(*COMMAND, host=installed, stdin=json_of(config(*REPAIR)))
    assert said.lines[0].startswith("DONE: ")
    assert shown[1:] == said.lines[1 : len(shown)]
    assert f"  add {REPAIR[0]} via 10.0.0.1 dev eth0 proto hostrouting" in shown
    assert ("TAKEN BACK: " in said.out) is not is_kept
    assert (state(installed) == before) is not is_kept
    assert said.code == (not is_kept)


def test_a_run_that_fails(monkeypatch: pytest.MonkeyPatch, installed: FakeHost) -> None:
    monkeypatch.setattr(apply, "require_terminal", lambda: None)
    monkeypatch.setattr(apply, "is_confirmed", never_asked)
    before = state(installed)
    installed.faults.fail("change", errno.EPERM)
    said = say(*COMMAND, host=installed, stdin=json_of(config(*REPAIR)))
    assert said.lines[0].startswith("FAILED: ")
    assert "TAKEN BACK: " in said.out
    assert state(installed) == before


def test_a_run_that_changes_nothing(monkeypatch: pytest.MonkeyPatch, installed: FakeHost) -> None:
    """It is refused, or finds nothing to do."""
    monkeypatch.setattr(apply, "require_terminal", lambda: None)
    monkeypatch.setattr(apply, "is_confirmed", never_asked)
    refused = [word for word in COMMAND if word != "--allow-removal"]
    for words, wanted, code in ((refused, WANTED, 2), (COMMAND, OTHER, 0)):
        said = say(*words, host=installed, stdin=json_of(wanted))
        assert said.code == code
        assert "TAKEN BACK" not in said.out


def test_no_terminal(monkeypatch: pytest.MonkeyPatch, installed: FakeHost) -> None:
    no_terminal = mock.Mock(side_effect=OSError(errno.ENXIO, "No such device or address"))
    monkeypatch.setattr("hostrouting.cli.confirming.open", no_terminal, raising=False)
    before = state(installed)
    said = say(*COMMAND, host=installed, stdin=json_of(WANTED))
    assert said.code == 2
    assert "there is no terminal to press Enter on" in said.err
    assert state(installed) == before


@pytest.mark.linux
@pytest.mark.parametrize(
    ("typed", "code"),
    [(b"\n", 0), (b"y", 1), (b"y\x04\x04", 1), (b"\x04", 1), (b"\x03", 1), (None, 1)],
)
def test_the_terminal(typed: bytes | None, code: int) -> None:
    """Only Enter counts, and not Ctrl-D, Ctrl-C, another key, or a terminal that is closed."""
    child, terminal = pty.fork()
    if child == 0:
        os._exit(not is_confirmed(0.5, ["  add 172.16.0.0/17 dev a\x1b"]))
    shown = b""
    while b"taken back" not in shown:
        shown += os.read(terminal, 4096)
    assert shown.startswith(b"  add 172.16.0.0/17 dev a\\x1b\r\nPress Enter within 0.5 s ")
    if typed is None:
        os.close(terminal)
    else:
        os.write(terminal, typed)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == code
    if typed is not None:
        os.close(terminal)


def json_of(value: HostRoutingConfig) -> bytes:
    return json.dumps(value.to_mapping()).encode()
