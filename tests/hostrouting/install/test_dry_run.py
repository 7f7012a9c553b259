"""The dry run fails exactly where the run would fail on the host as it is, and says why."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import pytest
from hypothesis import given, strategies as st

import phases
from hostrouting.config.settings import MACHINES, GateConfig, HostRoutingConfig, ProbeRewriteConfig
from hostrouting.host.effects import effects_of
from hostrouting.install.plan import Plan
from hostrouting.install.results import CheckResult
from hostrouting.model.route import Route
from hostrouting.tasks.configure import TASKS, Configure
from hostrouting.tasks.overlap_check import CheckRouteOverlap
from hostrouting.tasks.static_routes import ConfigureStaticRoutes
from hostrouting.tasks.task import InstallTask
from hostrouting.testing import FakeHost, FakeKernel, FakeManager, h200, plain_vm
from hostrouting.testing.interpreter import FakeInterpreter
from phases.testing import FakeClock
from tests.support.configs import configs
from tests.support.node import without_default
from tests.support.statuses import written
from tests.support.tasks import (
    CIDR,
    LAYOUT,
    REPAIR,
    WANTED,
    config,
    configured,
    lose_routes,
    type_routes,
)
from tests.support.topologies import dual_stack_h200

STRICT, WARN = config(cidrs=(CIDR,)), config(cidrs=(CIDR,), mode="WARN")
OTHER_ROUTE = config("10.77.0.0/16")
PROBES = ProbeRewriteConfig(enabled=True, interfaces=("eth0",), ensure_route=False)
LATE_REPLY = HostRoutingConfig(
    probe_rewrite=PROBES._replace(interfaces=("eth9",), ensure_route=True)
)
CONFLICT = "the same destination and metric"
KUBE1 = "systemd-nspawn@kube1.service"
PROBE_UNIT = "systemd-nspawn@hostrouting-probe.service"
KUBELET = "kubelet.service"

Make: TypeAlias = Callable[[], FakeHost]


def gating(*units: str) -> HostRoutingConfig:
    """The configuration that repairs the host, and gates these units."""
    return WANTED._replace(gate=GateConfig(units))


def of(kernel: Callable[[], FakeKernel] = h200) -> Make:
    """Make a host with this kernel, on which nothing is installed."""
    return lambda: FakeHost(kernel=kernel())


def with_properties(unit: str, **properties: str) -> Make:
    """Make a host with this unit."""
    manager = FakeManager(properties={unit: properties})
    return lambda: FakeHost(kernel=h200(), manager=manager)


def after(*changes: Callable[[FakeHost], object], by: HostRoutingConfig = WANTED) -> Make:
    """Make a host on which this is installed, and on which these changes have happened since."""

    def make() -> FakeHost:
        host = configured(by)
        for change in changes:
            change(host)
        return host

    return make


def take_a_key(host: FakeHost) -> None:
    """Another program's route takes the place of one of ours."""
    host.kernel.ip_route("add", Route.to(REPAIR[0], dev="ib3", protocol=4))


def break_the_interpreter(host: FakeHost) -> None:
    """The Python of the node loses a module."""
    host.interpreter.broken = "No module named 'json'"


def lose_the_default(host: FakeHost) -> None:
    """The default route goes."""
    without_default(host.kernel)


INSTALLED = after()
REMOVING = partial(Configure, allow_removal=True)


def case(
    reason: str,
    make: Make,
    wanted: HostRoutingConfig = WANTED,
    task: Callable[..., phases.Task[Any]] = Configure,
) -> tuple[str, Make, HostRoutingConfig, Callable[..., phases.Task[Any]]]:
    """A part of the reason why a run fails (empty if it does not), its host, and the run."""
    return reason, make, wanted, task


