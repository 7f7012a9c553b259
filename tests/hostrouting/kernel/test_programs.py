"""Programs that are run: what comes back, and what a failure of a tool means."""

import os
import signal
import time

import pytest

from hostrouting.errors import HostError
from hostrouting.kernel.programs import BOOT_PATH, Ended, run_program, run_tool, tool_environment
from tests.support.kinds import raises
from tests.support.stand_ins import Programs


@pytest.mark.linux
class TestRunProgram:
    def test_what_it_says(self) -> None:
        """The exit code and both outputs come back; the text is its standard input."""
        script = "cat; printf '\\377' >&2; exit 3"
        done = run_program("sh", "-c", script, timeout=30, text="h\u00e4llo\n")
        assert done == Ended(3, "h\u00e4llo\n", "\\xff")
        assert run_program("sh", "-c", "kill -TERM $$", timeout=30).code == -signal.SIGTERM

    def test_its_session(self) -> None:
        """It leads a session, so Ctrl-C at the terminal does not reach it."""
        done = run_program("sh", "-c", "cut -d' ' -f1,6 /proc/$$/stat", timeout=30)
        process, session = done.out.split()
        assert process == session

    def test_its_environment(self) -> None:
        """It has exactly this environment, or else ours; its own PATH says where it is."""
        environment = {"A": "1", "PATH": os.environ["PATH"]}
        assert run_program("env", timeout=30, environment=environment).out.count("\n") == 2
        with pytest.raises(FileNotFoundError):
            run_program("env", timeout=30, environment={"PATH": "/nowhere"})

    def test_one_that_does_not_end(self) -> None:
        """It is killed, and not waited for, although a child of it holds its output open."""
        began = time.monotonic()
        with pytest.raises(TimeoutError, match=r"sh has not ended within 0\.3 s"):
            run_program("sh", "-c", "sleep 9 & wait", timeout=0.3)
        assert time.monotonic() - began < 9


# Tools of the administrator


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (FileNotFoundError(2, "nft"), "missing", "not found; install the package nftables$"),
        (TimeoutError("late"), "timeout", "nft did not list it within 10 s; it may be busy"),
        (OSError(8, "bad format"), "refused", r"nft could not list it \(nft: bad format\)$"),
        (Ended(1, err="Operation not permitted\n\n"), "not-permitted", "run it as root with CAP"),
        (Ended(4, err="Permission denied (you must be root)\n"), "not-permitted", "root"),
        (Ended(1, err="Failed to get properties: Connection timed out"), "no-answer", "not answer"),
        (Ended(1, err="Failed to connect to bus: x"), "no-answer", "^systemd does not answer; ch"),
        (Ended(255, err="The kernel doesn't support the ebtables"), "not-loaded", "load their mod"),
        (Ended(1, err="Failed to initialize nft: not supported"), "not-loaded", "no such tables"),
        (Ended(1, err="a b\n  ^^~~\nc\nc\n"), "refused", r"could not list it \(nft: a b \| c\)$"),
        (Ended(1, out="said elsewhere"), "refused", "said elsewhere"),
        (Ended(1), "refused", "exit code 1, without a message"),
        (Ended(-9), "refused", "it was ended by signal 9, without a message"),
    ],
    ids=str,
)
def test_failures_of_a_tool(answer: Ended | OSError, kind: str, words: str) -> None:
    """Each kind of failure has its own error, with the remedy or with the tool's own text."""
    programs = Programs(nft=answer)
    with raises(HostError, kind, match=words) as caught:
        run_tool("nft", purpose="list it", what="nft", package="nftables", run=programs)
    assert caught.value.can_retry is (kind in {"timeout", "no-answer"})


def test_the_environment_of_a_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool is found though PATH is a user's, as after `su`, and speaks English."""
    monkeypatch.setenv("PATH", "/usr/local/bin")
    nft = Programs(nft=Ended(0, "text"))
    assert run_tool("nft", purpose="", what="nft", package="", run=nft).out == "text"
    assert nft.environment["PATH"].split(":") == ["/usr/local/bin", *BOOT_PATH]
    assert nft.environment["LC_ALL"] == "C"
    monkeypatch.delenv("PATH")
    assert tool_environment()["PATH"].split(":") == list(BOOT_PATH)
