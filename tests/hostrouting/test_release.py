"""hostrouting.release: what an operator types to call this copy of the program."""

import sys
from pathlib import Path

import pytest

from hostrouting import release


@pytest.mark.parametrize(
    ("place", "python", "typed"),
    [
        ("a.pyz", "/usr/bin/python3", "a.pyz"),
        ("a.pyz", "/opt/python3.12", "/opt/python3.12 a.pyz"),
        ("a b.pyz", "/usr/bin/python3", "/usr/bin/python3 'a b.pyz'"),
        ("/proc/self/fd/3", "/x", "/etc/hostrouting/python /etc/hostrouting/hostrouting.pyz"),
    ],
)
def test_what_is_typed(
    place: str, python: str, typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The archive alone only if it can be executed, and the python3 of PATH fits."""
    monkeypatch.chdir(tmp_path)
    Path("a.pyz").touch(0o755)
    monkeypatch.setattr(release, "__file__", f"{place}/hostrouting/release.py")
    monkeypatch.setattr(sys, "executable", python)
    assert release._how_it_is_called() == typed
