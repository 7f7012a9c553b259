"""Runs programs of the host: with an argument list and a timeout, and without a shell.

An edge that needs one takes a `RunProgram`, so a test can pass a function.
"""

import os
import re
from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

from hostrouting.errors import HostError, HostPart

BOOT_PATH = ("/usr/sbin", "/usr/bin", "/sbin", "/bin")
"""Where the units of a node look for programs."""


class Ended(NamedTuple):
    """A program that has ended: its exit code, and its output."""

    code: int
    """Negative if a signal ended it."""
    out: str = ""
    err: str = ""

    @property
    def how(self) -> str:
        """How the program has ended, in words."""
        if self.code < 0:
            return f"it was ended by signal {-self.code}"
        return f"exit code {self.code}"

    @property
    def failure_output(self) -> str:
        """What the program printed about its failure. Some print that on standard output."""
        return self.err or self.out


class RunProgram(Protocol):
    """A function that runs a program to its end; a test can pass one that runs nothing."""

    def __call__(
        self,
        *command: str,
        timeout: float,
        text: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> Ended:
        """Run a program and return how it ended, whatever its exit code is. The first word of
        `command` is looked up in PATH, and `text` is the standard input.

        Without `environment`, the program gets the environment of this process. Raises
        FileNotFoundError if the program does not exist, TimeoutError if it has not ended in time,
        and another OSError if it cannot be started.
        """


def run_program(
    *command: str,
    timeout: float,
    text: str = "",
    environment: Mapping[str, str] | None = None,
) -> Ended:
    """Run a program and return how it ended (`RunProgram`). It runs in a session of its own, so
    that Ctrl-C at the terminal reaches only this process, which then kills the program.
    """
    import subprocess  # noqa: PLC0415  only needed if a program is run

    try:
        done = subprocess.run(  # noqa: S603  an argument list, no shell
            command,
            input=text,
            capture_output=True,
            encoding="utf-8",
            errors="backslashreplace",
            start_new_session=True,
            env=environment,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"{command[0]} has not ended within {timeout:g} s") from error
    return Ended(done.returncode, done.stdout, done.stderr)


# Tools of the administrator.

_LOAD_MODULE = "the kernel has no such tables: load their module, such as ebtable_nat"
_MEANING_OF_OUTPUT = (
    (
        "Operation not permitted|Permission denied|must be root",
        "not-permitted",
        "run it as root with CAP_NET_ADMIN",
    ),
    ("The kernel doesn't support the ebtables", "not-loaded", _LOAD_MODULE),
    ("Failed to initialize nft", "not-loaded", _LOAD_MODULE),
    ("/proc/modules: No such file", "not-loaded", _LOAD_MODULE),
    ("Failed to connect to bus|Connection (refused|timed out)", "no-answer", "check that it runs"),
)
"""A pattern of what a failed tool prints, the kind of its error, and the remedy. The first row that
matches counts.
"""


def tool_environment() -> dict[str, str]:
    """The environment for a tool of the administrator, such as nft: the one of this process, with
    two changes. The language is English, because errors are recognized by their text. PATH also has
    the system's folders: after `su` or ssh, it may lack /usr/sbin.
    """
    folders = list(BOOT_PATH)
    users_path = os.environ.get("PATH")
    if users_path:
        folders.insert(0, users_path)
    return {**os.environ, "LC_ALL": "C", "PATH": ":".join(folders)}


def run_tool(
    *command: str,
    purpose: str,
    what: HostPart,
    package: str,
    text: str = "",
    fine_codes: Collection[int] = (0,),
    timeout: float = 10.0,
    environment: Mapping[str, str] | None = None,
    run: RunProgram = run_program,
) -> Ended:
    """Run a tool of the administrator, such as nft, once; HostError if it cannot be run or fails.

    `fine_codes` are the exit codes that are not a failure. Without `environment`, the tool has that
    of `tool_environment`. Three arguments describe an error: `purpose` completes "the tool could
    not …", `what` is the part of the host, and `package` is the package that has the tool.

    The kinds of error are missing, timeout (the change may or may not have been made),
    not-permitted, not-loaded (the kernel does not have what the tool works on), no-answer (systemd
    does not run) and refused. The error's `output` is what the tool printed.
    """
    tool = command[0]
    if not environment:
        environment = tool_environment()
    try:
        ended = run(*command, text=text, timeout=timeout, environment=environment)
    except FileNotFoundError as error:
        sentence = f"the program {tool} was not found; install the package {package}"
        raise HostError(sentence, what=what, kind="missing") from error
    except TimeoutError as error:
        sentence = f"{tool} did not {purpose} within {timeout:g} s; it may be busy, so try again"
        raise HostError(sentence, what=what, kind="timeout") from error
    except OSError as error:
        # A shell has the exit code 126 if it cannot run a program. The error is made below.
        ended = Ended(126, err=error.strerror or str(error))
    if ended.code not in fine_codes:
        raise tool_error(ended, tool, purpose=purpose, what=what)
    return ended


def tool_error(ended: Ended, tool: str, *, purpose: str, what: HostPart) -> HostError:
    """Make the error for a tool that has ended without doing what was asked; `purpose` completes
    "the tool could not …".
    """
    printed = _on_one_line(ended.failure_output) or f"{ended.how}, without a message"
    kind, remedy = _kind_and_remedy(printed)
    sentence = f"{tool} could not {purpose}"
    if kind == "no-answer":  # only tools of systemd print this, if systemd does not run
        sentence = "systemd does not answer"
    if remedy:
        sentence += f"; {remedy}"
    return HostError(sentence, what=what, kind=kind, output=printed)


def _on_one_line(text: str) -> str:
    """What a tool has printed, as one line for a message. Repeated lines are left out, and so are
    those in which nft only underlines its input (^^^).
    """
    lines: list[str] = []
    for line in map(str.strip, text.splitlines()):
        if line.strip("^~") and line not in lines:
            lines.append(line)
    return " | ".join(lines)


def _kind_and_remedy(printed: str) -> tuple[str, str]:
    """Recognize the error of a tool by what it has printed: its kind, and what to do about it. The
    kind of an unknown error is "refused", without a remedy.
    """
    for pattern, kind, remedy in _MEANING_OF_OUTPUT:
        if re.search(pattern, printed):
            return kind, remedy
    return "refused", ""
