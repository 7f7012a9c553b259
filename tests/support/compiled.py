"""The program of a node as this host's Python compiles it. That takes two seconds of a processor,
and most tests that install something have this Python and these sources: it is done once for all of
them, and kept in .cache.
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
def compiled_program() -> bytes:
    """The program, as this host's Python compiles it."""
    path = interpreter.NodeInterpreter(LocalFiles()).find()
    sources = Program().content()
    status = os.stat(path)
    identity = (status.st_ino, status.st_mtime_ns)
    file = _file_of(path, sources, identity)
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with (_FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            for former in _FOLDER.glob("*.pyz"):
                former.unlink()
            unfinished = _FOLDER / "unfinished"
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
    """Where the program is kept that this interpreter has made of these sources."""
    digest = hashlib.sha256(f"{path} {identity} ".encode() + sources).hexdigest()
    return _FOLDER / f"{digest}.pyz"
