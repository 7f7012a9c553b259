"""The program of a node, hostrouting.pyz: the library itself in one file, with what it needs.

It is an archive of the sources of the running library, however that was installed, and of compiled
files, which the interpreter of the node has made (`host.interpreter`). In front of the archive is
a digest of the sources, by which an operator can compare programs.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib.resources import files as files_of_package
from typing import TYPE_CHECKING

import attrs

from hostrouting.errors import HostError
from hostrouting.host.fileset import File
from hostrouting.host.layout import HostLayout
from hostrouting.release import __version__

if TYPE_CHECKING:
    from importlib.abc import Traversable

    from hostrouting.host.base import Files
    from hostrouting.host.interpreter import Interpreter

PACKAGES = ("hostrouting", "phases", "attr", "attrs")
"""The packages whose sources a node needs."""
_NOT_FOR_NODES = (
    "hostrouting/__pyinstaller/",
    "hostrouting/testing/",
    "phases/testing.py",
)
"""What no command of a node loads."""
_MAIN = "hostrouting/__main__.py"
"""The file that Python runs. The archive has it a second time at its root: Python looks there."""


@attrs.frozen
class Program(File):
    """The program of a node, hostrouting.pyz, as a file that a configuration wants."""

    path: str = HostLayout.program_path
    mode: int = 0o755  # an operator can type its path
    interpreter: Interpreter | None = attrs.field(default=None, kw_only=True)
    """The interpreter that is to compile it; None for an image, which gets only sources."""

    def has_content(self, files: Files) -> bool:
        """Whether the file on the host has the sources of the running library, and is undamaged. It
        need not have the right compiled files: without them, the program only starts more slowly.
        It may have another release of attrs: otherwise two agents of one release, with different
        versions of attrs, would replace the program in turns.
        """
        return _has_our_sources(files.read_bytes(HostLayout.program_path) or b"")

    def content(self) -> bytes:
        """Make the program: sources and compiled files or, for an image, only sources.
        RequirementError if the interpreter cannot run them.
        """
        if self.interpreter is None:
            return pack(sources_of_program())
        # If `find` finds no Python, `compile` raises the error. What `compile` returns includes the
        # sources.
        return pack(self.interpreter.compile(self.interpreter.find(), sources_of_program()))


@cache
def _has_our_sources(program: bytes) -> bool:
    """Whether `program` is what `pack` makes of the sources of the running library. Its compiled
    files and its copy of the package attrs do not matter.
    """
    wanted = _our_sources()
    # For a damaged archive, zipfile raises errors of many types, as BadZipFile or struct.error.
    # Then `wanted` lacks what was not read, so the comparison at the end finds a difference.
    with suppress(Exception), zipfile.ZipFile(io.BytesIO(program)) as archive:
        for name in archive.namelist():
            # The packages attr and attrs, and compiled files, are accepted as they are.
            if name.startswith("attr") or name.endswith(".pyc"):
                wanted[name] = archive.read(name)
    return program == pack(wanted)


def pack(files: Mapping[str, bytes]) -> bytes:
    """Make the bytes of the program: the line that starts Python, the digest of the library's
    sources, and an archive of these `files`, given by their names in it. Operators compare programs
    by the digest.

    Equal files give equal bytes, because they are sorted, and each gets the default date of
    zipfile. Nothing is compressed, so that Python loads the program fast.
    """
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as writer:
        for name in sorted(files):
            writer.writestr(zipfile.ZipInfo(name), files[name])
    return f"#!/usr/bin/env python3\n{sources_digest()}\n".encode() + archive.getvalue()


@cache
def sources_digest() -> str:
    """The digest of the sources of the running library. Two builds with different sources have
    different digests, which `hostrouting --version` shows. attrs, which is not ours, is left out.
    """
    digest = hashlib.sha256()
    for name, text in _our_sources().items():
        digest.update(f"{name} {len(text)}\n".encode())
        digest.update(text)
    return digest.hexdigest()


def _our_sources() -> dict[str, bytes]:
    """A new dict of the sources that the program needs, without those of attrs."""
    sources = sources_of_program()
    return {name: sources[name] for name in sources if not name.startswith("attr")}


def version() -> str:
    """The release, and a digest of its sources: two builds of one release may differ."""
    return f"{__version__} (sources {sources_digest()[:12]})"


@cache
def sources_of_program() -> dict[str, bytes]:
    """The sources that the program of a node needs, by their names in the archive, sorted.
    HostError if the sources are not here: a frozen program may have only compiled files.
    """
    sources: dict[str, bytes] = {}
    for package in PACKAGES:
        sources.update(_sources_in(files_of_package(package), package))
    if _MAIN not in sources:
        raise HostError(
            "the sources of hostrouting are not here, and a node needs them; if this is a frozen "
            "program, freeze it again with the package hostrouting installed by pip, whose hook "
            "has PyInstaller include them",
            what="file",
            target=_MAIN,
        )
    sources["__main__.py"] = sources[_MAIN]  # Python looks for it at the root of an archive
    return {name: sources[name] for name in sorted(sources) if not name.startswith(_NOT_FOR_NODES)}


def _sources_in(folder: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    """Yield each source below this folder of a package: its name in the program, and its text. The
    folder may itself lie in an archive, if this library runs from one.
    """
    for entry in folder.iterdir():
        path = f"{name}/{entry.name}"
        if entry.is_dir():
            yield from _sources_in(entry, path)
        elif path.endswith(".py"):
            yield path, entry.read_bytes()
