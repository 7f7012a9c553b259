"""The Python of a host in memory."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from hostrouting.host.interpreter import cannot_run


@attrs.define(eq=False)
class FakeInterpreter:
    """An interpreter that compiles a program without any files: a fake host never runs it, and each
    look at a real one, a megabyte, takes time.
    """

    path: str = "/usr/bin/python3"
    """The path of the interpreter; empty if the host has none that could run the program."""
    broken: str = ""
    """Why the interpreter cannot run the program; empty if it can."""

    def find(self) -> str:
        return self.path

    def compile(self, path: str, _sources: Mapping[str, bytes]) -> Mapping[str, bytes]:
        if self.broken:
            raise cannot_run(path, self.broken)
        # The compiled files, by path: none, because a fake host never runs the program.
        return {}

    def why_not_run(self, _path: str) -> str:
        return self.broken
