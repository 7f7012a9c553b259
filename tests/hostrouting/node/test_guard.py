"""hostrouting.node.guard: when it makes passes, how long it rests, and what it logs."""

import errno
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal
from unittest.mock import Mock

import attrs
import pytest

from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import BackendError
from hostrouting.host.host import Host
from hostrouting.host.layout import HostLayout
from hostrouting.kernel.base import Outcome, RouteRequest
from hostrouting.kernel.refusals import refusal
from hostrouting.model.prefix import IPV6
from hostrouting.model.route import OURS, Route
from hostrouting.model.snapshot import Snapshot
from hostrouting.node import guard
from hostrouting.node.clock import MachineClock
from hostrouting.node.ending import Stopped, TimeIsUp
from hostrouting.node.fight import QUIET, Fight, read_fight
from hostrouting.node.guard import Guard, guard_host
from hostrouting.node.journal import describe_failure
from hostrouting.testing import FakeFiles, FakeHost, FaultyBackend
from hostrouting.upkeep.passes import Done
from tests.support.node import (
    HALVES,
    PROBES,
    REPAIRED,
    FakeLock,
    FakeNodeClock,
    logged,
    marker_of,
    node,
)

if TYPE_CHECKING:
    from hostrouting.finding import Finding

CONFIG = HostLayout.config_path
GUARDED = REPAIRED._replace(probe_rewrite=PROBES)
FOREIGN = Route.to("192.0.2.0/24", dev="eth0")
"""Another program's route, which is nothing to us."""
ESCAPE = Route.to("172.16.5.0/24", dev="ib0", protocol=4)
"""Another program's route, by which a part of the fabric escapes."""


class Slow(FaultyBackend):
    """A kernel that takes this long to list its tables."""

    def __init__(self, host: FakeHost, clock: FakeNodeClock, seconds: float) -> None:
        super().__init__(host.faults)
        self._clock = clock
        self._seconds = seconds

    def snapshot(self, **options: Any) -> Snapshot:
        self._clock.sleep(self._seconds)
        return super().snapshot(**options)


class Guarded:
    """A guard, from 0 s on, on a node that is right after its first pass."""

    def __init__(self, config: HostRoutingConfig = GUARDED, *, seconds: float = 0.0) -> None:
        self.lock = FakeLock(self._note_pass)
        self.clock = FakeNodeClock(self.lock)
        self.host = node(config)
        self.passes: list[tuple[float, Literal["routes", "all"]]] = []
        """When each began, and of which kind it was."""
        self._backend = Slow(self.host, self.clock, seconds)

    def run_until(self, moment: float) -> None:
        self.clock.raise_at(moment, Stopped("SIGTERM"))
        with suppress(Stopped), self._backend.watch() as watch:
            Guard(self.host, self._backend, watch, clock=self.clock).run()

    def change(self, *moments: float) -> None:
        for moment in moments:
            self.clock.at(moment, self.flap)

    def at(self, moment: float, act: Callable[[], object]) -> None:
        self.clock.at(moment, act)

    def times(self, kind: Literal["routes", "all"]) -> list[float]:
        return [began for began, of_kind in self.passes if of_kind == kind]

    @property
    def ours(self) -> set[str]:
        routes = self.host.kernel.snapshot().routes
        return {str(route.prefix) for route in routes if route.protocol == OURS}

    def lose_routes(self) -> None:
        for route in self.host.kernel.snapshot().routes:
            if route.protocol == OURS:
                self.host.kernel.ip_route("delete", route)

    def flap(self) -> None:
        self.host.kernel.ip_route("add", FOREIGN)
        self.host.kernel.ip_route("delete", FOREIGN)

    def _note_pass(self) -> None:
        self.passes.append((self.clock.now(), "routes"))
        if not self.host.nftables.waiting:
            self.host.nftables.meanwhile(self._note_table)

    def _note_table(self) -> None:
        """Only a whole pass looks at the table for probes."""
        began, _ = self.passes[-1]
        self.passes[-1] = (began, "all")


# When


