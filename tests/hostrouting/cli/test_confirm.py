"""`apply --confirm`: whatever keeps the operator from pressing Enter, the host is as it was. And
`apply --confirm-if`, where a command decides.
"""

import errno
import json
import os
import pty
import signal
import subprocess
import sys
import syslog
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import phases
from hostrouting.cli.commands import apply
from hostrouting.cli.confirming import (
    AwaitEnter,
    ControllingTerminal,
    Terminal,
    controlling_terminal,
    log,
)
from hostrouting.config.settings import GuardConfig, HostRoutingConfig
from hostrouting.errors import HostRoutingError
from hostrouting.tasks.configure import Configure
from hostrouting.testing import FakeHost, h200
from tests.support.cli import Said, say
from tests.support.examples import scaled
from tests.support.mishaps import mishap_host
from tests.support.tasks import (
    LAYOUT,
    REPAIR,
    WANTED,
    config,
    configured,
    context,
    failure_of,
    left_to_do,
    manager_of,
    run,
    type_routes,
)

OTHER = config("10.77.0.0/16", cidrs=("10.9.0.0/16",), mode="WARN")._replace(
    guard=GuardConfig(enabled=True)
)
TYPED = "10.99.0.0/16"


class FakeTerminal:
    """A terminal on which something happens at each look at it, and then nothing any more: with
    each look, a second has passed.
    """

    def __init__(self, *happens: Callable[[], bool]) -> None:
        """Take what happens, one for each look."""
        self.logged: list[str] = []
        """What the journal has then, which is there for an operator whose terminal is gone."""
        self.said: list[str] = []
        self.seconds_passed = 0
        self._happens = list(happens)

    def say(self, text: str) -> None:
        """See Terminal."""
        self.said.append(text)

    def has_enter(self) -> bool:
        """See Terminal."""
        if self._happens:
            happens = self._happens.pop(0)
            return happens()
        self.seconds_passed += 1
        return False


def a_change(_ctx: phases.Context) -> list[str]:
    """A change."""
    return ["  add 10.0.0.0/8"]


def enter() -> bool:
    """Enter is pressed."""
    return True


def nothing() -> bool:
    """Nothing happens, and no time passes."""
    return False


# A signal may come late on a busy machine.
FOR_A_MINUTE = [nothing] * 600


def closed() -> bool:
    """The terminal is closed."""
    raise EOFError


def state(host: FakeHost) -> tuple[object, ...]:
    """All that is taken back: files, routes, and which units are active. The markers are not: they
    are as the last check has left them.
    """
    files = {**host.files.texts, **host.files.links}
    kept = {path: text for path, text in files.items() if path not in LAYOUT.markers}
    states = manager_of(host).states
    active = {unit for unit, state in states.items() if state == "active"}
    return kept, host.kernel.snapshot(), active


@pytest.fixture
def confirm(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Said]:
    """`apply --confirm 1` of a configuration, with a terminal, and with further options."""

    def applied(
        host: FakeHost,
        terminal: FakeTerminal,
        *options: str,
        wanted: HostRoutingConfig = WANTED,
    ) -> Said:
        @contextmanager
        def opened() -> Iterator[Terminal]:
            yield terminal

        def now(_clock: object) -> float:
            return time.monotonic() + terminal.seconds_passed

        monkeypatch.setattr(apply, "controlling_terminal", opened)
        monkeypatch.setattr(apply, "log", terminal.logged.extend)
        monkeypatch.setattr(phases.Clock, "now", now)
        stdin = json.dumps(wanted.to_mapping()).encode()
        words = ("--config", "-", "--confirm", "1", "--wait", "0", "--allow-removal")
        return say("apply", *words, *options, host=host, stdin=stdin)

    return applied


@pytest.fixture
def installed() -> FakeHost:
    """A host with another configuration, its guard, and a route that somebody typed."""
    host = configured(OTHER)
    type_routes(host, TYPED)
    return host


def test_enter(confirm: Callable[..., Said], installed: FakeHost) -> None:
    """The change stays; the question says what happens without an answer."""
    terminal = FakeTerminal(nothing, enter)

    said = confirm(installed, terminal, "--json")

    assert said.code == 0
    assert said.json["ok"]
    assert said.json["changed"]
    assert left_to_do(Configure(WANTED, host=installed)) == ""
    changes, question = terminal.said
    made, *lines = changes.splitlines()
    assert made == "The change is made:"
    assert f"  delete {TYPED} via 10.0.0.1 dev eth0 proto hostrouting" in lines
    assert f"  wrote {LAYOUT.config_path}" in lines
    assert f"  removed {LAYOUT.unit_path(LAYOUT.guard_unit)}" in lines
    assert question.startswith(
        "Press Enter within 1 s to keep this. Otherwise, what was installed "
    )
    assert terminal.logged == []


