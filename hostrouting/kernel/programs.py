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
    def complaint(self) -> str:
        """What the program printed about its failure. Some print that on standard output."""
        return self.err or self.out


class RunProgram(Protocol):
    """Run a program to its end."""

    def __call__(
        self,
        *command: str,
        timeout: float,
        text: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> Ended:
        """Run the program that is the first word, looked up in PATH, with `text` as its standard
        input; return how it ended, whatever its exit code is.

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
    """See RunProgram. The program runs in its own session: Ctrl-C at the terminal reaches only this
    process, which then kills the program.
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
    """The environment for an administrator's tool.

    Its language is English, because the errors of a tool are known by their text. PATH also has the
    folders where the units of a node look: after `su` or ssh, a user's PATH may lack /usr/sbin.
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
    fine: Collection[int] = (0,),
    timeout: float = 10.0,
    environment: Mapping[str, str] | None = None,
    run: RunProgram = run_program,
) -> Ended:
    """Run an administrator's tool; HostError if it cannot be run, or ends with a failure.

    Nothing is retried. `purpose` completes "the tool could not …", and `fine` lists the exit codes
    that are not a failure. Without `environment`, the tool has that of `tool_environment`.

    The kinds of error are missing, timeout (the change may or may not have been made),
    not-permitted, not-loaded (the kernel does not have what the tool works on), no-answer (systemd
    does not run) and refused. `output` is what the tool printed.
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
        # The code by which a shell says that it cannot run a program.
        ended = Ended(126, err=error.strerror or str(error))
    if ended.code not in fine:
        raise tool_error(ended, tool, purpose=purpose, what=what)
    return ended


def tool_error(ended: Ended, tool: str, *, purpose: str, what: HostPart) -> HostError:
    """The error for a tool that has ended without doing what was asked."""
    end = f"exit code {ended.code}"
    if ended.code < 0:
        end = f"it was ended by signal {-ended.code}"
    printed = _on_one_line(ended.complaint) or f"{end}, without a message"
    kind, remedy = _kind_and_remedy(printed)
    sentence = f"{tool} could not {purpose}"
    if kind == "no-answer":  # only tools of systemd print this, if systemd does not run
        sentence = "systemd does not answer"
    if remedy:
        sentence += f"; {remedy}"
    return HostError(sentence, what=what, kind=kind, output=printed)


def _on_one_line(text: str) -> str:
    """The lines of the text, each once, without those in which nft underlines its input (^^^)."""
    lines: list[str] = []
    for line in map(str.strip, text.splitlines()):
        if line.strip("^~") and line not in lines:
            lines.append(line)
    return " | ".join(lines)


def _kind_and_remedy(printed: str) -> tuple[str, str]:
    """The kind of the error of a tool that has printed this, and what to do about it."""
    for pattern, kind, remedy in _MEANING_OF_OUTPUT:
        if re.search(pattern, printed):
            return kind, remedy
    return "refused", ""
