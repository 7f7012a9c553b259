"""What a run says when it fails, what it needs, and what it leaves out."""

import errno
from collections.abc import Mapping, Sequence

import pytest

import phases
from hostrouting.config import GateConfig, GuardConfig, HostRoutingConfig
from hostrouting.config.settings import MACHINES, ProbeRewriteConfig
from hostrouting.errors import HostError, RequirementError, RouteConflict, RouteOverlapError
from hostrouting.host.effects import effects_of
from hostrouting.install.installed import read_installed
from hostrouting.install.results import CheckResult
from hostrouting.model.route import Route
from hostrouting.tasks.configure import Configure, Remove
from hostrouting.tasks.overlap_check import CheckRouteOverlap
from hostrouting.tasks.probe_rewrite import RewriteProbeSource
from hostrouting.tasks.static_routes import ConfigureStaticRoutes
from hostrouting.tasks.task import InstallTask
from hostrouting.testing import FakeHost, FakeManager, h200
from phases.testing import FakeClock
from tests.support.tasks import (
    CIDR,
    GUARDED,
    LAYOUT,
    REPAIR,
    WANTED,
    config,
    configured,
    context,
    failure_of,
    left_to_do,
    lose_routes,
    manager_of,
    ours,
    paths_on,
    run,
    undo,
)

CONFLICTING = config("172.16.0.0/16")
PROBES = ProbeRewriteConfig(enabled=True, interfaces=("eth0",))


def report_of(task: InstallTask) -> phases.Step:
    """The report of a run of this task, whether it fails or not."""
    return phases.run(task, ctx=phases.Context(clock=FakeClock()))


def test_a_conflict_that_lasts() -> None:
    """It holds no other change back; one that is new ends the run before its first write."""
    host = FakeHost(kernel=h200())
    gated = CONFLICTING._replace(gate=GateConfig(("kubelet.service", MACHINES)))
    failure_of(run, Configure(gated, host=host), of=RouteConflict)
    failure_of(run, Configure(CONFLICTING, host=host, allow_removal=True), of=RouteConflict)
    assert LAYOUT.drop_in_path("kubelet.service") not in host.files.texts
    assert read_installed(host) == CONFLICTING
    assert not Configure(CONFLICTING, host=host).plan().is_empty
    before = dict(host.files.texts)
    more = config("172.16.0.0/16", "10.0.0.0/24", gateway="10.0.0.1")
    failure_of(run, Configure(more, host=host), of=RouteConflict, match=r"10\.0\.0\.0/24")
    assert host.files.texts == before


class TestGuard:
    """The routes do not need the guard."""

    CONFLICTING = CONFLICTING._replace(guard=GuardConfig(enabled=True))

    @pytest.fixture
    def host(self) -> FakeHost:
        """A host on which its start fails."""
        manager = FakeManager()
        manager.failing[LAYOUT.guard_unit] = ("bash was not found",)
        return FakeHost(kernel=h200(), manager=manager)

    def test_it_does_not_start(self, host: FakeHost) -> None:
        """All else is done, by each run; then it fails, and says why the guard does not run."""
        report = report_of(Configure(GUARDED, host=host))

        [failure] = report.failures
        assert failure.name == "start-guard"
        assert "failed (exit-code, exit status 1): bash was not found" in str(failure.error)
        assert "will not start" not in str(failure.error)
        assert LAYOUT.config_path in effects_of(report.find("install-files").result).files
        assert len(ours(host)) == len(REPAIR)

        lose_routes(host)
        assert [step.name for step in report_of(Configure(GUARDED, host=host)).failures] == [
            "start-guard"
        ]
        assert len(ours(host)) == len(REPAIR)

    def test_a_task_about_one_section(self, host: FakeHost) -> None:
        """If the guard and the task fail, the error has both."""
        report_of(Configure(self.CONFLICTING, host=host))
        report = report_of(ConfigureStaticRoutes(self.CONFLICTING, host=host))
        guard, routes = report.failures
        assert guard.name == "start-guard"
        assert isinstance(routes.error, RouteConflict)


