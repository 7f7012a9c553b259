"""The note that the gate leaves about the last start of each unit, for `hostrouting status`.

It is text, and not JSON, because every start of a gated unit would wait for what reads and writes
that. The first line has the ID that systemd gave the start, what the gate decided, when, and what
held the start back beside the routes; the others are what was logged as an error.
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
        self,
        invocation: str,
        time: float,
        *,
        refused: bool,
        held_by: str = "",
        errors: Sequence[str] = (),
    ) -> None:
        self.invocation = invocation
        self.time = time
        """When it decided, in seconds since 1970."""
        self.refused = refused
        self.held_by = held_by
        """The script, or the lock, because of which it was refused; empty for anything else."""
        self.errors = tuple(errors)


def leave_note(files: Files, unit: str, note: StartNote) -> None:
    """Leave the note about this unit in the place of the one before. If it cannot be written, that
    changes no decision.
    """
    decision = _REFUSED if note.refused else _PASSED
    first = f"{note.invocation} {decision} {note.time} {note.held_by}"
    lines = [*map(printable, (first, *note.errors))]
    try:
        files.write(HostLayout.note_path(unit), "\n".join(lines))
    except Exception:  # noqa: BLE001  see above
        return


def read_note(files: Files, unit: str) -> StartNote | None:
    """The note about the last start of this unit; None if there is none that can be used."""
    try:
        first, *errors = (files.read(HostLayout.note_path(unit)) or "").split("\n")
        invocation, decision, time, *held_by = first.split(" ", 3)  # a former release has no fourth
        return StartNote(
            invocation,
            float(time),
            refused=decision == _REFUSED,
            held_by="".join(held_by),
            errors=errors,
        )
    except Exception:  # noqa: BLE001  whatever is wrong with the file, it is not a note
        return None
