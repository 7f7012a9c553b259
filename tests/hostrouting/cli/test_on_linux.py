"""The command line as a process on a machine with the real kernel: one answer everywhere, and the bad days."""

import json
import os
import pty
import select
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from hostrouting.host.layout import HostLayout
from tests.support.children import running
from tests.support.machine import H200, Machine, private_machine
from tests.support.programs import completed
from tests.support.waiting import wait_for

# Without buffers Python has nothing left to write at its end, where it may fail.
BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

CIDR = "172.16.0.0/16"
QUESTIONS = (("check", CIDR), ("check", "172.16.0.0/12", "10.0.0.0/8"), ("repair", CIDR), ("explain", "172.16.5.9"))
# Many command lines in one process: how each ended, and what it said.
EACH = """\
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from hostrouting.cli import main
for words in json.loads(sys.argv[1]):
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = main(words)
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
"""
AS_ANYONE = ("unshare", "--user", "--map-user=1000", "--map-group=1000")


@pytest.fixture(scope="module")
def sick() -> Iterator[Machine]:
    """An H200 node that no test changes."""
    with private_machine() as machine:
        machine.batch(H200)
        yield machine


def each(machine: Machine, *command: str, lines: Iterable[tuple[str, ...]]) -> list[tuple[int, str, str]]:
    """How each of these command lines ends, and what it says, in one process that this command starts."""
    said = machine.shell(f"{shlex.join(command)} {shlex.quote(json.dumps(list(lines)))}").splitlines()
    return [(code, out, err) for code, out, err in map(json.loads, said)]


@pytest.fixture
def machine() -> Iterator[Machine]:
    """An H200 node to do with as one likes."""
    with private_machine() as machine:
        machine.batch(H200)
        yield machine


def test_from_nothing_to_the_proof(machine: Machine, repaired: str) -> None:
    """check, plan, apply, plan, check, status, remove: each says what is so, and exits accordingly."""
    before, files = machine.routes(4), machine.shell("find /etc -type f")
    codes = [
        machine.hostrouting(*words).returncode
        for words in (
            ("check", "--config", repaired),
            ("plan", "--config", repaired),
            ("apply", "--config", repaired),
            ("plan", "--config", repaired),
            ("check", "--config", repaired),
            ("status",),
        )
    ]
    assert codes == [1, 1, 0, 0, 0, 0]
    [answer] = machine.get(4, ["172.16.200.1"])
    assert not isinstance(answer, str)
    assert answer.devs == ("eth0",)
    removed = machine.hostrouting("remove")
    assert (removed.returncode, "nothing that hostrouting installed is left" in removed.stdout) == (0, True)
    assert machine.routes(4) == before
    assert sorted(machine.shell("find /run -type f").split()) == ["/run/hostrouting/lock", "/run/hostrouting/turn"]
    folders, units = machine.shell("find /etc -type d").split(), HostLayout().unit_directory
    assert not {"/etc/hostrouting", f"{units}/systemd-nspawn@.service.d"} & {*folders}
    assert units in folders, "it belongs to another package"
    assert machine.shell("find /etc -type f") == files


def test_the_printed_commands_work(machine: Machine) -> None:
    """The commands that check prints can be pasted into a shell as they are, and do what they are for."""
    said = machine.hostrouting("check", CIDR).stdout
    commands = [text.strip() for text in said.splitlines() if text.startswith("  ip route replace ")]
    assert len(commands) == 2
    machine.shell("\n".join(commands))
    assert machine.hostrouting("check", CIDR).returncode == 0


# Bad days


@pytest.mark.needs("systemctl")
def test_not_root(sick: Machine, repaired: str) -> None:
    """Without privilege one can look; what would change the host says that it requires root, and what does not."""
    sick.shell("mkdir -p /run/hostrouting && chown 4242 /run/hostrouting /run /etc")
    codes = {
        ("check", CIDR): 1,
        ("explain", "172.16.5.9"): 0,
        ("repair", CIDR): 0,
        ("plan", "--config", repaired): 1,
        ("status",): 0,
        ("snapshot",): 0,
        ("apply", "--config", repaired): 3,
    }
    said = each(sick, *AS_ANYONE, sys.executable, "-c", EACH, lines=codes)
    assert [code for code, _, _ in said] == [*codes.values()], said
    assert said[-1][1].splitlines() == [
        "FAILED: this process may not change routes or rules; run it as root",
        "  check, explain, repair, plan, status and snapshot work without root",
    ]


