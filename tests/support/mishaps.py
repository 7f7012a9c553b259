"""A fake host on which something fails: the agent is killed, a file cannot be written, systemd refuses.

Every change of files and every call of the manager is recorded in one list, and one of them can raise instead.
"""

from collections.abc import Callable

import attrs

from hostrouting.errors import FileError, ManagerError
from hostrouting.testing import FakeFiles, FakeHost, FakeManager, plain_vm
from hostrouting.testing.kernel import MemoryBackend


class Killed(BaseException):
    """The agent is killed at this moment."""


def killed(_event: str) -> BaseException:
    """The agent is killed before this change."""
    return Killed()


def full(event: str) -> BaseException:
    """A file cannot be written, or the manager does not answer."""
    verb, _, path = event.partition(" ")
    if path.startswith("/"):
        return FileError(f"cannot {verb} {path}: No space left on device; free some space", path=path)
    return busy(event)


def busy(event: str) -> BaseException:
    """The manager does not answer."""
    return ManagerError(f"systemctl {event} did not answer")


@attrs.define
class Mishaps:
    """All changes on a host, in order; the nth change since `arm` raises instead."""

    events: list[str] = attrs.field(factory=list)
    nth: int = 0
    error: Callable[[str], BaseException] = killed
    watch: Callable[[str], object] = lambda _event: None
    """Called before each change."""

    def arm(self, nth: int, error: Callable[[str], BaseException] = killed) -> None:
        """Start counting."""
        self.events.clear()
        self.nth, self.error = nth, error

    def disarm(self) -> None:
        """From now on, every change succeeds."""
        self.arm(0)

    def before(self, event: str) -> None:
        """The function that is called before each change."""
        self.watch(event)
        self.events.append(event)
        if len(self.events) == self.nth:
            raise self.error(event)


@attrs.define
class MishapFiles(FakeFiles):
    """The files of such a host."""

    mishaps: Mishaps = attrs.field(factory=Mishaps)

    def write(self, path: str, text: str, *, mode: int = 0o644) -> bool:
        """See Files."""
        if not self.holds(path, text, mode=mode):
            self.mishaps.before(f"write {path}")
        return super().write(path, text, mode=mode)

    def link(self, path: str, target: str) -> bool:
        """See Files."""
        if not self.leads(path, target):
            self.mishaps.before(f"link {path}")
        return super().link(path, target)

    def remove(self, path: str) -> bool:
        """See Files."""
        if self.is_there(path):
            self.mishaps.before(f"remove {path}")
        return super().remove(path)


@attrs.define
class MishapManager(FakeManager):
    """The manager of such a host."""

    mishaps: Mishaps = attrs.field(factory=Mishaps)

    def reload(self) -> None:
        """See Manager."""
        self.mishaps.before("reload")
        super().reload()

    def start(self, unit: str, *, timeout: float) -> None:
        """See Manager."""
        self.mishaps.before(f"start {unit}")
        super().start(unit, timeout=timeout)

    def stop(self, unit: str) -> None:
        """See Manager."""
        self.mishaps.before(f"stop {unit}")
        super().stop(unit)


def fabric_vm() -> MemoryBackend:
    """A host whose default route uses eth0, and whose fabric ib0 has 172.16.0.0/16."""
    kernel = plain_vm()
    kernel.add_link("ib0")
    kernel.add_address("ib0", "172.16.1.10/16")
    return kernel


def mishap_host(kernel: MemoryBackend | None = None) -> tuple[FakeHost, Mishaps]:
    """A host with this kernel, or that of `fabric_vm`, and the list of changes on it."""
    mishaps = Mishaps()
    files, manager = MishapFiles(mishaps=mishaps), MishapManager(mishaps=mishaps)
    return FakeHost(kernel=kernel or fabric_vm(), files=files, manager=manager), mishaps
