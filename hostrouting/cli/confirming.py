"""Whether a change is kept: `apply --confirm` waits for Enter on the terminal.

The terminal is asked, and not standard input, which may be the configuration. A session that the
change has cut off cannot press Enter.
"""

import signal
import termios
from collections.abc import Iterable
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread

from hostrouting.cli.source import bad_input
from hostrouting.text import printable_lines

# The first one counts. Signals, which answer too, are of the whole process.
_answers: SimpleQueue[bool] = SimpleQueue()


def prepare_question() -> None:
    """Let SIGINT, SIGTERM and Ctrl-Z only answer no, from now on to the end of the process. Raise
    ConfigError if there is no terminal to press Enter on.
    """
    try:
        open("/dev/tty", "rb").close()
    except OSError as error:
        rule = "there is no terminal to press Enter on"
        raise bad_input("--confirm", rule, "run it from a terminal") from error
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGTSTP):
        signal.signal(number, lambda *_: _answers.put(False))  # noqa: FBT003  the answer


def is_confirmed(seconds: float, changes: Iterable[str]) -> bool:
    """Show the lines about the changes, and return whether Enter is pressed within this time. The
    answer is no after any other line or a signal.
    """
    question = (
        f"Press only Enter within {seconds:g} s to keep this change. Otherwise it is taken back.\n"
    )
    text = "\n".join((*changes, question))
    # In a thread, because a terminal that is stopped (Ctrl-S) takes no text.
    Thread(target=_ask, args=[text], daemon=True).start()
    try:
        return _answers.get(timeout=seconds)
    except Empty:
        return False


def _ask(text: str) -> None:
    with suppress(OSError, termios.error), open("/dev/tty", "r+b", buffering=0) as terminal:
        termios.tcflush(terminal, termios.TCIFLUSH)  # what was typed before is no answer
        terminal.write(printable_lines(text).encode())
        _answers.put(terminal.readline() == b"\n")
