"""The Python of a node: which interpreter runs hostrouting.pyz there, and what it makes of it."""

from __future__ import annotations

import os
import posixpath
import re
import tempfile
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
_CODE = """\
import sys
if sys.version_info < {oldest}:
    sys.exit("it is Python %d.%d" % sys.version_info[:2])
sys.path[:1] = [sys.argv[1]]
from hostrouting.boot.compiling import compile_program
compile_program(sys.argv[1], sys.argv[2])
"""
_TRIAL = HostLayout.call_code.format("trial")
_ENVIRONMENT = {"PATH": ":".join(BOOT_PATH), "PYTHONHASHSEED": "0"}
"""Of the agent's own environment nothing is for the interpreter of the node. Sets of constants are
compiled in the order of their hashes: with the seed, the bytes are the same each time.
"""


class Interpreter(Protocol):
    """The Python of a node."""

    def find(self) -> str:
        """The path of the interpreter that is to run the program; empty if there is none."""

    def compile(self, path: str, sources: bytes) -> bytes:
        """The archive of these sources with the files that this interpreter compiles. All modules
        that the node needs have been loaded by it once. RequirementError if it cannot do that.
        """

    def why_not_run(self) -> str:
        """Why the installed program cannot be run by the installed interpreter, as the gate runs
        it; empty if it can.
        """


class NodeInterpreter:
    """The interpreter on this machine, or in an image."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def find(self) -> str:
        """The usual one, unless its name says that it is too old (RHEL 9 has 3.9 as python3): then
        the newest. A usual one whose name says nothing is tried when it compiles.
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

    def compile(self, path: str, sources: bytes) -> bytes:
        try:
            status = os.stat(path)
            return _compile(path, sources, (status.st_ino, status.st_mtime_ns))
        except OSError as error:
            raise cannot_run(path, error.strerror or str(error)) from error

    def why_not_run(self) -> str:
        words = (HostLayout.python_path, "-I", "-S", "-c", _TRIAL, "", HostLayout.program_path)
        try:
            ended = run_program(*words, timeout=_TIMEOUT, environment=_ENVIRONMENT)
        except OSError as error:
            return error.strerror or str(error)
        if ended.code == PASSED:
            return ""
        return _reason_of(ended)


@cache
def _compile(path: str, sources: bytes, _identity: object) -> bytes:
    """See Interpreter. An agent may plan and install several times; the interpreter may have been
    replaced since, which its identity says.
    """
    with tempfile.TemporaryDirectory(prefix="hostrouting-") as folder:
        program = os.path.join(folder, "sources.pyz")
        compiled = os.path.join(folder, "compiled.pyz")
        with open(program, "wb") as file:
            file.write(sources)
        words = (path, "-s", "-S", "-c", _CODE.format(oldest=OLDEST_PYTHON), program, compiled)
        ended = run_program(*words, timeout=_TIMEOUT, environment=_ENVIRONMENT)
        if ended.code or not os.path.exists(compiled):
            raise cannot_run(path, _reason_of(ended))
        with open(compiled, "rb") as file:
            return file.read()


def _reason_of(ended: Ended) -> str:
    """Why a process failed: the last line that it has printed, if it has ended by itself."""
    if ended.code < 0:
        return f"signal {-ended.code} ended it"
    lines = ended.err.strip().splitlines()
    if ended.code and lines:
        return lines[-1]
    return f"it ended with {ended.code}"


def minor_version(files: Files, path: str) -> int | None:
    """The N of the python3.N to which the links at this path lead; None if no name says it."""
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
    """That a node has no interpreter that could run the program."""
    sentence = f"{_FOLDER} has no {_NEEDED}, which hostrouting needs on a node"
    return Finding("requirement", "error", sentence, "python3", TO_INSTALL)
