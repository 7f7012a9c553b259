"""A fake host on which every effect is recorded in one list, and one of them can raise instead."""

from collections.abc import Callable, Iterable
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
    for verb in ("write", "link", "remove", "lock"):
        _watch(mishaps, host.files, verb)
    for verb in ("reload", "start", "stop"):
        _watch(mishaps, host.manager, verb)
    _watch(mishaps, host.nftables, "load")
    _watch_routes(mishaps, host.kernel)
    return host, mishaps


def _watch(mishaps: Mishaps, owner: Any, verb: str) -> None:
    """Record each call of this method with its path or unit, unless it removes nothing."""
    method = getattr(owner, verb)

    def watched(*given: Any, **named: Any) -> Any:
        if verb == "load":
            mishaps.before("nft load")
        elif verb != "remove" or owner.look(*given):
            mishaps.before(" ".join([verb, *given[:1]]))
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
