"""hostrouting.node.outside: other programs' scripts, run for real."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hostrouting.node import outside
from hostrouting.node.ending import Stopped, TimeIsUp, TimeLimit, stop_on_signals
from hostrouting.node.outside import run_script
from tests.support.children import in_child
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.linux]

UNIT = "kubelet.service"
SHOWS = """\
echo "$@"
cat
ls -x /proc/$$/fd
grep -E '^Sig(Ign|Blk):' /proc/self/status
env
"""
"""A script that shows what it was given."""
AS_THE_GATE = """\
import sys
from hostrouting.host.files import open_lock
from hostrouting.node.outside import run_script
open_lock(sys.argv[1])
run_script(sys.argv[2], "kubelet.service", "75")
"""
ORDINARY = range(1, 32)
"""The signals that no library has for itself."""


def script(folder: Path, text: str) -> str:
    """The path of this script."""
    path = folder / "50-a script.sh"
    path.write_text(text)
    return str(path)


def signals_in(line: str) -> set[int]:
    """The signals in a line of /proc/PID/status."""
    mask = int(line.split()[1], 16)
    return {number for number in range(1, 65) if mask >> (number - 1) & 1}


def has_ended(pid: int) -> bool:
    """Whether the process has ended; nobody may have asked for its status yet."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"


