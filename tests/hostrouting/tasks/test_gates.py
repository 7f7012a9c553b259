"""The tasks behind their gate: shut before anything can fail, and known to systemd, whatever interrupts the tasks."""

from collections.abc import Callable, Iterator
from itertools import count, pairwise, permutations, product

import attrs
import pytest

import phases
from hostrouting.boot.gate import Gate
from hostrouting.boot.gate_files import (
    GateStep,
    digest_of,
    gate_digests,
    parse_gate_steps,
    render_gate_drop_in,
    render_gate_steps,
)
from hostrouting.boot.gate_state import find_gate_state
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import HostRoutingError, ManagerError
from hostrouting.host.effects import effects_of
from hostrouting.host.systemd import UnitState
from hostrouting.model.route import OURS
from hostrouting.tasks.configure import Configure, Remove
from hostrouting.tasks.overlap_check import CheckRouteOverlap
from hostrouting.tasks.static_routes import ConfigureStaticRoutes
from hostrouting.testing import FakeHost, FakeManager, MemoryBackend, h200
from tests.support.mishaps import Killed, Mishaps, busy, killed, mishap_host
from tests.support.tasks import CIDR, LAYOUT, REPAIR, config, configured, failure_of, manager_of, ours, run

GATE = {LAYOUT.gate_drop_in(), LAYOUT.gate_unit_path, LAYOUT.gate_script_path, LAYOUT.gate_steps_path}
ROUTES = {LAYOUT.routes_unit_path, LAYOUT.routes_script_path, LAYOUT.routes_preset_path}
CHECK = {LAYOUT.check_unit_path, LAYOUT.check_script_path}
UNITS = {LAYOUT.routes_unit_path, LAYOUT.check_unit_path, LAYOUT.gate_unit_path}
MARKED = sorted({*UNITS, LAYOUT.gate_drop_in()})
STOP = f"stop {LAYOUT.gate_unit}"
START = f"start {LAYOUT.routes_unit}"
WANTED = config(*REPAIR, cidrs=(CIDR,))
ERRORS = {"killed": killed, "refused": busy}
with_errors = pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)


def steps(host: FakeHost) -> dict[str, str]:
    """The kinds of the steps in the list, which is whole."""
    return {step.name: step.kind for step in parse_gate_steps(host.files.texts[LAYOUT.gate_steps_path])}


def is_read(host: FakeHost) -> bool:
    """Whether systemd has read all units and drop-ins as they are now."""
    return manager_of(host).has_read_all


