"""The Python of a node: which interpreter runs hostrouting.pyz there, and which files it compiles
for that program.
"""

from __future__ import annotations

import os
import posixpath
import re
import tempfile
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Protocol

from hostrouting.errors import RequirementError
from hostrouting.finding import Finding, Remedy
from hostrouting.host.files import follow_links
from hostrouting.host.layout import HostLayout
from hostrouting.kernel.programs import BOOT_PATH, Ended, run_program
from hostrouting.release import OLDEST_PYTHON, PASSED

if TYPE_CHECKING:
    from hostrouting.host.base import Files

_FOLDER = "/usr/bin"
USUAL = f"{_FOLDER}/python3"
_NAME = re.compile(r"python3\.([0-9]+)")
_TIMEOUT = 60.0
"""Seconds in which a slow disk has read everything."""
_NEEDED = "Python {}.{} or newer".format(*OLDEST_PYTHON)
TO_INSTALL = Remedy(f"install {_NEEDED}, as the package python3 or python3.N")
# Not -m, which loads modules from the present folder, as root; nor -I, which ignores the hash seed.
_COMPILE_CODE = "import sys; del sys.path[0]; import compileall; sys.exit(not compileall.main())"
_COMPILE = (
    *("-S", "-s", "-c", _COMPILE_CODE),
    *("-b", "-q", "--invalidation-mode=unchecked-hash", "-s"),
)
"""The arguments of Python for compileall. Two follow: the folder that is left out of the names in
the compiled files, and the folder to compile.
"""
_TRIAL = HostLayout.call_code.format("trial")
_ENVIRONMENT = {"PATH": ":".join(BOOT_PATH), "PYTHONHASHSEED": "0"}
"""The whole environment of the interpreter: nothing in the agent's own is meant for it. Constant
sets are compiled in the order of their hashes, so the seed has the bytes be the same each time.
"""


class Interpreter(Protocol):
    """The Python of a node."""

    def find(self) -> str:
        """The path of the interpreter that is to run hostrouting.pyz; empty if there is none."""

    def compile(self, path: str, sources: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Return these sources and the files that the interpreter at `path` compiles from them, all
        by their names. With the compiled files, a start takes a quarter of the time. A Python of
        another version ignores them, and reads the sources.

        Raises RequirementError if the interpreter cannot load what the gate needs.
        """

    def why_not_run(self) -> str:
        """Why the interpreter at `HostLayout.python_path` cannot run the installed program as the
        gate runs it; empty if it can.
        """


class NodeInterpreter:
    """The interpreter on this machine, or in an image."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def find(self) -> str:
        """Return /usr/bin/python3. If it is absent, or the name of its target says that it is too
        old, as on RHEL 9 (python3.9), return the newest python3.N in /usr/bin; "" if that is too
        old. If no name tells the version of python3, it is returned, too: `compile` shows later
        whether it is too old.
        """
        *_, end_of_links = follow_links(self._files, USUAL)
        if self._files.look(end_of_links) is not None:
            usual = minor_version(self._files, USUAL)
            if usual is None or usual >= OLDEST_PYTHON[1]:
                return USUAL
        newest = max((_minor_in(name) or 0 for name in self._files.names(_FOLDER)), default=0)
        if newest < OLDEST_PYTHON[1]:
            return ""
        return f"{_FOLDER}/python3.{newest}"

    def compile(self, path: str, sources: Mapping[str, bytes]) -> Mapping[str, bytes]:
        return _compile(path, tuple(sources.items()))

    def why_not_run(self) -> str:
        return _why_not_run(HostLayout.python_path, HostLayout.program_path)


@cache
def _compile(path: str, sources: tuple[tuple[str, bytes], ...]) -> Mapping[str, bytes]:
    """Write the sources into a folder, compile them there, and return both (`Interpreter.compile`).
    The result is cached, because an agent may plan and install several times.
    """
    with tempfile.TemporaryDirectory(prefix="hostrouting-") as folder:
        for name, source in sources:
            place = os.path.join(folder, name)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "wb") as file:
                file.write(source)
        reason = _why_not_run(path, folder)
        if not reason:
            # This compiles the folder, and leaves its path out of the names in the compiled files.
            reason = _run(path, *_COMPILE, folder, folder, code=0)
        if reason:
            raise cannot_run(path, reason)
        files: dict[str, bytes] = {}
        for name, source in sources:
            files[name] = source
            # With -b, compileall writes x.pyc beside x.py.
            with open(os.path.join(folder, f"{name}c"), "rb") as file:
                files[f"{name}c"] = file.read()
        return files


def _why_not_run(path: str, program: str) -> str:
    """Run a trial: return why this interpreter cannot load the gate from the program, an archive or
    a folder; empty if it can.
    """
    # "" is the argument of the called function: a trial has none.
    return _run(path, "-I", "-S", "-c", _TRIAL, "", program, code=PASSED)


def _run(*command: str, code: int) -> str:
    """Run the command; return why it did not end with this code, or "" if it did."""
    try:
        ended = run_program(*command, timeout=_TIMEOUT, environment=_ENVIRONMENT)
    except OSError as error:
        return error.strerror or str(error)
    return "" if ended.code == code else _reason_of(ended)


def _reason_of(ended: Ended) -> str:
    """Why a process failed: the signal that ended it, the last line that it has printed, or its
    exit code.
    """
    if ended.code < 0:
        return f"signal {-ended.code} ended it"
    lines = ended.err.strip().splitlines()
    if ended.code and lines:  # what a process prints that succeeds is no reason
        return lines[-1]
    return f"it ended with {ended.code}"


def minor_version(files: Files, path: str) -> int | None:
    """The N of the first name python3.N among this path and those to which its links lead; None if
    there is no such name.
    """
    for place in follow_links(files, path):
        minor = _minor_in(posixpath.basename(place))
        if minor is not None:
            return minor
    return None


def _minor_in(name: str) -> int | None:
    """The N of a python3.N; None for another name."""
    matched = _NAME.fullmatch(name)
    return None if matched is None else int(matched[1])


def cannot_run(path: str, reason: str) -> RequirementError:
    """The error of an interpreter that cannot run the program."""
    sentence = f"{path} cannot run hostrouting on this node: {reason}"
    return RequirementError(findings=[Finding("requirement", "error", sentence, path, TO_INSTALL)])


def missing_interpreter() -> Finding:
    """The finding that a node has no interpreter that could run the program."""
    sentence = f"{_FOLDER} has no {_NEEDED}, which hostrouting needs on a node"
    return Finding("requirement", "error", sentence, "python3", TO_INSTALL)
