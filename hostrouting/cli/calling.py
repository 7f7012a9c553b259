"""How this process was called: so are the commands that it prints."""

from __future__ import annotations

import os
import shlex
import sys

from hostrouting.release import PROGRAM


def program_as_called() -> str:
    """What was typed before the words of the command line, quoted for a shell: `hostrouting`,
    `env/bin/hostrouting`, `python3 hostrouting.pyz` or `python3 -m hostrouting`.

    A script is named without the interpreter in its first line, and one that the shell has looked
    for in PATH by its name alone.
    """
    script = sys.argv[0]
    if os.path.basename(script) != PROGRAM or not _runs_by_itself(script):
        count = len(sys.argv) - 1
        return shlex.join(sys.orig_argv[: len(sys.orig_argv) - count])
    if script == _found_in_path(PROGRAM):
        return PROGRAM
    return shlex.quote(script)


def _runs_by_itself(script: str) -> bool:
    """Whether it can be executed, and the interpreter in its first line runs it now: perhaps it was
    given to another one, because that line names one that is not there.
    """
    if not os.path.isfile(script) or not os.access(script, os.X_OK):
        return False
    with open(script, "rb") as file:
        *_, interpreter = [b"", *file.readline().split()]
    return os.path.basename(os.fsdecode(interpreter)) == os.path.basename(sys.orig_argv[0])


def _found_in_path(name: str) -> str:
    """The program that a shell runs when this name is typed; empty if there is none."""
    # shutil.which does the same, and takes a millisecond to load.
    for folder in os.get_exec_path():
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK):
            return path
    return ""