def killed() -> bool:
    """The program gets SIGTERM."""
    os.kill(os.getpid(), signal.SIGTERM)
    return False


def hung_up() -> bool:
    """The terminal is closed, which sends SIGHUP."""
    os.kill(os.getpid(), signal.SIGHUP)
    return False


STOPPED = 128 + signal.SIGTERM


@pytest.mark.parametrize(
    ("former", "happens", "code", "reason"),
    [
        (HostRoutingConfig(), nothing, 1, "FAILED: nobody pressed Enter within 1 s"),
        (OTHER, nothing, 1, "FAILED: nobody pressed Enter within 1 s"),
        (OTHER, closed, 1, "FAILED: the terminal was closed, or Ctrl-D was pressed, before Enter"),
        (OTHER, killed, STOPPED, "STOPPED: SIGTERM; not everything was done"),
        (OTHER, hung_up, STOPPED, "STOPPED: the terminal was closed; not everything was done"),
    ],
)
def test_no_enter(
    confirm: Callable[..., Said],
    former: HostRoutingConfig,
    happens: Callable[[], bool],
    code: int,
    reason: str,
) -> None:
    """Everything is as it was, also routes that somebody typed; the page says so, and so does the
    journal, because there may be nobody to read the page.
    """
    host = configured(former)
    type_routes(host, TYPED)
    before = state(host)
    terminal = FakeTerminal(nothing, happens, *(FOR_A_MINUTE if code == STOPPED else ()))

    said = confirm(host, terminal, "--json")

    assert state(host) == before
    assert said.code == code
    assert terminal.seconds_passed <= 1
    assert said.json["takenBack"]
    assert not said.json["changed"]
    assert "check" not in said.json  # how the host is now: as it was before
    assert terminal.logged == [
        reason,
        "TAKEN BACK: what was installed before is installed again",
    ]
    if code == STOPPED:
        assert said.json["stopped"] == reason.partition(": ")[2].partition(";")[0]
    else:
        [failure] = said.json["failures"]
        assert f"FAILED: {failure['message']}" == reason


def test_a_run_that_fails(confirm: Callable[..., Said], installed: FakeHost) -> None:
    """Without --confirm, files stay where a run fails; with it, they go, and nobody is asked."""
    installed.faults.fail("change", errno.ENOBUFS)
    before = state(installed)
    terminal = FakeTerminal(enter)

    said = confirm(installed, terminal)

    assert said.code == 1
    assert state(installed) == before
    assert terminal.said == []
    assert terminal.logged[-1].startswith("TAKEN BACK: ")


def test_a_run_that_fails_before_its_first_change(
    confirm: Callable[..., Said], installed: FakeHost
) -> None:
    """There is nothing to take back, and nothing to say of that in the journal."""
    installed.files.broken["/etc"] = "Read-only file system"
    terminal = FakeTerminal(enter)
    said = confirm(installed, terminal)
    assert said.code == 1
    assert "Nothing was changed." in said.lines
    assert terminal.logged == []


def test_addresses_escape(confirm: Callable[..., Said], installed: FakeHost) -> None:
    """No page follows what was taken back, so the failure names what escapes and what repairs it,
    and says nothing of the gate, which is gone.
    """
    wanted = config(cidrs=("172.16.0.0/16",))

    said = confirm(installed, FakeTerminal(), wanted=wanted)

    first, *findings, last = said.lines
    assert first == "FAILED: addresses escape, and the mode is STRICT"
    names = [line.partition(":")[0] for line in findings if line[0] != " "]
    assert names == ["OVERLAP", "ACTION", "REPAIR-COST"]
    assert findings[0].startswith("OVERLAP: 172.16.0.0/16 leaves through ib0")
    assert last.startswith("TAKEN BACK: ")


