"""Tasks that are stopped, and tasks that wait for another run: all or nothing, and at once."""

import signal
import time
from collections.abc import Callable

import pytest

import phases
from hostrouting.errors import UnitFailed
from hostrouting.tasks.configure import Configure, Remove
from hostrouting.tasks.overlap_check import CheckRouteOverlap
from hostrouting.tasks.static_routes import ConfigureStaticRoutes
from hostrouting.testing import FakeHost, FakeManager, h200
from phases.testing import FakeClock
from tests.support.notes import notes_of
from tests.support.tasks import CIDR, LAYOUT, REPAIR, config, configured, ours, run

WANTED = config(*REPAIR, cidrs=(CIDR,))


@pytest.mark.parametrize("nth", [1, 2])
def test_ctrl_c_does_not_tear_the_transaction(nth: int) -> None:
    """Ctrl-C while routes are made is obeyed when all of them are, or none is again."""
    host = FakeHost(kernel=h200())
    host.kernel.faults.meanwhile("change", lambda: signal.raise_signal(signal.SIGINT), nth=nth)
    with pytest.raises(KeyboardInterrupt):
        run(ConfigureStaticRoutes(config(*REPAIR), host=host))
    assert len(ours(host)) in {0, 2}
    assert host.files.locked == set()


def test_cancelled_while_routes_are_made() -> None:
    """The order to stop undoes what was done, and the task is cancelled, not completed."""
    host = FakeHost(kernel=h200())
    ctx = phases.Context(observers=[])
    host.kernel.faults.meanwhile("change", lambda: ctx.scope.cancel("enough"))
    with pytest.raises(phases.Cancelled, match="enough") as caught:
        phases.execute(ConfigureStaticRoutes(config(*REPAIR), host=host), ctx)
    assert ours(host) == []
    assert "the route table is as it was before" in "".join(notes_of(caught.value))


BUSY = config("10.77.0.0/16", cidrs=("10.0.0.0/8",))
TASKS: dict[str, Callable[[FakeHost, phases.Context], object]] = {
    "Configure": lambda host, ctx: phases.execute(Configure(BUSY, host=host), ctx),
    "Remove": lambda host, ctx: phases.execute(Remove(BUSY, host=host), ctx),
    "the routes": lambda host, ctx: phases.execute(ConfigureStaticRoutes(BUSY, host=host), ctx),
    "the check": lambda host, ctx: phases.execute(CheckRouteOverlap(BUSY, host=host), ctx),
    "undo Configure": lambda host, ctx: Configure(BUSY, host=host).undo(ctx),
    "undo the routes": lambda host, ctx: ConfigureStaticRoutes(BUSY, host=host).undo(ctx),
    "undo the check": lambda host, ctx: CheckRouteOverlap(BUSY, host=host).undo(ctx),
}


@pytest.mark.parametrize("what", TASKS)
def test_another_is_at_work(what: str) -> None:
    """While another run has the lock nothing is changed, neither by do nor by undo."""
    host = configured(WANTED)
    there, routes = dict(host.files.texts), ours(host)
    host.files.locked.add(LAYOUT.lock_path)
    ctx = phases.Context(clock=FakeClock(), deadline=5, observers=[])
    with pytest.raises(phases.Cancelled, match="the 5 s of the run are over"):
        TASKS[what](host, ctx)
    assert (host.files.texts, ours(host)) == (there, routes)


def test_stopped_while_the_unit_runs() -> None:
    """The order to stop ends the unit, and what was under way is cancelled, not failed."""
    ctx = phases.Context(observers=[])

    class Slow(FakeManager):
        """The unit runs until it is stopped."""

        def start(self, unit: str, *, timeout: float) -> None:
            """See Manager."""
            assert timeout
            ctx.scope.cancel("enough")
            while self.calls[-1:] != [f"stop {unit}"]:
                time.sleep(0.001)
            raise UnitFailed(unit, result="signal", status=15, words=())

    host = FakeHost(kernel=h200(), manager=Slow())
    task = ConfigureStaticRoutes(config(*REPAIR), host=host)
    with pytest.raises(phases.Cancelled, match="enough"):
        phases.execute(task, ctx)


def test_a_unit_has_time_for_more_than_waiting() -> None:
    """The manager is given longer for a unit than the unit itself waits for the host."""

    class Watch(FakeManager):
        """Remembers how long it was given."""

        timeouts: tuple[float, ...] = ()

        def start(self, unit: str, *, timeout: float) -> None:
            """See Manager."""
            self.timeouts += (timeout,)
            super().start(unit, timeout=timeout)

    manager = Watch()
    run(ConfigureStaticRoutes(config(*REPAIR), host=FakeHost(kernel=h200(), manager=manager), wait=20))
    assert manager.timeouts == (110.0,)