class TestShut:
    """A bootstrap that fails leaves the gate with what is configured."""

    @pytest.mark.parametrize("routes", [(CIDR,), REPAIR])
    def test_routes_that_cannot_be_had(self, routes: tuple[str, ...]) -> None:
        """Routes that are refused, or never ready: the gate requires both scripts, systemd knows it, no route is ours."""
        host = FakeHost(kernel=h200() if routes == (CIDR,) else MemoryBackend())
        failure_of(run, Configure(config(*routes, cidrs=(CIDR,)), host=host))
        assert ours(host) == []
        assert set(host.files.texts) == {*GATE, *ROUTES, *CHECK}
        assert steps(host) == {"static-routes": "requires", "check-route-overlap": "requires"}
        assert is_read(host)
        assert not any(call.startswith("start") for call in manager_of(host).calls)

    @pytest.mark.parametrize(("mode", "kind"), [("WARN", "wants"), ("STRICT", "requires")])
    def test_what_a_mode_makes_of_the_check(self, mode: str, kind: str) -> None:
        """The machine requires the routes in every mode, and the check only in STRICT."""
        host = configured(config(*REPAIR, cidrs=(CIDR,), mode=mode))
        assert steps(host) == {"static-routes": "requires", "check-route-overlap": kind}

    def test_the_routes_alone(self) -> None:
        """Of a run of one task the gate has the step of that task; what else is configured is left to the other."""
        host = FakeHost(kernel=MemoryBackend())
        report = phases.run(Configure(WANTED, host=host, wait=0), only=["configure-static-routes"], observers=[])
        assert "an IPv4 default route" in str(report)
        assert steps(host) == {"static-routes": "requires"}
        assert not CHECK & set(host.files.texts)

    @pytest.mark.parametrize("kind", ["requires", "wants", "changing"])
    def test_steps_of_others(self, kind: str) -> None:
        """A task that runs alone keeps the steps of other tasks as they are, also of those that we do not know."""
        host = FakeHost(kernel=h200())
        theirs = GateStep.parse(f"55 {kind} something-else")
        host.files.write(LAYOUT.gate_steps_path, render_gate_steps([theirs]))
        run(ConfigureStaticRoutes(config(*REPAIR), host=host))
        run(CheckRouteOverlap(config(cidrs=(CIDR,)), host=host))
        assert steps(host) == {"static-routes": "requires", "something-else": kind, "check-route-overlap": "requires"}
        run(ConfigureStaticRoutes(config(), host=host))
        assert steps(host) == {"something-else": kind, "check-route-overlap": "requires"}

    @pytest.mark.parametrize("path", sorted({*GATE, *ROUTES, *CHECK, LAYOUT.routes_enabled_path}))
    def test_what_cannot_be_written(self, path: str) -> None:
        """If any file of the gate cannot be written, its drop-in is in place and loaded, and no step is open."""
        host = FakeHost(kernel=h200())
        host.files.broken[path] = "No space left on device"
        failure_of(run, Configure(WANTED, host=host), match="No space left")
        assert (LAYOUT.gate_drop_in() in host.files.texts) == (path != LAYOUT.gate_drop_in())
        assert is_read(host)
        assert ours(host) == []
        if path != LAYOUT.gate_steps_path:
            assert set(steps(host).values()) == {"changing"}

    @pytest.mark.parametrize("path", MARKED)
    def test_what_is_masked(self, path: str) -> None:
        """If a unit of ours is masked, machines that require it do not start: the configuration cannot be carried out."""
        host = FakeHost(kernel=h200())
        host.files.texts[path], host.files.links[path] = "", "/dev/null"
        failure_of(run, Configure(WANTED, host=host), match="is masked")
        assert LAYOUT.gate_drop_in() in host.files.texts
        assert set(steps(host).values()) == {"changing"}
        assert is_read(host)

    def test_order(self) -> None:
        """Up: the gate before the routes. Down: the drop-in, the steps' files, then the routes."""
        host, mishaps = mishap_host()
        seen: list[int] = []
        mishaps.watch = lambda _event: seen.append(len(ours(host)))
        run(Configure(WANTED, host=host))
        routed = dict(zip(mishaps.events, seen, strict=True))
        assert {event for event, routes in routed.items() if not routes} >= {f"write {path}" for path in GATE - CHECK}
        assert next(event for event, routes in routed.items() if routes) == START
        mishaps.disarm()
        seen.clear()
        run(Remove(WANTED, host=host))
        removed = [event.partition(" ")[2] for event in mishaps.events if event.startswith("remove")]
        assert removed[0] == LAYOUT.gate_drop_in()
        assert removed[-1] == LAYOUT.routes_script_path
        assert {event for event, routes in zip(mishaps.events, seen, strict=True) if not routes} == {
            f"remove {LAYOUT.routes_script_path}"
        }


def good() -> FakeHost:
    """A host on which routes and a check in WARN are installed."""
    return configured(config(*REPAIR, cidrs=(CIDR,), mode="WARN"))


