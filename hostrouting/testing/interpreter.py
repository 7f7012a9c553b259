"""The Python of a host in memory."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from hostrouting.host.interpreter import cannot_run


@attrs.define(eq=False)
class FakeInterpreter:
    """An interpreter that compiles nothing: a fake host never runs the program, so its sources are
    enough.
    """

    path: str = "/usr/bin/python3"
    """The path of the interpreter; empty if the host has none that could run the program."""
    broken: str = ""
    """Why the interpreter cannot run the program; empty if it can."""

    def find(self) -> str:
        return self.path

    def compile(self, path: str, sources: Mapping[str, bytes]) -> Mapping[str, bytes]:
        if self.broken:
            raise cannot_run(path, self.broken)
        return sources

    def why_not_run(self, _path: str) -> str:
        return self.broken
