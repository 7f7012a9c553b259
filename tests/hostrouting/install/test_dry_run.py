"""The dry run fails exactly where the run would fail on the host as it is, and says why."""

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple

import attrs
import pytest
from hypothesis import given, strategies as st

import phases
from hostrouting.config.settings import MACHINES, GateConfig, HostRoutingConfig, ProbeRewriteConfig
from hostrouting.host.effects import effects_of
from hostrouting.install.plan import Plan
from hostrouting.model.route import Route
from hostrouting.tasks.configure import TASKS, Configure, Remove
from hostrouting.tasks.overlap_check import CheckRouteOverlap
from hostrouting.tasks.static_routes import ConfigureStaticRoutes
from hostrouting.tasks.task import InstallTask
from hostrouting.testing import FakeFiles, FakeHost, FakeKernel, FakeManager, h200, plain_vm
from hostrouting.testing.interpreter import FakeInterpreter
from phases.testing import FakeClock
from tests.support.configs import configs
from tests.support.tasks import (
    CIDR,
    GUARDED,
    LAYOUT,
    REPAIR,
    config,
    configured,
    lose_routes,
    manager_of,
    type_routes,
)
from tests.support.topologies import dual_stack_h200, vpn_node

STRICT, WARN = config(cidrs=(CIDR,)), config(cidrs=(CIDR,), mode="WARN")
REPAIRED, NOTHING = config(*REPAIR, cidrs=(CIDR,)), HostRoutingConfig()
WARN_REPAIRED = config(*REPAIR, cidrs=(CIDR,), mode="WARN")
CONFLICT = "the same destination and metric"
PROBES: dict[str, object] = {"enabled": True, "interfaces": ["eth0"]}
PROBE_UNIT = "systemd-nspawn@hostrouting-probe.service"
KUBELET = "kubelet.service"
GATED = REPAIRED._replace(gate=GateConfig((KUBELET, MACHINES)))
OTHER_ROUTE = config("10.77.0.0/16")


def settings(**sections: object) -> HostRoutingConfig:
    """A configuration with these sections."""
    return HostRoutingConfig.from_mapping(sections)


def of(kernel: Callable[[], FakeKernel] = h200, **parts: Any) -> Callable[[], FakeHost]:
    """Make a host with this kernel and these parts, on which nothing is installed."""
    return lambda: FakeHost(kernel=kernel(), **deepcopy(parts))


def after(
    *changes: Callable[[FakeHost], object], by: HostRoutingConfig = REPAIRED
) -> Callable[[], FakeHost]:
    """Make a host on which the repair is installed, and on which this has happened since."""

    def make() -> FakeHost:
        host = configured(by)
        for change in changes:
            change(host)
        return host

    return make


def holding(host: FakeHost) -> FakeHost:
    """The host, where another program's route takes the place of one of ours."""
    for route in host.kernel.snapshot().routes:
        if str(route.prefix) == REPAIR[0]:
            host.kernel.ip_route("delete", route)
    host.kernel.ip_route("add", Route.to(REPAIR[0], dev="ib3", protocol=4))
    return host


def break_the_interpreter(host: FakeHost) -> None:
    """The Python of the node loses a module."""
    host.interpreter.broken = "No module named 'json'"


def open_to_others(host: FakeHost) -> None:
    """Anybody may write to config.json."""
    host.files.modes[LAYOUT.config_path] = 0o666


def read(make: Callable[[], FakeHost]) -> Callable[[], FakeHost]:
    """The host, whose systemd has read its files."""

    def made() -> FakeHost:
        host = make()
        manager_of(host).boot()
        return host

    return made


def gating(unit: str) -> HostRoutingConfig:
    """The configuration that repairs the host, and gates this unit."""
    return REPAIRED._replace(gate=GateConfig((unit,)))


def with_properties(unit: str, **properties: str) -> Callable[[], FakeHost]:
    """Make a host with this unit."""
    return of(manager=FakeManager(properties={unit: properties}))


def removal(_config: HostRoutingConfig, *, host: FakeHost) -> Remove:
    """The task that removes everything."""
    return Remove(host=host)


def lose_the_default(host: FakeHost) -> None:
    """The default route goes."""
    [default] = host.kernel.snapshot().default_routes(4)
    host.kernel.ip_route("delete", default)


def repaired_by_hand() -> FakeHost:
    """A host that the installed configuration does not repair, and typed routes do."""
    host = FakeHost(kernel=h200())
    expecting = config(cidrs=(CIDR, "10.96.0.0/12"))
    phases.run(Configure(expecting, host=host), ctx=phases.Context(clock=FakeClock()))
    type_routes(host, *REPAIR)
    return host


H200_NODE = of()


