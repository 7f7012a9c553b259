"""The note that the gate leaves about the last start of each unit, for `hostrouting status`.

It is text, and not JSON, because every start of a gated unit would wait for what reads and writes
that. The first line has the ID that systemd gave the start, what the gate decided, and when; the
others are what was logged as an error.
"""

from __future__ import annotations

from hostrouting.host.layout import HostLayout
from hostrouting.text import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from hostrouting.host.base import Files

_REFUSED, _PASSED = "refused", "passed"


class StartNote:
    """What the gate leaves about the last start of a unit."""

    def __init__(
        self, invocation: str, time: float, *, refused: bool, errors: Sequence[str] = ()
    ) -> None:
        self.invocation = invocation
        self.time = time
        """When it decided, in seconds since 1970."""
        self.refused = refused
        self.errors = tuple(errors)


def leave_note(files: Files, unit: str, note: StartNote) -> None:
    """Leave the note about this unit in the place of the one before. If it cannot be written, that
    changes no decision.
    """
    decision = _REFUSED if note.refused else _PASSED
    lines = [f"{note.invocation} {decision} {note.time}", *map(printable, note.errors)]
    try:
        files.write(HostLayout.note_path(unit), "\n".join(lines))
    except Exception:  # noqa: BLE001  see above
        return


def read_note(files: Files, unit: str) -> StartNote | None:
    """The note about the last start of this unit; None if there is none that can be used."""
    try:
        first, *errors = (files.read(HostLayout.note_path(unit)) or "").split("\n")
        invocation, decision, time = first.split(" ")
        return StartNote(invocation, float(time), refused=decision == _REFUSED, errors=errors)
    except Exception:  # noqa: BLE001  whatever is wrong with the file, it is not a note
        return None
