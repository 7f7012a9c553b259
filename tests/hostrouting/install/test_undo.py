"""What undo takes back, and what it leaves: a law for any two configurations, and what other runs
and other programs do meanwhile.
"""

from collections.abc import Callable
from contextlib import suppress
from itertools import repeat

import pytest
from hypothesis import example, given, settings, strategies as st

import phases
from hostrouting.config import GuardConfig, HostRoutingConfig
from hostrouting.errors import (
    BackendError,
    HostRoutingError,
    NotReady,
    RouteConflict,
    RouteOverlapError,
)
from hostrouting.host.effects import effects_of
from hostrouting.install.installed import read_installed
from hostrouting.kernel.base import RouteRequest
from hostrouting.model.route import OURS, Route
from hostrouting.tasks.configure import Configure, Remove
from hostrouting.tasks.static_routes import ConfigureStaticRoutes
from hostrouting.testing import FakeHost, h200
from phases.testing import StubTask
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
from tests.support.tasks import (
    CIDR,
    LAYOUT,
    REPAIR,
    WANTED,
    before_it_sets_routes,
    config,
    configured,
    context,
    failure_of,
    lose_routes,
    our_destinations,
    ours,
    run,
    type_routes,
    undo,
)

LOCK = f"lock {LAYOUT.lock_path}"
"""The effect of a run that takes the lock."""
CHECKED = config(cidrs=("10.9.0.0/16",))
FORMER = config("10.8.0.0/16")
OTHER = config("10.7.0.0/16")
CONFLICTING = config("172.16.0.0/16")
NEW_ROUTER = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.9").next_hops
"""A router in the place of 10.0.0.1."""


@settings(max_examples=scaled(100))
@given(
    old=possible() | st.just(NOTHING),
    new=possible() | st.just(NOTHING),
    typed=st.lists(st.sampled_from(["10.98.0.0/16", "10.99.0.0/16"]), unique=True),
    nth=st.integers(1, 45),
    error=st.sampled_from([full, ctrl_c, None]),
    runs_again=st.booleans(),
)
@example(old=NOTHING, new=FORMER, typed=["10.98.0.0/16"], nth=1, error=None, runs_again=True)
def test_law(
    *,
    old: HostRoutingConfig,
    new: HostRoutingConfig,
    typed: list[str],
    nth: int,
    error: Callable[[str], BaseException] | None,
    runs_again: bool,
) -> None:
    """Whatever a run has done, and wherever it has failed: files and routes are as before it, with
    the routes that were typed before it or before a second run. A second undo does nothing.
    Whatever is changed meanwhile, the undo has the lock.
    """
    host, mishaps = node()
    unlocked: list[str] = []

    def look(event: str) -> None:
        if not event.startswith("lock") and LAYOUT.lock_path not in host.files.locked:
            unlocked.append(event)

    apply(host, old)
    type_routes(host, *typed)
    if typed:  # a second one with its key
        second = Route.to(typed[0], dev="eth0", gateway="10.0.0.9", protocol=OURS)
        host.kernel.change([RouteRequest("append", second)])
    files, routes = disk(host), ours(host)
    task = Configure(new, host=host)
    if error is not None:
        mishaps.arm(nth, error)
    with suppress(KeyboardInterrupt):
        apply_task(task)
    mishaps.disarm()
    if runs_again:
        type_routes(host, "10.97.0.0/16")
        routes += [route for route in ours(host) if route.startswith("10.97.")]
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
        type_routes(host, "10.9.0.0/16")
        task = Configure(WANTED, host=host)
        run(task)
        mishaps.meanwhile(LOCK, lambda: run(Configure(OTHER, host=host)))
        failure_of(undo, task, of=HostRoutingError, match="another run")
        assert read_installed(host) == OTHER
        assert our_destinations(host) == ["10.7.0.0/16"]

    def test_a_removal_since(self) -> None:
        """Where the section was empty before, nothing is left to take back, nor to guard."""
        host = configured(CHECKED._replace(guard=GuardConfig(enabled=True)))
        task = ConfigureStaticRoutes(FORMER, host=host)
        run(task)
        run(Remove(host=host))
        undo(task)
        assert read_installed(host) == NOTHING


class TestTypedRoutes:
    """Routes that no configuration had, and that a run has deleted, are added again."""

    def test_one_that_is_typed_meanwhile(self) -> None:
        """The plan did not have it. The result of the undo has the changes in their order."""
        host = configured(CHECKED)
        task = Configure(FORMER, host=host)
        before_it_sets_routes(host, lambda: type_routes(host, "10.7.0.0/16"))
        run(task)
        assert our_destinations(host) == ["10.8.0.0/16"]
        changes = effects_of(undo(task)).changes
        assert our_destinations(host) == ["10.7.0.0/16"]
        assert [(change.verb, str(change.route.prefix)) for change in changes] == [
            ("delete", "10.8.0.0/16"),
            ("append", "10.7.0.0/16"),
        ]

    def test_one_that_the_kernel_refuses(self) -> None:
        """The undo fails at its end: all else is as before, and the error has what was added. It
        can be repeated.
        """
        host = configured(FORMER)
        host.kernel.add_link("eth9")
        host.kernel.ip_route("add", Route.to("10.6.0.0/16", dev="eth9", protocol=OURS))
        type_routes(host, "10.7.0.0/16")
        task = Configure(config("10.9.0.0/16"), host=host)
        run(task)
        host.kernel.delete_link("eth9")

        report = phases.undo(task, phases.Context(observers=[]))

        [failure] = report.failures
        assert isinstance(failure.error, BackendError)
        [change] = effects_of(failure.error).changes
        assert str(change.route.prefix) == "10.7.0.0/16"
        assert our_destinations(host) == ["10.7.0.0/16", "10.8.0.0/16"]
        assert read_installed(host) == FORMER
        host.kernel.add_link("eth9")
        undo(task)
        assert our_destinations(host) == ["10.6.0.0/16", "10.7.0.0/16", "10.8.0.0/16"]


