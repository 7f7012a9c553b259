"""Scripts that are not of this program: other programs' in gate.d, and the steps that an agent has
brought with its configuration. Each runs before every start of a gated unit, which starts only if
all of them succeed.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from hostrouting.node.ending import ENDING
from hostrouting.node.running import DESCRIPTOR

_KILL_AFTER = 5.0
"""Seconds from SIGTERM to SIGKILL, for a script that does not end when its time is over."""
_BASH = "/bin/bash"
_HELD = {signal.SIGCHLD, *ENDING}
"""The signals that are awaited while a script runs."""


class RunScript(Protocol):
    """Runs a script to its end."""

    def __call__(self, *words: str) -> int:
        """Have bash run these words: the path of a script, or `-c` with its text and name; then its
        arguments.

        The exit status; negative for a signal. Whatever ends the wait, such as a signal to this
        process, ends the script first. OSError if it cannot be run.
        """


def run_script(*words: str) -> int:
    """See RunScript. The script gets a clean environment, the output of this process, nothing to
    read, and neither the lock nor the program. What it leaves behind holds nothing up.

    For a process with one thread: another one could take a signal that this one waits for.
    """
    # If it is ignored, as a caller by hand may have it, Linux does not report the end of a script.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with _signals_held() as held_before:
        process = os.posix_spawn(
            _BASH,
            [_BASH, "-p", *words],
            _environment(os.environ),
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, 2, 1),
                (os.POSIX_SPAWN_CLOSE, DESCRIPTOR),  # it need not be open
            ],
            setpgroup=0,  # so that its children are ended with it
            setsigmask=held_before,
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGQUIT],
        )
        has_ended = _ends_before_a_signal(process)
        if not has_ended:
            _end(process)
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    # If a caller by hand has held the signal back, it raises nothing. The script has not succeeded.
    return status if has_ended else -signal.SIGTERM


def _environment(of_gate: Mapping[str, str]) -> dict[str, str]:
    """The gate's own environment is clean already; a script gets these variables of it."""
    names = ("PATH", "LC_ALL", "INVOCATION_ID")
    return {name: of_gate[name] for name in names if name in of_gate}


def _ends_before_a_signal(process: int) -> bool:
    """Wait for the end of the script, or for a signal to this process. The signal takes effect when
    it is no longer held. It is held, so that the wait also ends if it came just before.
    """
    while not _has_ended(process):
        number = signal.sigwait(_HELD)
        if number != signal.SIGCHLD:
            signal.raise_signal(number)
            return False
    return True


def _has_ended(process: int) -> bool:
    return os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end(process: int) -> None:
    """End the script and its children; those that go on then, systemd ends with the unit."""
    os.killpg(process, signal.SIGTERM)
    kill_at = time.monotonic() + _KILL_AFTER
    while not _has_ended(process):
        seconds_left = kill_at - time.monotonic()
        if seconds_left <= 0:
            os.killpg(process, signal.SIGKILL)
            return
        signal.sigtimedwait({signal.SIGCHLD}, seconds_left)


@contextmanager
def _signals_held() -> Iterator[set[int]]:
    """Have signals take effect only after the block; yields those that were held before."""
    before = {*signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)}
    try:
        yield before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
