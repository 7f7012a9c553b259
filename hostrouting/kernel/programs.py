"""The programs that this process can find and run on its host, and what its rights allow.

Here: how a program is found, started and ended, with an argument list and a timeout; and asking the kernel for the
rights of the process. Not here: which programs are run and what their output means (each edge, such as
`kernel.nftables`), and what follows from missing rights (`tasks`). An edge takes any `Run`, so a test can pass a
function, as it can pass one that returns other `Rights`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple, Protocol

from hostrouting.errors import BackendError

BOOT_PATH = ("/usr/sbin", "/usr/bin", "/sbin", "/bin")
"""Where the boot scripts look for programs."""


class Ended(NamedTuple):
    """A program that has ended: its exit code, and its output."""

    code: int
    """Negative if a signal ended it."""
    out: str = ""
    err: str = ""

    @property
    def complaint(self) -> str:
        """What the program printed about its failure: some programs print that on standard output."""
        return self.err or self.out

    @property
    def signal(self) -> str:
        """The name of the signal that ended the program; empty if it exited."""
        if self.code >= 0:
            return ""
        from signal import Signals  # noqa: PLC0415  few programs are ended by one

        try:
            return Signals(-self.code).name
        except ValueError:  # most real-time signals have no name
            return f"signal {-self.code}"


class Run(Protocol):
    """Run a program to its end."""

    def __call__(
        self, *words: str, timeout: float, text: str = "", environment: Mapping[str, str] | None = None
    ) -> Ended:
        """The first word is the program, which is looked up in PATH; `text` is its standard input.

        Without `environment` it gets that of this process. Raises FileNotFoundError if the program does not exist,
        TimeoutError if it has not ended in time, and another OSError if it cannot be started.
        """


def find_program(name: str) -> str | None:
    """The path of a program that the boot scripts would run; None if there is none."""
    paths = (f"{folder}/{name}" for folder in BOOT_PATH)
    return next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), None)


def tool_environment() -> dict[str, str]:
    """The environment for an administrator's tool: its error texts are recognised in English.

    PATH also has the folders where the boot scripts look: after `su` or ssh it may be a user's, without /usr/sbin.
    """
    path = ":".join(filter(None, (os.environ.get("PATH"), *BOOT_PATH)))
    return {**os.environ, "LC_ALL": "C", "PATH": path}


def run_program(*words: str, timeout: float, text: str = "", environment: Mapping[str, str] | None = None) -> Ended:
    """See Run. The program runs in its own session; an interrupted wait kills it and its children.

    So Ctrl-C at the terminal reaches only this process, which then decides what to do with the program.
    """
    import signal  # noqa: PLC0415  only needed if a program is run
    import subprocess  # noqa: PLC0415  as above

    try:
        started = subprocess.Popen(  # noqa: S603  an argument list, no shell
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="backslashreplace",
            start_new_session=True,
            env=environment,
        )
    except PermissionError as error:
        if _is_there(words[0], environment):
            raise
        # A folder of PATH may not be entered, or has a folder of this name.
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), words[0]) from error
    with started as process:
        try:
            out, err = process.communicate(text, timeout)
        except BaseException as error:
            # Its process number cannot be reused before we wait for it. The group is killed, because a child of it that
            # lives on would keep our pipes open.
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()  # after Ctrl-C, communicate has not done it
            if isinstance(error, subprocess.TimeoutExpired):
                raise TimeoutError(f"{words[0]} has not ended within {timeout:g} s") from error
            raise
    return Ended(process.returncode, out, err)


def _is_there(name: str, environment: Mapping[str, str] | None) -> bool:
    """Whether the program that could not be started exists; a name without a folder is looked for in PATH."""
    return "/" in name or any(os.path.isfile(os.path.join(folder, name)) for folder in os.get_exec_path(environment))


_STATUS = "/proc/self/status"
_CAP_NET_ADMIN = 1 << 12


class Rights(NamedTuple):
    """The rights of one process."""

    is_root: bool = True
    changes_network: bool = True
    """Whether the process has the capability CAP_NET_ADMIN. In a user namespace, the kernel may still refuse."""

    def require_network(self) -> None:
        """Raise BackendError (not-permitted), with the remedy, if routes and rules cannot be changed."""
        if self.changes_network:
            return
        if self.is_root:
            told = "this process is root without the capability CAP_NET_ADMIN, so it may not change routes or rules"
            raise BackendError(f"{told}; add this capability to its container or service", kind="not-permitted")
        raise BackendError("this process may not change routes or rules; run it as root", kind="not-permitted")


def own_rights() -> Rights:
    """The rights of this process."""
    try:
        with open(_STATUS, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        text = ""
    return read_rights(text, user=os.geteuid())


def read_rights(status: str, *, user: int) -> Rights:
    """The rights of a process of this user; `status` is the text of /proc/PID/status.

    If the text does not have the capabilities, the process counts as having them all: the kernel decides later.
    """
    masks = [line.removeprefix("CapEff:").strip() for line in status.splitlines() if line.startswith("CapEff:")]
    try:
        held = int(masks[0], 16)
    except (IndexError, ValueError):
        held = _CAP_NET_ADMIN
    return Rights(is_root=user == 0, changes_network=bool(held & _CAP_NET_ADMIN))
