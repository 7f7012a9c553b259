"""hostrouting.installation: the repair command depends on where the other project's files are."""

import json
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import pytest

import hostrouting
from hostrouting.installation import foreign_phases, require_own_phases

BESIDE = str(Path(hostrouting.__file__).parent.parent / "phases" / "__init__.py")
REINSTALL = f"run: {sys.executable} -m pip install --force-reinstall --no-deps"


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make Python find another project's module at a path, installed by a distribution of that name, or by none."""

    def arrange(found: str, *, brought: bool = False, direct: dict[str, Any] | None = None) -> None:
        module = ModuleType("phases")
        module.__file__ = found
        monkeypatch.setitem(sys.modules, "phases", module)
        theirs, ours = mock.Mock(), mock.Mock()
        theirs.files = [mock.Mock(locate=lambda: found)]
        ours.read_text.return_value = None if direct is None else json.dumps(direct)
        known = {"hostrouting": ours, **({"phases": theirs} if brought else {})}

        def distribution(name: str) -> object:
            if name not in known:
                raise metadata.PackageNotFoundError(name)
            return known[name]

        monkeypatch.setattr(metadata, "distribution", distribution)

    return arrange


def test_ours() -> None:
    """The installed `phases` is ours."""
    assert foreign_phases() is None
    require_own_phases()


@pytest.mark.parametrize(
    ("direct", "source"),
    [
        (None, "hostrouting"),
        ({"url": "file:///src/host routing", "dir_info": {}}, "'file:///src/host routing'"),
        ({"url": "file:///src", "dir_info": {"editable": True}}, "--editable file:///src"),
    ],
)
def test_overwritten(other: Callable[..., None], direct: dict[str, Any] | None, source: str) -> None:
    """If its files have overwritten ours, hostrouting is reinstalled from its original source."""
    other(BESIDE, brought=True, direct=direct)
    assert str(foreign_phases()).endswith(f"is not the one that hostrouting includes; {REINSTALL} {source}")


def test_in_another_place(other: Callable[..., None]) -> None:
    """A package in another directory that comes first is uninstalled, and ours remains."""
    other("/usr/lib/python3/phases/__init__.py", brought=True)
    assert str(foreign_phases()).endswith(f"; run: {sys.executable} -m pip uninstall --yes phases")


def test_a_file_that_hides_it(other: Callable[..., None]) -> None:
    """A file that no distribution installed must be renamed; the message also names ours."""
    other("/home/me/phases.py")
    with pytest.raises(ImportError, match=r"found at /home/me/phases\.py .*; it hides .*__init__\.py: rename it"):
        require_own_phases()
