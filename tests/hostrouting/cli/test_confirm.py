"""`apply --confirm`: unless Enter is pressed, the host is as it was."""

import errno
import json
import os
import pty
import select
import signal
import termios
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from unittest import mock

import pytest

from hostrouting.cli.commands import apply
from hostrouting.cli.confirming import is_confirmed, prepare_question
from hostrouting.config.settings import GuardConfig, HostRoutingConfig
from hostrouting.tasks.configure import Configure
from hostrouting.testing import FakeHost
from tests.support.cli import say
from tests.support.mishaps import mishap_host
from tests.support.tasks import (
    LAYOUT,
    REPAIR,
    WANTED,
    config,
    configured,
    document,
    lose_routes,
    manager_of,
    our_destinations,
    run,
    type_routes,
)

OTHER = config("10.77.0.0/16", cidrs=("10.9.0.0/16",), mode="WARN")._replace(
    guard=GuardConfig(enabled=True)
)
FORMER = HostRoutingConfig.from_mapping(
    document(
        cidrs=(),
        staticRoutes={
            "enabled": True,
            "routes": [{"destination": "10.77.0.0/16", "dev": "ib0", "gateway": "172.16.0.1"}],
        },
    )
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


@pytest.mark.parametrize("is_kept", [True, False])
def test_enter(monkeypatch: pytest.MonkeyPatch, installed: FakeHost, *, is_kept: bool) -> None:
    """It keeps the change; without it, what was installed before is installed again."""
    shown: list[str] = []

    def answer(seconds: float, changes: Iterable[str]) -> bool:
        shown.extend(changes)
        return is_kept and seconds == 5

    monkeypatch.setattr(apply, "prepare_question", lambda: None)
    monkeypatch.setattr(apply, "is_confirmed", answer)
    before = state(installed)
    said = say(*COMMAND, host=installed, stdin=json_of(config(*REPAIR)))
    assert said.lines[0].startswith("DONE: " if is_kept else "TAKEN BACK: ")
    assert shown[0].startswith("DONE: for now")
    assert f"  add {REPAIR[0]} via 10.0.0.1 dev eth0 proto hostrouting" in shown
    assert not is_kept or shown[1:] == said.lines[1 : len(shown)]
    assert ("STOPPED: the change was not confirmed" in said.lines) is not is_kept
    of_route = (f"  add {REPAIR[0]} ", f"  delete {REPAIR[0]} ")
    done = [line.split()[0] for line in said.lines if line.startswith(of_route)]
    assert done == (["add"] if is_kept else ["add", "delete"])
    assert (state(installed) == before) is not is_kept
    assert said.code == (not is_kept)


def test_a_run_that_nobody_confirms(monkeypatch: pytest.MonkeyPatch, installed: FakeHost) -> None:
    """One that fails is taken back; of one that changes nothing, nothing has to be."""
    monkeypatch.setattr(apply, "prepare_question", lambda: None)
    monkeypatch.setattr(apply, "is_confirmed", mock.Mock(side_effect=AssertionError))
    before = state(installed)
    installed.faults.fail("change", errno.EPERM)
    said = say(*COMMAND, host=installed, stdin=json_of(config(*REPAIR)))
    assert said.lines[0].startswith("TAKEN BACK: ")
    assert said.lines[1].startswith("FAILED: ")
    assert state(installed) == before
    waiting = json_of(config(*REPAIR, dev="gone0"))
    assert say(*COMMAND, "--wait", "0", host=installed, stdin=waiting).code == 3

    refused = [word for word in COMMAND if word != "--allow-removal"]
    for words, wanted, code in ((refused, WANTED, 2), (COMMAND, OTHER, 0)):
        said = say(*words, host=installed, stdin=json_of(wanted))
        assert said.code == code
        assert "TAKEN BACK" not in said.out
    installed.files.texts[LAYOUT.config_path] = "{"  # which could not be brought back
    assert say(*COMMAND, host=installed, stdin=json_of(WANTED)).code == 2


def test_no_terminal(monkeypatch: pytest.MonkeyPatch, installed: FakeHost) -> None:
    no_terminal = mock.Mock(side_effect=OSError(errno.ENXIO, "No such device or address"))
    monkeypatch.setattr("hostrouting.cli.confirming.open", no_terminal, raising=False)
    before = state(installed)
    said = say(*COMMAND, host=installed, stdin=json_of(WANTED))
    assert said.code == 2
    assert "there is no terminal to press Enter on" in said.err
    assert state(installed) == before


@pytest.mark.parametrize("obstacle", ["conflict", "wait"])
def test_what_does_not_come_back(obstacle: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A former route that conflicts or waits by now is named, and nobody waits for it."""
    monkeypatch.setattr(apply, "prepare_question", lambda: None)
    monkeypatch.setattr(apply, "is_confirmed", lambda *_: False)
    host = configured(FORMER)
    before = state(host)[0]
    if obstacle == "conflict":
        lose_routes(host)
        type_routes(host, "10.77.0.0/16", protocol=4)
    else:
        host.kernel.delete_link("ib0")
    began = time.monotonic()
    said = say(*COMMAND, host=host, stdin=json_of(config("10.99.0.0/16")))
    assert time.monotonic() - began < 5
    assert said.lines[0] == "NOT EVERYTHING IS TAKEN BACK:"
    assert said.lines[1].startswith("FAILED: ")
    assert "10.77.0.0/16" in said.lines[1]
    assert "STOPPED: the change was not confirmed" in said.lines
    assert any(line.startswith("  delete 10.99.0.0/16 ") for line in said.lines)
    assert said.code == 1
    assert state(host)[0] == before
    assert our_destinations(host) == []


class Terminal(NamedTuple):
    child: int
    screen: int
    """What the terminal shows is read here, and what is typed is written here."""

    def read_until(self, words: bytes) -> bytes:
        shown = b""
        while words not in shown:
            shown += os.read(self.screen, 4096)
        return shown

    def exit_code(self) -> int:
        """Its exit code, within 15 s."""
        until = time.monotonic() + 15
        while time.monotonic() < until:
            child, status = os.waitpid(self.child, os.WNOHANG)
            if child:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.01)
        os.kill(self.child, signal.SIGKILL)
        os.waitpid(self.child, 0)
        raise AssertionError("the program hangs")


def on_a_terminal(program: Callable[[], int]) -> Terminal:
    child, screen = pty.fork()
    if child == 0:
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))  # as `run`
        code = 99
        try:
            code = program()
        finally:
            os._exit(code)
    return Terminal(child, screen)


def ask(seconds: float = 0.5) -> int:
    prepare_question()
    return not is_confirmed(seconds, ["  add 172.16.0.0/17 dev a\x1b"])


@pytest.mark.linux
@pytest.mark.parametrize(
    "typed", [b"\n", b"y", b"no\n", b"y\x04\x04", b"\x04", b"\x03", b"\x1c", None]
)
def test_the_terminal(typed: bytes | None) -> None:
    """Only Enter counts: no other line or key, and no terminal that is closed."""
    terminal = on_a_terminal(ask)
    shown = terminal.read_until(b"taken back")
    assert shown.startswith(b"  add 172.16.0.0/17 dev a\\x1b\r\nPress only Enter within 0.5 s ")
    if typed is None:
        os.close(terminal.screen)
    else:
        os.write(terminal.screen, typed)
    assert terminal.exit_code() == (0 if typed == b"\n" else 1)
    if typed is not None:
        os.close(terminal.screen)


@pytest.mark.linux
@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_terminal_before_it_is_asked(*, is_stopped: bool) -> None:
    """Earlier keys do not count, and one that Ctrl-S has stopped is not awaited past the limit."""

    def program() -> int:
        if is_stopped:
            termios.tcflow(0, termios.TCOOFF)
        else:
            select.select([0], [], [])  # until the key has come
        return ask()

    terminal = on_a_terminal(program)
    if not is_stopped:
        os.write(terminal.screen, b"\n")
    assert terminal.exit_code() == 1
    os.close(terminal.screen)


KEYS = {"Ctrl-C": b"\x03", "Ctrl-Z": b"\x1a", "Enter": b"\n"}


@pytest.mark.linux
@pytest.mark.parametrize("first", ["no key", "Ctrl-C", "Ctrl-Z", "SIGTERM", "closed", "Enter"])
@pytest.mark.parametrize("later", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_more_signals(first: str, later: signal.Signals) -> None:
    """Another signal, before or at any effect of the taking back, stops nothing of it."""
    host, mishaps = mishap_host()
    run(Configure(OTHER, host=host))
    before = state(host)

    def send(_event: str) -> None:
        os.kill(os.getpid(), later)

    def asked(*arguments: Any) -> bool:
        answer = is_confirmed(*arguments)
        signal.raise_signal(later)
        mishaps.watch = send
        return answer

    def program() -> int:
        seconds = "0.3" if first == "no key" else "20"
        with mock.patch.object(apply, "is_confirmed", asked):
            said = say(*COMMAND[:-1], seconds, host=host, stdin=json_of(config(*REPAIR)))
        if (state(host) == before) is not ("TAKEN BACK: " in said.out):
            return 98
        return said.code

    terminal = on_a_terminal(program)
    terminal.read_until(b"taken back")
    if first in KEYS:
        os.write(terminal.screen, KEYS[first])
    elif first == "SIGTERM":
        os.kill(terminal.child, signal.SIGTERM)
    elif first == "closed":
        os.close(terminal.screen)
    assert terminal.exit_code() == (0 if first == "Enter" else 1)
    if first != "closed":
        os.close(terminal.screen)


def json_of(value: HostRoutingConfig) -> bytes:
    return json.dumps(value.to_mapping()).encode()
