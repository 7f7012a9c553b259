"""The program of a node, as a Python of this host compiles it."""

from functools import cache

from hostrouting.boot.program import pack, sources_of_program
from hostrouting.host.files import LocalFiles
from hostrouting.host.interpreter import NodeInterpreter


@cache
def compiled_program(python: str = "") -> bytes:
    """The program, as this interpreter compiles it, or else the one that a node would take here."""
    interpreter = NodeInterpreter(LocalFiles())
    return pack(interpreter.compile(python or interpreter.find(), sources_of_program()))