class TestLastGood:
    """A run that fails before it has changed a route keeps the installed script of the routes, and its unit."""

    @pytest.mark.parametrize("alone", [False, True])
    @pytest.mark.parametrize("failure", ["conflict", "no default route", "refused"])
    def test_it_stays(self, failure: str, caplog: pytest.LogCaptureFixture, *, alone: bool) -> None:
        """After a failure in the plan or in the kernel, script, unit, routes and step are as before.

        The log does not have routes as gone that stay.
        """
        host = good()
        before, routes = dict(host.files.texts), ours(host)
        wanted = (CIDR,) if failure == "conflict" else (*REPAIR, "172.20.0.0/16")
        if failure == "no default route":
            [default] = [route for route in host.kernel.snapshot().routes if route.prefix.length == 0]
            host.kernel.ip_route("delete", default)
        if failure == "refused":
            host.kernel.faults.fail("change", 105)
        settings = config(*wanted, cidrs=(CIDR,), mode="WARN")
        task = ConfigureStaticRoutes(settings, host=host) if alone else Configure(settings, host=host)
        with pytest.raises((phases.TaskFailed, HostRoutingError)) as failed:
            run(task)
        assert not {path for path in effects_of(failed.value).files if "/run/" not in path}
        assert ours(host) == routes
        assert {path: text for path, text in host.files.texts.items() if "/run/" not in path} == {
            path: text for path, text in before.items() if "/run/" not in path
        }
        assert is_read(host)
        assert Gate(host).edited == ()
        assert "not in this configuration" not in caplog.text

    def test_an_edited_script_is_not_the_last_good(self) -> None:
        """A failure does not make an edit the rendered text: the script is written again, and the edit is gone."""
        host = good()
        host.files.texts[LAYOUT.routes_script_path] += "# edited\n"
        assert Gate(host).edited == (LAYOUT.routes_script_path,)
        failure_of(run, Configure(config(CIDR, cidrs=(CIDR,), mode="WARN"), host=host))
        assert "# edited" not in host.files.texts[LAYOUT.routes_script_path]
        assert Gate(host).edited == ()

    @pytest.mark.parametrize("failure", ["conflict", "refused"])
    @pytest.mark.parametrize("mode", ["WARN", None])
    def test_protection_goes_only_after_success(self, mode: str | None, failure: str) -> None:
        """STRICT stays when the run fails, although the new configuration has WARN or no check.

        The mutant that it kills changes every part of the gate before the first task.
        """
        host = configured(config(*REPAIR, cidrs=(CIDR,), mode="STRICT"))
        script, steps = host.files.texts[LAYOUT.check_script_path], Gate(host).steps
        if failure == "refused":
            host.kernel.faults.fail("change", 105)
        routes = (CIDR,) if failure == "conflict" else (*REPAIR, "172.20.0.0/16")
        failure_of(run, Configure(config(*routes, cidrs=(CIDR,) if mode else (), mode=mode or "WARN"), host=host))
        assert (host.files.texts.get(LAYOUT.check_script_path), Gate(host).steps) == (script, steps)

    def test_a_stricter_check_is_installed_all_the_same(self) -> None:
        """The check of the new configuration is required; the routes' script is the installed one."""
        host = good()
        script = host.files.texts[LAYOUT.routes_script_path]
        failure_of(
            run,
            Configure(config(CIDR, cidrs=(CIDR, "10.9.0.0/16")), host=host),
            match="another route has the same destination",
        )
        assert steps(host) == {"static-routes": "requires", "check-route-overlap": "requires"}
        assert host.files.texts[LAYOUT.routes_script_path] == script
        assert "cidr 10.9.0.0/16" in host.files.texts[LAYOUT.check_script_path]

    @pytest.mark.parametrize("former", [None, "/etc/systemd/system-preset/50-hostrouting.preset"])
    @pytest.mark.parametrize("routes", [REPAIR, ()])
    def test_it_stays_after_an_upgrade(self, former: str | None, routes: tuple[str, ...]) -> None:
        """Another version wrote the gate's files and the script: what counts is that they are as they were written.

        It may have given a file another name. Kills: what it did not write is missed, and what is obsolete stays listed.
        """
        host = good()
        if former is not None:
            host.files.texts[former] = host.files.texts.pop(LAYOUT.routes_preset_path)
            host.files.texts[LAYOUT.gate_steps_path] = host.files.texts[LAYOUT.gate_steps_path].replace(
                LAYOUT.routes_preset_path, former
            )
        for path in (LAYOUT.gate_script_path, LAYOUT.gate_unit_path, LAYOUT.gate_drop_in()):
            host.files.texts[path] += "# of another version\n"
        listed = host.files.texts[LAYOUT.gate_steps_path]
        digests = {path: digest_of(host.files.texts[path]) for path in gate_digests(listed)}
        host.files.texts[LAYOUT.gate_steps_path] = render_gate_steps(parse_gate_steps(listed), digests)
        assert Gate(host).edited == ()
        script = host.files.texts[LAYOUT.routes_script_path]
        failure_of(
            run,
            Configure(config(CIDR, cidrs=(CIDR,), mode="WARN"), host=host),
            match="another route has the same destination",
        )
        assert host.files.texts[LAYOUT.routes_script_path] == script
        run(Configure(config(*routes, cidrs=(CIDR,), mode="WARN"), host=host))
        assert Gate(host).lost == ()

    def test_a_lost_file_is_not_the_last_good(self) -> None:
        """What was written with the script and is gone is written again with the new one. Kills: it is not missed."""
        host = good()
        host.files.remove(LAYOUT.routes_unit_path)
        failure_of(run, Configure(config(CIDR, cidrs=(CIDR,), mode="WARN"), host=host))
        assert LAYOUT.routes_unit_path in host.files.texts

    def test_what_changed_a_route_is_not_taken_back(self) -> None:
        """If the boot script fails after the routes were changed, the new script stays: the old one has other routes."""
        host = good()
        manager_of(host).failing[LAYOUT.routes_unit] = ()
        failure_of(run, Configure(config(*REPAIR, "172.20.0.0/16", cidrs=(CIDR,), mode="WARN"), host=host))
        assert "route 172.20.0.0/16" in host.files.texts[LAYOUT.routes_script_path]

    @with_errors
    def test_ended_anywhere(self, error: Callable[[str], BaseException]) -> None:
        """A run can end at any point: its steps are whole or `changing`, and the next run completes them."""
        good_one, better = config(*REPAIR, cidrs=(CIDR,)), config(REPAIR[0], cidrs=(REPAIR[0],))
        for nth in count(1):
            host, mishaps = mishap_host()
            run(Configure(good_one, host=host))
            script = host.files.texts[LAYOUT.routes_script_path]
            host.kernel.faults.fail("change", 105)
            mishaps.arm(nth, error)
            with pytest.raises((Killed, phases.TaskFailed)):
                run(Configure(better, host=host))
            is_whole = steps(host)["static-routes"] == "requires"
            has_ended = len(mishaps.events) < nth
            if is_whole and has_ended:
                assert host.files.texts[LAYOUT.routes_script_path] == script
            mishaps.disarm()
            if host.kernel.faults.waiting:
                failure_of(run, Configure(better, host=host))
            run(Configure(better, host=host))
            assert is_done(host, better), nth
            if has_ended:
                return


