"""The service manager's side of a running service: whether it is ready and alive, and its lines in the journal.

Here: systemd's two datagram protocols (sd_notify and the journal's native one). Not here: what is said (`tasks.guard`).
Outside systemd, nothing is notified, and the lines go to the log of the run.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Line", "NoService", "Service", "SystemdService"]

_JOURNAL = "/run/systemd/journal/socket"


@attrs.frozen
class Line:
    """One line for the journal: the text, its level (as in syslog), and fields to search for."""

    text: str
    level: int = 6
    fields: Mapping[str, str] = attrs.field(factory=dict)


class Service(Protocol):
    """What a service tells the manager that started it. No method raises, and none blocks."""

    @property
    def watchdog(self) -> float | None:
        """The seconds within which `notify` has to be called again, or the manager restarts the service."""
        ...

    def notify(self, *assignments: str) -> None:
        """Send these assignments of sd_notify, such as READY=1."""

    def tell(self, line: Line) -> bool:
        """Write the line to the journal; False if there is none, so that the caller logs it."""
        ...


@attrs.frozen
class NoService:
    """A run that no manager started: nothing is sent."""

    watchdog: float | None = None

    def notify(self, *assignments: str) -> None:
        """See Service."""

    def tell(self, _line: Line) -> bool:
        """See Service."""
        return False


@attrs.frozen
class SystemdService:
    """The service that systemd started, as the environment says."""

    notify_path: str = ""
    watchdog: float | None = None
    has_journal: bool = False
    """Whether standard error is the journal; only then its lines belong there."""

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> SystemdService:
        """As the variables NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID and JOURNAL_STREAM say."""
        seconds = None
        if environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid()):
            with suppress(KeyError, ValueError):
                seconds = int(environment["WATCHDOG_USEC"]) / 1e6
        return cls(
            environment.get("NOTIFY_SOCKET", ""), seconds, environment.get("JOURNAL_STREAM") == _standard_error()
        )

    def notify(self, *assignments: str) -> None:
        """See Service."""
        if self.notify_path:
            path = f"\0{self.notify_path[1:]}" if self.notify_path.startswith("@") else self.notify_path
            _send(path, "\n".join(assignments).encode())

    def tell(self, line: Line) -> bool:
        """See Service."""
        if not self.has_journal:
            return False
        fields = {"MESSAGE": line.text, "PRIORITY": str(line.level), "SYSLOG_IDENTIFIER": "hostrouting", **line.fields}
        return _send(_JOURNAL, b"".join(_field(name, text) for name, text in fields.items()))


def _standard_error() -> str:
    """Standard error, as JOURNAL_STREAM names it. Processes whose output goes elsewhere may inherit that variable."""
    try:
        found = os.fstat(2)
    except OSError:
        return ""
    return f"{found.st_dev}:{found.st_ino}"


def _field(name: str, text: str) -> bytes:
    """One field of the journal's native protocol: a text of several lines is preceded by its length."""
    data = text.encode(errors="backslashreplace")
    if b"\n" not in data:
        return name.encode() + b"=" + data + b"\n"
    return name.encode() + b"\n" + len(data).to_bytes(8, "little") + data + b"\n"


def _send(path: str, data: bytes) -> bool:
    import socket  # noqa: PLC0415  only a service sends anything, and every command loads this module

    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        sender.settimeout(0)
        sender.sendto(data, path)
        return True
    return False
