"""hostrouting.gate.start_note: what the gate leaves about a start is what `status` reads."""

import pytest
from hypothesis import given, strategies as st

from hostrouting.gate.start_note import StartNote, leave_note, read_note
from hostrouting.host.layout import HostLayout
from hostrouting.testing import FakeFiles
from hostrouting.text import printable

UNIT = "kubelet.service"


@given(
    invocation=st.text("0123456789abcdef", min_size=1),
    time=st.floats(0, 1e10),
    refused=st.booleans(),
    held_by=st.text(),
    errors=st.lists(st.text()),
)
def test_a_note(
    invocation: str, time: float, *, refused: bool, held_by: str, errors: list[str]
) -> None:
    """All of it is read again; what a terminal cannot show, as the journal has it."""
    files = FakeFiles()
    left = StartNote(invocation, time, refused=refused, held_by=held_by, errors=errors)
    leave_note(files, UNIT, left)
    note = read_note(files, UNIT)
    assert note is not None
    assert (note.invocation, note.time, note.refused) == (invocation, time, refused)
    assert note.held_by == printable(held_by)
    assert note.errors == tuple(map(printable, errors))


def test_a_note_that_cannot_be_written() -> None:
    """That changes no decision."""
    leave_note(FakeFiles(broken={"/run": "it is full"}), UNIT, StartNote("4711", 7.5, refused=True))


def test_a_note_of_a_former_release() -> None:
    """It does not say what has held the start back."""
    note = read_note(FakeFiles({HostLayout.note_path(UNIT): "4711 refused 7.5\nwhy"}), UNIT)
    assert note is not None
    assert (note.refused, note.held_by, note.errors) == (True, "", ("why",))


@pytest.mark.parametrize("text", [None, "", "4711 passed", "4711 passed now", "{}"])
def test_no_note(text: str | None) -> None:
    """The unit has not started since the boot, or the file is something else."""
    files = FakeFiles({} if text is None else {HostLayout.note_path(UNIT): text})
    assert read_note(files, UNIT) is None