CONFIGS = {
    "nothing": config(),
    "routes": config(*REPAIR),
    "warn": config(cidrs=(CIDR,), mode="WARN"),
    "a route, strict": config(REPAIR[0], cidrs=(REPAIR[0],)),
    "all": config(*REPAIR, cidrs=(CIDR,), mode="WARN"),
}
RING = [*pairwise([*CONFIGS, "nothing"])]
PAIRS = [
    pytest.param(one, other, ERRORS[error], id=f"{one} to {other}-{error}")
    for place, error in enumerate(ERRORS)
    for one, other in RING[place::2]
]


def is_done(host: FakeHost, wanted: HostRoutingConfig) -> bool:
    """Whether nothing is left to do for this configuration, and systemd has read it."""
    task = Configure(wanted, host=host)
    return (
        is_read(host)
        and task.preview().is_empty
        and not any(step.kind == "changing" for step in Gate(host).steps)
        and len(ours(host)) == len(wanted.static_routes.routes)
    )


def ended(
    before: HostRoutingConfig, make: Callable[[FakeHost], phases.Task[object]], error: Callable[[str], BaseException]
) -> Iterator[tuple[FakeHost, Mishaps]]:
    """The host, with what happens on it, after each change at which a run of this task can end; then nothing fails."""
    for nth in count(1):
        host, mishaps = mishap_host()
        run(Configure(before, host=host))
        mishaps.arm(nth, error)
        try:
            run(make(host))
        except (Killed, phases.TaskFailed):
            mishaps.disarm()
            yield host, mishaps
        else:
            assert len(mishaps.events) < nth
            return


class TestEndedAnywhere:
    """The next run does what an interrupted one left undone."""

    @pytest.mark.parametrize(("one", "other", "error"), PAIRS)
    def test_configure(self, one: str, other: str, error: Callable[[str], BaseException]) -> None:
        """The next run ends with all of it; of nothing that is configured, nothing is left."""
        for host, _ in ended(CONFIGS[one], lambda host: Configure(CONFIGS[other], host=host), error):
            run(Configure(CONFIGS[other], host=host))
            assert is_done(host, CONFIGS[other])
            if other == "nothing":
                assert host.files.texts == host.files.links == {}

    @with_errors
    @pytest.mark.parametrize("again", [Remove, Configure])
    def test_remove(self, again: type[Remove | Configure], error: Callable[[str], BaseException]) -> None:
        """The next Remove leaves nothing, and neither does an empty configuration.

        Kills: nothing on the host that says that systemd has not read the removal.
        """
        # With a check, its markers would say so as well.
        for wanted in (WANTED,) if again is Remove else (config(*REPAIR),):
            for host, _ in ended(wanted, lambda host: Remove(config(), host=host), error):
                run(again(config(), host=host))
                assert host.files.texts == host.files.links == {}
                assert ours(host) == []
                assert is_read(host)


