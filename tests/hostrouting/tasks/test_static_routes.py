"""ConfigureStaticRoutes: conflicts, waiting, and other programs at the same time."""

import errno
from functools import partial

import pytest

import phases
from hostrouting.config.settings import HostRoutingConfig, ProbeRewriteConfig
from hostrouting.errors import NotReady, RouteConflict
from hostrouting.host.effects import effects_of
from hostrouting.kernel.base import RouteRequest
from hostrouting.model.route import OURS, Route
from hostrouting.tasks.configure import Configure
from hostrouting.tasks.static_routes import ConfigureStaticRoutes
from hostrouting.testing import FakeHost, FakeKernel, h200
from tests.support.mishaps import mishap_host
from tests.support.node import without_default
from tests.support.tasks import (
    LAYOUT,
    REPAIR,
    config,
    context,
    failure_of,
    our_destinations,
    ours,
    paths_on,
    run,
)

DEFAULT = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", protocol=16)


def installed(host: FakeHost) -> bool:
    """Whether the gate is there, with what it sets the routes by."""
    drop_in = LAYOUT.drop_in_path("systemd-nspawn@.service")
    return {drop_in, LAYOUT.config_path} <= {*host.files.texts}


def test_a_conflict_while_another_route_waits() -> None:
    """The conflict is named at once, as waiting would not end it."""
    host, waits = FakeHost(kernel=h200()), list[str]()
    host.kernel.later(lambda: waits.append("a wait"))
    task = Configure(config("172.16.0.0/16", "fd77::/48"), host=host)
    way_out = "otherwise delete it, or configure the halves of 172.16.0.0/16"
    error = failure_of(run, task, of=RouteConflict, match=f"172.16.0.0/16 dev ib0 .*{way_out}")
    assert waits == []
    assert [(finding.name, finding.target) for finding in error.findings] == [
        ("route-conflict", "172.16.0.0/16"),
        ("route-waits", "fd77::/48"),
    ]
    assert "fd77::/48 needs an IPv6 default route" in str(error)


class TestDefaultRoute:
    """What a route leaves open comes from the default route, for which the task waits."""

    @pytest.fixture
    def host(self) -> FakeHost:
        host = FakeHost(kernel=FakeKernel())
        host.kernel.add_link("eth0")
        return host

    def test_comes_late(self, host: FakeHost) -> None:
        """The task waits by kernel events, and does not hold the lock meanwhile."""
        kernel, locked = host.kernel, list[set[str]]()

        def comes() -> None:
            locked.append(set(host.files.locked))
            kernel.change([RouteRequest("add", DEFAULT)])

        kernel.later(lambda: kernel.add_address("eth0", "10.0.0.4/24"))
        kernel.later(comes)
        run(ConfigureStaticRoutes(config("10.9.0.0/16"), host=host))
        assert ours(host) == ["10.9.0.0/16 via 10.0.0.1 dev eth0 proto hostrouting"]
        assert locked == [set()]

    def test_never_comes(self, host: FakeHost) -> None:
        """The failure says what was waited for; the files and our other routes stay."""
        host.kernel.ip_route("add", Route.to("10.7.0.0/16", dev="eth0", protocol=OURS))
        task = ConfigureStaticRoutes(config("10.9.0.0/16"), host=host, wait=30)
        error = failure_of(run, task, of=NotReady, match="needs an IPv4 default route")
        [finding] = error.findings
        assert finding.name == "route-waits"
        assert finding.severity == "error"
        assert finding.target == "10.9.0.0/16"
        assert error.can_retry
        assert our_destinations(host) == ["10.7.0.0/16"]
        assert installed(host) is True
        assert {*effects_of(error).files} == paths_on(host)
        whole = Configure(config("10.9.0.0/16"), host=host, wait=20)
        failure_of(run, whole, of=NotReady, match="needs an IPv4 default route")


def test_what_the_task_itself_has_changed() -> None:
    """Linux reports that, too; the next attempt comes a second later all the same."""
    host, ctx = FakeHost(kernel=h200()), context()
    for nth in (2, 5):  # the second of two routes is refused, and the first one deleted again
        host.faults.fail("change", errno.ENOBUFS, nth=nth)
    phases.execute(ConfigureStaticRoutes(config(*REPAIR), host=host), ctx)
    assert ctx.clock.now() == pytest.approx(2)


def test_another_run_is_busy_when_the_routes_are_set() -> None:
    """The error is that of the lock, and not of a route that waits."""
    host, mishaps = mishap_host()
    take = partial(host.files.locked.add, LAYOUT.lock_path)
    mishaps.meanwhile(f"lock {LAYOUT.lock_path}", take, when=lambda: installed(host))
    error = failure_of(run, Configure(config(*REPAIR), host=host), of=NotReady)
    assert error.kind == "busy"


@pytest.mark.parametrize("error", [RouteConflict, NotReady])
def test_what_changes_before_the_lock(error: type[Exception]) -> None:
    """The plan is made again with the lock. A conflict is the error, whatever waits."""
    host, mishaps = mishap_host()
    complete = {"destination": "10.77.0.0/16", "dev": "eth0", "gateway": "10.0.0.1"}
    static = {"enabled": True, "routes": [{"destination": REPAIR[0]}, complete]}
    wanted = HostRoutingConfig.from_mapping({"staticRoutes": static})

    def change() -> None:
        without_default(host.kernel)
        if error is RouteConflict:
            host.kernel.ip_route("add", Route.to("10.77.0.0/16", dev="ib0", protocol=4))

    mishaps.meanwhile(f"lock {LAYOUT.lock_path}", change, when=lambda: installed(host))
    failure_of(run, Configure(wanted, host=host, wait=0), of=error)
    assert our_destinations(host) == []


def test_only_the_reply_route_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing waits for it: the result has why, and so has that of the whole run."""
    rewrite = ProbeRewriteConfig(enabled=True, interfaces=("eth9",))
    host = FakeHost(kernel=h200())
    report = phases.run(Configure(HostRoutingConfig(probe_rewrite=rewrite), host=host))
    [step] = [step for step in report.walk() if step.name == ConfigureStaticRoutes.name]
    for result in (step.result, report.result):
        [warning] = effects_of(result).warnings
        assert warning.name == "route-waits"
        assert warning.severity == "warning"
    [record] = caplog.records
    assert "needs the device eth9" in record.getMessage()
    assert "finding" in vars(record)["phases"], "the command leaves it out"
