"""The guard and other runs: orders, a new configuration, a run that holds the lock, and removal; in memory."""

import sys
from types import FrameType
from typing import Any

import pytest

import phases
from hostrouting import Remove
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import BackendError, ConfigError
from hostrouting.kernel.base import RouteRequest
from hostrouting.model.route import Route
from hostrouting.tasks.guard.loop import Orders
from tests.support.guard_play import Play
from tests.support.tasks import CIDR, LAYOUT, REPAIR, config, run


@pytest.mark.parametrize(("cidrs", "held"), [(("10.0.0.0/8",), "ok"), ((), None)])
def test_a_new_configuration(play: Play, cidrs: tuple[str, ...], held: str | None) -> None:
    """A task's former answer stays until the task answers for the new configuration, unless it is no longer wanted."""
    play.again = lambda: config(*REPAIR, cidrs=cidrs)

    def change() -> None:
        for nth in range(1, 3):
            play.kernel.faults.fail("snapshot", BackendError("the kernel does not answer", kind="timeout"), nth=nth)
        play.orders.reload()

    play.perform((10.0, change), (10.04, play.note), until=20)
    [state] = play.states
    assert "does not answer" in str(state["failure"])
    assert state["verdict"] == held
    assert (state["verdictSince"] is None) == (held is None)
    assert "172.16.0.0/16" not in play.host.files.texts[LAYOUT.figures_path]
    assert (cidrs[0] in play.host.files.texts[LAYOUT.figures_path]) if cidrs else play.state()["verdict"] is None


def test_an_order_while_another_run_holds_the_host(play: Play) -> None:
    """The guard reads the installed configuration after the other run has ended, and keeps its findings until then."""
    files, read_at, is_held = play.host.files, list[float](), False
    play.kernel.add_link("ib9")
    later = config(*REPAIR, "10.77.0.0/16", cidrs=(CIDR,))

    def again() -> HostRoutingConfig:
        assert not is_held
        read_at.append(play.clock.now())
        return later if play.clock.now() > 20 else play.settings

    def hold() -> None:
        nonlocal is_held
        is_held = True
        files.locked.add(LAYOUT.lock_path)
        play.orders.reload()

    def let_go() -> None:
        nonlocal is_held
        is_held = False
        files.locked.discard(LAYOUT.lock_path)

    play.again, play.follows = again, True
    appears = Route.to("172.16.9.0/24", dev="ib9", protocol=4)
    scenes = [(10.0, lambda: play.kernel.change([RouteRequest("add", appears)])), (20.0, hold)]
    scenes += [(200.0, play.note), (200.1, let_go)]
    report = play.perform(*scenes, until=300)
    assert not [failure for failure in report.failures if failure.path[-1:] == ("guard",)]
    assert read_at[-1] > 200
    assert play.route("10.77.0.0/16")
    assert (play.states[0]["verdict"], len(play.states[0]["findings"])) == ("overlap", 1)  # type: ignore[arg-type]  # a list
    told = [it.partition(":")[0] for it in play.told("OVERLAP|the verdict")]
    assert told == ["the verdict is ok", "the verdict is overlap (it was ok)", "OVERLAP"]


def test_reload(play: Play) -> None:
    """The configuration is read again when that is ordered, whole or not at all."""
    answers = [None, config(*REPAIR, "10.9.0.0/16", cidrs=(CIDR,)), None]

    def again() -> HostRoutingConfig:
        if found := answers.pop(0):
            return found
        raise ConfigError([], source="agent.json")

    play.again = again
    play.perform(
        (5.0, play.orders.reload),
        (6.0, lambda: play.see("10.9.0.0/16")),
        (10.0, play.orders.reload),
        (11.0, lambda: play.see("10.9.0.0/16")),
        (20.0, play.orders.reload),
        (21.0, lambda: play.see("10.9.0.0/16")),
        until=30,
    )
    assert play.seen == [0, 1, 1]
    assert "the configuration has changed; the new one is used from now on" in play.service.texts
    assert len(play.told("^the configuration stays as it was: ")) == 2
    assert play.service.notified.count("READY=1") == 4


def test_another_run_holds_the_host(play: Play) -> None:
    """While another run changes the host, nothing is repaired; afterwards it is, soon."""
    files = play.host.files
    play.perform(
        (10.0, lambda: files.locked.add(LAYOUT.lock_path)),
        (11.0, play.delete),
        (40.0, play.see),
        (40.1, lambda: files.locked.discard(LAYOUT.lock_path)),
        (42.0, play.see),
        until=50,
    )
    assert play.seen == [0, 1]
    assert play.state()["failure"] is None