class TestMadeUpFor:
    """What a run left undone, the next one does."""

    @pytest.mark.parametrize("again", [Remove, Configure])
    def test_a_drop_in_that_was_alone(self, again: type[Remove | Configure]) -> None:
        """A disk was full after the drop-in of a unit; its removal, which systemd has not read, is read by the next one.

        Else the unit would not start: systemd keeps the command of the gate, whose script is gone.
        Kills: only the units of the configuration are asked whether systemd has to read them.
        """
        host, mishaps = mishap_host()
        host.files.write(LAYOUT.gate_drop_in("kubelet.service"), render_gate_drop_in(LAYOUT))
        manager_of(host).boot()
        mishaps.watch = lambda event: mishaps.arm(1, busy) if event == "reload" else None
        with pytest.raises(phases.TaskFailed, match="did not answer"):
            run(again(config(), host=host))
        mishaps.watch = lambda _: None
        run(again(config(), host=host))
        assert host.files.texts == {}
        assert is_read(host)

    def test_a_list_alone(self) -> None:
        """A list without units is removed although systemd has no room: there is nothing that it would have to read.

        Kills: the list that this run has emptied counts as that of a removal that has not ended.
        """
        host = FakeHost(kernel=h200())
        host.files.write(LAYOUT.gate_steps_path, render_gate_steps([GateStep(50, "requires", "static-routes")]))
        manager_of(host).room = 0
        run(Remove(config(), host=host))
        assert host.files.texts == {}

    @with_errors
    @pytest.mark.parametrize("down", [False, True])
    def test_a_reload(self, error: Callable[[str], BaseException], *, down: bool) -> None:
        """A reload that did not happen is to be done, says the plan, and the next run does it, once."""
        host, mishaps = mishap_host()
        wanted = config(cidrs=(CIDR,), mode="WARN")
        if down:
            run(CheckRouteOverlap(wanted, host=host))
        task = CheckRouteOverlap(config() if down else wanted, host=host)
        mishaps.disarm()
        mishaps.watch = lambda event: mishaps.arm(1, error) if event == "reload" else None
        with pytest.raises((Killed, phases.TaskFailed)):
            run(task)
        mishaps.watch = lambda _event: None
        mishaps.disarm()
        assert not is_read(host)
        assert not task.plan(phases.Context()).is_empty
        run(task)
        assert "reload" in mishaps.events
        assert is_read(host)
        mishaps.disarm()
        run(task)
        assert not [event for event in mishaps.events if "/run/" not in event], "only markers, which every check renews"

    def test_only_a_reload_is_left(self) -> None:
        """Files that are right and that systemd has not read are nothing to write, but something to do."""
        host = FakeHost(kernel=h200())
        task = Configure(WANTED, host=host)
        run(task)
        manager_of(host).read = {}
        assert str(task.preview()).endswith("have systemd read its files again")
        assert not task.preview().files
        manager_of(host).calls.clear()
        run(task)
        assert manager_of(host).calls == [STOP, "reload"]
        assert task.preview().is_empty

    def test_by_an_empty_configuration(self) -> None:
        """The rest of a gate that an interrupted run left is removed, although nothing is configured."""
        whole = configured(WANTED)
        whole.files.texts[LAYOUT.gate_steps_path] = render_gate_steps(())
        makers: tuple[Callable[..., phases.Task[object]], ...] = (Configure, ConfigureStaticRoutes, CheckRouteOverlap)
        for path, make in product(sorted(GATE - {LAYOUT.gate_drop_in()}), makers):
            host = FakeHost()
            host.files.texts[path] = whole.files.texts[path]
            run(make(HostRoutingConfig(), host=host))
            assert host.files.texts == {}, path

    def test_a_list_that_was_lost(self) -> None:
        """Without its list, the gate stays shut if a task without configuration runs alone."""
        host = FakeHost(kernel=h200())
        run(CheckRouteOverlap(config(cidrs=(CIDR,), mode="WARN"), host=host))
        del host.files.texts[LAYOUT.gate_steps_path]
        assert isinstance(run(ConfigureStaticRoutes(config(), host=host)), phases.Skip)
        assert {*GATE, *CHECK} - set(host.files.texts) == {LAYOUT.gate_steps_path}