def test_not_root_and_all_is_well(machine: Machine, repaired: str) -> None:
    """A user without root finds that a host that root configured is right."""
    assert machine.hostrouting("apply", "--config", repaired).returncode == 0
    said = machine.hostrouting("plan", "--config", repaired, before=AS_ANYONE)
    assert (said.returncode, said.stdout.splitlines()[0].partition(":")[0]) == (0, "NOTHING TO DO")


def test_no_iproute2(machine: Machine, repaired: str, tmp_path: Path) -> None:
    """Nothing but the boot scripts needs `ip`: without it one can look and apply."""
    bare = ("env", f"PATH={tmp_path}")
    assert machine.hostrouting("check", CIDR, before=bare).returncode == 1
    assert machine.hostrouting("apply", "--config", repaired, before=bare).returncode == 0


def test_two_at_once(machine: Machine, repaired: str) -> None:
    """Runs at once all end well, one after the other, and the host is as if there had been one."""
    runs = [
        subprocess.Popen(machine.command("apply", "--config", repaired), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    ends = [(run.communicate(timeout=60), run.returncode) for run in runs]
    assert [code for _, code in ends] == [0] * 3, ends
    answers = sorted(out.decode().split(":")[0] for (out, _), _ in ends)
    assert answers == ["DONE", *["NOTHING TO DO"] * 2]
    assert sum(route.protocol == 213 for route in machine.routes(4)) == 2


def test_terminal_closed(machine: Machine, repaired: str) -> None:
    """A run whose terminal is closed stops with nothing half done, even without a place for its message."""
    machine.shell("mkdir -p /run/hostrouting")
    hold = ["flock", "/run/hostrouting/lock", "sh", "-c", "echo held; exec sleep 200"]
    ours, theirs = pty.openpty()
    said = b""

    def is_waiting() -> bool:
        nonlocal said
        if select.select([ours], [], [], 0.1)[0]:
            said += os.read(ours, 65536)
        return b"another run" in said

    with running(*machine.enter, *hold, seconds=300) as (_, told):
        assert told.readline() == "held\n"
        run = subprocess.Popen(
            machine.command("apply", "--config", repaired),
            stdin=theirs, stdout=theirs, stderr=theirs, env=BUFFERED, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        try:
            wait_for("apply to wait for the lock", is_waiting)
            os.close(ours)
            run.send_signal(signal.SIGHUP)
            assert run.wait(timeout=100) == 143
        finally:
            run.kill()
            run.wait()
    assert not [route for route in machine.routes(4) if route.protocol == 213]


def test_pipe_closed(sick: Machine) -> None:
    """A reader who has seen enough (`| head`) gets no complaint, and the exit code stays the answer."""
    said = sick.shell(f'"$PYTHON" -m hostrouting check {CIDR} | head -1; echo "${{PIPESTATUS[0]}}"')
    assert said == "OVERLAP: all of 172.16.0.0/16 leaves by ib0; expected: eth0\n1\n"
    assert sick.shell(f'"$PYTHON" -m hostrouting check {CIDR} | true; echo "${{PIPESTATUS[0]}}"') == "1\n"


def test_full_disk_under_the_answer(sick: Machine) -> None:
    """A snapshot that could not be saved is a failure."""
    said = sick.shell('"$PYTHON" -m hostrouting snapshot > /dev/full; echo $?')
    assert said == "1\nhostrouting: the answer could not be written: No space left on device\n"


@pytest.mark.parametrize(("words", "code"), [("check --dev", 2), ("check --help", 1)])
def test_full_disk_under_usage_and_help(words: str, code: int) -> None:
    """Help that cannot be written is a failure; bad usage keeps its exit code even if no message can be written."""
    command = f'"{sys.executable}" -m hostrouting {words} >/dev/full'
    done = completed(["bash", "-c", command], env=BUFFERED)
    assert done.returncode == code
    assert "Exception ignored" not in done.stderr
    assert ("could not be written: No space left on device" in done.stderr) is (code == 1)
    assert subprocess.run(["bash", "-c", f"{command} 2>&1"], check=False, env=BUFFERED).returncode == code


@pytest.mark.parametrize("locale", ["LC_ALL=C", "LC_ALL= LANG=C", "LC_ALL=POSIX"])
def test_locale_c(sick: Machine, locale: str) -> None:
    """In the locale C, however it was chosen, every answer is in ASCII."""
    many = ("check", *(f"172.16.{number}.0/24" for number in range(21)))  # elsewhere its last row begins with "…"
    program = f"from hostrouting.cli import main\nfor words in {(*QUESTIONS, many)!r}: assert main(words) in (0, 1)"
    said = sick.shell(f'{locale} "$PYTHON" -c {shlex.quote(program)}')
    assert said.isascii()
    assert "... and 1 more" in said
