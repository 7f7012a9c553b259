"""What a run says when it fails, what it needs, and what it leaves out."""

import errno
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import pytest

import phases
from hostrouting.boot.units import DROP_IN_TEXT
from hostrouting.config import GateConfig, GuardConfig, HostRoutingConfig
from hostrouting.config.settings import MACHINES, ProbeRewriteConfig
from hostrouting.errors import HostError, NotReady, RouteConflict
from hostrouting.host.effects import effects_of
from hostrouting.install.installed import read_installed
from hostrouting.tasks.configure import Configure
from hostrouting.tasks.probe_rewrite import RewriteProbeSource
from hostrouting.tasks.static_routes import ConfigureStaticRoutes
from hostrouting.tasks.task import InstallTask
from hostrouting.testing import FakeHost, FakeKernel, FakeManager, h200
from phases.testing import FakeClock
from tests.support.incidents import garble
from tests.support.mishaps import mishap_host
from tests.support.tasks import (
    GUARDED,
    LAYOUT,
    REPAIR,
    WANTED,
    config,
    configured,
    context,
    failure_of,
    lose_routes,
    manager_of,
    ours,
    paths_on,
    run,
)

NOTHING = HostRoutingConfig()
CONFLICTING = config("172.16.0.0/16")
Happens: TypeAlias = Callable[[FakeHost], object]
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


def test_a_guard_that_does_not_start() -> None:
    """All else is done, by each run; then it fails, and says why the guard does not run. If the
    routes of a task about one section fail, too, the error has both.
    """
    manager = FakeManager(failing={LAYOUT.guard_unit: ("bash was not found",)})
    host = FakeHost(kernel=h200(), manager=manager)
    report = report_of(Configure(GUARDED, host=host))

    [failure] = report.failures
    assert failure.name == "start-guard"
    assert "failed (exit-code, exit status 1): bash was not found" in str(failure.error)
    assert "will not start" not in str(failure.error)
    assert LAYOUT.config_path in effects_of(report.find("install-files").result).files
    assert len(ours(host)) == len(REPAIR)

    lose_routes(host)
    [failure] = report_of(Configure(GUARDED, host=host)).failures
    assert failure.name == "start-guard"
    assert len(ours(host)) == len(REPAIR)

    host = FakeHost(kernel=h200(), manager=FakeManager(failing=manager.failing))
    conflicting = CONFLICTING._replace(guard=GuardConfig(enabled=True))
    report_of(Configure(conflicting, host=host))
    guard, routes = report_of(ConfigureStaticRoutes(conflicting, host=host)).failures
    assert guard.name == "start-guard"
    assert isinstance(routes.error, RouteConflict)


GATED = WANTED._replace(gate=GateConfig(("kubelet.service", MACHINES)))
DROP_IN = LAYOUT.drop_in_path("kubelet.service")


def read_nothing(host: FakeHost) -> None:
    """Systemd has not read a file since it was written."""
    manager_of(host).read.clear()


def lose_files(host: FakeHost) -> None:
    """All of ours are gone, and systemd, which has not read that, still runs the guard."""
    for paths in (host.files.texts, host.files.programs, host.files.links):
        paths.clear()


def load(unit: str, state: str) -> Happens:
    """Systemd says of a unit that it cannot load, such as a masked one, that it has to reload."""
    shown = {"LoadState": state, "NeedDaemonReload": "yes"}
    return lambda host: manager_of(host).properties.update({unit: shown})


def end_the_guard(host: FakeHost) -> None:
    """It has failed, and systemd has not read a file."""
    read_nothing(host)
    manager_of(host).states[LAYOUT.guard_unit] = "failed"


@pytest.mark.parametrize(
    ("installed", "happens", "wanted", "verbs"),
    [
        (WANTED, read_nothing, WANTED, ["reload"]),
        (GATED, lambda host: host.files.remove(DROP_IN), WANTED, ["reload"]),
        (WANTED, lambda host: host.files.write(DROP_IN, DROP_IN_TEXT), GATED, ["reload"]),
        (GATED, load("kubelet.service", "bad-setting"), GATED, []),
        (GATED, load("kubelet.service", "masked"), GATED, []),  # its answer stays
        (GATED, load("systemd-nspawn@kube1.service", "loaded"), GATED, ["reload"]),
        (GATED, load(LAYOUT.routes_unit, "masked"), GATED, ["reload"]),
        (GUARDED, end_the_guard, GUARDED, ["reload", "start"]),
        (GUARDED, lose_files, NOTHING, ["stop", "reload"]),
        (GATED, garble, GATED, ["reload"]),  # nobody knows what was gated
    ],
)
def test_what_systemd_has_to_do(
    installed: HostRoutingConfig, happens: Happens, wanted: HostRoutingConfig, verbs: list[str]
) -> None:
    """The plan has it, the text of the plan, and the run."""
    host = configured(installed)
    happens(host)
    task = Configure(wanted, host=host, allow_removal=True)
    plan = task.plan()
    assert [operation.verb for operation in plan.systemd] == verbs
    assert ("reload systemd    # its files may have changed" in str(plan)) is ("reload" in verbs)
    assert effects_of(run(task)).operations == plan.systemd


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
    """The error has them, and nothing more is done."""
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


@pytest.mark.parametrize(
    ("seconds", "waits", "end"), [(12, {}, 11.4), (600, {}, 60), (600, {"wait": 20}, 20)]
)
def test_a_run_with_a_deadline(seconds: float, waits: dict[str, Any], end: float) -> None:
    """It ends the wait a little earlier; a later one changes nothing."""
    host, ctx = FakeHost(kernel=FakeKernel()), context()
    task = Configure(config("10.9.0.0/16"), host=host, **waits)
    words = "10.9.0.0/16 needs an IPv4 default route"
    failure_of(phases.execute, phases.deadline(task, seconds), ctx, of=NotReady, match=words)
    assert ctx.clock.now() == pytest.approx(end, abs=0.1)


def test_another_section_is_installed_meanwhile() -> None:
    """The routes are those of all that is installed when they are set."""
    host, mishaps = mishap_host()
    other = RewriteProbeSource(HostRoutingConfig(probe_rewrite=PROBES), host=host)
    is_installed = partial(host.files.texts.__contains__, LAYOUT.config_path)
    mishaps.meanwhile(f"lock {LAYOUT.lock_path}", lambda: run(other), when=is_installed)
    run(ConfigureStaticRoutes(config(*REPAIR), host=host))
    assert len(ours(host)) == 3, "the route for replies to probes is one of them"
