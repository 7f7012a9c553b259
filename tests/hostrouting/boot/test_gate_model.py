"""The gate's protocol, checked in each of its states: tests/system/gate.pml, by spin."""

from __future__ import annotations

import inspect
import re
import subprocess
from pathlib import Path

import pytest

from hostrouting.boot import gate
from hostrouting.boot.gate_files import render_gate_script

MODEL = (Path(__file__).parents[2] / "system/gate.pml").read_text()

# Each makes the protocol wrong in one place; the second of each pair stands there instead of the first.
MISTAKES = {
    "the list is written, but nothing is marked": ("listed = NEW; changing = true", "listed = NEW"),
    "a run that has read the old list goes on": ("if :: running -> tell(stopped) :: else fi", "skip"),
    "the scripts change first": (
        "atomic { listed = NEW; changing = true };",
        "script[0] = NEW; listed = NEW; changing = true;",
    ),
    "a marked step is run": (":: atomic { !marked ->", ":: atomic {"),
    "an older run counts": ("result == succeeded && is_newer[me]", "result == succeeded"),
    "the mark goes too early": ("script[1] = NEW;", "changing = false; script[1] = NEW;"),
}


def _run(model: str, folder: Path) -> str:
    """What the search through all states prints."""
    (folder / "gate.pml").write_text(model)
    steps = "spin -a gate.pml && gcc -O1 -w -DSAFETY -DVECTORSZ=1024 -o pan pan.c && ./pan -m20000 -n"
    done = subprocess.run(["sh", "-c", steps], cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.nightly  # what it says holds until somebody changes the model
@pytest.mark.linux
@pytest.mark.needs("spin", "gcc")
def test_the_protocol(tmp_path: Path) -> None:
    """No start passes with a mixture, nor with the old configuration after a change is complete; none waits for ever."""
    said = _run(MODEL, tmp_path)
    assert "errors: 0" in said
    assert "Search not completed" not in said


@pytest.mark.nightly
@pytest.mark.linux
@pytest.mark.needs("spin", "gcc")
@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_found(mistake: str, tmp_path: Path) -> None:
    """The model is one that can fail."""
    right, wrong = MISTAKES[mistake]
    assert MODEL.count(right) == 1
    assert "errors: 1" in _run(MODEL.replace(right, wrong), tmp_path)


def test_each_transition_has_its_code() -> None:
    """Whoever renames or removes a part of the protocol comes by the model."""
    code = render_gate_script() + inspect.getsource(gate)
    named = re.findall(r"^ *(?:#define.*)?/\* (\w+) \*/", MODEL, re.MULTILINE)
    assert len(set(named)) > 5
    assert [name for name in named if not re.search(rf"^{name}\(\)|def {name}\(|\.{name}\(", code, re.MULTILINE)] == []
