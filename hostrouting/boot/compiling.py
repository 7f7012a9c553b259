"""What the interpreter of a node does with the sources of the program: it loads all modules that
the node needs, and adds compiled files, with which a start takes a quarter of the time.

Another version of Python passes over the compiled files, and reads the sources beside them.
`host.interpreter` starts this.
"""

from __future__ import annotations

import importlib
import importlib.util
import marshal
import sys
import zipfile

from hostrouting.boot.program import pack, stamp_of

_LOADED_ON_THE_NODE = (
    "hostrouting.node.start",
    "hostrouting.node.boot",
    "hostrouting.node.guard",
    "hostrouting.node.outside",
    "hostrouting.host.host",
    "hostrouting.upkeep.passes",
    "hostrouting.routes.keep",
    "hostrouting.probe.load",
    "hostrouting.kernel.nftables",
    "hostrouting.kernel.netlink",
    "hostrouting.check.check",
    "hostrouting.check.marker",
    "hostrouting.check.sentences",
    "hostrouting.cli",
    "hostrouting.status",
    "json",
    "subprocess",
    "traceback",
)
_NOT_CHECKED = (1).to_bytes(4, "little")
"""The flags of a compiled file that is known by the hash of its source, which nobody compares."""


def compile_program(sources: str, target: str) -> None:
    """Compile the program at `sources`, which has none but sources, and write it to `target`."""
    for module in _LOADED_ON_THE_NODE:
        importlib.import_module(module)
    files: dict[str, bytes] = {}
    with zipfile.ZipFile(sources) as archive:
        for name in archive.namelist():
            source = archive.read(name)
            files[name] = source
            files[f"{name}c"] = _compiled(name, source)
    with open(sources, "rb") as file:
        stamp = stamp_of(file.read())
    with open(target, "wb") as file:
        file.write(pack(files, stamp._replace(python=sys.implementation.cache_tag)))


def _compiled(name: str, source: bytes) -> bytes:
    """The compiled file of this source."""
    code = compile(source, name, "exec", dont_inherit=True)
    header = importlib.util.MAGIC_NUMBER + _NOT_CHECKED + importlib.util.source_hash(source)
    return header + marshal.dumps(code)
