"""How a configuration comes onto a host: laws, and the rows that they lack."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from itertools import product
from typing import Any
from unittest.mock import DEFAULT, Mock, patch

import pytest
from hypothesis import example, given, settings, strategies as st

import phases
from hostrouting.boot.files import wanted_files
from hostrouting.boot.units import HEADER
from hostrouting.config import HostRoutingConfig, ProbeRewriteConfig, StaticRoutesConfig
from hostrouting.config.settings import MACHINES, GateConfig, GuardConfig, gated_units
from hostrouting.errors import ConfigError, HostRoutingError, RequirementError, RouteConflict
from hostrouting.host.effects import effects_of
from hostrouting.install.installed import read_installed
from hostrouting.probe.table import TABLE, probe_comments
from hostrouting.routes.plan import reply_routes
from hostrouting.tasks.configure import TASKS, Configure, Remove
from hostrouting.tasks.overlap_check import CheckRouteOverlap
from hostrouting.tasks.static_routes import ConfigureStaticRoutes
from hostrouting.tasks.task import InstallTask
from hostrouting.testing import FakeFiles, FakeHost, h200
from tests.support.examples import scaled
from tests.support.mishaps import Killed, Mishaps, ctrl_c, full, killed, mishap_host
from tests.support.sections import expect
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
    manager_of,
    our_destinations,
    our_routes,
    ours,
    run,
    undo,
)
from tests.support.topologies import dual_stack_h200

NOTHING = HostRoutingConfig()
ESCAPING = config(cidrs=(CIDR,))
"""In STRICT, and addresses escape."""
PROBES = ProbeRewriteConfig(enabled=True, interfaces=("eth0",), ensure_route=False)
WHOLE_RUNS = st.sampled_from([NOTHING, ESCAPING, WANTED])
KUBE1 = "systemd-nspawn@kube1.service"
FOREIGN = {
    "/etc/systemd/system/kubelet.service.d/10-site.conf": "[Service]\nExecStartPre=/bin/true\n",
    "/etc/systemd/networkd.conf.d/10-site.conf": "[Network]\n",
    "/etc/hostrouting/notes.txt": "of the site\n",
    "/etc/aks-flex-node/static-routes.sh": "#!/bin/sh\n",
}


@st.composite
def possible(draw: st.DrawFn) -> HostRoutingConfig:
    """A configuration of any shape whose routes and probe rewrite are possible on `node`."""

    def some(*texts: str, least: int = 0) -> list[str]:
        return draw(st.lists(st.sampled_from(texts), unique=True, min_size=least, max_size=3))

    sections: dict[str, Any] = {"manageForeign": draw(st.sampled_from(["leave", "keep"]))}
    destinations = some("172.16.0.0/17", "172.16.128.0/17", "10.77.0.0/16", "fd00:77::/48")
    if destinations:
        routes = [{"destination": destination} for destination in destinations]
        sections["staticRoutes"] = {"enabled": True, "routes": routes}
    cidrs = some("172.16.0.0/16", "10.9.0.0/16", "fd00:5::/48")
    if cidrs:
        mode = draw(st.sampled_from(["WARN", "STRICT"]))
        sections["routeOverlap"] = {"expectedCidrs": cidrs, "mode": mode}
    rewrites = draw(st.sampled_from(["no", "with a route", "without a route"]))
    if rewrites != "no":
        ensure_route = rewrites == "with a route"
        rewrite = {"enabled": True, "interfaces": ["eth0"], "ensureRoute": ensure_route}
        sections["probeRewrite"] = rewrite
    has_something_to_guard = destinations or cidrs or rewrites != "no"
    if has_something_to_guard:
        sections["guard"] = {"enabled": draw(st.booleans())}
    if draw(st.booleans()):
        sections["gate"] = {"units": some(MACHINES, "kubelet.service", KUBE1, least=1)}
    return HostRoutingConfig.from_mapping(sections)


def node() -> tuple[FakeHost, Mishaps]:
    """An H200 node with both families, a running machine, and files of others."""
    host, mishaps = mishap_host(dual_stack_h200())
    host.files.texts |= FOREIGN
    host.files.modes |= dict.fromkeys(FOREIGN, 0o644)
    manager_of(host).properties[KUBE1] = {}
    manager_of(host).boot()
    return host, mishaps


def whole_task(host: FakeHost, config: HostRoutingConfig) -> phases.Task[object]:
    """The task that installs the configuration, or removes everything."""
    if config == NOTHING:
        return Remove(host=host)
    return Configure(config, host=host, allow_removal=True)


def apply(host: FakeHost, config: HostRoutingConfig) -> None:
    """Apply it, or remove everything; whether the check then finds an overlap does not matter."""
    apply_task(whole_task(host, config))


def apply_task(task: phases.Task[object]) -> None:
    """Run the task, and let it fail."""
    with suppress(phases.TaskFailed):
        run(task)


def disk(host: FakeHost) -> dict[str, tuple[object, int]]:
    """Every file and link, without the check's markers."""
    disk: dict[str, tuple[object, int]] = {}
    for path, content in {**host.files.texts, **host.files.programs}.items():
        if path not in LAYOUT.markers:
            disk[path] = (content, host.files.modes[path])
    for path, target in host.files.links.items():
        disk[path] = (target, 0)
    return disk