@pytest.mark.parametrize("make", [Configure, ConfigureStaticRoutes])
def test_settings_without_effect(make: type[Configure]) -> None:
    """A configuration that has only such settings is installed as nothing."""
    former = config("10.77.0.0/16", mode="WARN")
    host = configured(former)
    idle = {"staticRoutes": {"enabled": True}, "routeOverlap": {"expectedDevs": ["eth0"]}}
    task = make(HostRoutingConfig.from_mapping(idle), host=host, allow_removal=True)
    run(task)
    assert ours(host) == []
    assert host.files.texts == {}
    undo(task)
    assert read_installed(host) == former


class TestNothingToDo:
    """One answer to whether there is anything to do, for the plan, the text and the run."""

    def test_a_reload(self) -> None:
        """Where systemd has not read a file, the plan is not empty, and the run does it."""
        host = configured(WANTED)
        manager_of(host).read.clear()
        plan = Configure(WANTED, host=host).plan()
        assert not plan.is_empty
        assert "reload systemd    # its files have changed" in str(plan)
        assert "reload systemd" in str(run(Configure(WANTED, host=host)))
        assert left_to_do(Configure(WANTED, host=host)) == ""
        assert isinstance(run(Configure(WANTED, host=host)), CheckResult), "it was checked"

    def test_a_unit_that_is_gated_no_longer(self) -> None:
        """Its drop-in is gone, and systemd, which has not read that, still runs the gate."""
        host = configured(WANTED._replace(gate=GateConfig(("kubelet.service", MACHINES))))
        only_machines = WANTED._replace(gate=GateConfig((MACHINES,)))
        host.files.remove(LAYOUT.drop_in_path("kubelet.service"))
        assert "reload systemd" in left_to_do(Configure(only_machines, host=host))

    def test_a_masked_unit(self) -> None:
        """With our drop-in, it needs no reload; without one, its mask is gone."""
        gated = WANTED._replace(gate=GateConfig(("kubelet.service", MACHINES)))
        host = configured(gated)
        properties = {"LoadState": "masked", "NeedDaemonReload": "yes"}
        manager_of(host).properties["kubelet.service"] = properties
        assert left_to_do(Configure(gated, host=host)) == ""
        manager_of(host).properties["static-routes.service"] = properties
        assert "reload systemd" in left_to_do(Configure(gated, host=host))

    def test_a_reload_and_the_guard(self) -> None:
        """The guard starts when systemd has read its files, and stops before they go."""
        host = configured(GUARDED)
        manager_of(host).read.clear()
        removal = Remove(host=host).plan()
        manager_of(host).states[LAYOUT.guard_unit] = "failed"
        start = Configure(GUARDED, host=host).plan()
        assert [operation.verb for operation in removal.systemd] == ["stop", "reload"]
        assert [operation.verb for operation in start.systemd] == ["reload", "start"]


@pytest.mark.parametrize(("mode", "severity"), [("STRICT", "error"), ("WARN", "warning")])
def test_how_bad_an_overlap_is(mode: str, severity: str) -> None:
    """A plan in STRICT says that of what the run would fail with."""
    host = FakeHost(kernel=h200())
    plan = Configure(config(cidrs=(CIDR,), mode=mode), host=host).plan()
    assert plan.check_findings[0].severity == severity


def test_what_was_done_before_a_part_failed() -> None:
    """The error of the whole has it, whatever has failed after it: files, and routes."""
    host = FakeHost(kernel=h200())
    escaping = config("10.9.0.0/16", cidrs=(CIDR,))
    with pytest.raises(phases.TaskFailed, match="OVERLAP") as caught:
        run(Configure(escaping, host=host))
    effects = effects_of(caught.value)
    assert {*effects.files} == paths_on(host) - {LAYOUT.detected_path}
    assert [str(change.route) for change in effects.changes] == ours(host)


@pytest.mark.parametrize("is_cancelled", [False, True])
@pytest.mark.parametrize("make", [Configure, RewriteProbeSource])
def test_what_a_run_has_done_before_it_ends(make: type[Configure], *, is_cancelled: bool) -> None:
    """The error has the effects of the parts before the one that failed, or was cancelled."""
    wanted = HostRoutingConfig(probe_rewrite=PROBES)
    host, ctx = FakeHost(kernel=h200()), context()

    def ends() -> None:
        if is_cancelled:
            ctx.cancel("enough")
            raise phases.Cancelled("enough")
        host.nftables.fault = HostError("nft failed", what="nft", kind="not-permitted")

    host.nftables.meanwhile(ends, nth=3)
    with pytest.raises(phases.Cancelled if is_cancelled else phases.TaskFailed) as caught:
        phases.execute(make(wanted, host=host), ctx)
    effects = effects_of(caught.value)
    assert [str(change.route) for change in effects.changes] == ours(host) != []
    assert LAYOUT.config_path in effects.files


