"""The gates: shut before anything can fail, and known to the manager, whatever interrupts the tasks."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

import phases
from hostrouting.backends.base import Change
from hostrouting.config import HostRoutingConfig
from hostrouting.errors import ManagerError
from hostrouting.model import OURS
from hostrouting.system import UnitState
from hostrouting.tasks import CheckRouteOverlap, Configure, ConfigureStaticRoutes, Remove
from hostrouting.testing import FakeFiles, FakeHost, FakeManager, MemoryBackend, h200
from tests.support.tasks import CIDR, LAYOUT, REPAIR, config, ours, run

if TYPE_CHECKING:
    from collections.abc import Callable

UNITS = {LAYOUT.routes_unit_path, LAYOUT.check_unit_path}
DROP_INS = {LAYOUT.routes_drop_in_path, LAYOUT.check_drop_in_path}
GATES = {
    LAYOUT.routes_unit: {LAYOUT.routes_unit_path, LAYOUT.routes_drop_in_path},
    LAYOUT.check_unit: {LAYOUT.check_unit_path, LAYOUT.check_drop_in_path},
}
NOTES = {LAYOUT.routes_pending_path, LAYOUT.check_pending_path}
WANTED = config(*REPAIR, cidrs=(CIDR,))


class Killed(BaseException):
    """The agent is gone at this moment."""


class Meanwhile(FakeManager):
    """A manager while whose reload, stop or start something happens."""

    at_reload: Callable[[], object] = staticmethod(lambda: None)
    at_stop: Callable[[str], object] = staticmethod(lambda _unit: None)
    at_start: Callable[[], object] = staticmethod(lambda: None)

    def reload(self) -> None:
        """See Manager."""
        self.at_reload()
        super().reload()

    def stop(self, unit: str) -> None:
        """See Manager."""
        self.at_stop(unit)
        super().stop(unit)

    def start(self, unit: str, *, timeout: float) -> None:
        """See Manager."""
        self.at_start()
        super().start(unit, timeout=timeout)


class DeadlyFiles(FakeFiles):
    """Files at whose nth change, stops of units counted, the agent is killed."""

    left: int = 10**6

    def touch(self) -> None:
        """Come one nearer to the end."""
        self.left -= 1
        if not self.left:
            raise Killed

    def write(self, path: str, text: str, *, mode: int = 0o644) -> bool:
        """See Files."""
        self.touch()
        return super().write(path, text, mode=mode)

    def remove(self, path: str) -> bool:
        """See Files."""
        self.touch()
        return super().remove(path)


def raiser(error: BaseException) -> Callable[[], object]:
    """What raises this."""

    def happen() -> object:
        raise error

    return happen


def units_of(files: FakeFiles) -> set[str]:
    """What a manager finds when it reads them."""
    return {it for it in (*files.texts, *files.links) if it.startswith(LAYOUT.unit_directory)}


class TestShut:
    """A bootstrap that fails leaves both gates shut."""

    @pytest.mark.parametrize("routes", [(CIDR,), REPAIR])
    def test_routes_that_cannot_be_had(self, routes: tuple[str, ...]) -> None:
        """Routes that are refused, or never ready: both gates are up, and known to the manager; no route is ours."""
        host = FakeHost(kernel=h200() if routes == (CIDR,) else MemoryBackend())
        with pytest.raises(phases.TaskFailed):
            run(Configure(config(*routes, cidrs=(CIDR,)), host=host), host)
        assert ours(host) == []
        rest = {LAYOUT.routes_preset_path, LAYOUT.check_script_path, LAYOUT.routes_pending_path}
        assert set(host.files.texts) == {*UNITS, *DROP_INS, *rest}
        assert host.manager is not None
        assert host.manager.calls.count("reload") == 2
        assert not any(call.startswith("start") for call in host.manager.calls)

    def test_the_routes_alone(self) -> None:
        """The same holds of the routes' own gate, when their task is run alone; the check's is none of its business."""
        host = FakeHost(kernel=MemoryBackend())
        report = phases.run(Configure(WANTED, host=host, wait=0), only=["configure-static-routes"], observers=[])
        assert "an IPv4 default route" in str(report)
        assert LAYOUT.routes_drop_in_path in host.files.texts
        assert LAYOUT.check_drop_in_path not in host.files.texts

    def test_an_old_script(self) -> None:
        """While the new routes are not there, the old script stays, and with it the number that marks our routes."""
        host = FakeHost(kernel=h200())
        run(ConfigureStaticRoutes(config(*REPAIR), host=host))
        script = host.files.texts[LAYOUT.routes_script_path]
        with pytest.raises(phases.TaskFailed):
            run(ConfigureStaticRoutes(config(CIDR, protocol=214), host=host))
        assert host.files.texts[LAYOUT.routes_script_path] == script
        run(Remove(config(protocol=214), host=host))
        assert ours(host) == []

    @pytest.mark.parametrize(
        "path", [LAYOUT.routes_unit_path, LAYOUT.routes_enabled_path, LAYOUT.check_unit_path, LAYOUT.check_script_path]
    )
    def test_what_cannot_be_written(self, path: str) -> None:
        """Whatever of a gate cannot be written: its drop-in is there before, and known to the manager."""
        read: list[set[str]] = []
        manager = Meanwhile()
        host = FakeHost(kernel=h200(), manager=manager)
        host.files.broken[path] = "No space left on device"
        manager.at_reload = lambda: read.append(units_of(host.files))
        with pytest.raises(phases.TaskFailed, match="No space left"):
            run(Configure(WANTED, host=host))
        assert (LAYOUT.check_drop_in_path if "check" in path else LAYOUT.routes_drop_in_path) in read[-1]
        assert ours(host) == []

    @pytest.mark.parametrize("path", sorted(UNITS))
    def test_what_is_masked(self, path: str) -> None:
        """Machines wait for a unit that somebody masked, and do not start: what is configured cannot be had."""
        host = FakeHost(kernel=h200())
        host.files.texts[path], host.files.links[path] = "", "/dev/null"
        with pytest.raises(phases.TaskFailed, match="somebody masked"):
            run(Configure(WANTED, host=host))
        assert (LAYOUT.check_drop_in_path if "check" in path else LAYOUT.routes_drop_in_path) in host.files.texts
        assert host.manager is not None
        assert host.manager.calls[-1] == "reload"

    def test_order(self) -> None:
        """Up and down: the drop-ins of both before their units, those before the routes, and their script last."""
        host = FakeHost(kernel=h200())
        run(Configure(WANTED, host=host))
        up = list(host.files.writes)
        assert max(up.index(path) for path in (*UNITS, *DROP_INS)) < up.index(LAYOUT.routes_script_path)
        assert up.index(LAYOUT.routes_drop_in_path) < up.index(LAYOUT.routes_unit_path)
        assert up.index(LAYOUT.check_drop_in_path) < up.index(LAYOUT.check_unit_path)
        host.files.writes.clear()
        run(Remove(WANTED, host=host))
        down = list(host.files.writes)
        assert max(down.index(path) for path in (*UNITS, *DROP_INS)) < down.index(LAYOUT.routes_script_path)
        assert down.index(LAYOUT.routes_drop_in_path) < down.index(LAYOUT.routes_unit_path)


class TestReload:
    """A reload that did not happen is made up for."""

    @pytest.mark.parametrize("error", [Killed(), ManagerError("busy")])
    @pytest.mark.parametrize("down", [False, True])
    def test_made_up_for(self, error: BaseException, *, down: bool) -> None:
        """Whoever was killed or refused between writing and reload: the next run reloads, in either direction."""
        manager = Meanwhile()
        host = FakeHost(kernel=h200(), manager=manager)
        # With one gate alone, nothing is left to be written or removed that would have the next run reload anyway.
        wanted = config(cidrs=(CIDR,), mode="WARN")
        if down:
            run(CheckRouteOverlap(wanted, host=host))
        task = CheckRouteOverlap(config() if down else wanted, host=host)
        manager.calls.clear()
        manager.at_reload = raiser(error)
        with pytest.raises((Killed, phases.TaskFailed)):
            run(task)
        assert manager.calls == []
        manager.at_reload = lambda: None
        assert not task.plan(phases.Context()).is_empty
        run(task)
        assert "reload" in manager.calls
        assert LAYOUT.check_pending_path not in host.files.texts
        manager.calls.clear()
        run(task)
        assert "reload" not in manager.calls

    @pytest.mark.parametrize("down", [False, True])
    def test_killed_anywhere(self, *, down: bool) -> None:
        """Wherever among the files the agent is killed: after the next run, the manager is done with the last of them.

        It has read them, has stopped each unit since, and has run what is to be run.
        """
        for nth in range(1, 100):
            files, manager = DeadlyFiles(), Meanwhile()
            host = FakeHost(kernel=h200(), files=files, manager=manager)
            task: phases.Task[object] = (Remove if down else Configure)(WANTED, host=host)
            if down:
                run(Configure(WANTED, host=host))
            read: list[set[str]] = []
            seen = partial(units_of, files)
            manager.at_reload = lambda read=read, seen=seen: read.append(seen())  # type: ignore[misc]  # bound now
            stopped: dict[str, int] = {}

            def at_stop(unit: str, at: dict[str, int] = stopped, files: DeadlyFiles = files) -> None:
                files.touch()
                at[unit] = len(files.writes)

            manager.at_stop = at_stop
            files.writes.clear()
            manager.calls.clear()
            files.left = nth
            try:
                run(task)
            except Killed:
                files.left = 10**6
                if not down:
                    begun = {unit for unit, gate in GATES.items() if gate & set(files.texts)}
                    assert all(GATES[unit] & DROP_INS & set(files.texts) for unit in begun), nth
                run(task)
            else:
                assert nth > 5
                return
            assert read[-1] == seen()
            assert bool(read[-1]) != down
            assert ("start static-routes.service" in manager.calls) != down
            for unit, gate in GATES.items():
                assert stopped[unit] > max(at for at, path in enumerate(files.writes) if path in gate), (nth, unit)
            assert not NOTES & set(files.texts)
        pytest.fail("it never came to its end")

    @pytest.mark.parametrize("error", [Killed(), ManagerError("no answer")])
    def test_killed_while_the_unit_runs(self, error: BaseException) -> None:
        """A run of the unit that nobody saw the end of is done again, although no file differs and none has failed."""
        manager = Meanwhile()
        host = FakeHost(kernel=h200(), manager=manager)
        task = ConfigureStaticRoutes(config(*REPAIR), host=host)
        manager.at_start = raiser(error)
        with pytest.raises((Killed, phases.TaskFailed)):
            run(task)
        manager.at_start = lambda: None
        run(task)
        assert manager.calls[-1] == "start static-routes.service"
        manager.calls.clear()
        run(task)
        assert manager.calls == []

    def test_by_an_empty_configuration(self) -> None:
        """A reload that is due is there to be made up for, although nothing is configured and no file is ours."""
        host = FakeHost()
        host.files.texts |= dict.fromkeys(NOTES, "")
        run(Configure(HostRoutingConfig(), host=host))
        assert host.manager is not None
        assert "reload" in host.manager.calls
        assert host.files.texts == {}


class TestRuns:
    """A run of what was there before does not outlive it."""

    def test_stopped_before_the_routes(self) -> None:
        """Where anything of the script changes, the unit is stopped before the routes, and run when it is there."""
        manager = FakeManager()
        host = FakeHost(kernel=h200(), manager=manager)
        run(ConfigureStaticRoutes(config(*REPAIR), host=host))
        manager.calls.clear()
        manager.states[LAYOUT.routes_unit] = UnitState("loaded", "activating")
        run(ConfigureStaticRoutes(config(REPAIR[0]), host=host))
        assert manager.calls == ["stop static-routes.service", "start static-routes.service"]

    def test_left_alone(self) -> None:
        """A run of what is wanted goes on: whoever waits for it, such as a machine's start, is not let down."""
        manager = FakeManager()
        host = FakeHost(kernel=h200(), manager=manager)
        run(Configure(WANTED, host=host))
        manager.calls.clear()
        manager.states[LAYOUT.routes_unit] = UnitState("loaded", "activating")
        run(Configure(WANTED, host=host))
        assert manager.calls == []

    def test_planned_again(self) -> None:
        """What an old script did, between the stop and its end, is put right when the new one has run."""
        manager = Meanwhile()
        host = FakeHost(kernel=h200(), manager=manager)

        def old_script() -> None:
            kernel = host.kernel.reopen()
            kernel.change([Change("delete", kernel.snapshot(protocol=OURS).routes[0])])

        manager.at_start = old_script
        run(ConfigureStaticRoutes(config(*REPAIR), host=host))
        assert len(ours(host)) == 2