def test_another_run_holds_the_host_for_long(play: Play) -> None:
    """After 90 s this is reported once, and what was known stays; an attempt does not count as a look."""
    files, holders = play.host.files, list[str]()
    play.perform(
        (10.0, lambda: files.locked.add(LAYOUT.lock_path)),
        (10.5, lambda: holders.append(files.holder(LAYOUT.lock_path))),
        (11.0, play.delete),
        (99.0, play.note),
        (104.0, play.note),
        (700.0, play.note),
        (700.1, lambda: files.locked.discard(LAYOUT.lock_path)),
        until=800,
    )
    told = play.told("guard:")
    assert told == [told[0], f"no longer: {told[0]}"]
    assert told[0] == (
        f"guard: another run of hostrouting has held this host for more than 90 s: {holders[0]}; wait for it, or stop it if "
        "it hangs"
    )
    assert [state["failure"] for state in play.states] == [None, told[0], told[0]]
    known = [(state["verdict"], state["looks"], state["lastLook"]) for state in play.states]
    assert known == [("ok", 1, "2026-01-01T00:00:00Z")] * 3
    assert play.state()["failure"] is None
    assert len(play.route("172.16.0.0/17")) == 1


@pytest.mark.parametrize("line", [1, 2, 3])
@pytest.mark.parametrize("before", [False, True])
def test_an_order_is_never_lost(line: int, *, before: bool) -> None:
    """An order that comes while the orders are taken is carried out then, or the next time."""
    orders, seen = Orders(), 0
    if before:
        orders.reload()

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal seen
        if event == "line" and frame.f_code.co_name == "taken":
            seen += 1
            if seen == line:
                orders.reload()  # as a signal handler does
        return trace

    before_it = sys.gettrace()
    sys.settrace(trace)
    try:
        taken = orders.taken()
    finally:
        sys.settrace(before_it)  # coverage may be measuring
    assert seen
    assert taken or orders.taken() or seen < line


def test_waiting_for_another_run_is_not_said_each_second(play: Play, caplog: pytest.LogCaptureFixture) -> None:
    """While another run holds the host, the guard says nothing."""
    with caplog.at_level("INFO"):
        play.perform((10.0, lambda: play.host.files.locked.add(LAYOUT.lock_path)), until=100)
    assert "another run" not in caplog.text


def test_remove_takes_its_files(play: Play) -> None:
    """What a guard has written is removed with the rest, and listed before."""
    play.perform(until=10)
    files = {LAYOUT.guard_path, LAYOUT.figures_path}
    assert files <= set(play.host.files.texts)
    remove = Remove(play.settings, host=play.host)
    assert files <= set(remove.plan(phases.Context(observers=[])).files.removes)
    run(remove)
    assert not files & set(play.host.files.texts)


def test_what_is_removed_stays_removed(play: Play) -> None:
    """A guard of the installed configuration notices its removal, and does not install it again."""
    play.again, play.follows = HostRoutingConfig, True
    play.perform((10.0, lambda: run(Remove(play.settings, host=play.host))), until=200)
    assert not play.route("172.16.0.0/17")


def test_a_deleted_state_directory(play: Play) -> None:
    """The lock of the guard is back soon after its file was deleted, so a second guard is still refused."""
    files, seen = play.host.files, list[bool]()
    play.perform(
        (10.0, lambda: files.locked.discard(LAYOUT.guard_lock_path)),
        (45.0, lambda: seen.append(LAYOUT.guard_lock_path in files.locked)),
        until=50,
    )
    assert seen == [True]
    assert LAYOUT.guard_lock_path not in files.locked, "released at the end"


def test_a_second_guard_after_the_lock_was_deleted(play: Play) -> None:
    """If another guard has started before the lock was back, the first one ends, so that there is only one."""
    files = play.host.files

    def start_another() -> None:
        files.locked.discard(LAYOUT.guard_lock_path)
        assert files.try_lock(LAYOUT.guard_lock_path) is not None

    report = play.perform((10.0, start_another), until=50)
    assert "the lock was deleted, and another guard now runs on this host: process 4711" in str(report)
    assert LAYOUT.guard_lock_path in files.locked
