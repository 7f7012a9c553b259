"""A fake host on which something fails. Every effect on it is recorded in one list, and one of them
can raise instead: of a file, the lock, the manager, a route, or nftables.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import attrs

from hostrouting.errors import BackendError, HostError
from hostrouting.kernel.base import Outcome, RouteRequest
from hostrouting.testing import FakeFiles, FakeHost, FakeManager, h200
from hostrouting.testing.kernel import FakeKernel


class Killed(BaseException):
    """The agent is killed at this moment: from then on it has no effect at all."""


def killed(_event: str) -> BaseException:
    return Killed()


def ctrl_c(_event: str) -> BaseException:
    return KeyboardInterrupt()


def full(event: str) -> BaseException:
    """What an effect raises if it fails: of a file, of the kernel, of nft, or of the manager."""
    verb, _, path = event.partition(" ")
    if path.startswith("/"):
        return HostError(f"cannot {verb} {path}: it is full", what="file", target=path)
    if verb == "route":
        return BackendError(f"the kernel did not answer a {event}", kind="timeout")
    return HostError(
        f"{event} did not end", what="nft" if verb == "nft" else "systemd", kind="timeout"
    )


@attrs.define
class Mishaps:
    """All effects on a host, in order; the nth since `arm` raises instead."""

    events: list[str] = attrs.field(factory=list)
    nth: int = 0
    error: Callable[[str], BaseException] = killed
    watch: Callable[[str], object] = lambda _event: None
    """Called before each effect."""

    def arm(self, nth: int, error: Callable[[str], BaseException] = killed) -> None:
        self.events.clear()
        self.nth, self.error = nth, error

    def disarm(self) -> None:
        self.arm(0)

    def meanwhile(
        self,
        event: str,
        happening: Callable[[], object],
        *,
        when: Callable[[], bool] = lambda: True,
    ) -> None:
        """Let this happen once, just before this effect: the first at which `when` is true."""

        def watch(effect: str) -> None:
            if effect == event and when():
                self.watch = lambda _event: None
                happening()

        self.watch = watch

    def before(self, event: str) -> None:
        """The function that is called before each effect."""
        self.watch(event)
        self.events.append(event)
        number = len(self.events)
        is_after_the_kill = self.error is killed and 0 < self.nth < number
        if number == self.nth or is_after_the_kill:
            raise self.error(event)


class _Files(FakeFiles):
    """As FakeFiles, but without slots: methods can be replaced."""


class _Manager(FakeManager):
    pass


def mishap_host(kernel: FakeKernel | None = None) -> tuple[FakeHost, Mishaps]:
    """A host with this kernel, or that of an H200 node, and the list of effects on it."""
    mishaps = Mishaps()
    host = FakeHost(kernel=kernel or h200(), files=_Files(), manager=_Manager())
    files, manager = host.files, host.manager
    watch = partial(_watch, mishaps)
    watch(files, "write", lambda path, _text: f"write {path}")
    watch(files, "link", lambda path, _target: f"link {path}")
    watch(files, "remove", lambda path: f"remove {path}" if files.look(path) else "")
    watch(files, "lock", lambda path, _wake: f"lock {path}")
    watch(manager, "reload", lambda: "reload")
    watch(manager, "start", lambda unit: f"start {unit}")
    watch(manager, "stop", lambda unit: f"stop {unit}")
    watch(host.nftables, "load", lambda _text: "nft load")
    _watch_routes(mishaps, host.kernel)
    return host, mishaps


def _watch(mishaps: Mishaps, owner: Any, verb: str, event: Callable[..., str]) -> None:
    """Record each call of this method as the event, unless that is empty."""
    method = getattr(owner, verb)

    def watched(*given: Any, **named: Any) -> Any:
        name = event(*given)
        if name:
            mishaps.before(name)
        return method(*given, **named)

    setattr(owner, verb, watched)


def _watch_routes(mishaps: Mishaps, kernel: FakeKernel) -> None:
    """Record the change of each route, also of several that are passed at once."""
    change = kernel.change

    def change_each(requests: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        outcomes: list[Outcome] = []
        for request in requests:
            mishaps.before(f"route {request}")
            outcomes += change([request])
        return tuple(outcomes)

    kernel.change = change_each  # type: ignore[method-assign]  # of this kernel alone
