"""A guard on a host in memory, with a clock that never waits, and a service that records its messages."""

import errno
import json
import re
from collections.abc import Callable, Iterable

import attrs

import phases
from hostrouting import Configure
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import RouteRefused
from hostrouting.host.systemd import Line
from hostrouting.kernel.base import Outcome, RouteRequest
from hostrouting.tasks.guard.loop import Guard, Orders
from hostrouting.testing import FakeHost, MemoryBackend
from phases.testing import FakeClock
from tests.support.tasks import LAYOUT, REPAIR, run


@attrs.define
class FakeService:
    """A service that records its messages."""

    watchdog: float | None = None
    lines: list[Line] = attrs.field(factory=list)
    notified: list[str] = attrs.field(factory=list)

    def notify(self, *assignments: str) -> None:
        """Record it."""
        self.notified += assignments

    def tell(self, line: Line) -> bool:
        """Record it."""
        self.lines.append(line)
        return True

    @property
    def texts(self) -> list[str]:
        """The texts of the lines."""
        return [line.text for line in self.lines]


class Play:
    """A guard on this host, and what happens to the host while it runs: each after so many seconds."""

    def __init__(self, kernel: MemoryBackend, settings: HostRoutingConfig) -> None:
        """Install the configuration."""
        self.kernel, self.settings = kernel, settings
        self.host = FakeHost(kernel=kernel)
        run(Configure(settings, host=self.host))
        self.service, self.orders = FakeService(), Orders()
        self.clock = FakeClock()
        self.again: Callable[[], HostRoutingConfig] | None = None
        self.follows = False
        self.spent: Callable[[], float] = self.clock.now
        self.seen: list[int] = []
        self.states: list[dict[str, object]] = []

    def perform(self, *scenes: tuple[float, Callable[[], object]], until: float) -> phases.Report:
        """Run the guard until this moment; each scene happens at its own."""

        @phases.task("play")
        def play(ctx: phases.Context) -> None:
            for at, scene in (*scenes, (until, lambda: ctx.cancel("the play is over"))):
                ctx.sleep(max(0.0, at - self.clock.now()))
                scene()

        guard = Guard(
            self.settings,
            host=self.host,
            service=self.service,
            orders=self.orders,
            again=self.again,
            follows=self.follows,
            chance=lambda: 0.5137,  # so that no regular look is at the moment of a scene: a backend is for one thread
            spent=self.spent,
        )
        return phases.run(phases.parallel(guard, play), clock=self.clock, observers=[])

    def route(self, prefix: str) -> list[str]:
        """The routes to this prefix, as text."""
        return [str(route) for route in self.kernel.snapshot().routes if str(route.prefix) == prefix]

    def see(self, prefix: str = REPAIR[0]) -> None:
        """Note in `seen` how many routes to this prefix there are now."""
        self.seen.append(len(self.route(prefix)))

    def note(self) -> None:
        """Note in `states` what the guard has written by now."""
        self.states.append(self.state())

    def told(self, words: str) -> list[str]:
        """The lines of the guard that match this regular expression."""
        return [text for text in self.service.texts if re.search(words, text)]

    def refuse(self, why: Callable[[RouteRequest], str]) -> None:
        """From now on, the kernel refuses each change for which this has a reason."""
        real = self.kernel.change

        def one(change: RouteRequest) -> Outcome:
            reason = why(change)
            refused = RouteRefused(reason, route=str(change.route), errno=errno.EINVAL)
            return Outcome(change, refused) if reason else real([change])[0]

        self.kernel.change = lambda changes: tuple(map(one, changes))  # type: ignore[method-assign]

    def count_changes(self) -> list[int]:
        """The sizes of the batches of changes from now on, in a list that grows."""
        real, sizes = self.kernel.change, list[int]()

        def change(changes: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
            asked = list(changes)
            sizes.append(len(asked))
            return real(asked)

        self.kernel.change = change  # type: ignore[method-assign]
        return sizes

    def delete(self, prefix: str = "172.16.0.0/17") -> None:
        """Delete the route to this prefix, as another program would."""
        [route] = [it for it in self.kernel.snapshot().routes if str(it.prefix) == prefix]
        self.kernel.ip_route("delete", route)

    def state(self) -> dict[str, object]:
        """What the guard has written."""
        found: dict[str, object] = json.loads(self.host.files.texts[LAYOUT.guard_path])
        return found
