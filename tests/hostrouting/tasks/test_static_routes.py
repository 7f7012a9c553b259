"""ConfigureStaticRoutes, on hosts that exist in memory: conflicts, waiting, and other programs at
the same time.
"""

import signal
from ipaddress import IPv6Address
from typing import Any

import pytest

import phases
from hostrouting.config.settings import HostRoutingConfig, ProbeRewriteConfig, RouteOverlapConfig
from hostrouting.errors import (
    ConfigError,
    NotReady,
    RequirementError,
    RouteConflict,
    RouteOverlapError,
)
from hostrouting.host.effects import effects_of
from hostrouting.kernel.base import RouteRequest
from hostrouting.model.route import Route
from hostrouting.model.snapshot import Link
from hostrouting.routes.plan import plan_static_routes
from hostrouting.tasks.configure import Configure
from hostrouting.tasks.overlap_check import CheckRouteOverlap
from hostrouting.tasks.static_routes import ConfigureStaticRoutes
from hostrouting.testing import FakeHost, FakeKernel, h200, plain_vm
from tests.support.mishaps import mishap_host
from tests.support.notes import notes_of
from tests.support.tasks import (
    CIDR,
    LAYOUT,
    REPAIR,
    before_it_sets_routes,
    config,
    configured,
    context,
    failure_of,
    our_destinations,
    ours,
    paths_on,
    run,
    type_routes,
)
from tests.support.topologies import WithoutIPv6

DEFAULT = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", protocol=16)


def installed(host: FakeHost) -> bool:
    """Whether the gate is there, with what it sets the routes by."""
    drop_in = LAYOUT.drop_in_path("systemd-nspawn@.service")
    return {drop_in, LAYOUT.config_path} <= {*host.files.texts}


class TestConflict:
    """A route of another program with the same destination and metric stays, and is named with the
    way out.
    """

    WAY_OUT = (
        "172.16.0.0/16 dev ib0 .*write 172.16.0.0/17 and 172.16.128.0/17 "
        "instead of 172.16.0.0/16 into staticRoutes.routes"
    )

    def test_on_a_new_host(self) -> None:
        """The files are installed, so the gate holds; no route was changed."""
        host = FakeHost(kernel=h200())
        failure_of(
            run, Configure(config("172.16.0.0/16"), host=host), of=RouteConflict, match=self.WAY_OUT
        )
        assert ours(host) == []
        assert installed(host) is True

    def test_while_another_route_waits(self) -> None:
        """The conflict is named at once, beside what is missing: waiting would not end it."""
        host, waits = FakeHost(kernel=h200()), list[str]()
        host.kernel.later(lambda: waits.append("a wait"))
        task = Configure(config("172.16.0.0/16", "fd77::/48"), host=host)
        error = failure_of(run, task, of=RouteConflict, match=self.WAY_OUT)
        assert waits == []
        assert [(finding.name, finding.target) for finding in error.findings] == [
            ("route-conflict", "172.16.0.0/16"),
            ("route-waits", "fd77::/48"),
        ]
        assert "fd77::/48 needs an IPv6 default route" in str(error)

    def test_where_something_is_installed(self) -> None:
        """Nothing is changed: what is installed works."""
        host = configured(config(*REPAIR))
        before = dict(host.files.texts)
        failure_of(
            run, Configure(config("172.16.0.0/16"), host=host), of=RouteConflict, match=self.WAY_OUT
        )
        assert host.files.texts == before
        assert len(ours(host)) == 2