@cache
def files_by_path(config: HostRoutingConfig) -> dict[str, tuple[object, int]]:
    """The files of a configuration, as `disk` has them."""
    host = FakeHost()
    for file in wanted_files(host, config):
        file.write(host.files)
    return disk(host)


def wanted_disk(config: HostRoutingConfig) -> dict[str, tuple[object, int]]:
    """The files of others, and those of the configuration."""
    return {path: (text, 0o644) for path, text in FOREIGN.items()} | files_by_path(config)


def differing(
    there: Mapping[str, tuple[object, int]], wanted: Mapping[str, tuple[object, int]]
) -> list[str]:
    """The files that are not as wanted, and how: their texts would fill pages."""
    differences = [f"{path} is left" for path in there if path not in wanted]
    differences += [f"{path} is missing" for path in wanted if path not in there]
    for path in there:
        if path in wanted and there[path] != wanted[path]:
            differences.append(f"{path} has another text, target or mode")
    return differences


def assert_installed(host: FakeHost, config: HostRoutingConfig, *others: HostRoutingConfig) -> None:
    """Files, routes, table and units are those of the configuration, and nothing else changed."""
    assert differing(disk(host), wanted_disk(config)) == []
    wanted = (*config.static_routes.routes, *reply_routes(config))
    assert {route.key for route in our_routes(host)} == {route.key for route in wanted}
    listing = host.nftables.tables.get(TABLE, "")
    assert (probe_comments(config.probe_rewrite)[0] in listing) is config.probe_rewrite.enabled
    assert left_to_do(Configure(config, host=host)) == ""
    manager = manager_of(host)
    units = {LAYOUT.guard_unit, LAYOUT.routes_unit, LAYOUT.check_unit, LAYOUT.probe_unit}
    for each in (config, *others):
        units |= {unit.replace("@.", "@kube1.") for unit in gated_units(each)}
    for shown in manager.show(("NeedDaemonReload",), *units):
        assert shown["NeedDaemonReload"] == "no"
    assert (manager.states.get(LAYOUT.guard_unit) == "active") is config.guard.enabled
    assert host.files.locked == set()


def before_lock(mishaps: Mishaps, nth: int, happens: Callable[[], object]) -> None:
    """Let this happen when a run begins to wait for the lock for the nth time."""
    lock = f"lock {LAYOUT.lock_path}"
    mishaps.meanwhile(lock, happens, when=lambda: mishaps.events.count(lock) + 1 == nth)


