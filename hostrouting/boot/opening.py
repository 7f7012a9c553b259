"""Break glass: until when a gated unit may start unchecked, who decided that, and why.

Here: the lines of the file, and which openings are in force. Not here: what a start does with the file, in
host-routing-gate.sh; a test runs both on the same files.

An opening has an absolute end, so it ends by itself, also over a reboot. If the clock was set back, the file is newer
than the clock and does not open the gate. A clock that is ahead ends an opening early. If the clock stands still while
the host is off, the time that is left is counted from the boot.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

import attrs

from hostrouting.errors import FileError
from hostrouting.finding import Finding
from phases.text import moment_as_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hostrouting.host.host import Host

ALL = "all"
"""In place of a unit: each gated unit."""


@attrs.frozen
class Opening:
    """One unit, or all, that may start unchecked for a time."""

    until: int
    """In seconds since 1970."""
    unit: str
    who: str
    why: str

    def __str__(self) -> str:
        return f"{self.until} {self.unit} {self.who} {self.why}"

    @property
    def finding(self) -> Finding:
        """The finding that the gate is open."""
        whose = "each gated unit" if self.unit == ALL else self.unit
        moment = moment_as_text(datetime.fromtimestamp(self.until, timezone.utc))
        told = f"{whose} may start unchecked until {moment}: opened by {self.who}: {self.why}"
        end = "hostrouting gate --close" + ("" if self.unit == ALL else f" --unit {self.unit}")
        facts = {"unit": self.unit, "until": self.until}
        return Finding("gate-open", "warning", told, self.unit, f"to end this, run as root: {end}", facts)


def render_openings(openings: Iterable[Opening]) -> str:
    """The text of the file."""
    return "".join(f"{opening}\n" for opening in openings)


def parse_openings(text: str) -> tuple[Opening, ...]:
    """The openings in the file; ValueError, with the line, if one is not an opening: then none counts."""
    found = []
    for line in text.removesuffix("\n").split("\n") if text else ():
        until, unit, who, why = (*line.split(" ", 3), "", "", "", "")[:4]
        if not (until.isascii() and until.isdigit() and len(until) <= 11 and unit and who and why):
            raise ValueError(f"the line {line!r} does not have the form UNTIL UNIT WHO WHY")
        found.append(Opening(int(until), unit, who, why))
    return tuple(found)


def openings_in_force(host: Host, now: datetime) -> tuple[Opening, ...]:
    """The openings that have not ended.

    FileError if the file cannot be read; ValueError if it does not open the gate for another reason.
    """
    path, files = host.layout.opening_path, host.files
    if not files.is_there(path):
        return ()
    if not files.is_protected(path):
        files.read(path)  # a fifo, a folder or a device is another fault
        raise ValueError("it has to be a file that only root can write")
    found = tuple(opening for opening in parse_openings(files.read(path) or "") if now.timestamp() < opening.until)
    if found and int(now.timestamp()) < int(files.modified(path) or 0):
        raise ValueError("it is newer than this host's clock, which may be wrong")
    return found


def opening_findings(host: Host, now: datetime) -> tuple[Finding, ...]:
    """A finding for each opening in force, or one that says why the file does not open the gate or cannot be read."""
    path = host.layout.opening_path
    try:
        return tuple(opening.finding for opening in openings_in_force(host, now))
    except FileError as error:
        return (Finding("not-known", "warning", f"whether a unit may start unchecked: {error}", path),)
    except ValueError as error:
        told = f"{path} does not open the gate: {error}"
        remedy = "remove it; to open the gate again, run: hostrouting gate --open-for 2h --reason TEXT"
        return (Finding("edited-file", "note", told, path, remedy),)