class TestDefaultRoute:
    """What a route leaves open comes from the default route, for which the task waits."""

    @pytest.fixture
    def host(self) -> FakeHost:
        """A host without a default route."""
        host = FakeHost(kernel=FakeKernel())
        host.kernel.add_link("eth0")
        return host

    def test_comes_late(self, host: FakeHost) -> None:
        """The task waits by kernel events for devices and routes, and does not hold the lock
        meanwhile.
        """
        kernel, locked = host.kernel, list[set[str]]()

        def comes() -> None:
            locked.append(set(host.files.locked))
            kernel.change([RouteRequest("add", DEFAULT)])

        kernel.later(lambda: kernel.add_address("eth0", "10.0.0.4/24"))
        kernel.later(comes)
        run(ConfigureStaticRoutes(config("10.9.0.0/16"), host=host))
        assert ours(host) == ["10.9.0.0/16 via 10.0.0.1 dev eth0 proto hostrouting"]
        assert locked == [set()]

    def test_goes_again(self, host: FakeHost) -> None:
        """If it has gone when the task has the lock, the task waits again, for what is left of its
        time.
        """
        kernel = host.kernel
        kernel.add_address("eth0", "10.0.0.4/24")
        kernel.ip_route("add", DEFAULT)
        before_it_sets_routes(host, lambda: kernel.ip_route("delete", DEFAULT))
        kernel.later(lambda: kernel.ip_route("add", DEFAULT))
        run(ConfigureStaticRoutes(config("10.9.0.0/16"), host=host))
        assert len(ours(host)) == 1

    def test_goes_again_for_good(self, host: FakeHost) -> None:
        """Both waits together are as long as one may be."""
        kernel, ctx = host.kernel, context()
        kernel.add_address("eth0", "10.0.0.4/24")

        def comes_late() -> None:
            ctx.clock.wait(lambda: False, until=40)
            kernel.ip_route("add", DEFAULT)

        kernel.later(comes_late)
        # The looks at the routes: two plans, three while the task waits, and one under the lock.
        host.faults.meanwhile("snapshot", lambda: kernel.ip_route("delete", DEFAULT), nth=6)
        task = ConfigureStaticRoutes(config("10.9.0.0/16"), host=host, wait=60)
        failure_of(phases.execute, task, ctx, of=NotReady)
        assert host.faults.waiting == 0
        assert ctx.clock.now() == 60

    def test_another_one_counts(self) -> None:
        """Another run replaces the section that says which default route counts: the task waits for
        what is needed now, and gives up when its time is over.
        """
        kernel = plain_vm()
        kernel.add_link(Link(name="wg0", index=0, kind="wireguard", type=65534))
        kernel.add_address("wg0", "10.8.0.2/24")
        kernel.ip_route("add", Route.to("0.0.0.0/0", dev="wg0", protocol=4, metric=50))
        host = FakeHost(kernel=kernel)
        expecting = RouteOverlapConfig(expected_devs=("eth0",))
        wanted = config("203.0.113.0/24")._replace(route_overlap=expecting)
        other = CheckRouteOverlap(HostRoutingConfig(), host=host)
        before_it_sets_routes(host, lambda: run(other))
        failure_of(run, Configure(wanted, host=host), of=NotReady, match="gave up after 60 s")
        assert host.faults.waiting == 0
        assert ours(host) == []

    def test_never_comes(self, host: FakeHost) -> None:
        """After the deadline the failure says what was waited for; the files stay."""
        task = ConfigureStaticRoutes(config("10.9.0.0/16"), host=host, wait=30)
        error = failure_of(
            run, task, of=NotReady, match=r"gave up after 30 s: .* needs an IPv4 default route"
        )
        [finding] = error.findings
        assert finding.name == "route-waits"
        assert finding.severity == "error"
        assert finding.target == "10.9.0.0/16"
        assert error.can_retry
        assert installed(host) is True
        assert {*effects_of(error).files} == paths_on(host)

    def test_a_kernel_without_ipv6(self) -> None:
        """No default route of IPv6 can come, so the run fails at once, before its first change."""
        host, waits = FakeHost(kernel=WithoutIPv6()), list[str]()
        host.kernel.later(lambda: waits.append("a wait"))
        task = Configure(config("fd77::/48"), host=host)
        error = failure_of(run, task, of=RequirementError, match="fd77::/48 needs IPv6, which ")
        assert [finding.name for finding in error.findings] == ["route-waits"]
        assert not error.can_retry
        assert waits == []
        assert host.files.texts == {}

    def test_a_check_on_a_kernel_without_ipv6(self) -> None:
        """The check does not wait for that default route either, and says why there is none."""
        host, waits = FakeHost(kernel=WithoutIPv6()), list[str]()
        host.kernel.later(lambda: waits.append("a wait"))
        result: Any = run(Configure(config(cidrs=("fd77::/48",), mode="WARN"), host=host))
        assert waits == []
        assert "missing-rule" in [finding.name for finding in result.findings]

    def test_a_reply_route_on_a_kernel_without_ipv6(self) -> None:
        """Nothing waits for that route, so its lack is only a warning."""
        probe = ProbeRewriteConfig(
            enabled=True, interfaces=("eth0",), global_address=IPv6Address("2001:db8::5")
        )
        plan = plan_static_routes(HostRoutingConfig(probe_rewrite=probe), WithoutIPv6().snapshot())
        [finding] = plan.findings()
        assert finding.severity == "warning"
        assert "needs IPv6, which Linux does not have here" in finding.sentence

    def test_cancelled(self, host: FakeHost) -> None:
        """The order to stop ends the wait; the files stay, and the error has them."""
        ctx = context()
        host.kernel.later(lambda: ctx.cancel("enough"))
        with pytest.raises(phases.Cancelled, match="enough") as caught:
            phases.execute(ConfigureStaticRoutes(config("10.9.0.0/16"), host=host), ctx)
        assert LAYOUT.config_path in effects_of(caught.value).files
        assert host.files.locked == set()