def test_addresses_escape_in_warn(confirm: Callable[..., Said], installed: FakeHost) -> None:
    """The operator sees what escapes before Enter is asked, though the page would say it later."""
    seen: list[str] = []

    def look() -> bool:
        seen.append(sys.stderr.buffer.getvalue().decode())  # type: ignore[union-attr]  # a BytesIO, by `say`
        return False

    wanted = config(cidrs=("172.16.0.0/16",), mode="WARN")

    confirm(installed, FakeTerminal(look), wanted=wanted)

    [before_enter] = seen
    assert "OVERLAP: 172.16.0.0/16 leaves through ib0" in before_enter


def test_what_cannot_be_taken_back(confirm: Callable[..., Said], installed: FakeHost) -> None:
    """If the files cannot be restored, the page says so, and what the run has changed."""

    def full() -> bool:
        installed.files.broken[LAYOUT.config_path] = "No space left on device"
        return False

    said = confirm(installed, FakeTerminal(full))

    assert said.code == 1
    assert said.lines[0] == "FAILED: nobody pressed Enter within 1 s"
    assert said.lines[1].startswith("NOT ALL TAKEN BACK: cannot write /etc/hostrouting/config.json")
    assert said.lines[2] == "What this run has changed:"
    changes = [line for line in said.lines if line.startswith(("  add ", "  delete "))]

    assert changes
    assert len(changes) == len(set(changes))


def test_an_unreadable_configuration(confirm: Callable[..., Said], installed: FakeHost) -> None:
    """What cannot be read cannot be installed again: nothing is changed."""
    installed.files.texts[LAYOUT.config_path] = "{"
    before = state(installed)
    terminal = FakeTerminal(enter)

    said = confirm(installed, terminal)

    assert said.code == 2
    assert state(installed) == before
    assert terminal.logged == []
    assert f"{LAYOUT.config_path} is unusable, so it could not be installed again" in said.err


def test_addresses_have_escaped_before(confirm: Callable[..., Said]) -> None:
    """They escape again afterwards, which is said, and all is taken back."""
    host = FakeHost(kernel=h200())
    failure_of(run, Configure(config(cidrs=("172.16.0.0/16",)), host=host))
    before = state(host)
    terminal = FakeTerminal()
    said = confirm(host, terminal, "--json")
    assert state(host) == before
    assert said.json["takenBack"]
    assert terminal.logged[-1] == "As before, addresses escape."


