"""A guard on a host in memory, with a clock that never waits, and a service that records its messages."""

import json
from collections.abc import Callable

import attrs

import phases
from hostrouting import Configure
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.host.systemd import Line
from hostrouting.tasks.guard.loop import Guard, Orders
from hostrouting.testing import FakeHost, MemoryBackend
from phases.testing import FakeClock
from tests.support.tasks import LAYOUT, run


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

    def delete(self, prefix: str = "172.16.0.0/17") -> None:
        """Delete the route to this prefix, as another program would."""
        [route] = [it for it in self.kernel.snapshot().routes if str(it.prefix) == prefix]
        self.kernel.ip_route("delete", route)

    def state(self) -> dict[str, object]:
        """What the guard has written."""
        found: dict[str, object] = json.loads(self.host.files.texts[LAYOUT.guard_path])
        return found