class TestLaws:
    """For any two configurations, whatever happens between."""

    @given(
        possible(),
        possible() | st.just(NOTHING),
        st.integers(1, 40),
        st.sampled_from([killed, full]),
    )
    def test_any_mishap(
        self,
        old: HostRoutingConfig,
        new: HostRoutingConfig,
        nth: int,
        error: Callable[[str], BaseException],
    ) -> None:
        """The next run leaves exactly what is wanted, whatever ended the one before."""
        host, mishaps = node()
        before = host.kernel.snapshot()
        apply(host, old)
        mishaps.arm(nth, error)
        with suppress(Killed):
            apply(host, new)
        host.files.locked.clear()  # the kernel releases the locks of a process that ends
        failed = mishaps.events[nth - 1 : nth]
        mishaps.disarm()
        apply(host, new)
        assert_installed(host, new, old)
        if new == NOTHING:
            # A marker that cannot be removed stops nothing, and stays until the next boot.
            left = [path for path in LAYOUT.markers if path in host.files.texts]
            assert {f"remove {path}" for path in left} <= set(failed)
            assert host.kernel.snapshot() == before

    @settings(max_examples=scaled(50))
    @example(
        config(*REPAIR)._replace(guard=GuardConfig(enabled=True)), NOTHING, ConfigureStaticRoutes
    )
    @given(possible(), possible(), st.sampled_from(TASKS))
    def test_a_task_alone(
        self, old: HostRoutingConfig, new: HostRoutingConfig, kind: type[InstallTask]
    ) -> None:
        """It is Configure of what is installed with its own section; its undo takes that back."""
        host, _ = node()
        apply(host, old)
        former = read_installed(host)
        task = kind(new, host=host, allow_removal=True)
        undo = phases.task("undo")(task.undo)
        done = former.replaced(task.request.names, new)
        for whole, step in ((done, task), (former, undo), (former, undo)):
            apply_task(step)
            assert differing(disk(host), wanted_disk(whole)) == []
            apply(host, whole)
            assert_installed(host, whole, old)

    @example(ESCAPING._replace(guard=GuardConfig(enabled=True)), ESCAPING, 1)
    @given(possible(), possible(), st.integers(1, 2))
    def test_another_run_meanwhile(
        self, one: HostRoutingConfig, other: HostRoutingConfig, nth: int
    ) -> None:
        """Of two tasks that run at once, each keeps what the other has installed."""
        host, mishaps = node()
        tasks = [
            ConfigureStaticRoutes(one, host=host, allow_removal=True),
            CheckRouteOverlap(other, host=host, allow_removal=True),
        ]
        in_order = tasks[:]
        before_lock(mishaps, nth, lambda: apply_task(tasks.pop()))
        apply_task(tasks[0])
        if nth == 1 and len(tasks) == 1:  # without anything to do, the first one takes no lock
            in_order.reverse()
        mishaps.watch = lambda _event: None
        for task in tasks[1:]:  # its moment has not come
            apply_task(task)
        whole = NOTHING
        for task in in_order:
            whole = whole.replaced(task.request.names, task.config)
        assert differing(disk(host), wanted_disk(whole)) == []

    @example(NOTHING, ESCAPING, ESCAPING, 1)
    @given(WHOLE_RUNS, WHOLE_RUNS, WHOLE_RUNS, st.integers(1, 3))
    def test_two_whole_runs(
        self,
        before: HostRoutingConfig,
        first: HostRoutingConfig,
        second: HostRoutingConfig,
        nth: int,
    ) -> None:
        """Whenever the second one comes, neither ends without its check; the host is whole."""
        host, mishaps = mishap_host()
        reports: list[phases.Step] = []

        def run_whole(wanted: HostRoutingConfig) -> None:
            reports.append(phases.run(whole_task(host, wanted), ctx=context()))

        apply(host, before)
        mishaps.disarm()
        before_lock(mishaps, nth, lambda: run_whole(second))
        run_whole(first)
        mishaps.watch = lambda _event: None
        runs = [second, first][-len(reports) :]
        for wanted, report in zip(runs, reports, strict=True):
            if wanted == ESCAPING and WANTED not in runs:
                assert not report.ok, str(report)
        installed = read_installed(host)
        assert installed in runs
        assert left_to_do(Configure(installed, host=host)) == ""