@pytest.mark.parametrize("moment", [0.05, 30.0])
def test_a_route_that_is_removed(moment: float) -> None:
    """It is back at once; the guard's own change wakes it once more."""
    guarded = Guarded()
    guarded.at(moment, guarded.lose_routes)
    guarded.at(moment + 0.001, lambda: back.append(guarded.ours))
    guarded.at(moment + 0.15, lambda: back.append(guarded.ours))
    back: list[set[str]] = []
    guarded.run_until(moment + 9)
    assert back == [set(), {*HALVES}]
    assert len([began for began, _ in guarded.passes if moment <= began < moment + 1]) == 2


@pytest.mark.parametrize("seconds", [0.0, 0.5])
def test_without_changes(seconds: float) -> None:
    """There is a whole pass each minute. The first one has set routes, which wakes the guard."""
    guarded = Guarded(seconds=seconds)
    guarded.run_until(400)
    first, second, *_ = times = guarded.times("all")
    assert (first, second) == (0, 10)
    for before, after in pairwise(times[1:]):
        assert 55 <= after - before < 60
    assert len(times) >= 8


@pytest.mark.parametrize("left", [HALVES, HALVES[1:]], ids=["alone", "beside a conflict"])
def test_a_route_that_linux_refuses(monkeypatch: pytest.MonkeyPatch, left: tuple[str, ...]) -> None:
    """It is tried again at each pass, and wakes none, although Linux reports it."""
    guarded = Guarded(GUARDED._replace(probe_rewrite=PROBES._replace(ensure_route=True)))
    kernel = guarded.host.kernel
    change = kernel.change

    def refuse_ipv6(requests: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        outcomes: list[Outcome] = []
        for request in requests:
            outcomes += change([request])
            if request.route.prefix.family == IPV6:
                change([RouteRequest("delete", request.route)])
                outcomes[-1] = Outcome(request, refusal(request, errno.EACCES))
        return tuple(outcomes)

    monkeypatch.setattr(kernel, "change", refuse_ipv6)
    if HALVES[0] not in left:
        guarded.lose_routes()
        kernel.ip_route("add", Route.to(HALVES[0], dev="ib0", protocol=4))
    guarded.run_until(200)
    assert len(guarded.passes) < 8
    assert guarded.ours == {*left}


@pytest.mark.parametrize("lost_at", [30.0, 33.0])
@pytest.mark.parametrize("seconds", [0.0, 0.1])
def test_a_refusal_that_ends_during_the_pass(
    monkeypatch: pytest.MonkeyPatch, lost_at: float, seconds: float
) -> None:
    """The routes are back within 3 s, although the report of what ended it is discarded."""
    guarded = Guarded(seconds=seconds)
    kernel = guarded.host.kernel
    change = kernel.change

    def refuse_once(requests: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        monkeypatch.setattr(kernel, "change", change)
        guarded.flap()
        refused_at.append(guarded.clock.now())
        return tuple(Outcome(each, refusal(each, errno.ENETUNREACH)) for each in requests)

    def lose_and_refuse() -> None:
        guarded.lose_routes()
        monkeypatch.setattr(kernel, "change", refuse_once)

    refused_at: list[float] = []
    guarded.change(30.0)
    guarded.at(lost_at, lose_and_refuse)
    guarded.at(lost_at + 3, lambda: back.append(guarded.ours))
    back: list[set[str]] = []
    guarded.run_until(lost_at + 10)
    assert refused_at
    assert back == [{*HALVES}]
    assert len([began for began, _ in guarded.passes if began > lost_at + 4]) < 3, "no more retries"


def test_a_change_after_a_rest() -> None:
    """It starts a whole pass if the last one is 10 s ago; changes that come together are one."""
    guarded = Guarded()
    guarded.change(30.0, 30.005, 30.01, 34.0)
    guarded.run_until(60)
    assert [int(began) for began in guarded.times("all")] == [0, 10, 30, 40]
    assert [int(began) for began in guarded.times("routes")] == [0, 34]


@pytest.mark.parametrize("seconds", [0.0, 0.02, 20.0])
def test_it_rests(seconds: float) -> None:
    """Passes that take long are made less often, but a rest is never longer than 2 s."""
    guarded = Guarded(seconds=seconds)
    guarded.change(*(tenth / 10 for tenth in range(600)))
    guarded.run_until(60)
    for before, after in pairwise(guarded.times("all")):
        assert after - before >= 10
    for (before, kind), (after, _) in pairwise(guarded.passes):
        if kind == "routes":
            assert after - before >= max(min(26 * seconds, 2 + seconds), 0.1)
        # A whole pass lists the tables up to three times.
        assert 0.1 <= after - before < 2.2 + 3 * seconds


def test_a_wait_is_not_work() -> None:
    """No rest is made for the time in which a pass waits, such as for the lock."""
    clock = MachineClock()
    before = clock.processor_time()
    clock.sleep(0.1)
    assert clock.processor_time() - before < 0.1


# What it logs


def test_a_fault_that_comes_again(capfd: pytest.CaptureFixture[str]) -> None:
    """It is logged each time that it is new, and so is its end, by a whole pass only."""
    guarded = Guarded()
    kernel = guarded.host.kernel
    for moment in (30, 150):
        guarded.at(moment, lambda: kernel.ip_route("add", ESCAPE))
        guarded.change(moment + 5)
        guarded.at(moment + 60, lambda: kernel.ip_route("delete", ESCAPE))
    guarded.run_until(300)
    assert "routes" in [kind for began, kind in guarded.passes if 35 < began < 36]
    verdicts = [line.split(":")[0] for line in logged(capfd) if ": " in line]
    kept = [verdict for verdict in verdicts if verdict in {"3 OVERLAP", "6 OK"}]
    assert kept == ["6 OK", *["3 OVERLAP", "6 OK"] * 2]


def test_a_fight(capfd: pytest.CaptureFixture[str]) -> None:
    """The journal has its beginning, a line each hour and its end; a file has the number."""
    guarded = Guarded()
    often = [10 + number / 2 for number in range(20)]
    for moment in [*often, *range(40, 2 * 3600, 60)]:
        guarded.at(moment, guarded.lose_routes)
    guarded.at(100, lambda: guarded.host.kernel.ip_route("add", ESCAPE))
    guarded.at(200, lambda: guarded.host.kernel.ip_route("delete", ESCAPE))
    files = guarded.host.files
    seen: list[Finding | None] = []
    for moment in (5, 7199, 7900):
        guarded.at(moment, lambda: seen.append(read_fight(files)))
    guarded.run_until(8000)

    before, during, after = seen
    assert (before, after) == (None, None)
    assert during is not None
    assert during.facts["repairs"] == 1 + len(often) + 120
    assert during.name == "fight"
    assert "141 times by now, last: add 172.16." in during.sentence
    assert f"for {QUIET / 60:g} minutes after the last time" in str(during)
    lines = logged(capfd)
    changes = [line for line in lines if line.startswith("6 static routes changed: ")]
    assert len(changes) <= 10
    said = [line for line in lines if line.startswith("4 another program takes away ")]
    assert [line.split(" times")[0].split(": ")[1] for line in said] == ["10", "82"]
    assert "find that program" in said[0]
    verdict, over = lines[-2:]
    assert over == "4 nothing takes away any more what the guard puts back"
    assert verdict.startswith("6 OK: "), "said again, because lines of a fight are not repeated"
    assert len(lines) < 20


def test_a_fight_for_the_table(capfd: pytest.CaptureFixture[str]) -> None:
    """It is one, too; what is left of it goes with the guard."""
    guarded = Guarded()
    for moment in range(30, 1200, 60):
        guarded.at(moment, guarded.host.nftables.tables.clear)
    guarded.run_until(1000)
    [line] = [line for line in logged(capfd) if "another program takes away" in line]
    assert "10 times by now, last: nftables table ip6 hostrouting_slb" in line
    assert HostLayout.fight_path not in guarded.host.files.texts


def test_repairs_now_and_then() -> None:
    """They are no fight, however many there are."""
    done = Done()
    done.changes.append(RouteRequest("add", ESCAPE))
    files = FakeFiles({HostLayout.fight_path: "11\nof a guard that was killed\n"})
    fight = Fight(files)
    assert files.texts == {}
    assert {fight.note(done, 700.0 * number) for number in range(20)} == {""}
    assert any(fight.note(done, 14_000.0 + second) for second in range(20))
    assert not fight.note(done, 15_000)
    assert HostLayout.fight_path not in files.texts, "a repair after a quiet time is the first one"
    assert fight.note(Done(), 16_000) == "", "there is no fight that could be over"


@pytest.mark.parametrize(
    "text", ["", "\n", "12", "12\n", "many\nwords\n", "9" * 5_000 + "\nwords\n"]
)
def test_a_file_that_no_guard_has_left(text: str) -> None:
    """A device may have characters in its name that Python takes for the end of a line."""
    assert read_fight(FakeFiles({HostLayout.fight_path: text})) is None
    sentence = "11 times by now, last: add 10.9.0.0/16 dev e\x1c0\x850 proto 213"
    finding = read_fight(FakeFiles({HostLayout.fight_path: f"11\n{sentence}\n"}))
    assert finding is not None
    assert (finding.facts, finding.sentence) == ({"repairs": 11}, sentence)


# The configuration


@pytest.mark.parametrize("there", [{f"{CONFIG}/a": ""}, {}])
def test_a_broken_configuration(there: dict[str, str], capfd: pytest.CaptureFixture[str]) -> None:
    """It is said once. The routes stay, and no verdict is left; when it is mended, all is right."""
    guarded = Guarded()
    texts = guarded.host.files.texts
    mended = texts[CONFIG]

    def break_it() -> None:
        del texts[CONFIG]
        texts.update(there)

    def mend_it() -> None:
        for path in there:
            del texts[path]
        texts[CONFIG] = mended

    guarded.at(30, break_it)
    guarded.at(400, lambda: seen.append((marker_of(guarded.host), guarded.ours)))
    guarded.at(400, mend_it)
    guarded.at(500, lambda: seen.append((marker_of(guarded.host), guarded.ours)))
    seen: list[tuple[str, set[str]]] = []
    guarded.run_until(501)
    assert seen == [("", {*HALVES}), ("ok", {*HALVES})]
    lines = logged(capfd)
    [fault] = [line for line in lines if line[0] in "345"]
    assert CONFIG in fault
    assert lines[-1].startswith("6 OK: ")


# How it ends


@pytest.mark.parametrize("name", ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2"])
def test_a_signal(
    name: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It ends the guard, which has not failed then. A second one interrupts no rollback."""
    rolled_back: list[str] = []

    def get_two_signals() -> None:
        try:
            signal.raise_signal(signal.Signals[name])
        except Stopped as error:
            signal.raise_signal(signal.SIGTERM)
            rolled_back.append(str(error))
            raise

    host = node()
    monkeypatch.setattr(Host, "local", lambda: host)
    host.faults.meanwhile("watch", get_two_signals)
    assert guard_host() == 0
    assert rolled_back == [name]
    assert logged(capfd) == []


def test_netlink_cannot_be_opened(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As where a seccomp profile forbids it: no old verdict stays."""
    host = attrs.evolve(node(), backend=Mock(side_effect=BackendError("cannot use netlink")))
    host.files.texts[HostLayout.ok_path] = "ok\n"
    monkeypatch.setattr(Host, "local", lambda: host)
    assert guard_host() == 1
    assert logged(capfd) == ["3 cannot use netlink"]
    assert marker_of(host) == ""


def test_a_pass_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends the guard, with what is true then, and systemd starts the guard again."""
    monkeypatch.setattr(guard, "TIME_LIMIT", 0.1)
    guarded = Guarded()
    guarded.host.faults.meanwhile("change", lambda: time.sleep(60))
    with pytest.raises(TimeIsUp) as raised:
        guarded.run_until(10)
    ended, rolled_back = describe_failure(raised.value)
    assert ended.startswith("this took longer than 0 s, and was ended")
    assert rolled_back == "every change was rolled back: the route table is as it was before"


def test_a_guard_that_waits_for_the_lock_takes_no_verdict_away() -> None:
    """The marker is of whoever has the lock."""

    def time_is_up() -> None:
        host.files.write(HostLayout.ok_path, "ok\n")
        raise TimeIsUp("75")

    host = node(GUARDED)
    clock = FakeNodeClock(FakeLock(time_is_up))
    with pytest.raises(TimeIsUp):
        Guard(host, host.faults, host.faults.watch(), clock=clock).make_next_pass()
    assert marker_of(host) == "ok"