class Case(NamedTuple):
    """A run, and a part of the reason why it would fail; empty if it would not."""

    reason: str
    host: Callable[[], FakeHost]
    wanted: HostRoutingConfig
    task: Callable[..., phases.Task[Any]]


def case(
    reason: str,
    host: Callable[[], FakeHost] = H200_NODE,
    *,
    wanted: HostRoutingConfig = REPAIRED,
    task: Callable[..., phases.Task[Any]] = Configure,
) -> Case:
    """Most cases are about the configuration that repairs an H200 node."""
    return Case(reason, host, wanted, task)


INSTALLED = after()
REMOVING = partial(Configure, allow_removal=True)
LATE_REPLY = settings(probeRewrite={**PROBES, "interfaces": ["eth9"]})
CASES: dict[str, Case] = {
    "a repair": case(""),
    "nothing to do": case("", INSTALLED),
    "an overlap, STRICT": case("leaves through ib0", wanted=STRICT),
    "an overlap, WARN": case("", wanted=WARN),
    "no default route, STRICT": case("is no IPv4 default route", of(FakeKernel), wanted=STRICT),
    "undecided, STRICT": case("", of(vpn_node), wanted=STRICT),
    "a conflict, new": case(CONFLICT, lambda: holding(H200_NODE())),
    "a conflict, installed": case(CONFLICT, lambda: holding(configured(WARN))),
    "routes that wait again": case(
        "need an IPv4 default route", after(lose_routes, lose_the_default)
    ),
    "a route for replies that waits": case("", wanted=LATE_REPLY),
    "an interpreter": case(
        "it is Python 3.9", of(interpreter=FakeInterpreter(broken="it is Python 3.9"))
    ),
    "an interpreter that need not run the program now": case("", after(break_the_interpreter)),
    "an interpreter of an image": case(
        "", lambda: attrs.evolve(FakeHost.image(), interpreter=FakeInterpreter(path=""))
    ),
    "no interpreter": case(
        "/usr/bin has no Python 3.10 or newer, which hostrouting needs on a node; install Python",
        of(interpreter=FakeInterpreter(path="")),
    ),
    **{
        f"a unit that {target} waits for": case(
            f"{MACHINES} starts before {target}, which the gate waits for",
            with_properties(PROBE_UNIT, Before=f"a.service {target}"),
        )
        for target in (
            *("sysinit.target", "basic.target"),
            *("network-pre.target", "network.target", "network-online.target"),
        )
    },
    "a unit with a root of its own": case(
        f"{MACHINES} has RootDirectory=, so root would run the gate from that folder",
        with_properties(PROBE_UNIT, RootDirectory="/srv/app"),
    ),
    "another name of a unit": case(
        "k8s.service is another name of kubelet.service, and the gate needs the unit's own; name "
        "kubelet.service in gate.units",
        with_properties("k8s.service", Id="kubelet.service"),
        wanted=gating("k8s.service"),
    ),
    "another name of a template": case(
        f"k@.service is another name of {MACHINES}, ",
        with_properties("k@hostrouting-probe.service", Id=PROBE_UNIT),
        wanted=gating("k@.service"),
    ),
    "a foreign unit": case(
        "was not written by", of(files=FakeFiles({LAYOUT.unit_path(LAYOUT.check_unit): "x"}))
    ),
    "a link in the place of config.json": case(
        f"{LAYOUT.config_path} is a link",
        of(files=FakeFiles(links={LAYOUT.config_path: "/opt/gitops/file"})),
    ),
    "a directory in the place of a drop-in": case(
        f"{LAYOUT.drop_in_path(KUBELET)} is a directory",
        of(files=FakeFiles({f"{LAYOUT.drop_in_path(KUBELET)}/x": ""})),
        wanted=GATED,
    ),
    "others can change config.json": case("", after(open_to_others)),
    "a guard that is no longer wanted": case("", after(by=GUARDED), task=REMOVING),
    "a loss": case("STRICT is installed", INSTALLED, wanted=WARN_REPAIRED),
    "an allowed loss": case("", INSTALLED, wanted=WARN_REPAIRED, task=REMOVING),
    "a removal": case("", INSTALLED, wanted=NOTHING, task=removal),
    "a check alone, without the routes": case(
        "leaves through ib0", after(lose_routes), task=CheckRouteOverlap
    ),
    "routes alone, which may take needed ones away": case(
        "", repaired_by_hand, wanted=OTHER_ROUTE, task=ConfigureStaticRoutes
    ),
}


def foreseen(task: phases.Task[Any]) -> phases.Step:
    """The dry run, which agrees with the run that follows it."""
    dry = phases.plan(task)
    report = phases.run(task, ctx=phases.Context(clock=FakeClock()))
    assert dry.ok is report.ok, f"{dry}\n{report}"
    if dry.ok:
        assert done_by(report) == planned(dry.result)
    return dry