class TestOrder:
    """In which order files and units change, and what systemd is told."""

    @pytest.mark.parametrize("change", ["the configuration", "the program", "a unit"])
    def test_a_guard_that_runs(self, change: str) -> None:
        """It starts again only if its program or its unit is new, and systemd reloads only once."""
        host, mishaps = mishap_host()
        run(Configure(GUARDED, host=host))
        assert mishaps.events.count("reload") == 1
        wanted = GUARDED
        if change == "the program":
            host.files.programs[LAYOUT.program_path] = b"of an older release"
        elif change == "a unit":
            host.files.texts[LAYOUT.unit_path(LAYOUT.guard_unit)] = HEADER
            manager_of(host).boot()
        else:
            wanted = GUARDED._replace(route_overlap=expect(CIDR, "10.9.0.0/16"))
        mishaps.disarm()
        run(Configure(wanted, host=host, allow_removal=True))
        events = [event for event in mishaps.events if event.endswith(f" {LAYOUT.guard_unit}")]
        restart = [f"stop {LAYOUT.guard_unit}", f"start {LAYOUT.guard_unit}"]
        assert events == ([] if change == "the configuration" else restart)
        assert ("reload" in mishaps.events) is (change == "a unit")

    @pytest.mark.parametrize("path", [LAYOUT.opening_path, LAYOUT.fight_path])
    def test_a_file_of_this_boot(self, path: str) -> None:
        """What opens the gate, or a guard that was killed has noted, goes with the rest only."""
        host = configured(WANTED)
        host.files.texts[path] = "reason\n"
        run(Configure(GUARDED, host=host))
        assert path in host.files.texts
        run(Remove(host=host))
        assert host.files.texts == {}