class TestRuns:
    """A run of what was there before does not outlive it."""

    @pytest.mark.parametrize(
        ("second", "calls"),
        [
            (config(*REPAIR, cidrs=(CIDR,), metric=5), [STOP, "stop static-routes.service", START]),
            (WANTED, []),
            (config(*REPAIR, cidrs=(CIDR,), mode="WARN"), [STOP, "stop check-route-overlap.service"]),
        ],
        ids=["other routes", "the same", "another check"],
    )
    def test_stopped(self, second: HostRoutingConfig, calls: list[str]) -> None:
        """The gate and the unit whose files change are stopped before the routes change, and no other unit.

        A running unit that is still wanted is not stopped, because a machine's start may wait for it.
        """
        host = configured(WANTED)
        manager = manager_of(host)
        manager.calls.clear()
        manager.states[LAYOUT.routes_unit] = UnitState("loaded", "activating")
        run(Configure(second, host=host))
        assert manager.calls == calls

    def test_planned_again(self) -> None:
        """What an old script did, between the stop and its end, is put right when the new one has run."""
        host, mishaps = mishap_host()

        def old_script(event: str) -> None:
            if event == START:
                kernel = host.kernel.reopen()
                kernel.ip_route("delete", kernel.snapshot(protocol=OURS).routes[0])

        mishaps.watch = old_script
        run(ConfigureStaticRoutes(config(*REPAIR), host=host))
        assert len(ours(host)) == 2


class TestAtOnce:
    """Two agents take turns as whole runs."""

    @pytest.mark.parametrize("make", [Configure, Remove])
    def test_one_lock(self, make: type[Configure]) -> None:
        """The lock is taken once, before anything, and held to the end."""
        host = configured(WANTED)
        host.files.writes.clear()
        run(make(WANTED, host=host))
        assert host.files.writes[0] == LAYOUT.lock_path
        assert host.files.writes.count(LAYOUT.lock_path) == 1
        assert host.files.locked == set()


class TestReadOnly:
    """Files that cannot be written or removed are found out before the kernel is touched."""

    def test_remove(self) -> None:
        """With files that cannot be removed, the routes stay with them."""
        host = configured(WANTED)
        there = dict(host.files.texts)
        for path in there:
            host.files.broken[path] = "Read-only file system"
        failure_of(run, Remove(WANTED, host=host), match="not everything could be removed")
        assert len(ours(host)) == 2
        assert {LAYOUT.routes_script_path, *GATE} <= set(host.files.texts)

    def test_one_that_stays(self) -> None:
        """A file that cannot be removed is named, and everything else is removed."""
        for path in (LAYOUT.routes_script_path, LAYOUT.check_script_path, LAYOUT.gate_unit_path):
            host = configured(WANTED)
            host.files.broken[path] = "Read-only file system"
            failure_of(run, Remove(WANTED, host=host), match=f"cannot remove {path}")
            assert set(host.files.texts) == {path}
            assert ours(host) == []
            assert is_read(host)


OWN = "[Service]\nExecStart=/opt/routes\n"
ORIGINAL = "[Unit]\nBefore=systemd-nspawn@.service\n[Service]\nExecStart=/opt/routes\n"


def refuses(host: FakeHost, match: str) -> None:
    """The preview and the run of what is wanted fail with this text, and no route is made."""
    task = Configure(WANTED, host=host)
    with pytest.raises(HostRoutingError, match=match):
        task.preview()
    failure_of(run, task, match=match)
    assert ours(host) == []


