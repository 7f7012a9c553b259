"""What undo takes back, and what it leaves to other runs and programs."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings, strategies as st

import phases
from hostrouting.config import GuardConfig, HostRoutingConfig, StaticRoutesConfig
from hostrouting.config.settings import MACHINES, GateConfig
from hostrouting.errors import HostRoutingError, RouteConflict
from hostrouting.host.effects import effects_of
from hostrouting.install.installed import read_installed
from hostrouting.tasks.configure import Configure, Remove
from hostrouting.tasks.overlap_check import CheckRouteOverlap
from hostrouting.tasks.static_routes import ConfigureStaticRoutes
from hostrouting.testing import FakeHost, FakeKernel, h200
from tests.hostrouting.install.test_install import (
    NOTHING,
    apply,
    apply_task,
    differing,
    disk,
    node,
    possible,
)
from tests.support.examples import scaled
from tests.support.mishaps import ctrl_c, full, mishap_host
from tests.support.recorder import StubTask
from tests.support.tasks import (
    LAYOUT,
    WANTED,
    config,
    configured,
    failure_of,
    manager_of,
    our_destinations,
    ours,
    run,
    undo,
)

CHECKED = config(cidrs=("10.9.0.0/16",))
FORMER = config("10.8.0.0/16")
OTHER = config("10.7.0.0/16")
CONFLICTING = config("172.16.0.0/16")


@settings(max_examples=scaled(100))
@given(
    old=possible() | st.just(NOTHING),
    new=possible() | st.just(NOTHING),
    nth=st.integers(1, 45),
    error=st.sampled_from([full, ctrl_c, None]),
    runs_again=st.booleans(),
)
def test_law(
    *,
    old: HostRoutingConfig,
    new: HostRoutingConfig,
    nth: int,
    error: Callable[[str], BaseException] | None,
    runs_again: bool,
) -> None:
    """Whatever a run has done, and wherever it has failed: files and routes are as before it."""
    host, mishaps = node()
    unlocked: list[str] = []

    def look(event: str) -> None:
        if not event.startswith("lock") and LAYOUT.lock_path not in host.files.locked:
            unlocked.append(event)

    apply(host, old)
    files, routes = disk(host), ours(host)
    task = Configure(new, host=host, allow_removal=True)
    if error is not None:
        mishaps.arm(nth, error)
    with suppress(KeyboardInterrupt):
        apply_task(task)
    mishaps.disarm()
    if runs_again:
        apply_task(task)
    mishaps.watch = look
    for _ in range(2):
        apply_task(phases.task("undo")(task.undo))
        assert differing(disk(host), files) == []
        assert in_order(ours(host)) == in_order(routes)
    assert unlocked == []


def in_order(routes: list[str]) -> list[str]:
    """The routes by prefix; those to one prefix in the order in which Linux tries them."""
    return sorted(routes, key=lambda route: route.split()[0])


class TestOtherRuns:
    """What another run has installed stays."""

    def test_while_undo_waits_for_the_lock(self) -> None:
        """It stays with its routes."""
        host, mishaps = mishap_host()
        task = Configure(WANTED, host=host)
        run(task)
        other = Configure(OTHER, host=host, allow_removal=True)
        mishaps.meanwhile(f"lock {LAYOUT.lock_path}", lambda: run(other))
        failure_of(undo, task, of=HostRoutingError, match="another run")
        assert read_installed(host) == OTHER
        assert our_destinations(host) == ["10.7.0.0/16"]

    def test_the_gate_of_another_task(self) -> None:
        """An undo takes the gate and the guard along only if no other section has changed since."""
        gate = GateConfig(("kubelet.service",))
        whole = WANTED._replace(gate=gate, guard=GuardConfig(enabled=True))
        host = FakeHost(kernel=h200())
        routes, check = (
            make(whole, host=host) for make in (ConfigureStaticRoutes, CheckRouteOverlap)
        )
        run(routes)
        run(check)
        undo(routes)
        assert read_installed(host) == whole._replace(static_routes=StaticRoutesConfig())
        undo(check)
        assert read_installed(host) == HostRoutingConfig(gate=gate)

    def test_a_removal_since(self) -> None:
        """Where the section was empty before, nothing is left to take back, nor to guard."""
        host = configured(CHECKED._replace(guard=GuardConfig(enabled=True)))
        task = ConfigureStaticRoutes(FORMER, host=host)
        run(task)
        run(Remove(host=host))
        undo(task)
        assert read_installed(host) == NOTHING


class TestFormer:
    """What was installed comes back with all that is wrong with it."""

    def test_before_the_first_of_two_runs(self) -> None:
        """Another run has installed something else between them."""
        host = configured(FORMER)
        task = Configure(WANTED, host=host, allow_removal=True)
        run(task)
        run(Configure(OTHER, host=host, allow_removal=True))
        run(task)
        undo(task)
        assert read_installed(host) == FORMER

    def test_a_conflict(self) -> None:
        """The configuration that units have waited for comes back."""
        host = FakeHost(kernel=h200())
        failure_of(run, Configure(CONFLICTING, host=host), of=RouteConflict)
        task = Configure(WANTED, host=host)
        run(task)
        added = ours(host)
        error = failure_of(undo, task, of=RouteConflict)
        assert read_installed(host) == CONFLICTING
        assert our_destinations(host) == [], "the routes of the undone run are gone"
        changes = [(change.verb, str(change.route)) for change in effects_of(error).changes]
        assert changes == [("delete", route) for route in added]

    def test_a_gate_that_is_cancelled_since(self, caplog: pytest.LogCaptureFixture) -> None:
        """The configuration comes back all the same, in STRICT, too, and the undo warns."""
        host = configured(WANTED)
        task = Configure(WANTED._replace(guard=GuardConfig(enabled=True)), host=host)
        run(task)
        host.files.texts[f"{LAYOUT.unit_directory}/{MACHINES}.d/50.conf"] = (
            "[Service]\nExecCondition=\n"
        )
        manager_of(host).reload()
        undo(task)
        assert read_installed(host) == WANTED
        assert caplog.text.count("starts unchecked") == 1
        assert "that is undone" in str(undo(task))

    def test_what_cannot_be_read(self) -> None:
        """Undo fails if that is what it would bring back; what is installed it replaces."""
        host = configured(FORMER)
        task = Configure(OTHER, host=host, allow_removal=True)
        run(task)
        host.files.texts[LAYOUT.config_path] = "{"
        undo(task)
        assert read_installed(host) == FORMER

        host.files.texts[LAYOUT.config_path] = "{"
        run(task)
        failure_of(undo, task, match="what was installed before could not be read")
        assert read_installed(host) == OTHER


def test_a_run_that_was_tried_again() -> None:
    """What was there before the first attempt comes back."""
    host = FakeHost(kernel=FakeKernel())  # without a default route
    task = phases.retry(Configure(WANTED, host=host, wait=0), delay=0)
    assert "3 attempts" in str(phases.run(task, undo_on_failure=True))
    assert read_installed(host) == NOTHING


def test_a_run_that_changed_nothing() -> None:
    """Nothing of an earlier run is taken back if the next task fails."""
    host = FakeHost(kernel=h200())
    task = Configure(WANTED, host=host)
    run(task)
    installed = dict(host.files.texts)
    both = phases.serial(task, StubTask("x", errors=[OSError(), OSError()]), name="all")
    assert not phases.run(both, undo_on_failure=True).ok
    assert host.files.texts == installed
    assert len(ours(host)) == 2
    again = Configure(WANTED, host=host)
    run(again)
    assert "it has changed nothing" in str(undo(again))

    host.files.remove(LAYOUT.python_path)  # the next run puts it back, and is undone alone
    assert not phases.run(both, undo_on_failure=True).ok
    assert read_installed(host) == WANTED
    undo(task)
    assert read_installed(host) == NOTHING