@pytest.mark.parametrize("verb", ["reload", "start"])
def test_a_run_that_is_cancelled_when_its_files_are_there(
    verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error has them, and nothing more is done: before systemd is asked, and when the guard has
    started.
    """
    host, ctx = FakeHost(kernel=h200()), context()
    method = getattr(host.manager, verb)

    def cancel(*given: object, **named: object) -> None:
        method(*given, **named)
        ctx.cancel("enough")

    monkeypatch.setattr(FakeManager, verb, lambda _, *given, **named: cancel(*given, **named))
    with pytest.raises(phases.Cancelled) as caught:
        phases.execute(Configure(GUARDED, host=host), ctx)
    assert {*effects_of(caught.value).files} == paths_on(host)
    assert ours(host) == []


def test_what_the_passes_before_have_done() -> None:
    """Linux refuses a route that it does not delete again: the error has it."""
    host = FakeHost(kernel=h200())
    host.faults.fail("change", errno.ENOBUFS, nth=2)
    host.faults.fail("change", errno.ENOBUFS, nth=3)
    ctx = context()
    host.kernel.later(lambda: ctx.cancel("enough"))
    host.faults.meanwhile("change", lambda: ctx.cancel("enough"), nth=4)
    with pytest.raises(phases.Cancelled) as caught:
        phases.execute(Configure(config(*REPAIR), host=host), ctx)
    assert [str(change.route) for change in effects_of(caught.value).changes] == ours(host) != []


CANCELLED = {
    "/etc/systemd/system/kubelet.service": "[Service]\nExecStart=/bin/true\n",
    "/etc/systemd/system/kubelet.service.d/zz.conf": "[Service]\nExecCondition=\n",
}
"""A unit with another program's drop-in, which takes the condition of the gate away."""


def test_a_cancelled_gate_hides_no_other_failure() -> None:
    """The error of the whole has both, and the parts do their work all the same."""
    host = FakeHost(kernel=h200())
    host.files.texts.update(CANCELLED)
    host.kernel.ip_route("add", Route.to(REPAIR[0], dev="ib3", protocol=4))
    gated = config(*REPAIR, cidrs=(CIDR,))._replace(gate=GateConfig(("kubelet.service",)))
    report = report_of(Configure(gated, host=host))
    kinds = [type(step.error) for step in report.failures]
    assert kinds == [RequirementError, RouteConflict]


def test_a_task_about_one_section_hides_no_failure() -> None:
    """Its own work is a step then, beside the files, whose gate is cancelled."""
    host = FakeHost(kernel=h200())
    host.files.texts.update(CANCELLED)
    gated = config(*REPAIR, cidrs=(CIDR,))._replace(gate=GateConfig(("kubelet.service",)))
    report_of(Configure(gated, host=host))
    lose_routes(host)
    report = report_of(CheckRouteOverlap(gated, host=host))
    kinds = [type(step.error) for step in report.failures]
    assert kinds == [RequirementError, RouteOverlapError]


def test_systemd_is_silent_after_the_write() -> None:
    """Nobody knows the gate then; the error has what was written, and the parts do their work."""
    host = FakeHost(kernel=h200(), manager=SilentAfterReload())
    with pytest.raises(phases.TaskFailed, match="systemd does not answer") as caught:
        run(Configure(WANTED, host=host))
    effects = effects_of(caught.value)
    assert LAYOUT.config_path in effects.files
    assert [str(change.route) for change in effects.changes] == ours(host) != []


class SilentAfterReload(FakeManager):
    """A systemd that reads its files again, and then answers nothing."""

    is_silent = False

    def reload(self) -> None:
        """See Manager."""
        super().reload()
        self.is_silent = True

    def show(self, names: Sequence[str], *units: str) -> tuple[Mapping[str, str], ...]:
        """See Manager."""
        if self.is_silent:
            raise HostError("systemd does not answer", what="systemd", kind="no-answer")
        return super().show(names, *units)
