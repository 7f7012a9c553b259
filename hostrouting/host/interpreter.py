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
_TIMEOUT = 60.0  # seconds, in which a slow disk has read everything
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
    """The Python of a node, which is to run the installed program there."""

    def find(self) -> str:
        """The path of the interpreter that is to run hostrouting.pyz; empty if there is none."""

    def compile(self, path: str, sources: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Compile the sources of the program with the interpreter at `path`, so that the program
        starts in a quarter of the time. Return the sources and the compiled files, all by their
        names. A Python of another version ignores the compiled files, and reads the sources.

        Raises RequirementError if the interpreter cannot load what the gate needs.
        """

    def why_not_run(self) -> str:
        """Try whether the installed interpreter, at `HostLayout.python_path`, can run the installed
        program as a start of a gated unit does. Return why it cannot; empty if it can.
        """


class NodeInterpreter:
    """The interpreter on this machine, or in an image."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def find(self) -> str:
        """Return the path of a Python that seems new enough; "" if there is none. Usually this is
        /usr/bin/python3. If it is absent, or a link to an old one, such as python3.9 on RHEL 9, it
        is the newest python3.N in /usr/bin.

        Only names of files are read. If none tells the version of python3, it is returned, and
        `compile` shows later whether it is too old.
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
        return _failure_of_trial(HostLayout.python_path, HostLayout.program_path)


@cache
def _compile(path: str, sources: tuple[tuple[str, bytes], ...]) -> Mapping[str, bytes]:
    """Do what `Interpreter.compile` promises, in a temporary folder: try whether the interpreter
    can run these sources, and compile them. The result is cached, because an agent may plan and
    install several times.
    """
    with tempfile.TemporaryDirectory(prefix="hostrouting-") as folder:
        for name, source in sources:
            place = os.path.join(folder, name)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "wb") as file:
                file.write(source)
        reason = _failure_of_trial(path, folder)
        if not reason:
            # The first `folder` is left out of the names in the compiled files, and the second is
            # what is compiled.
            reason = _failure_of(path, *_COMPILE, folder, folder, expected_code=0)
        if reason:
            raise cannot_run(path, reason)
        files: dict[str, bytes] = {}
        for name, source in sources:
            files[name] = source
            # With -b, compileall writes x.pyc beside x.py.
            with open(os.path.join(folder, f"{name}c"), "rb") as file:
                files[f"{name}c"] = file.read()
        return files


def _failure_of_trial(path: str, program: str) -> str:
    """Try to load the gate from the program, an archive or a folder, with the interpreter at this
    path. Return why that failed; empty if it succeeded.
    """
    # The code takes an argument, which a trial does not have (""), and the path of the program.
    return _failure_of(path, "-I", "-S", "-c", _TRIAL, "", program, expected_code=PASSED)


def _failure_of(*command: str, expected_code: int) -> str:
    """Run the command. Return why it did not end with this exit code; empty if it did."""
    try:
        ended = run_program(*command, timeout=_TIMEOUT, environment=_ENVIRONMENT)
    except OSError as error:
        return error.strerror or str(error)
    return "" if ended.code == expected_code else _reason_of(ended)


def _reason_of(ended: Ended) -> str:
    """Why a process failed: the signal that ended it, the last line that it has printed, or its
    exit code.
    """
    if ended.code < 0:
        return f"signal {-ended.code} ended it"
    lines = ended.err.strip().splitlines()
    if ended.code and lines:  # with exit code 0, the output explains no failure
        return lines[-1]
    return f"it ended with {ended.code}"


def minor_version(files: Files, path: str) -> int | None:
    """The minor version of the Python at this path, as names of files tell it: the N of the first
    python3.N among the path and the targets of its links. None if there is no such name.
    """
    for place in follow_links(files, path):
        minor = _minor_in(posixpath.basename(place))
        if minor is not None:
            return minor
    return None


def _minor_in(name: str) -> int | None:
    """The N of a file name python3.N; None for another name."""
    matched = _NAME.fullmatch(name)
    return None if matched is None else int(matched[1])


def cannot_run(path: str, reason: str) -> RequirementError:
    """Make the error for an interpreter that cannot run the program."""
    sentence = f"{path} cannot run hostrouting on this node: {reason}"
    return RequirementError(findings=[Finding("requirement", "error", sentence, path, TO_INSTALL)])


def missing_interpreter() -> Finding:
    """Make the finding that a node has no Python that could run the program."""
    sentence = f"{_FOLDER} has no {_NEEDED}, which hostrouting needs on a node"
    return Finding("requirement", "error", sentence, "python3", TO_INSTALL)
