"""The Python of a node: which interpreter runs hostrouting.pyz there, and which files it compiles
for that program.
"""

from __future__ import annotations

import os
import posixpath
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Protocol

from hostrouting.errors import RequirementError
from hostrouting.finding import Finding, Remedy
from hostrouting.host.files import follow_links
from hostrouting.host.layout import HostLayout
from hostrouting.kernel.programs import BOOT_PATH, run_program
from hostrouting.release import OLDEST_PYTHON, PASSED

if TYPE_CHECKING:
    from hostrouting.host.base import Files

_FOLDER = "/usr/bin"
USUAL_PATH = f"{_FOLDER}/python3"
_NAME = re.compile(r"python3\.([0-9]+)")
_TIMEOUT = 60.0  # seconds, in which a slow disk has read everything
_NEEDED = "Python {}.{} or newer".format(*OLDEST_PYTHON)
INSTALL_PYTHON = Remedy(f"install {_NEEDED}, as the package python3 or python3.N")
# Not -m, which loads modules from the present folder, as root; nor -I, which ignores the hash seed.
_COMPILE_CODE = (
    "import sys; del sys.path[0]; import compileall; "
    f"sys.exit({PASSED} if compileall.main() else 1)"
)
_COMPILE_ARGUMENTS = (
    "-S", "-s", "-c", _COMPILE_CODE, "-b", "-q", "--invalidation-mode=unchecked-hash", "-s",
)  # fmt: skip
"""The arguments of Python for compileall. Two follow: the folder that is left out of the names in
the compiled files, and the folder to compile.
"""
_START_CODE = f"import json, sys; sys.exit({PASSED})"  # python3-minimal has no json
# The code that loads the gate from a program, an archive or a folder, and its first argument, which
# a trial does not have. The second one is the path of the program.
_TRIAL_ARGUMENTS = (
    "import os, sys; os.path.exists(sys.argv[2]) or sys.exit('the file is missing'); "
    + HostLayout.call_code.format("trial"),
    "",
)
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

    def why_not_run(self, path: str) -> str:
        """Try whether the interpreter at `path` can run the installed program as a start of a gated
        unit does. Return why it cannot; empty if it can.
        """


class NodeInterpreter:
    """The interpreter on this machine, or in an image."""

    def __init__(self, files: Files, *, is_image: bool) -> None:
        self._files = files
        self._is_image = is_image

    def find(self) -> str:
        """Return the path of a Python that is new enough and starts; "" if there is none. Usually
        this is /usr/bin/python3. If this path is absent, does not start, or leads to an old Python
        (on RHEL 9 to python3.9), the newest python3.N in /usr/bin is taken.

        Only the names of files say how new a Python is. If no name tells the version of
        /usr/bin/python3, this path is taken, and `compile` shows later whether it is too old.
        """
        minors = sorted(_minor_versions(self._files.names(_FOLDER)), reverse=True)
        for path in (USUAL_PATH, *(f"{_FOLDER}/python3.{minor}" for minor in minors)):
            if self._is_usable(path):
                return path
        return ""

    def _is_usable(self, path: str) -> bool:
        """Whether the path leads to a Python that starts, and no name on the way says that it is
        too old. Two kinds of Python are not started, and count as usable: one of an image, which
        this kernel may be unable to run, and one that users other than root can change, which root
        must not run. The latter is reported as an error later.
        """
        places = [*follow_links(self._files, path)]
        entries = [self._files.look(place) for place in places]
        oldest = OLDEST_PYTHON[1]
        minor = min(_minor_versions(places), default=oldest)  # if no name tells it: new enough
        if entries[-1] is None or minor < oldest:
            return False
        others_can_change = any(entry and entry.is_open_to_others for entry in entries)
        return self._is_image or others_can_change or not _failure_of_python(path, _START_CODE)

    def compile(self, path: str, sources: Mapping[str, bytes]) -> Mapping[str, bytes]:
        return _compile(path, tuple(sources.items()))

    def why_not_run(self, path: str) -> str:
        return _failure_of_python(path, *_TRIAL_ARGUMENTS, HostLayout.program_path)


@cache
def _compile(path: str, sources: tuple[tuple[str, bytes], ...]) -> Mapping[str, bytes]:
    """Do what `Interpreter.compile` promises, in a temporary folder: try whether the interpreter
    can run these sources, and compile them. The result is cached, because an agent may plan and
    install several times.
    """
    # Not in TMPDIR: its owner could replace the folder. In /tmp, which is sticky, nobody else can.
    with tempfile.TemporaryDirectory(prefix="hostrouting-", dir="/tmp") as folder:
        for name, source in sources:
            place = os.path.join(folder, name)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "wb") as file:
                file.write(source)
        reason = _failure_of_python(path, *_TRIAL_ARGUMENTS, folder)
        if not reason:
            # The first folder is what to cut off the names in the compiled files; the second is
            # what to compile.
            reason = _failure_of_command(path, *_COMPILE_ARGUMENTS, folder, folder)
        if reason:
            raise cannot_run(path, reason)
        files: dict[str, bytes] = {}
        for name, source in sources:
            files[name] = source
            # With -b, compileall writes x.pyc beside x.py.
            with open(os.path.join(folder, f"{name}c"), "rb") as file:
                files[f"{name}c"] = file.read()
        return files


def _failure_of_python(path: str, code: str, *arguments: str) -> str:
    """Run this code with the interpreter at this path. Return why that failed, or empty."""
    return _failure_of_command(path, "-I", "-S", "-c", code, *arguments)


def _failure_of_command(*command: str) -> str:
    """Run the command, which ends with the exit code PASSED (97) if all went well. If not, return
    the reason: the last line that it has printed as an error, or how it ended. Otherwise empty.
    """
    try:
        ended = run_program(*command, timeout=_TIMEOUT, environment=_ENVIRONMENT)
    except OSError as error:
        return error.strerror or str(error)
    if ended.code == PASSED:
        return ""
    lines = ended.err.strip().splitlines()
    if ended.code > 0 and lines:  # a command that ends with 0 has printed no error
        return lines[-1]
    return ended.how


def _minor_versions(paths: Iterable[str]) -> Iterator[int]:
    """Yield the N of each path whose last name is python3.N."""
    for path in paths:
        matched = _NAME.fullmatch(posixpath.basename(path))
        if matched:
            yield int(matched[1])


def cannot_run(path: str, reason: str) -> RequirementError:
    """Make the error for an interpreter that cannot run the program."""
    sentence = f"{path} cannot run hostrouting on this node: {reason}"
    return RequirementError(
        findings=[Finding("requirement", "error", sentence, path, INSTALL_PYTHON)]
    )


def missing_interpreter() -> Finding:
    """Make the finding that a node has no Python that could run the program."""
    sentence = f"{_FOLDER} has no {_NEEDED} that works, which hostrouting needs on a node"
    return Finding("requirement", "error", sentence, "python3", INSTALL_PYTHON)
