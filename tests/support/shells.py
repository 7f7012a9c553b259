"""Real bash on a terminal of its own, which is asked what it completes.

Here: typing at it and reading which words it puts in. Not here: what should be offered (tests/test_completions.py).
"""

import os
import select
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

LIBRARY = Path("/usr/share/bash-completion/bash_completion")
_ALL = "\x1b*"
"""The key that puts in everything that is offered."""

# The words that follow hostrouting when the line is run are those that were put in.
_ASKED = """\
hostrouting() { for word; do printf '%s\\0' "$word"; done >&"$asked"; printf '\\1' >&"$asked"; }
"""
_BASH = "bind 'set disable-completion off'; bind '\"\\e*\": insert-completions'\n"


class Shell:
    """A shell that waits for a line."""

    def __init__(self, terminal: int, answers: int) -> None:
        """Type at this terminal, and read the words from this pipe."""
        self._terminal, self._answers = terminal, answers

    def run(self, script: str) -> None:
        """Run lines that print nothing."""
        os.write(self._terminal, f"{script}\nhostrouting\n".encode())
        assert self._words() == []

    def offers(self, typed: str) -> set[str]:
        """Everything that the shell offers after this beginning of a line."""
        os.write(self._terminal, f"{typed}{_ALL}\n".encode())
        before, _, last = typed.rpartition(" ")
        words = self._words()[len(before.split()) - 1 :]  # without those that were typed before, and the command
        return set() if words == [last] else _bare(words, last)

    def _words(self) -> list[str]:
        found, end = b"", time.monotonic() + 120
        while not found.endswith(b"\1"):
            ready, _, _ = select.select([self._terminal, self._answers], [], [], end - time.monotonic())
            assert ready, f"the shell does not answer, after {found!r}"
            if self._terminal in ready:
                os.read(self._terminal, 65536)  # what it shows; if nobody reads it, the shell waits
            if self._answers in ready:
                found += os.read(self._answers, 65536)
        return found.decode().removesuffix("\1").split("\0")[:-1]


@contextmanager
def shell(home: Path, share: Path, *, before: Sequence[str] = ()) -> Iterator[Shell]:
    """Bash in the directory `home`, without files of its user.

    `share` is searched before /usr/share; `before` are words that start the shell.
    """
    terminal, theirs = os.openpty()
    answers, asked = os.pipe()
    running = subprocess.Popen(
        ["setsid", "--ctty", *before, "bash", "--norc", "--noprofile", "-i"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        pass_fds=[asked],
        cwd=home,
        env={
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "TERM": "dumb",
            "INPUTRC": "/dev/null",
            "LC_ALL": "C.UTF-8",
            "XDG_DATA_DIRS": f"{share}:/usr/share",
        },
    )
    os.close(theirs)
    os.close(asked)
    try:
        it = Shell(terminal, answers)
        it.run(f"asked={asked}\n{_ASKED}{_BASH}")
        yield it
    finally:
        running.kill()
        running.wait()
        os.close(terminal)
        os.close(answers)


def _bare(words: Iterable[str], last: str) -> set[str]:
    """The words without the option before =, and without the / after a directory."""
    return {word.removeprefix(last[: last.rfind("=") + 1]).removesuffix("/") for word in words}