def test_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a terminal, the option is refused, and nothing is changed."""
    real = os.open

    def open_nothing_but_files(path: str, *given: Any) -> int:
        if path == "/dev/tty":
            raise OSError(errno.ENXIO, "No such device or address", path)
        return real(path, *given)

    monkeypatch.setattr(os, "open", open_nothing_but_files)
    host = FakeHost(kernel=h200())
    stdin = json.dumps(WANTED.to_mapping()).encode()
    said = say("apply", "--config", "-", "--confirm", "9", host=host, stdin=stdin)
    assert said.code == 2
    assert host.files.texts == {}
    refusal = "--confirm: there is no terminal to press Enter on; run it from a terminal, or give "
    assert f"{refusal}a command with --confirm-if" in said.err


@pytest.mark.linux
class TestACommandThatDecides:
    """`apply --confirm-if`, which needs no terminal."""

    @pytest.fixture(autouse=True)
    def journal(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """What the journal has."""
        lines: list[str] = []
        monkeypatch.setattr(apply, "log", lines.extend)
        return lines

    @staticmethod
    def apply_if(command: str, host: FakeHost, *options: str) -> Said:
        """Apply, and keep it if this command succeeds."""
        stdin = json.dumps(WANTED.to_mapping()).encode()
        words = ("--config", "-", "--wait", "0", "--allow-removal", *options)
        return say("apply", *words, "--confirm-if", command, host=host, stdin=stdin)

    def test_it_succeeds(self, tmp_path: Path, installed: FakeHost) -> None:
        """The change stays, also if the first attempt fails; the next one is a second later."""
        began = time.monotonic()
        tried = tmp_path / "tried"
        command = f"test -e {tried} || {{ touch {tried}; false; }}"
        said = self.apply_if(command, installed)
        assert said.code == 0
        assert said.lines[0].startswith("DONE: ")
        assert left_to_do(Configure(WANTED, host=installed)) == ""
        assert time.monotonic() - began > 1

    @pytest.mark.parametrize(
        ("command", "failure"),
        [
            ("echo no; echo tried >&2; exit 7", "exit 7: tried"),
            ("sleep 60", "it has not ended"),
        ],
    )
    def test_it_fails(
        self, installed: FakeHost, journal: list[str], command: str, failure: str
    ) -> None:
        """Everything is as it was; the page and the journal say why."""
        before = state(installed)
        said = self.apply_if(command, installed, "--confirm", "0.3")
        assert state(installed) == before
        assert said.code == 1
        reason = f"this has not succeeded within 0.3 s: {command} ({failure})"
        assert said.lines[0] == f"FAILED: {reason}"
        assert said.lines[-1].startswith("TAKEN BACK: ")
        assert journal == said.lines

    def test_it_reads_nothing(self, installed: FakeHost) -> None:
        """Standard input may be the configuration."""
        ours, theirs = os.pipe()
        os.write(theirs, b"typed")
        os.close(theirs)
        kept = os.dup(0)
        os.dup2(ours, 0)
        try:
            said = self.apply_if('test -z "$(cat)"', installed, "--confirm", "0.5")
        finally:
            os.dup2(kept, 0)
        assert said.code == 0

    def test_what_it_has_started_ends_with_it(self, tmp_path: Path, installed: FakeHost) -> None:
        """Also in the background."""
        late = tmp_path / "late"
        command = f"(sleep 1; touch {late}) & sleep 60"
        self.apply_if(command, installed, "--confirm", "0.3")
        time.sleep(1.2)
        assert not late.exists()

    def test_a_signal(self, installed: FakeHost) -> None:
        """It takes everything back at once, and ends the command."""
        before = state(installed)
        began = time.monotonic()
        said = self.apply_if(f"kill -TERM {os.getpid()}; sleep 60", installed)
        assert time.monotonic() < began + 30
        assert state(installed) == before
        assert said.code == 128 + signal.SIGTERM

    def test_nothing_is_changed(self) -> None:
        """Then there is nothing to keep, and the command is not run."""
        said = self.apply_if("false", configured(WANTED))
        assert said.code == 0
        assert said.lines[0].startswith("NOTHING TO DO: ")

    def test_an_empty_command(self, installed: FakeHost) -> None:
        """As of an unset variable: it would always succeed."""
        before = state(installed)
        said = self.apply_if(" ", installed)
        assert said.code == 2
        assert "--confirm-if is empty, and would always succeed" in said.err
        assert state(installed) == before


@pytest.mark.linux
def test_a_remark_that_nobody_can_read() -> None:
    """What was logged when the terminal was closed already does not change the exit code."""
    code = (
        "import sys; from hostrouting.cli import output\n"
        "try: print('waiting', file=sys.stderr)\n"
        "except OSError: pass\n"  # as logging does
        "sys.exit(output.write(output.Answer(143, {}, ()), as_json=False))"
    )
    ours, theirs = pty.openpty()
    os.close(ours)
    try:
        ended = subprocess.run(
            [sys.executable, "-c", code],
            stderr=theirs,
            check=False,
            env={**os.environ, "PYTHONUNBUFFERED": ""},  # with it, nothing is left to be written
        )
    finally:
        os.close(theirs)
    assert ended.returncode == 143


class TestTerminal:
    """A real terminal."""

    @pytest.fixture
    def ends(self) -> Iterator[tuple[int, ControllingTerminal]]:
        """The other end of a terminal, and the terminal."""
        ours, theirs = pty.openpty()
        yield ours, ControllingTerminal(theirs)
        for number in (ours, theirs):
            try:
                os.close(number)
            except OSError:
                continue

    def test_only_enter_counts(self, ends: tuple[int, ControllingTerminal]) -> None:
        """What was typed before the question, or without Enter, is no answer; nor is what Ctrl-D
        sends without it.
        """
        ours, terminal = ends
        os.write(ours, b"before\n")
        deadline = time.monotonic() + 10
        while b"before" not in os.read(ours, 4096) and time.monotonic() < deadline:
            continue
        terminal.say("?")
        assert not terminal.has_enter()

        os.write(ours, b"y")
        assert not terminal.has_enter()

        os.write(ours, b"\x04")
        assert not terminal.has_enter()

        os.write(ours, b"\n")
        while not terminal.has_enter():
            assert time.monotonic() < deadline

    def test_foreign_bytes_in_the_journal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Bytes that are not text, as in the name of a file, are escaped as on the page: otherwise
        the answer about what was taken back would be a traceback.
        """
        messages: list[tuple[object, ...]] = []
        monkeypatch.setattr(syslog, "openlog", lambda name: messages.append((name,)))
        monkeypatch.setattr(syslog, "syslog", lambda *message: messages.append(message))
        log(["FAILED: \udcff.conf \x1b[2J", "TAKEN BACK: all"])
        assert messages == [
            ("hostrouting",),
            (syslog.LOG_WARNING, "FAILED: \\udcff.conf \\x1b[2J"),
            (syslog.LOG_WARNING, "TAKEN BACK: all"),
        ]

    def test_afterwards(
        self, ends: tuple[int, ControllingTerminal], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The process handles signals as before, and the terminal is closed."""
        ours, _ = ends
        opened = os.dup(ours)
        monkeypatch.setattr(os, "open", lambda *_: opened)
        before = signal.getsignal(signal.SIGTSTP)
        with controlling_terminal():
            assert signal.getsignal(signal.SIGTSTP) == signal.SIG_IGN
        assert signal.getsignal(signal.SIGTSTP) == before
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(opened)

    @pytest.mark.parametrize("happens", ["closed", "Ctrl-D"])
    def test_it_is_closed(self, ends: tuple[int, ControllingTerminal], happens: str) -> None:
        """Then the wait is over at once. Linux reports Ctrl-D as it does that."""
        ours, terminal = ends
        act = partial(os.close, ours) if happens == "closed" else partial(os.write, ours, b"\x04")
        threading.Timer(0.05, act).start()
        with pytest.raises(HostRoutingError, match="the terminal was closed, or Ctrl-D"):
            AwaitEnter(terminal, 600, a_change).do(phases.Context(observers=[]))


IN_THE_BACKGROUND = """
import fcntl, os, signal, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY)
job = os.fork()
if job:
    _, status = os.waitpid(job, os.WUNTRACED)
    if os.WIFSTOPPED(status):
        os.kill(job, signal.SIGKILL)
        sys.exit("stopped by " + signal.Signals(os.WSTOPSIG(status)).name)
    sys.exit()