class TestOthers:
    """A unit or drop-in of the same name that is not ours is an administrator's."""

    @pytest.mark.parametrize("path", MARKED)
    def test_not_written_over(self, path: str) -> None:
        """The file is named with the remedy before anything is changed. It stays, and no file is added."""
        host = FakeHost(kernel=h200())
        host.files.texts[path] = OWN
        refuses(host, f"{path} was not written by hostrouting.* move the file away")
        assert host.files.texts == {path: OWN}
        assert host.files.writes == [LAYOUT.lock_path]
        assert manager_of(host).calls == []

    def test_not_taken_away(self) -> None:
        """With an empty configuration nothing happens at all, and Remove leaves it enabled and running."""
        host = FakeHost()
        host.files.texts |= dict.fromkeys(MARKED, OWN)
        host.files.links[LAYOUT.routes_enabled_path] = LAYOUT.routes_unit_path
        manager_of(host).boot()
        before = dict(host.files.texts), dict(host.files.links)
        run(Configure(HostRoutingConfig(), host=host))
        assert host.files.writes == []
        run(Remove(HostRoutingConfig(), host=host))
        assert (host.files.texts, host.files.links) == before
        assert manager_of(host).calls == []

    @pytest.mark.parametrize("path", MARKED)
    @pytest.mark.parametrize("as_link", [True, False])
    def test_masked(self, path: str, *, as_link: bool) -> None:
        """A unit that is masked, by a link to /dev/null or an empty file, stays masked under every configuration."""
        host = FakeHost(kernel=h200())
        host.files.texts[path] = ""
        if as_link:
            host.files.links[path] = "/dev/null"
        manager_of(host).boot()
        run(Configure(HostRoutingConfig(), host=host))
        assert host.files.writes == []
        run(Remove(HostRoutingConfig(), host=host))
        assert host.files.writes == [LAYOUT.lock_path]
        remedy = f"systemctl unmask {path.rpartition('/')[2]}" if path in UNITS else "remove it"
        refuses(host, f"{path} is masked: .*; {remedy}")
        assert host.files.texts[path] == ""
        run(Remove(HostRoutingConfig(), host=host))
        assert set(host.files.texts) == {path}

    @pytest.mark.parametrize("text", [ORIGINAL, f"[Service]\nExecStart={LAYOUT.routes_alias_path}\n"])
    def test_the_originals(self, text: str) -> None:
        """A unit of the published original is replaced. Its ExecStart= or Before= identifies it."""
        host = FakeHost(kernel=h200())
        host.files.texts[LAYOUT.routes_unit_path] = text
        run(Configure(WANTED, host=host))
        host.files.texts[LAYOUT.routes_unit_path] = text
        run(Remove(WANTED, host=host))
        assert host.files.texts == {}


class TestAgentsFolder:
    """The folder of the node agent, which may come, be rewritten and go at any time."""

    def test_links(self) -> None:
        """An existing folder has links to the scripts; a missing folder or link is not a fault."""
        host = FakeHost(kernel=h200())
        agents = f"{LAYOUT.agent_directory}/config.json"
        links = {LAYOUT.routes_alias_path: LAYOUT.routes_script, LAYOUT.check_alias_path: LAYOUT.check_script}
        enabled = {LAYOUT.routes_enabled_path: LAYOUT.routes_unit_path}
        host.files.texts[agents] = "{}"
        run(Configure(WANTED, host=host))
        assert host.files.links == enabled | links
        assert not Configure(WANTED, host=host).preview().files
        del host.files.texts[agents]
        for path in links:
            host.files.links.pop(path)
        assert find_gate_state(host).findings == ()
        assert not Configure(WANTED, host=host).preview().files
        run(Configure(WANTED, host=host))
        assert host.files.links == enabled
        host.files.texts[agents] = "{}"
        assert Configure(WANTED, host=host).preview().files.writes == tuple(links)
        run(Configure(WANTED, host=host))
        assert host.files.links == enabled | links
        run(Configure(config(cidrs=(CIDR,), mode="WARN"), host=host))
        assert {*host.files.links} == {LAYOUT.check_alias_path}
        run(Remove(WANTED, host=host))
        assert (host.files.texts, host.files.links) == ({agents: "{}"}, {})

    def test_scripts_of_others(self) -> None:
        """The original's script makes room for the link. Without an installation of ours, it stays where it is.

        So does a folder in its place. Kills: a removal that fails at one.
        """
        host, path = FakeHost(kernel=h200()), LAYOUT.routes_alias_path
        host.files.strange[path] = "a directory"
        run(Remove(WANTED, host=host))
        del host.files.strange[path]
        host.files.texts[path] = "#!/bin/bash\n"
        run(Configure(config(cidrs=(CIDR,), mode="WARN"), host=host))
        run(Remove(WANTED, host=host))
        assert host.files.texts == {path: "#!/bin/bash\n"}
        run(Configure(WANTED, host=host))
        assert host.files.links[path] == LAYOUT.routes_script