def test_what_a_script_is_given(tmp_path: Path) -> None:
    """Its arguments, an empty input, the output of the gate, and a clean environment, without
    ignored signals. It has neither the program, which is descriptor 3, nor the lock.
    """
    words = f'trap \'\' INT QUIT PIPE; exec {sys.executable} -c "$0" "$@" 3</dev/null'
    done = subprocess.run(
        ["sh", "-c", words, AS_THE_GATE, str(tmp_path / "lock"), script(tmp_path, SHOWS)],
        env={
            "PATH": os.environ["PATH"],
            "LC_ALL": "C",
            "INVOCATION_ID": "1f",
            "SECRET": "x",
            "BASH_ENV": "/dev/stdin",
            "SHELLOPTS": "noexec",
            "LD_LIBRARY_PATH": "/nowhere",
        },
        input="exit 1\n",
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == ""
    arguments, descriptors, blocked, ignored, *environment = done.stderr.splitlines()
    assert arguments == f"{UNIT} 75"
    assert descriptors.split() == ["0", "1", "2", "255"]  # the last one is the script
    assert signals_in(blocked).isdisjoint(ORDINARY)
    assert signals_in(ignored).isdisjoint(ORDINARY)
    names = {line.partition("=")[0] for line in environment}
    assert names - {"PWD", "SHLVL", "_"} == {"PATH", "LC_ALL", "INVOCATION_ID"}


@pytest.mark.parametrize(("text", "status"), [("", 0), ("exit 7", 7), ("kill -KILL $$", -9)])
def test_how_it_ends(
    text: str,
    status: int,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The status is that of the script; negative for a signal. An operator may run the gate by
    hand, without the ID of a start.
    """
    monkeypatch.delenv("INVOCATION_ID")
    assert run_script(script(tmp_path, text)) == status
    assert capfd.readouterr().out == ""


def test_what_it_leaves_behind(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A process that keeps the output open holds nothing up, and goes on."""
    began = time.monotonic()
    assert run_script(script(tmp_path, "sleep 99 & echo $!")) == 0
    assert time.monotonic() - began < 90
    pid = int(capfd.readouterr().err)
    time.sleep(0.1)  # a signal would have ended it by then
    assert not has_ended(pid)
    os.kill(pid, signal.SIGKILL)


def test_it_cannot_be_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then there is nothing to end: 0 would be the number of the gate's own group."""
    monkeypatch.setattr(outside, "_BASH", "/nowhere/bash")

    def work() -> str:
        os.setpgid(0, 0)
        try:
            return str(run_script("-c", "true"))
        except OSError as error:
            return str(error.strerror)

    assert in_child(work) == "No such file or directory"


def interrupted(folder: Path, text: str, *, kill_after: float = 5.0) -> tuple[str, list[bool]]:
    """Run this script in a process of one thread, as the gate is, until a signal ends it: $1 is the
    number of that process. Returns the exception, and of each process that the script has noted in
    $2 whether it has ended by then.
    """
    pids = folder / "pids"

    def work() -> tuple[str, list[bool]]:
        outside._KILL_AFTER = kill_after
        stop_on_signals()
        raised = "none"
        try:
            with TimeLimit(60):
                run_script(script(folder, text), str(os.getpid()), str(pids))
        except (Stopped, TimeIsUp) as error:
            raised = type(error).__name__
        signal.raise_signal(signal.SIGHUP)  # only the first signal counts
        return raised, [has_ended(int(pid)) for pid in pids.read_text().split()]

    return in_child(work)


@pytest.mark.parametrize("before", ["", "trap '' TERM; "], ids=["ends", "ignores TERM"])
def test_the_time_is_up(before: str, tmp_path: Path) -> None:
    """The script is ended with its children; one that ignores SIGTERM is killed."""
    text = f"{before}sleep 99 & echo $$ $! >$2; kill -ALRM $1; while :; do wait; done"
    raised, (has_script_ended, _) = interrupted(tmp_path, text, kill_after=0.1)
    assert (raised, has_script_ended) == ("TimeIsUp", True)
    _, child = map(int, (tmp_path / "pids").read_text().split())
    wait_for("the child to end", lambda: has_ended(child), longest=20)


def test_a_signal(tmp_path: Path) -> None:
    """A signal to the gate ends the script."""
    text = "echo $$ >$2; kill -TERM $1; sleep 99"
    assert interrupted(tmp_path, text) == ("Stopped", [True])


def test_a_signal_just_before_the_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends the script, too."""
    has_ended_before = os.waitid

    def late(*arguments: int) -> os.waitid_result | None:
        answer = has_ended_before(*arguments)
        signal.raise_signal(signal.SIGTERM)
        return answer

    monkeypatch.setattr(os, "waitid", late)
    (tmp_path / "pids").touch()
    assert interrupted(tmp_path, "sleep 99") == ("Stopped", [])


def test_what_a_caller_by_hand_may_have_set(tmp_path: Path) -> None:
    """Where SIGCHLD is ignored, the end of a script is seen. Where SIGALRM is held, a script that
    ends because of it has not succeeded, whatever its status is.
    """
    ends_well = "trap 'exit 0' TERM; kill -ALRM $1; while :; do sleep 0.01; done"

    def work() -> list[int]:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
        texts = ("exit 7", ends_well)
        return [run_script(script(tmp_path, text), str(os.getpid())) for text in texts]

    assert in_child(work) == [7, -signal.SIGTERM]


def test_signals_at_once(tmp_path: Path) -> None:
    """The end of the time, and a signal while the gate does not run: the script is ended."""
    text = "echo $$ >$2; kill -STOP $1; kill -ALRM $1; kill -TERM $1; kill -CONT $1; sleep 99"
    assert interrupted(tmp_path, text) == ("TimeIsUp", [True])


def test_a_signal_while_it_ends(tmp_path: Path) -> None:
    """The gate still waits until the script has ended."""
    text = """\
trap 'kill -TERM $1; sleep 0.2; exit' TERM
echo $$ >$2
kill -ALRM $1
while :; do sleep 0.01; done
"""
    assert interrupted(tmp_path, text) == ("TimeIsUp", [True])


def test_a_step(capfd: pytest.CaptureFixture[str]) -> None:
    """Its text is no file: bash gets it as an argument, with its name, the unit and the seconds."""
    assert run_script("-c", 'echo "$0 $1 $2"; exit 3', "licence", UNIT, "75") == 3
    assert capfd.readouterr().err == f"licence {UNIT} 75\n"
