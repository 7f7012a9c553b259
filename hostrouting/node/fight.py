"""A fight: another program takes away, again and again, what the guard puts back.

The guard counts its repairs, and leaves the number in a file under /run for as long as the fight
lasts, where `status` finds it. The journal has a line when a fight begins, one each hour, and one
at its end.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from hostrouting.errors import HostError
from hostrouting.finding import Finding, Remedy
from hostrouting.host.layout import HostLayout

if TYPE_CHECKING:
    from hostrouting.host.base import Files
    from hostrouting.upkeep.passes import Done

# After so many repairs, a fight begins. Fewer are usual: after a boot, programs set up routes.
_REPAIRS_OF_A_FIGHT = 10
# Seconds without a repair that end a fight: the other program may act every few minutes.
QUIET = 600.0
# Seconds between two lines of the journal about a fight.
_SAY_AGAIN_AFTER = 3600.0
_REMEDY = Remedy(
    "find that program (ip monitor route shows when it acts), and have it leave alone what is "
    "configured here; this is said for 10 minutes after the last time"
)


class Fight:
    """Counts the repairs of the guard, to notice a fight: another program undoes each of them."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._repairs = 0
        self._repaired_at = self._said_at = 0.0  # the last repair, and the last line of the log
        # A file says that a fight is on. An earlier guard that was killed may have left it there.
        self.end()

    @property
    def is_on(self) -> bool:
        """Whether there is a fight: many repairs, without a long pause between them."""
        return self._repairs >= _REPAIRS_OF_A_FIGHT

    def note(self, done: Done, now: float) -> str:
        """Count this pass as a repair if it has changed anything. Many repairs without a long pause
        are a fight. Return the line for the journal when a fight begins, each hour while it lasts,
        and when it is over; else an empty text.
        """
        # What was put back: routes, and the objects of operations, such as the table for probes.
        repairs = [*done.changes, *(operation.object for operation in done.operations)]
        # After a long pause, a fight is over, and the count of repairs begins again.
        if now - self._repaired_at > QUIET:
            was_on = self.is_on
            self.end()
            if was_on and not repairs:  # with repairs, this would not be true
                return "nothing takes away any more what the guard puts back"
        if not repairs:
            return ""
        self._repairs += 1
        self._repaired_at = now
        if not self.is_on:
            return ""
        sentence = (
            f"another program takes away what the guard puts back: {self._repairs:,} times by now, "
            f"last: {repairs[0]}"
        )
        with suppress(HostError):  # without the file, only `status` does not know of the fight
            self._files.write(HostLayout.fight_path, f"{self._repairs}\n{sentence}\n")
        # The repair with which a fight begins is logged at once. Later ones are logged only if the
        # last line is an hour old.
        if self._repairs != _REPAIRS_OF_A_FIGHT and now - self._said_at < _SAY_AGAIN_AFTER:
            return ""
        self._said_at = now
        return f"{sentence}; {_REMEDY}"

    def end(self) -> None:
        """Forget the repairs, and remove the file by which `status` knows that another program
        undoes them. Without a fight, this does no harm.
        """
        self._repairs = 0
        with suppress(HostError):  # a disk that cannot be written must not stop the guard
            self._files.remove(HostLayout.fight_path)


def read_fight(files: Files) -> Finding | None:
    """Return a warning if another program keeps undoing what the guard of this host repairs. The
    guard notes that in a file, with the number of its repairs and a sentence. None if there is no
    such file, or if something else is written in it.
    """
    # Not by splitlines, which also ends a line at characters that a device's name can have.
    number, _, sentence = (files.read(HostLayout.fight_path) or "").partition("\n")
    with suppress(ValueError):  # `number` is not a number, or has thousands of digits
        facts = {"repairs": int(number)}
        if sentence:
            return Finding(
                "fight", "warning", sentence.strip(), HostLayout.guard_unit, _REMEDY, facts
            )
    return None