class TestTypedRoutes:
    """A run that may not remove protection deletes no route that may be needed."""

    @pytest.mark.parametrize("allow_removal", [False, True])
    def test_the_default_route_comes_late(self, *, allow_removal: bool) -> None:
        """What escapes without them is not known while a route waits: the run fails before it has
        changed anything, and does not wait.
        """
        host = FakeHost(kernel=h200())
        kernel = host.kernel
        type_routes(host, *REPAIR)
        [default] = [route for route in kernel.snapshot().routes if route.prefix.length == 0]
        kernel.ip_route("delete", default)
        kernel.later(lambda: kernel.ip_route("add", default))
        wanted = config("198.51.100.0/24", cidrs=(CIDR,))
        task = Configure(wanted, host=host, allow_removal=allow_removal)
        if allow_removal:
            failure_of(run, task, of=RouteOverlapError)
            assert our_destinations(host) == ["198.51.100.0/24"]
            return
        error = failure_of(run, task, of=RequirementError)
        assert error.findings[0].name == "removal"
        assert error.can_retry
        assert len(ours(host)) == len(REPAIR)
        assert host.files.texts == {}

    def test_typed_after_the_plan(self) -> None:
        """What would escape is asked again immediately before the routes change."""
        host = FakeHost(kernel=h200())
        wanted = config("10.77.0.0/16", cidrs=(CIDR,))
        task = Configure(wanted, host=host, allow_removal=False)
        before_it_sets_routes(host, lambda: type_routes(host, *REPAIR))
        failure_of(run, task, of=ConfigError, match="172.16.0.0/16 would escape, and does not")
        assert our_destinations(host) == [*REPAIR]

    def test_what_is_not_expected(self) -> None:
        """A typed route to anything else is deleted after the wait."""
        host = FakeHost(kernel=h200())
        kernel = host.kernel
        type_routes(host, "203.0.113.0/24")
        [default] = [route for route in kernel.snapshot().routes if route.prefix.length == 0]
        kernel.ip_route("delete", default)
        kernel.later(lambda: kernel.ip_route("add", default))
        wanted = config(*REPAIR, cidrs=(CIDR,))
        run(Configure(wanted, host=host, allow_removal=False))
        assert len(ours(host)) == len(REPAIR)


class TestTransaction:
    """All routes or none, also if the run is stopped or another program interferes."""

    def test_a_conflict_that_comes_while_the_lock_is_awaited(self) -> None:
        """The routes count as they are when the task has the lock: the error names the conflict."""
        host, mishaps = mishap_host()
        theirs = Route.to(REPAIR[0], dev="eth0", gateway="10.0.0.2")
        mishaps.meanwhile(
            f"lock {LAYOUT.lock_path}",
            lambda: host.kernel.ip_route("add", theirs),
            when=lambda: LAYOUT.config_path in host.files.texts,
        )
        failure_of(run, ConfigureStaticRoutes(config(*REPAIR), host=host), of=RouteConflict)
        assert ours(host) == []

    @pytest.mark.parametrize("nth", [1, 2])
    def test_ctrl_c(self, nth: int) -> None:
        """Ctrl-C while routes are set is obeyed when all of them are, or none is again."""
        host = FakeHost(kernel=h200())
        host.faults.meanwhile("change", lambda: signal.raise_signal(signal.SIGINT), nth=nth)
        with pytest.raises(KeyboardInterrupt):
            run(ConfigureStaticRoutes(config(*REPAIR), host=host))
        assert len(ours(host)) in {0, 2}
        assert host.files.locked == set()

    def test_cancelled(self) -> None:
        """The order to stop undoes what was done, and the task is cancelled, not completed."""
        host, ctx = FakeHost(kernel=h200()), phases.Context(observers=[])
        host.faults.meanwhile("change", lambda: ctx.cancel("enough"))
        with pytest.raises(phases.Cancelled, match="enough") as caught:
            phases.execute(ConfigureStaticRoutes(config(*REPAIR), host=host), ctx)
        assert ours(host) == []
        assert "the route table is as it was before" in "".join(notes_of(caught.value))

    def test_set_by_the_guard_meanwhile(self) -> None:
        """What the steps have set while the run waited for the lock is not set again."""
        host = FakeHost(kernel=h200())
        routes = [
            Route.to(prefix, dev="eth0", gateway="10.0.0.1", protocol=213) for prefix in REPAIR
        ]
        adds = [RouteRequest("add", route) for route in routes]
        before_it_sets_routes(host, lambda: host.kernel.change(adds))
        result = run(ConfigureStaticRoutes(config(*REPAIR), host=host))
        assert effects_of(result).log_fields() == {"files": 6}


def test_only_the_reply_route_is_left_out() -> None:
    """Nothing waits for it: the result has why, and so has that of the whole run."""
    rewrite = ProbeRewriteConfig(enabled=True, interfaces=("eth9",))
    host = FakeHost(kernel=h200())
    report = phases.run(
        Configure(HostRoutingConfig(probe_rewrite=rewrite), host=host), observers=[]
    )
    [step] = [step for step in report.walk() if step.name == ConfigureStaticRoutes.name]
    for result in (step.result, report.result):
        [warning] = effects_of(result).warnings
        assert warning.name == "route-waits"
        assert warning.severity == "warning"
