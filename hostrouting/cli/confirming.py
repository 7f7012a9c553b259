"""Whether a change is kept: `apply --confirm` waits for Enter on the terminal.

The terminal is asked, and not standard input, which may be the configuration. A session that the
change has cut off cannot press Enter.
"""

import select
import signal
import termios
from collections.abc import Iterable

from hostrouting.cli.source import bad_input
from hostrouting.text import printable_lines


def require_terminal() -> None:
    """Raise ConfigError if there is no terminal to press Enter on."""
    try:
        with open("/dev/tty", "rb", buffering=0):
            return
    except OSError as error:
        rule = "there is no terminal to press Enter on"
        raise bad_input("--confirm", rule, "run it from a terminal") from error


def is_confirmed(seconds: float, changes: Iterable[str]) -> bool:
    """Show the lines about the changes, and return whether Enter is pressed within this time. The
    answer is no if the terminal is closed, or after Ctrl-C or SIGTERM.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the change may have cut the terminal off
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with open("/dev/tty", "r+b", buffering=0) as terminal:
            termios.tcflush(terminal, termios.TCIFLUSH)  # what was typed before is no answer
            question = (
                f"Press Enter within {seconds:g} s to keep this change. "
                "Otherwise it is taken back.\n"
            )
            terminal.write(printable_lines("\n".join((*changes, question))).encode())
            readable, _, _ = select.select([terminal], [], [], seconds)
            return bool(readable) and terminal.readline().endswith(b"\n")
    except (OSError, termios.error, KeyboardInterrupt):
        return False