@settings(max_examples=scaled(100))
@given(
    old=possible() | st.just(NOTHING),
    new=possible() | st.just(NOTHING),
    nth=st.integers(1, 45),
    error=st.sampled_from([full, ctrl_c, None]),
    runs_again=st.booleans(),
)
def test_undo(
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


class TestUndo:
    """An undo brings back what was installed, and what another run has installed since stays."""

    def test_while_undo_waits_for_the_lock(self) -> None:
        """It stays with its routes."""
        host, mishaps = mishap_host()
        task = Configure(WANTED, host=host)
        run(task)
        other = Configure(config("10.7.0.0/16"), host=host, allow_removal=True)
        mishaps.meanwhile(f"lock {LAYOUT.lock_path}", lambda: run(other))
        failure_of(undo, task, of=HostRoutingError, match="another run")
        assert read_installed(host) == other.config
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
        host = configured(config(cidrs=("10.9.0.0/16",))._replace(guard=GuardConfig(enabled=True)))
        task = ConfigureStaticRoutes(config("10.8.0.0/16"), host=host)
        run(task)
        run(Remove(host=host))
        undo(task)
        assert read_installed(host) == NOTHING

    def test_a_conflict(self) -> None:
        """The configuration that units have waited for comes back."""
        host, conflicting = FakeHost(kernel=h200()), config("172.16.0.0/16")
        failure_of(run, Configure(conflicting, host=host), of=RouteConflict)
        task = Configure(WANTED, host=host)
        run(task)
        added = ours(host)
        error = failure_of(undo, task, of=RouteConflict)
        assert read_installed(host) == conflicting
        assert our_destinations(host) == [], "the routes of the undone run are gone"
        changes = [(change.verb, str(change.route)) for change in effects_of(error).changes]
        assert changes == [("delete", route) for route in added]

    def test_what_cannot_be_read(self) -> None:
        """It is replaced by what was installed before the run."""
        host = configured(WANTED)
        task = Configure(GUARDED, host=host)
        run(task)
        host.files.texts[LAYOUT.config_path] = "{"
        undo(task)
        assert read_installed(host) == WANTED


ORIGINAL_SCRIPT = "/etc/aks-flex-node/static-routes.sh"
ORIGINAL = {
    LAYOUT.unit_path(LAYOUT.routes_unit): f"[Service]\nExecStart={ORIGINAL_SCRIPT}\n",
    LAYOUT.unit_path(LAYOUT.check_unit): "[Unit]\nBefore=systemd-nspawn@.service\n",
    ORIGINAL_SCRIPT: "#!/bin/sh\n",
    LAYOUT.ok_path: "ok\n",
}

ORIGINAL_LINKS = [
    f"/{folder}/systemd/system/{unit}.{how}/{ours}"
    for folder, unit, how, ours in product(
        ("etc", "run"),
        ("systemd-nspawn@.service", "multi-user.target"),
        ("requires", "wants"),
        (LAYOUT.routes_unit, LAYOUT.check_unit),
    )
    if (unit, how) != ("multi-user.target", "wants")
]
"""By these, a running machine needs its units, or the boot does."""


class TestOriginal:
    """A host on which the Go original was installed."""

    @pytest.fixture
    def host(self) -> FakeHost:
        """Its units, script, marker, and the links that tie running machines to its units."""
        files = FakeFiles(dict(ORIGINAL), dict.fromkeys(ORIGINAL, 0o644))
        for link in (*ORIGINAL_LINKS, LAYOUT.enabled_path(LAYOUT.routes_unit)):
            _, _, unit = link.rpartition("/")
            files.links[link] = f"/etc/systemd/system/{unit}"
        host = FakeHost(kernel=h200(), files=files)
        manager_of(host).boot()
        return host

    def test_replaced(self, host: FakeHost) -> None:
        """Its links go before its files, its units become ours, and its script stays."""
        done = effects_of(run(Configure(WANTED, host=host)))
        assert done.log_fields() == {"verdict": "ok", "findings": 0, "routes": 2, "files": 18}
        writes = host.files.writes
        before = writes[: writes.index(LAYOUT.program_path)]
        assert set(ORIGINAL_LINKS) <= set(before)
        assert not set(ORIGINAL_LINKS) & host.files.links.keys()
        script = {ORIGINAL_SCRIPT: ("#!/bin/sh\n", 0o644)}
        assert differing(disk(host), script | files_by_path(WANTED)) == []

        run(Remove(host=host))
        assert differing(disk(host), script) == []

    @pytest.mark.parametrize("make", [Remove, partial(ConfigureStaticRoutes, NOTHING)])
    def test_not_ours(self, host: FakeHost, make: Callable[..., phases.Task[object]]) -> None:
        """There is nothing to remove then, and no configuration is missing."""
        assert isinstance(run(make(host=host)), phases.Skip)
        assert host.files.writes == []


class TestRequirements:
    """What must fail fails before the first write; test_dry_run has each cause."""

    def test_all_at_once(self) -> None:
        """The error has all that the host lacks. Nothing was written, nor locked."""
        host = FakeHost(kernel=h200())
        host.interpreter.broken = "it is Python 3.9"
        host.files.texts[LAYOUT.unit_path(LAYOUT.check_unit)] = "of another program"
        task = Configure(WANTED, host=host)
        error = failure_of(run, task, of=RequirementError)
        assert error.findings == task.plan().errors
        unit, python = map(str, error.findings)
        assert "was not written by hostrouting" in unit
        assert "it is Python 3.9" in python
        assert host.files.writes == []

    def test_a_file_that_comes_before_the_lock(self) -> None:
        """It is another program's, which an earlier look could not see, and stays."""
        host, mishaps = mishap_host()
        theirs = {LAYOUT.unit_path(LAYOUT.check_unit): "of another program"}
        mishaps.meanwhile(f"lock {LAYOUT.lock_path}", lambda: host.files.texts.update(theirs))
        failure_of(run, Configure(WANTED, host=host), of=RequirementError)
        assert host.files.texts == theirs

    def test_what_an_image_lacks(self, caplog: pytest.LogCaptureFixture) -> None:
        """It is a warning: it may be installed later, so the program is written all the same."""
        host = FakeHost.image()
        host.interpreter.path = ""
        wanted = WANTED._replace(probe_rewrite=PROBES)
        plan = Configure(wanted, host=host).plan()
        result = run(Configure(wanted, host=host))
        assert "/usr/bin has no Python 3.10 or newer" in caplog.text
        assert {finding.severity for finding in plan.findings} == {"warning"}
        assert effects_of(result).warnings == plan.findings
        assert effects_of(run(Configure(wanted, host=host))).warnings != (), "again"
        assert LAYOUT.program_path in host.files.programs
        assert host.files.links[LAYOUT.python_path] == "/usr/bin/python3"

    def test_a_host_without_systemd(self) -> None:
        """Nothing holds units back there, and the result says so. An image has no systemd yet."""
        host = FakeHost(kernel=h200())
        manager_of(host).running = False
        task = Configure(config(*REPAIR), host=host)
        [warning] = effects_of(run(task)).warnings
        assert effects_of(run(task)).warnings == (warning,), "again, with nothing to do"
        assert "systemd does not run here: nothing holds systemd-nspawn@.service" in str(warning)
        with pytest.raises(phases.TaskFailed) as failed:
            run(Configure(ESCAPING, host=host, allow_removal=True))
        assert warning in effects_of(failed.value).warnings
        ungated = HostRoutingConfig(manage_foreign="keep")
        assert Configure(ungated, host=host, allow_removal=True).plan().findings == ()
        assert Configure(WANTED, host=FakeHost.image()).plan().findings == ()


@pytest.mark.parametrize(
    "path", [LAYOUT.program_path, LAYOUT.config_path, LAYOUT.drop_in_path(MACHINES)]
)
@pytest.mark.parametrize(("mode", "owner"), [(0o777, 0), (0o755, 1), (0o644, 1)])
def test_what_others_may_have_written(path: str, mode: int, owner: int) -> None:
    """It is written anew, whatever is in it."""
    host = configured(WANTED)
    right = host.files.look(path)
    host.files.modes[path], host.files.owners[path] = mode, owner
    assert Configure(WANTED, host=host).plan().files.written_paths == (path,)
    run(Configure(WANTED, host=host))
    assert host.files.look(path) == right


def test_a_run_that_installs_while_another_one_reads() -> None:
    """config.json was missing a moment ago, and now the other files are there: it is read again."""
    host = configured(WANTED)
    read = Mock(wraps=host.files.read, side_effect=[None, *[DEFAULT] * 9])
    with patch.object(FakeFiles, "read", read):
        assert read_installed(host) == WANTED


@pytest.mark.parametrize("wanted", [WANTED, NOTHING])
@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (None, "json is missing, although .*conf is still there"),
        ("{", "json is not JSON: .*line 1 column 2"),
        ('{"hostRouting": {"later": 1}}', "json: hostRouting.later: unknown key"),
        ("{}", "json configures nothing, although .*conf is still there"),
    ],
)
def test_an_unusable_config_json(text: str | None, rule: str, wanted: HostRoutingConfig) -> None:
    """Only what may take something away replaces it: nobody knows what is installed."""
    host = configured(WANTED)
    del host.files.texts[LAYOUT.config_path]
    host.files.links[LAYOUT.config_path] = "/nowhere"  # as good as missing
    if text is not None:
        del host.files.links[LAYOUT.config_path]
        host.files.texts[LAYOUT.config_path] = text
    before = disk(host)
    correct = "correct the file; then: hostrouting status; if a newer .*; " if text else ""
    words = f"{rule}.*; {correct}with a b.*to remove hostrouting .*, as root: hostrouting remove"
    for task in (ConfigureStaticRoutes, Configure):
        failure_of(run, task(WANTED, host=host), of=ConfigError, match=words)
    assert disk(host) == before

    host.files.links.pop(LAYOUT.config_path, None)
    run(Configure(wanted, host=host, allow_removal=True))
    assert differing(disk(host), files_by_path(wanted)) == []