class TestFormer:
    """What was installed comes back with all that is wrong with it."""

    def test_a_conflict(self) -> None:
        """The configuration comes back that units have waited for: nobody has confirmed the one
        that lets them start.
        """
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

    def test_another_gateway_since(self) -> None:
        """A configured route comes back as the default route is now, and not as it was."""
        host = configured(FORMER)
        for route in host.kernel.snapshot().default_routes(4):
            host.kernel.ip_route("delete", route)
            host.kernel.ip_route("add", route._replace(next_hops=NEW_ROUTER))
        task = Configure(OTHER, host=host)
        run(task)
        undo(task)
        assert ours(host) == ["10.8.0.0/16 via 10.0.0.9 dev eth0 proto hostrouting"]

    def test_no_wait(self) -> None:
        """Undo does not wait for what may come: `apply --confirm` promises it for now. A route that
        cannot be set any more does not keep the configuration from coming back.
        """
        host = configured(WANTED)
        task = Configure(config(*REPAIR, "9.0.0.0/8"), host=host)
        run(task)
        for route in host.kernel.snapshot().default_routes(4):
            host.kernel.ip_route("delete", route)
        lose_routes(host)
        ctx = context()
        failure_of(phases.execute, phases.task("undo")(task.undo), ctx, of=NotReady)
        assert ctx.clock.now() < 1
        assert read_installed(host) == WANTED

    @pytest.mark.parametrize("is_former", [False, True])
    def test_what_cannot_be_read(self, *, is_former: bool) -> None:
        """If that was what the run has replaced, undo fails and takes nothing away. If it is what
        the run has installed, undo brings the former one back.
        """
        host = configured(FORMER)
        task = Configure(OTHER, host=host)
        if is_former:
            host.files.texts[LAYOUT.config_path] = "{"
        run(task)
        if not is_former:
            host.files.texts[LAYOUT.config_path] = "{"
            undo(task)
            assert read_installed(host) == FORMER
            return
        failure_of(undo, task, match="what was installed before could not be read")
        assert read_installed(host) == OTHER

    def test_it_protected_less(self) -> None:
        """What has protected the host since is named: after a run that has failed in STRICT, units
        start unchecked again.
        """
        host = FakeHost(kernel=h200())
        task = Configure(config(cidrs=(CIDR,)), host=host)
        failure_of(run, task, of=RouteOverlapError)
        warnings = effects_of(undo(task)).warnings
        assert [finding.target for finding in warnings] == [
            "routeOverlap.expectedCidrs",
            "gate.units",
        ]
        assert "systemd-nspawn@.service would no longer wait for the gate" in str(warnings[1])


class TestReports:
    """The undo of a report takes back that run, and nothing of an earlier one."""

    @pytest.fixture
    def host(self) -> FakeHost:
        """An H200 node."""
        return FakeHost(kernel=h200())

    @pytest.fixture
    def task(self, host: FakeHost) -> Configure:
        """A task that has run, and takes no protection away; its undo may."""
        task = Configure(WANTED, host=host, allow_removal=False)
        run(task)
        return task

    def test_a_run_that_changed_nothing(self, host: FakeHost, task: Configure) -> None:
        """Nothing at all is taken back, also if the next task fails."""
        installed = dict(host.files.texts)
        fails = phases.serial(task, StubTask("x", errors=repeat(OSError())), name="all")
        assert not phases.run(fails, observers=[], undo_on_failure=True).ok
        report = phases.run(task, observers=[])
        undone = phases.undo(task, of=report)
        assert undone.ok
        assert "it has changed nothing, or that is undone" in str(undone)
        assert host.files.texts == installed
        assert len(ours(host)) == 2

    def test_a_run_after_another_configuration(self, host: FakeHost, task: Configure) -> None:
        """The other configuration is installed again; without a report, what was there before the
        first run.
        """
        run(Configure(OTHER, host=host))
        report = phases.run(task, observers=[])
        assert phases.undo(task, of=report).ok
        assert read_installed(host) == OTHER
        run(task)
        undo(task)
        assert host.files.texts == {}

    @pytest.mark.parametrize("make", [Configure, ConfigureStaticRoutes])
    def test_by_another_object(
        self, host: FakeHost, make: Callable[..., phases.Task[object]]
    ) -> None:
        """Another object does not know what was there before that run: its undo fails, and takes
        nothing away.
        """
        task = make(WANTED, host=host)
        report = phases.run(task, observers=[])
        for each in (report, phases.Step.from_json(report.to_json())):
            undone = phases.undo(make(WANTED, host=host), of=each)
            assert not undone.ok
            assert "another object made that run" in str(undone)
            assert len(ours(host)) == 2
        for _ in range(2):
            assert phases.undo(task, of=report).ok
            assert host.files.texts == {}
