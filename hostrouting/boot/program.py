"""The program of a node, hostrouting.pyz: the library itself in one file, with what it needs.

It is an archive of the sources of the running library, however that was installed, and of compiled
files, which the interpreter of the node has made (`boot.compiling`). Three lines are before it:

    #!/usr/bin/env python3
    the stamp: which release this is, a digest of the sources, and which interpreter compiled them
    a digest of all the rest

So nobody has to compile anything to see whether the program differs, and a file that was damaged is
seen before it is needed. (In the comment of an archive, where a stamp could be as well, Python 3.7
and older would not find the archive, and could not say that they are too old.)
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

import attrs

from hostrouting.errors import HostError
from hostrouting.host.fileset import File
from hostrouting.host.layout import HostLayout
from hostrouting.release import __version__

if TYPE_CHECKING:
    from hostrouting.host.base import Files
    from hostrouting.host.interpreter import Interpreter

PACKAGES = ("hostrouting", "phases", "attr", "attrs")
"""Those whose sources a node needs."""
_OURS = ("hostrouting/", "phases/")
_LEFT_OUT = (
    "hostrouting/__pyinstaller/",
    "hostrouting/testing/",
    "hostrouting/kernel/pyroute2.py",
    "phases/testing.py",
)
"""What no command loads."""
_MAIN = "hostrouting/__main__.py"
"""It is at the root of the archive, too, where Python looks for what to run."""
_DATE = (1980, 1, 1, 0, 0, 0)
"""That of each file in the archive: the same sources give the same bytes."""


class Stamp(NamedTuple):
    """What a program says about itself."""

    version: str = ""
    sources: str = ""
    """The digest of the library's sources."""
    python: str = ""
    """The interpreter that has compiled them, such as cpython-311; empty if none has."""


@attrs.frozen
class Program(File):
    """The program as a file that a configuration wants."""

    path: str = HostLayout.program_path
    interpreter: Interpreter | None = attrs.field(default=None, kw_only=True)
    """The interpreter that is to compile it; None for an image, which gets only sources."""

    def has_content(self, files: Files) -> bool:
        """See File. That another interpreter has compiled the program, or none, does not matter: it
        only starts more slowly.
        """
        stamp = read_stamp(files)
        return (stamp.version, stamp.sources) == (__version__, sources_digest())

    def content(self) -> bytes:
        """See File. RequirementError if the interpreter cannot run the program."""
        sources = _program_of_sources()
        if self.interpreter is None:
            return sources
        return self.interpreter.compile(self.interpreter.find(), sources)


def read_stamp(files: Files) -> Stamp:
    """The stamp of the installed program; an empty one if it has none, or is damaged."""
    return stamp_of(files.read_bytes(HostLayout.program_path) or b"")


def stamp_of(program: bytes) -> Stamp:
    """The stamp of this program; an empty one if it has none, or is damaged."""
    with suppress(TypeError, ValueError):  # also of another release, whose stamp has other fields
        first, stamp, digest, archive = program.split(b"\n", 3)
        if digest == _digest(first, stamp, archive):
            return Stamp(**json.loads(stamp))
    return Stamp()


def pack(files: Mapping[str, bytes], stamp: Stamp) -> bytes:
    """The program that has these files, by their names, and this stamp. Nothing is compressed, so
    that it is read fast.
    """
    first = b"#!/usr/bin/env python3"
    second = json.dumps(stamp._asdict()).encode()
    head = b"\n".join((first, second, _digest(), b""))  # any digest: all have one length
    packed = io.BytesIO()
    packed.write(head)  # the archive says how far each of its files is from here
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, _DATE), content)
    content = packed.getvalue()[len(head) :]
    return b"\n".join((first, second, _digest(first, second, content), content))


def _digest(*parts: bytes) -> bytes:
    return hashlib.sha256(b"\n".join(parts)).hexdigest().encode()


@cache
def _program_of_sources() -> bytes:
    return pack(_sources(), Stamp(version=__version__, sources=sources_digest()))


@cache
def sources_digest() -> str:
    """The digest of the running library. Which release of attrs is beside it makes no difference:
    two agents of one release need not have the same.
    """
    digest = hashlib.sha256()
    for name, text in _sources().items():
        if name.startswith(_OURS):
            digest.update(f"{name} {len(text)}\n".encode())
            digest.update(text)
    return digest.hexdigest()


@cache
def _sources() -> dict[str, bytes]:
    """The sources by their names in the archive, sorted."""
    sources: dict[str, bytes] = {}
    for package in PACKAGES:
        sources.update(_sources_of(package))
    if _MAIN not in sources:
        sentence = (
            "the sources of hostrouting are not here, and a node needs them; if this is a frozen "
            "program, freeze it again with the package hostrouting installed by pip, whose hook "
            "has PyInstaller include them"
        )
        raise HostError(sentence, what="file", target=_MAIN)
    sources["__main__.py"] = sources[_MAIN]
    return {name: sources[name] for name in sorted(sources) if not name.startswith(_LEFT_OUT)}


def _sources_of(package: str) -> Iterator[tuple[str, bytes]]:
    """The sources of a package, from a folder or, where this is a zipapp, from an archive."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return
    folder = next(iter(spec.submodule_search_locations))
    archive = getattr(spec.loader, "archive", None)
    if archive is None:
        yield from _sources_in_folder(folder, package)
    else:
        yield from _sources_in_archive(archive, os.path.relpath(folder, archive), package)


def _sources_in_archive(path: str, folder: str, package: str) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.startswith(f"{folder}/") and name.endswith(".py"):
                yield f"{package}{name.removeprefix(folder)}", archive.read(name)


def _sources_in_folder(folder: str, package: str) -> Iterator[tuple[str, bytes]]:
    for place, _, names in os.walk(folder):
        below = os.path.relpath(place, folder)
        for name in names:
            if name.endswith(".py"):
                with open(os.path.join(place, name), "rb") as file:
                    yield os.path.normpath(f"{package}/{below}/{name}"), file.read()