class TestAtOnce:
    """Two agents take turns as whole runs."""

    @pytest.mark.parametrize("make", [Configure, Remove])
    def test_one_lock(self, make: type[Configure]) -> None:
        """The lock is taken once and held to the end."""
        host = FakeHost(kernel=h200())
        run(Configure(WANTED, host=host))
        host.files.writes.clear()
        run(make(WANTED, host=host))
        assert host.files.writes.count(LAYOUT.lock_path) == 1
        assert host.files.locked == set()


class TestReadOnly:
    """Files that cannot be written or removed are found out before the kernel is touched."""

    def test_configure(self) -> None:
        """With a unit that cannot be written, no route is made."""
        for path in (*UNITS, *DROP_INS):
            host = FakeHost(kernel=h200())
            host.files.broken[path] = "Read-only file system"
            with pytest.raises(phases.TaskFailed, match=r"cannot write .*Read-only file system"):
                run(Configure(WANTED, host=host))
            assert ours(host) == []

    def test_remove(self) -> None:
        """With files that cannot be removed, the routes stay with them."""
        host = FakeHost(kernel=h200())
        run(Configure(WANTED, host=host))
        there = dict(host.files.texts)
        for path in there:
            host.files.broken[path] = "Read-only file system"
        with pytest.raises(phases.TaskFailed, match="not everything could be removed"):
            run(Remove(WANTED, host=host))
        assert len(ours(host)) == 2
        assert LAYOUT.routes_script_path in host.files.texts