CASES = {
    "an overlap, STRICT": case("leaves through ib0", of(), STRICT),
    "an overlap, WARN": case("", of(), WARN),
    "a conflict, new": case(CONFLICT, after(take_a_key, by=HostRoutingConfig())),
    "a conflict, installed": case(CONFLICT, after(take_a_key, by=WARN)),
    "routes that wait again": case(
        "need an IPv4 default route", after(lose_routes, lose_the_default)
    ),
    "a route that waits, while others would go": case(
        "10.77.0.0/16 needs an IPv4 default route",
        after(lose_the_default),
        OTHER_ROUTE,
        ConfigureStaticRoutes,
    ),
    "a route for replies that waits": case("", of(), LATE_REPLY),
    "the interpreter of an installed program": case(
        f"/usr/bin/python3 cannot run {LAYOUT.program_path}: No module named 'json'; install",
        after(break_the_interpreter),
    ),
    "no interpreter": case(
        "/usr/bin has no Python 3.10 or newer that works, which hostrouting needs on a node",
        lambda: FakeHost(kernel=h200(), interpreter=FakeInterpreter(path="")),
    ),
    **{
        f"a unit that {target}.target waits for": case(
            f"{MACHINES} starts before {target}.target, which the gate waits for",
            with_properties(PROBE_UNIT, Before=f"a.service {target}.target"),
        )
        for target in ("sysinit", "basic", "network-pre", "network", "network-online")
    },
    **{
        f"a unit with {setting}": case(
            f"{KUBE1} has {setting}=, so root would run the gate from files that may be another "
            "user's; leave it out of gate.units, or take the setting away",
            with_properties(KUBE1, User=user, **{setting: "/srv:/etc"}),
        )
        for user, setting in (
            *(("root", "RootDirectory"), ("", "RootImage"), ("app", "BindPaths")),
            *(("app", "BindReadOnlyPaths"), ("app", "ExtensionDirectories")),
            *(("app", "ExtensionImages"), ("app", "MountImages")),
        )
    },
    "a unit of root": case("", with_properties(KUBE1, User="0", BindPaths="/srv:/etc")),
    "an instance that is not loaded": case(
        f"{KUBE1} has RootDirectory=, so root would run the gate from files",
        after(written(f"{LAYOUT.unit_path(KUBE1)}.d/50.conf", "RootDirectory=/srv\n")),
    ),
    "another name of a unit": case(
        "k8s.service is another name of kubelet.service, and the gate needs the unit's own; name "
        "kubelet.service in gate.units",
        with_properties("k8s.service", Id=KUBELET),
        gating("k8s.service"),
    ),
    "another name of a template": case(
        f"k@.service is another name of {MACHINES}, ",
        with_properties("k@hostrouting-probe.service", Id=PROBE_UNIT),
        gating("k@.service"),
    ),
    "routes alone, which take needed ones away": case(
        "", INSTALLED, OTHER_ROUTE, ConfigureStaticRoutes
    ),
}


def foreseen(task: phases.Task[Any]) -> Plan:
    """The plan, which agrees with the run that follows it."""
    dry = phases.plan(task)
    plan = dry.result
    report = phases.run(task, ctx=phases.Context(clock=FakeClock()))
    assert isinstance(plan, Plan)
    assert dry.ok is report.ok is (plan.would_fail == ""), f"{dry}\n{report}"
    if dry.ok:
        if isinstance(report.result, CheckResult):
            assert "error" not in {finding.severity for finding in report.result.findings}
        done = effects_of(report.result)
        assert {*done.files} == {*plan.files.written_paths, *plan.files.removes}
        assert {*done.operations} == {*plan.systemd, *plan.operations}
        assert {each.route.key for each in done.changes} == {
            each.route.key for each in plan.routes.changes
        }
    return plan