os.setpgid(0, 0)
from hostrouting.cli.confirming import AwaitEnter, controlling_terminal
from hostrouting.cli.running import run_task
from hostrouting.testing import FakeHost
with controlling_terminal() as terminal:
    os.kill(os.getpid(), signal.SIGTSTP)
    run = run_task(AwaitEnter(terminal, 60, lambda _: ["a change"]), FakeHost())
print(*run.errors)
"""
"""The shell of a terminal, and a job that it has started with &, or suspended by Ctrl-Z."""


@pytest.mark.linux
def test_in_the_background() -> None:
    """A job in the background is not suspended with the change in place, nor by Ctrl-Z, and what is
    typed for the shell is not for the job.
    """
    ours, theirs = pty.openpty()
    words = [sys.executable, "-c", IN_THE_BACKGROUND]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=theirs, stdout=pipe, stderr=pipe, text=True) as shell:
        os.close(theirs)
        asked = b""
        with suppress(OSError):  # the shell has ended
            while b"Press Enter" not in asked:
                asked += os.read(ours, 4096)
            os.write(ours, b"\n")
        out, err = shell.communicate(timeout=60)
    os.close(ours)
    assert out == "the terminal was closed, or Ctrl-D was pressed, before Enter\n"
    assert err == ""


@settings(max_examples=scaled(200), deadline=None)
@given(
    former=st.sampled_from([WANTED, OTHER, HostRoutingConfig()]),
    nth=st.integers(1, 60),
    is_typed=st.booleans(),
)
def test_at_each_moment(former: HostRoutingConfig, nth: int, *, is_typed: bool) -> None:
    """At whichever effect the run is cancelled, the host is as it was before; also if it is not
    cancelled, because the terminal is closed then.
    """
    host, mishaps = mishap_host()
    if former != HostRoutingConfig():
        run(Configure(former, host=host))
    if is_typed:
        type_routes(host, TYPED)
    before = state(host)
    task = phases.serial(
        Configure(config("10.8.0.0/16", *REPAIR), host=host, wait=0),
        AwaitEnter(FakeTerminal(closed), 60, a_change),
        name="apply",
    )
    ctx = context()

    def cancel_at_the_nth(_event: str) -> None:
        if len(mishaps.events) == nth:
            ctx.cancel(signal.SIGTERM)

    mishaps.disarm()
    mishaps.watch = cancel_at_the_nth
    report = phases.run(task, ctx=ctx, undo_on_failure=True)
    mishaps.watch = lambda _event: None

    assert not report.ok
    assert state(host) == before
    [undo] = [step for step in report.children if step.action == "undo"]
    assert undo.ok
