"""CheckRouteOverlap: modes, markers, logs, and kernels that do not answer."""

from typing import Any

import pytest

import phases
from hostrouting.check.results import CheckReport
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import HostError, RouteOverlapError
from hostrouting.host.effects import effects_of
from hostrouting.model.route import OURS, Route
from hostrouting.tasks.overlap_check import CheckRouteOverlap
from hostrouting.testing import FakeHost, h200, plain_vm
from hostrouting.testing.faults import FaultPoint
from hostrouting.upkeep.passes import MOST_FINDINGS_SHOWN
from phases.testing import FakeClock
from tests.support.mishaps import mishap_host
from tests.support.node import DEFAULT, marker_of, without_default
from tests.support.sections import expect
from tests.support.tasks import CIDR, LAYOUT, config, context, failure_of, paths_on, run


def checked(host: FakeHost, *cidrs: str, mode: str = "WARN") -> Any:
    return run(CheckRouteOverlap(config(cidrs=cidrs, mode=mode), host=host))


def lines_of_tasks(caplog: pytest.LogCaptureFixture) -> str:
    """What tasks have logged, without the line for the end of each."""
    records = [record for record in caplog.records if "status" not in vars(record)["phases"]]
    return "\n".join(record.getMessage() for record in records)


def test_strict(caplog: pytest.LogCaptureFixture) -> None:
    """The error names range, route and repair, which no log repeats."""
    host = FakeHost(kernel=h200())
    error = failure_of(checked, host, CIDR, mode="STRICT", of=RouteOverlapError)
    start = (
        "OVERLAP: 172.16.0.0/16 leaves through ib0 "
        "[172.16.0.0/16 dev ib0 proto kernel scope link src 172.16.1.10]; expected: eth0; "
        "ACTION: 2 static routes would repair it; hosts in 172.16.0.0/16 are then no longer "
        "reached through ib0; add to staticRoutes.routes: [{"
    )
    assert str(error).startswith(start)
    assert isinstance(error.report, CheckReport)
    assert error.check["verdict"] == "overlap"
    assert [finding.name for finding in error.findings] == ["overlap", "action"]
    assert "OVERLAP" not in lines_of_tasks(caplog)
    assert {*effects_of(error).files} == paths_on(host) - {LAYOUT.detected_path}


def test_many_escapes(caplog: pytest.LogCaptureFixture) -> None:
    """The log has the first ones, and the result has all that the check has found."""
    result = checked(FakeHost(kernel=h200()), *(f"172.16.{n}.0/24" for n in range(0, 60, 2)))
    assert lines_of_tasks(caplog).count("OVERLAP:") == MOST_FINDINGS_SHOWN
    assert len(result.report.families[0].escapes) == 30


@pytest.mark.parametrize("mode", ["WARN", "STRICT"])
def test_what_is_not_wrong(mode: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged in both modes, and is not in the error: no unit waits for it."""
    host = FakeHost(kernel=h200())
    host.kernel.add_link("eth1")
    ours = Route.to("0.0.0.0/0", dev="eth1", metric=500, protocol=OURS)  # no check deletes it
    host.kernel.ip_route("add", ours)
    section = expect(CIDR, mode=mode)
    task = CheckRouteOverlap(HostRoutingConfig(route_overlap=section), host=host)
    report = phases.run(task, ctx=phases.Context(clock=FakeClock()))
    assert (report.error is None) is (mode == "WARN")
    assert "to that of eth1" not in str(report.error)
    [record] = [each for each in caplog.records if "to that of eth1" in each.getMessage()]
    assert record.levelname == "WARNING"
    assert "finding" in vars(record)["phases"], "the command leaves it out"


@pytest.mark.parametrize("comes", [True, False], ids=["comes", "does not come"])
def test_an_expected_device(*, comes: bool) -> None:
    """One that is not up is awaited; if it does not come, the error says what is wrong."""
    host = FakeHost(kernel=plain_vm())

    def come_up() -> None:
        host.kernel.add_link("eth7")
        host.kernel.ip_route("add", Route.to(CIDR, dev="eth7"))

    if comes:
        host.kernel.later(come_up)
    section = expect(CIDR, mode="STRICT", expected_devs=["eth7"])
    task = CheckRouteOverlap(HostRoutingConfig(route_overlap=section), host=host, wait=40)
    clock = FakeClock()
    report = phases.run(task, ctx=phases.Context(clock=clock))
    assert report.ok is comes
    assert int(clock.now()) == (0 if comes else 40)
    assert marker_of(host) == ("ok" if comes else "detected")


@pytest.mark.parametrize("mode", ["WARN", "STRICT"])
def test_the_routes_change_before_the_check_has_the_lock(mode: str) -> None:
    """The verdict is about the host as it is then: the other process may have left its own."""
    host, mishaps = mishap_host()
    checked(host, "10.0.0.0/8", mode=mode)
    escape = Route.to("10.9.0.0/16", dev="ib0")
    mishaps.meanwhile(f"lock {LAYOUT.lock_path}", lambda: host.kernel.ip_route("add", escape))
    if mode == "STRICT":
        failure_of(checked, host, "10.0.0.0/8", mode=mode, match="OVERLAP: 10.9.0.0/16")
    else:
        assert checked(host, "10.0.0.0/8", mode=mode).report.verdict == "overlap"
    assert marker_of(host) == "detected"


def test_another_configuration_meanwhile() -> None:
    """It leaves the markers of the other run; with none, they go with what they were about."""
    host, mishaps = mishap_host()
    checked(host, CIDR)
    other = CheckRouteOverlap(config(cidrs=("10.0.0.0/8",)), host=host, allow_removal=True)
    mishaps.meanwhile(f"lock {LAYOUT.lock_path}", lambda: run(other))
    words = "another run has installed a different configuration"
    error = failure_of(checked, host, CIDR, of=HostError, match=words)
    assert not error.can_retry, "the two would replace each other's for ever"
    assert marker_of(host) == "ok"

    def empty() -> None:
        host.files.texts[LAYOUT.config_path] = "{}"

    mishaps.meanwhile(f"lock {LAYOUT.lock_path}", empty)
    failure_of(checked, host, "10.0.0.0/8", mode="STRICT", match="configures nothing")
    assert marker_of(host) == ""


@pytest.mark.parametrize("point", ["watch", "lookup"])
def test_a_check_that_is_cancelled(point: FaultPoint) -> None:
    """The marker of its last pass stays; one that was interrupted leaves none."""
    host = FakeHost(kernel=without_default(h200()))
    ctx = context()

    def cancel() -> None:
        ctx.cancel("enough")
        ctx.check()

    task = CheckRouteOverlap(config(cidrs=("10.0.0.0/8",), mode="WARN"), host=host)
    if point == "watch":
        host.kernel.later(cancel)
    else:
        host.kernel.ip_route("add", DEFAULT)
        run(task)
        host.faults.meanwhile("lookup", cancel)
    with pytest.raises(phases.Cancelled):
        phases.execute(task, ctx)
    assert marker_of(host) == ("detected" if point == "watch" else "")
