"""hostrouting.node.running: whether the program that runs is still the one that is installed."""

import os
import signal
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from hostrouting.host.layout import HostLayout
from hostrouting.node import running
from hostrouting.node.ending import TimeLimit
from hostrouting.node.running import (
    DESCRIPTOR,
    is_replaced,
    running_program,
    start_again_if_replaced,
    when_it_began,
)


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


def test_it_starts_again_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the program that is at the path by then, without its alarm, and with the time at which it
    began. Where the program was removed, or is replaced again, it goes on.
    """
    starts = Mock()
    monkeypatch.setattr(running, "is_replaced", lambda: True)
    monkeypatch.setattr(running, "os", starts)
    starts.environ, starts.open = {}, os.open
    starts.O_RDONLY, starts.O_CLOEXEC = os.O_RDONLY, os.O_CLOEXEC
    program = tmp_path / "hostrouting.pyz"
    monkeypatch.setattr(HostLayout, "program_path", str(program))
    start_again_if_replaced(7.5)
    starts.execv.assert_not_called()
    program.touch()
    with TimeLimit(60):
        start_again_if_replaced(7.5)
        assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
    [(descriptor, place)] = [call.args for call in starts.dup2.mock_calls]
    assert (os.path.samestat(os.fstat(descriptor), program.stat()), place) == (True, DESCRIPTOR)
    os.close(descriptor)
    start_again_if_replaced(8.5)
    starts.execv.assert_called_once_with(sys.orig_argv[0], sys.orig_argv)
    assert when_it_began(9.5) == 7.5