def done_by(report: phases.Step) -> tuple[set[str], set[str], set[object]]:
    """The files, the operations and the routes that a run has changed."""
    files: set[str] = set()
    operations: set[str] = set()
    keys: set[object] = set()
    for step in report.walk():
        effects = effects_of(step.result)
        files.update(effects.files)
        operations.update(map(str, effects.operations))
        keys.update(change.route.key for change in effects.changes)
    return files, operations, keys


def planned(plan: object) -> tuple[set[str], set[str], set[object]]:
    """The same of a plan."""
    assert isinstance(plan, Plan)
    files = {*plan.files.written_paths, *plan.files.removes}
    operations = set(map(str, (*plan.systemd, *plan.operations)))
    return files, operations, {change.route.key for change in plan.routes.changes}


@pytest.mark.parametrize("name", CASES)
def test_each_cause(name: str) -> None:
    """It is not ok if the run would fail; it says why, and still has the plan."""
    reason, make, wanted, kind = CASES[name]
    host = make()
    before, texts = host.kernel.snapshot(), dict(host.files.texts)

    plan = phases.plan(kind(wanted, host=host))
    assert host.kernel.snapshot() == before
    assert host.files.texts == texts

    dry = foreseen(kind(wanted, host=host))
    assert str(dry) == str(plan)
    assert isinstance(dry.result, Plan)
    if reason:
        assert reason in dry.result.would_fail
        assert not dry.ok
        assert dry.exit_code == 1
    else:
        assert dry.result.would_fail == ""
        assert dry.ok
        assert dry.exit_code == 0
    assert dry.result.to_mapping()["wouldFail"] == dry.result.would_fail
    assert ("nothing to do" in str(dry.result)) is dry.result.is_empty
    assert ("afterwards: " in str(dry.result)) is (dry.result.report is not None)
    if dry.result.routes.conflicts or dry.result.routes.waiting:
        assert dry.result.report is None
        assert not dry.result.is_empty
    actions = [finding for finding in dry.result.check_findings if finding.name == "action"]
    files = dry.result.files
    lines = [f"write {path}" for path in files.written_paths]
    lines += [f"remove {path}" for path in files.removes]
    for line in (*actions, *lines):
        assert str(line) in str(dry.result)


@pytest.mark.parametrize(
    "make",
    [
        after(lose_the_default),
        after(lambda host: type_routes(host, *REPAIR), lose_the_default, by=WARN),
    ],
    ids=["configured ones", "typed ones in WARN"],
)
def test_routes_that_go_while_one_waits(make: Callable[[], FakeHost]) -> None:
    """Only the wait is in the way."""
    dry = foreseen(ConfigureStaticRoutes(OTHER_ROUTE, host=make()))
    assert isinstance(dry.result, Plan)
    assert dry.result.would_fail.startswith("10.77.0.0/16 needs an IPv4 default route")


def test_a_part_that_is_left_out() -> None:
    """It is not in the plan either: without the check, nothing is found that escapes."""
    task = Configure(STRICT, host=FakeHost(kernel=h200()))
    assert not phases.plan(task).ok
    assert phases.plan(task, skip=[CheckRouteOverlap.name]).ok


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
    """For any two configurations, one of them installed or not, and whether routes were typed or
    not: the run of each task fails if and only if the plan says so.
    """
    host = FakeHost(kernel=kernel())
    if installed is not None:
        phases.run(Configure(installed, host=host), ctx=phases.Context(clock=FakeClock()))
    if is_typed and kernel is not FakeKernel:
        type_routes(host, *REPAIR)
    for allow_removal in (False, True):
        foreseen(kind(wanted, host=host, allow_removal=allow_removal))


def test_one_snapshot() -> None:
    """All parts of the plan, and the check of the host as it will be, see the same moment."""
    host, snapshots = FakeHost(kernel=h200()), list[int]()
    probed = REPAIRED._replace(
        probe_rewrite=ProbeRewriteConfig(enabled=True, interfaces=("eth0",), ensure_route=False)
    )
    for nth in range(1, 4):
        host.faults.meanwhile("snapshot", partial(snapshots.append, nth), nth=nth)
    plan = Configure(probed, host=host).plan()
    assert plan.report is not None
    assert plan.report.verdict == "ok"
    assert len(plan.routes.changes) == len(REPAIR)
    assert snapshots == [1]


def test_the_tasks_one_after_the_other() -> None:
    """Each judges the host as the tasks before it leave it, also in the dry run."""
    host = FakeHost(kernel=h200())
    tasks = [task(REPAIRED, host=host) for task in TASKS]
    pipeline = phases.serial(*tasks, name="routing")
    assert phases.plan(pipeline).ok
    assert not phases.plan(phases.serial(tasks[2], tasks[0])).ok, "the check comes too early"
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
