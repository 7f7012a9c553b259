"""The Python of a host in memory."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from hostrouting.host.interpreter import cannot_run


@attrs.define(eq=False)
class FakeInterpreter:
    """An interpreter that makes a program without files: a fake host never runs it, and a megabyte
    takes time each time that it is looked at.
    """

    path: str = "/usr/bin/python3"
    """Empty if the host has none that could run the program."""
    broken: str = ""
    """Why it cannot run the program, if it cannot."""

    def find(self) -> str:
        return self.path

    def compile(self, path: str, _sources: Mapping[str, bytes]) -> Mapping[str, bytes]:
        if self.broken:
            raise cannot_run(path, self.broken)
        return {}

    def why_not_run(self) -> str:
        return self.broken
