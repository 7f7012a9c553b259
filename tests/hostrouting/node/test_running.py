"""hostrouting.node.running: whether the program that runs is still the one that is installed."""

import sys
from pathlib import Path

import pytest

from hostrouting.host.layout import HostLayout
from hostrouting.node import running
from hostrouting.node.running import is_replaced, running_program


def test_the_program_at_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one replaces it; where it was removed, there is none to become. What an operator runs
    from somewhere else has no such descriptor, and is never replaced.
    """
    program = tmp_path / "hostrouting.pyz"
    monkeypatch.setattr(HostLayout, "program_path", str(program))
    for name in ("hostrouting.pyz", "new"):
        (tmp_path / name).touch()
    with program.open() as file:
        monkeypatch.setattr(running, "DESCRIPTOR", file.fileno())
        monkeypatch.setattr(sys, "path", [*sys.path, f"/proc/self/fd/{file.fileno()}"])
        assert running_program()
        assert not is_replaced()
        (tmp_path / "new").rename(program)
        assert is_replaced()
        monkeypatch.setattr(running, "DESCRIPTOR", 9_999)
        assert not running_program()
        assert not is_replaced()
        monkeypatch.setattr(running, "DESCRIPTOR", file.fileno())
        program.unlink()
        assert not is_replaced()
