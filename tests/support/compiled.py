"""The program of a node, as a Python of this host compiles it."""

import fcntl
import hashlib
import os
from functools import cache
from pathlib import Path

from hostrouting.boot.program import pack, sources_of_program
from hostrouting.host.files import LocalFiles
from hostrouting.host.interpreter import NodeInterpreter

_FOLDER = Path(__file__).resolve().parents[2] / ".cache"


@cache
def compiled_program(python: str = "") -> bytes:
    """The program, as this interpreter compiles it, or else the one that a node would take here."""
    # To compile it takes a second of a processor, so all workers of a run share one file.
    interpreter = NodeInterpreter(LocalFiles(), is_image=False)
    path = os.path.realpath(python or interpreter.find())
    sources = sources_of_program()
    compiler = f"{path} {os.stat(path).st_mtime_ns} {sorted(sources.items())}"
    digest = hashlib.sha256(compiler.encode()).digest()
    _FOLDER.mkdir(exist_ok=True)
    with (_FOLDER / f"program{path.replace('/', '-')}").open("a+b") as shared:
        fcntl.flock(shared, fcntl.LOCK_EX)
        shared.seek(0)
        content = shared.read()
        if not content.startswith(digest):
            content = digest + pack(interpreter.compile(path, sources))
            shared.truncate(0)
            shared.write(content)
    return content.removeprefix(digest)