@pytest.mark.parametrize("name", CASES)
def test_each_cause(name: str) -> None:
    """It is not ok if the run would fail; it says why, and changes nothing."""
    reason, make, wanted, kind = CASES[name]
    host = make()
    before, texts = host.kernel.snapshot(), dict(host.files.texts)
    first = phases.plan(kind(wanted, host=host))
    assert (host.kernel.snapshot(), host.files.texts) == (before, texts)

    plan = foreseen(kind(wanted, host=host))
    assert str(plan) == str(first.result)
    assert reason in plan.would_fail
    assert bool(reason) is bool(plan.would_fail)
    assert ("nothing to do" in str(plan)) is plan.is_empty
    assert ("afterwards: " in str(plan)) is (plan.report is not None)
    if plan.routes.conflicts or plan.routes.waiting:
        assert plan.report is None
        assert not plan.is_empty
    actions = [finding for finding in plan.check_findings if finding.name == "action"]
    assert {*map(str, actions), *plan.work} <= {*str(plan).splitlines()}


@pytest.mark.parametrize(
    ("wanted", "part"),
    [(STRICT, CheckRouteOverlap), (config(CIDR), ConfigureStaticRoutes)],
    ids=["an overlap", "a conflict"],
)
def test_a_part_that_is_left_out(wanted: HostRoutingConfig, part: type[InstallTask]) -> None:
    """What would make it fail is not in the way, nor in the plan."""
    task = REMOVING(wanted, host=configured(OTHER_ROUTE))
    for call in (phases.plan, phases.run):
        assert not call(task).ok
        assert call(task, skip=[part.name]).ok


@given(
    wanted=configs(),
    installed=st.none() | st.just(STRICT) | configs(),
    kernel=st.sampled_from([plain_vm, h200, dual_stack_h200, FakeKernel]),
    kind=st.sampled_from([Configure, *TASKS]),
    is_typed=st.booleans(),
)
def test_law(
    *,
    wanted: HostRoutingConfig,
    installed: HostRoutingConfig | None,
    kernel: Callable[[], FakeKernel],
    kind: type[InstallTask],
    is_typed: bool,
) -> None:
    """For any two configurations: the run of each task fails if and only if the plan says so."""
    host = FakeHost(kernel=kernel())
    if installed is not None:
        before = Configure(installed, host=host, wait=2)
        phases.run(before, ctx=phases.Context(clock=FakeClock()))
    if is_typed and kernel is not FakeKernel:
        type_routes(host, *REPAIR)
    for allow_removal in (False, True):
        foreseen(kind(wanted, host=host, allow_removal=allow_removal, wait=2))


def test_one_snapshot() -> None:
    """All parts of the plan, and the check of the host as it will be, see the same moment."""
    host, snapshots = FakeHost(kernel=h200()), list[int]()
    for nth in (1, 2):
        host.faults.meanwhile("snapshot", partial(snapshots.append, nth), nth=nth)
    plan = Configure(WANTED._replace(probe_rewrite=PROBES), host=host).plan()
    assert plan.report is not None
    assert (plan.report.verdict, plan.mode) == ("ok", "STRICT")
    assert len(plan.routes.changes) == len(REPAIR)
    assert snapshots == [1]


def test_the_tasks_one_after_the_other() -> None:
    """Each judges the host as the tasks before it leave it, also in the dry run."""
    host = FakeHost(kernel=h200())
    tasks = [task(WANTED, host=host) for task in TASKS]
    pipeline = phases.serial(*tasks, name="routing")
    assert phases.plan(pipeline).ok
    assert not phases.plan(phases.serial(tasks[2], tasks[0])).ok, "the check comes too early"
    other = Configure(config("10.77.0.0/16", cidrs=(CIDR,)), host=host)
    assert not phases.plan(phases.serial(tasks[0], other)).ok, "it would delete the repair"
    assert host.files.texts == {}
    before = str(host.kernel)
    assert phases.run(pipeline).ok
    again = phases.run(pipeline)
    assert again.ok
    assert not any(effects_of(step.result).changed for step in again.walk())
    assert phases.plan(pipeline).ok
    assert phases.undo(pipeline).ok
    assert host.files.texts == {}
    assert str(host.kernel) == before