OWN = "[Service]\nExecStart=/opt/routes\n"
ORIGINAL = "[Unit]\nBefore=systemd-nspawn@.service\n[Service]\nExecStart=/opt/routes\n"


class TestOthers:
    """A unit or drop-in of the same name that is not ours is an administrator's."""

    @pytest.mark.parametrize("path", sorted(UNITS | DROP_INS))
    def test_not_written_over(self, path: str) -> None:
        """It is named, with the remedy, before anything of the kernel is touched; it stays, and nothing is noted of it."""
        host = FakeHost(kernel=h200())
        host.files.texts[path] = OWN
        before = list(host.files.writes)
        planned = [node.error for node in phases.plan(Configure(WANTED, host=host)).walk() if node.error]
        assert [str(error).partition(" is not ours")[0] for error in planned] == [path]
        assert host.files.writes == before
        with pytest.raises(phases.TaskFailed, match=f"{path} is not ours.* move it away"):
            run(Configure(WANTED, host=host))
        assert ours(host) == []
        assert host.files.texts[path] == OWN
        assert (LAYOUT.check_pending_path if "check" in path else LAYOUT.routes_pending_path) not in host.files.texts

    def test_not_taken_away(self) -> None:
        """With an empty configuration nothing happens at all, and Remove leaves it enabled and running."""
        host = FakeHost()
        host.files.texts |= {LAYOUT.routes_unit_path: OWN, LAYOUT.check_unit_path: OWN}
        host.files.links[LAYOUT.routes_enabled_path] = LAYOUT.routes_unit_path
        before = dict(host.files.texts), dict(host.files.links)
        run(Configure(HostRoutingConfig(), host=host))
        assert host.files.writes == []
        run(Remove(HostRoutingConfig(), host=host))
        assert (host.files.texts, host.files.links) == before
        host.files.texts[LAYOUT.routes_drop_in_path] = "# Written by hostrouting\n"
        run(Remove(HostRoutingConfig(), host=host))
        assert (host.files.texts, host.files.links) == before
        assert host.manager is not None
        assert host.manager.calls == ["reload"]

    @pytest.mark.parametrize("path", sorted(UNITS | DROP_INS))
    @pytest.mark.parametrize("as_link", [True, False])
    def test_masked(self, path: str, *, as_link: bool) -> None:
        """What somebody masked, by a link to /dev/null or with an empty file, stays so, whatever is configured."""
        host = FakeHost(kernel=h200())
        host.files.texts[path] = ""
        if as_link:
            host.files.links[path] = "/dev/null"
        run(Configure(HostRoutingConfig(), host=host))
        assert host.files.writes == []
        run(Remove(HostRoutingConfig(), host=host))
        assert host.files.writes == [LAYOUT.lock_path]
        remedy = f"systemctl unmask {path.rpartition('/')[2]}" if path in UNITS else "remove it"
        text = f"{path} is empty: somebody masked what belongs there; {remedy}"
        planned = [node.error for node in phases.plan(Configure(WANTED, host=host)).walk() if node.error]
        assert [str(error) for error in planned] == [text]
        with pytest.raises(phases.TaskFailed, match=text):
            run(Configure(WANTED, host=host))
        assert ours(host) == []
        assert host.files.texts[path] == ""

    @pytest.mark.parametrize("text", [ORIGINAL, f"[Service]\nExecStart={LAYOUT.routes_script}\n"])
    def test_the_originals(self, text: str) -> None:
        """A unit of the published original is known by what it runs or is ordered before, and gives way."""
        host = FakeHost(kernel=h200())
        host.files.texts[LAYOUT.routes_unit_path] = text
        run(Configure(WANTED, host=host))
        host.files.texts[LAYOUT.routes_unit_path] = text
        run(Remove(WANTED, host=host))
        assert host.files.texts == {}
