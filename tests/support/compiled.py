"""The program of a node, as a Python of this host compiles it. That takes two seconds of a
processor, so it is done once for each Python and these sources, and kept in .cache.
"""

import fcntl
import hashlib
import os
from functools import cache
from pathlib import Path

from hostrouting.boot.program import Program
from hostrouting.host import interpreter
from hostrouting.host.files import LocalFiles

_FOLDER = Path(__file__).resolve().parents[2] / ".cache" / "compiled"
_compile = interpreter._compile


@cache
def compiled_program(python: str = "") -> bytes:
    """The program, as this interpreter compiles it, or else the one that a node would take here."""
    path = python or interpreter.NodeInterpreter(LocalFiles()).find()
    sources = Program().content()
    status = os.stat(path)
    identity = (status.st_ino, status.st_mtime_ns)
    file = _file_of(path, sources, identity)
    file.parent.mkdir(parents=True, exist_ok=True)
    with (file.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            for former in file.parent.glob("*.pyz"):
                former.unlink()
            unfinished = file.with_suffix(".unfinished")
            unfinished.write_bytes(_compile(path, sources, identity))
            unfinished.rename(file)
    return file.read_bytes()


def use_compiled_program() -> None:
    """Let this process take the program that was compiled before, where it would compile the same;
    another interpreter compiles it as usual.
    """
    vars(interpreter)["_compile"] = _compile_unless_done


def _compile_unless_done(path: str, sources: bytes, identity: object) -> bytes:
    file = _file_of(path, sources, identity)
    if file.exists():
        return file.read_bytes()
    return _compile(path, sources, identity)


def _file_of(path: str, sources: bytes, identity: object) -> Path:
    """Where the program is kept that the interpreter at this path has made of these sources."""
    folder = _FOLDER / hashlib.sha256(path.encode()).hexdigest()[:8]
    digest = hashlib.sha256(f"{identity} ".encode() + sources).hexdigest()
    return folder / f"{digest}.pyz"
