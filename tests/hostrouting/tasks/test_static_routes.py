"""ConfigureStaticRoutes, on hosts that exist in memory: conflicts, waiting, and other programs at
the same time.
"""

import signal

import pytest

import phases
from hostrouting.config.settings import HostRoutingConfig, ProbeRewriteConfig
from hostrouting.errors import NotReady, RouteConflict
from hostrouting.host.effects import effects_of
from hostrouting.kernel.base import RouteRequest
from hostrouting.model.route import Route
from hostrouting.tasks.configure import Configure
from hostrouting.tasks.static_routes import ConfigureStaticRoutes
from hostrouting.testing import FakeHost, FakeKernel, h200
from phases.testing import FakeClock
from tests.support.notes import notes_of
from tests.support.tasks import HELD, LAYOUT, REPAIR, config, configured, failure_of, ours, run

DEFAULT = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", protocol=16)


def installed(host: FakeHost) -> bool:
    """Whether the gate is there, with the step that sets the routes."""
    return {
        LAYOUT.drop_in_path("systemd-nspawn@.service"),
        LAYOUT.step_path(LAYOUT.routes_step),
    } <= {*host.files.texts}


class TestConflict:
    """A route of another program with the same destination and metric stays, and is named with the
    way out.
    """

    WAY_OUT = r"172.16.0.0/16 dev ib0 .*write 172.16.0.0/17 and 172.16.128.0/17 instead of 172.16.0.0/16 into staticRoutes.routes"

    def test_on_a_new_host(self) -> None:
        """The files are installed, so the gate holds, and the error says so; no route was changed."""
        host = FakeHost(kernel=h200())
        error = failure_of(
            run, Configure(config("172.16.0.0/16"), host=host), of=RouteConflict, match=self.WAY_OUT
        )
        assert str(error).endswith(HELD)
        assert (ours(host), installed(host)) == ([], True)

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
        error = failure_of(
            run, Configure(config("172.16.0.0/16"), host=host), of=RouteConflict, match=self.WAY_OUT
        )
        assert HELD not in str(error)
        assert (host.files.texts, len(ours(host))) == (before, 2)


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
        host.faults.meanwhile("snapshot", lambda: kernel.ip_route("delete", DEFAULT), nth=3)
        kernel.later(lambda: kernel.ip_route("add", DEFAULT))
        run(ConfigureStaticRoutes(config("10.9.0.0/16"), host=host))
        assert len(ours(host)) == 1

    def test_never_comes(self, host: FakeHost) -> None:
        """After the deadline the failure says what was waited for, and that the gate holds."""
        task = ConfigureStaticRoutes(config("10.9.0.0/16"), host=host, wait=30)
        error = failure_of(
            run, task, of=NotReady, match=r"gave up after 30 s: .* needs an IPv4 default route"
        )
        [finding] = error.findings
        assert (finding.name, finding.severity, finding.target) == (
            "route-waits",
            "error",
            "10.9.0.0/16",
        )
        assert (error.can_retry, str(error).endswith(HELD), installed(host)) == (True, True, True)
        assert {*effects_of(error).files} == {*host.files.texts, *host.files.links}

    def test_cancelled(self, host: FakeHost) -> None:
        """The order to stop ends the wait; the files stay, and the error has them."""
        ctx = phases.Context(clock=FakeClock(), observers=[])
        host.kernel.later(lambda: ctx.cancel("enough"))
        with pytest.raises(phases.Cancelled, match="enough") as caught:
            phases.execute(ConfigureStaticRoutes(config("10.9.0.0/16"), host=host), ctx)
        assert LAYOUT.config_path in effects_of(caught.value).files
        assert host.files.locked == set()


class TestTransaction:
    """All routes or none, also if the run is stopped or another program interferes."""

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
        host.faults.meanwhile("snapshot", lambda: host.kernel.change(adds), nth=3)
        result = run(ConfigureStaticRoutes(config(*REPAIR), host=host))
        assert effects_of(result).log_fields() == {"files": 6}


def test_only_the_reply_route_is_left_out() -> None:
    """The result says so, and not that nothing is configured."""
    rewrite = ProbeRewriteConfig(enabled=True, interfaces=("eth9",))
    host = FakeHost(kernel=h200())
    report = phases.run(
        Configure(HostRoutingConfig(probe_rewrite=rewrite), host=host), observers=[]
    )
    [step] = [step for step in report.walk() if step.name == ConfigureStaticRoutes.name]
    assert step.reason == (
        "the routes are as they should be, except for the route for replies to probes"
    )
