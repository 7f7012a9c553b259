"""Whether a change is kept: `apply --confirm` waits for Enter on the terminal.

The terminal is asked, and not standard input, which may be the configuration. A session that the
change has cut off cannot press Enter.
"""

import signal
import termios
from collections.abc import Iterable
from contextlib import suppress
from threading import Thread
from time import sleep

from hostrouting.cli.source import bad_input
from hostrouting.text import printable

# The first one counts. Signals, which answer too, are of the whole process.
_answers: list[bool] = []


def prepare_question() -> None:
    """Prepare for `is_confirmed`: from now on to the end of the process, SIGINT, SIGQUIT,
    SIGTERM and Ctrl-Z only answer its question with no, so that none of them ends the process
    before the change is taken back. ConfigError if there is no terminal to press Enter on.
    """
    try:
        open("/dev/tty").close()
    except OSError as error:
        raise bad_input(
            "--confirm", "there is no terminal to press Enter on", "run it from a terminal"
        ) from error
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP):
        signal.signal(number, lambda *_: _answers.append(False))


def is_confirmed(seconds: float, changes: Iterable[str]) -> bool:
    """Show the lines `changes` on the terminal, and ask whether to keep the change: return whether
    Enter is pressed within this time. A line that is not empty, or a signal, answers no at once.
    """
    question = (
        f"Press only Enter within {seconds:g} s to keep this change. Otherwise it is taken back."
    )
    # `_ask` puts the answer into `_answers`, and so does a signal. `_ask` runs in a thread, because
    # it hangs while the terminal is stopped (Ctrl-S) and takes no text.
    Thread(target=_ask, args=[*changes, question], daemon=True).start()
    # Look for an answer every 0.05 s. A wait for the thread would miss a signal that comes just
    # before the wait begins.
    for _ in range(round(20 * seconds)):
        if _answers:
            return _answers[0]
        sleep(0.05)
    return False


def _ask(*lines: str) -> None:
    # Show the lines on the terminal, and put the answer into `_answers`: yes (True) if an empty
    # line is typed.
    with suppress(OSError, termios.error), open("/dev/tty", "r+b", buffering=0) as terminal:
        termios.tcflush(terminal, termios.TCIFLUSH)  # what was typed before is no answer
        terminal.writelines(f"{printable(line)}\n".encode() for line in lines)
        _answers.append(terminal.readline() == b"\n")