class TestManager:
    """A systemd that does not do what it is told."""

    def test_a_gate_that_cannot_be_stopped(self) -> None:
        """Then no script and no route is changed: a run that judges by the old ones may still be going on."""
        host, mishaps = mishap_host()
        mishaps.arm(2, busy)
        failure_of(run, Configure(WANTED, host=host), of=ManagerError, match=f"{STOP} did not answer")
        assert (set(host.files.texts), ours(host)) == ({LAYOUT.gate_steps_path}, [])
        assert {step.kind for step in Gate(host).steps} == {"changing"}

    def test_a_file_that_fails_is_told_before_a_reload_that_does(self) -> None:
        """Of a file that cannot be written and a reload that fails, the file is named: it was first."""
        host, mishaps = mishap_host()
        host.files.broken[LAYOUT.check_script_path] = "No space left on device"

        def refuse(event: str) -> None:
            if event == "reload":
                raise busy(event)

        mishaps.watch = refuse
        failure_of(run, Configure(WANTED, host=host), match="No space left on device")
        assert set(steps(host).values()) == {"changing"}

    def test_without_systemd(self, caplog: pytest.LogCaptureFixture) -> None:
        """If systemd does not run, one line says what is in force now, and what from the next boot on."""
        caplog.set_level("INFO")
        host = attrs.evolve(FakeHost(kernel=h200()), manager=FakeManager(running=False))
        run(Configure(WANTED, host=host))
        told = [record.getMessage() for record in caplog.records if "systemd" in record.getMessage()]
        assert told == ["systemd is not running here: routes change now, units and the gate at the next boot"]
        assert manager_of(host).calls == []

    def test_an_image(self, caplog: pytest.LogCaptureFixture) -> None:
        """For an image, nothing is logged about systemd or routes, because it has neither."""
        caplog.set_level("INFO")
        run(Configure(WANTED, host=attrs.evolve(FakeHost(), manager=None, backend=None)))
        assert not [record for record in caplog.records if "systemd" in record.getMessage()]


def only(mishaps: Mishaps, verb: str) -> list[str]:
    """The events of this verb."""
    return [event for event in mishaps.events if event.startswith(verb)]


def test_a_running_machine_is_never_touched() -> None:
    """Whatever is configured, only our own units are started and stopped."""
    for one, other in permutations(CONFIGS, 2):
        host, mishaps = mishap_host()
        run(Configure(CONFIGS[one], host=host))
        run(Configure(CONFIGS[other], host=host))
        touched = {event.partition(" ")[2] for event in (*only(mishaps, "start"), *only(mishaps, "stop"))}
        ours = {LAYOUT.gate_unit, LAYOUT.routes_unit, LAYOUT.check_unit, LAYOUT.probe_unit, LAYOUT.guard_unit}
        assert touched <= ours


def test_no_room_for_what_is_taken_away_last() -> None:
    """The check goes after the routes, but nothing is changed if systemd would then not read that it is gone."""
    host = configured(config(*REPAIR, cidrs=(CIDR,)))
    manager_of(host).room = 0
    before = dict(host.files.texts)
    failure_of(run, Configure(config(REPAIR[0]), host=host), match="systemd reads no new units")
    assert host.files.texts == before


def test_an_installation_that_failed_at_the_list_is_taken_back() -> None:
    """If the first installation cannot write its list of steps, the empty configuration removes the drop-ins again."""
    host = FakeHost(kernel=h200())
    host.files.broken[LAYOUT.gate_steps_path] = "Input/output error"
    failure_of(run, Configure(config(*REPAIR, cidrs=(CIDR,)), host=host), match="Input/output error")
    assert host.files.is_there(LAYOUT.gate_drop_in())
    host.files.broken.clear()
    run(Configure(HostRoutingConfig(), host=host))
    assert not host.files.is_there(LAYOUT.gate_drop_in())
