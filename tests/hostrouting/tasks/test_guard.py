"""Guard, on hosts in memory and with a clock that never waits: what it repairs, when it looks, and what it tells."""

from __future__ import annotations

import errno
import gc
import itertools
import json
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import attrs
import pytest

import phases
from hostrouting import Configure, Remove
from hostrouting.backends.base import Change, Outcome
from hostrouting.config import HostRoutingConfig
from hostrouting.errors import BackendError, BackendTimeout, ConfigError, RouteRefused, Unsettled
from hostrouting.examination import Examination, examine, read
from hostrouting.host import Host
from hostrouting.model import Route
from hostrouting.tasks.guard import Guard, Orders
from hostrouting.testing import FakeHost, MemoryBackend, h200
from phases.testing import FakeClock
from tests.support.examples import LONG
from tests.support.tasks import CIDR, LAYOUT, REPAIR, config, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from hostrouting.backends.base import RouteBackend
    from hostrouting.model import Snapshot
    from hostrouting.system.service import Line


@attrs.define
class FakeService:
    """A service that records what it was told."""

    watchdog: float | None = None
    lines: list[Line] = attrs.field(factory=list)
    notified: list[str] = attrs.field(factory=list)

    def notify(self, *assignments: str) -> None:
        """Record it."""
        self.notified += assignments

    def tell(self, line: Line) -> bool:
        """Record it."""
        self.lines.append(line)
        return True

    @property
    def texts(self) -> list[str]:
        """The texts of the lines."""
        return [it.text for it in self.lines]


class Play:
    """A guard on this host, and what happens to the host while it runs: each after so many seconds."""

    def __init__(self, kernel: MemoryBackend, settings: HostRoutingConfig) -> None:
        """Install the configuration."""
        self.kernel, self.settings = kernel, settings
        self.host = FakeHost(kernel=kernel)
        run(Configure(settings, host=self.host))
        self.service, self.orders = FakeService(), Orders()
        self.clock = FakeClock()
        self.looks: list[float] = []
        self.again: Callable[[], HostRoutingConfig] | None = None
        self.follows = False
        self.spent: Callable[[], float] = self.clock.now

    def perform(self, *scenes: tuple[float, Callable[[], object]], until: float) -> phases.Report:
        """Run the guard until this moment; each scene happens at its own."""

        @phases.task("play")
        def play(ctx: phases.Context) -> None:
            for at, scene in (*scenes, (until, lambda: ctx.cancel("the play is over"))):
                ctx.sleep(max(0.0, at - self.clock.now()))
                scene()

        guard = Guard(
            self.settings,
            host=self.host,
            service=self.service,
            orders=self.orders,
            again=self.again,
            follows=self.follows,
            chance=lambda: 0.5137,  # so that no regular look is at the moment of a scene: a backend is for one thread
            spent=self.spent,
        )
        return phases.run(phases.parallel(guard, play), clock=self.clock, observers=[])

    def route(self, prefix: str) -> list[str]:
        """The routes to this prefix, as text."""
        return [str(it) for it in self.kernel.snapshot().routes if str(it.prefix) == prefix]

    def delete(self, prefix: str = "172.16.0.0/17") -> None:
        """Delete the route to this prefix, as another program would."""
        [route] = [it for it in self.kernel.snapshot().routes if str(it.prefix) == prefix]
        [done] = self.kernel.change([Change("delete", route)])
        assert done.ok

    def state(self) -> dict[str, object]:
        """What the guard has written."""
        found: dict[str, object] = json.loads(self.host.files.texts[LAYOUT.guard_path])
        return found


@pytest.fixture
def play() -> Play:
    """An H200 node with the repair in place."""
    return Play(h200(), config(*REPAIR, cidrs=(CIDR,)))


def test_a_deleted_route(play: Play) -> None:
    """It is back 150 ms after it was deleted, and one line says so."""
    seen: list[list[str]] = []
    scenes = [(10.0, play.delete), (10.1, lambda: seen.append(play.route("172.16.0.0/17")))]
    scenes += [(10.2, lambda: seen.append(play.route("172.16.0.0/17")))]
    play.perform(*scenes, until=20)
    assert [len(it) for it in seen] == [0, 1]
    assert play.service.texts == [
        "the verdict is ok",
        "repaired 172.16.0.0/17: there was no route, now there is [172.16.0.0/17 via 10.0.0.1 dev eth0 proto hostrouting]",
    ]
    assert play.state()["repairs"] == 1


def test_without_events(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """If no event arrives, the next regular look finds it: every 60 s, 10 % more or less."""
    monkeypatch.setattr("hostrouting.backends.memory.watch.MemoryWatch.hear", lambda _: None)
    seen: list[int] = []
    play.perform((70.0, play.delete), (119.0, lambda: seen.append(len(play.route("172.16.0.0/17")))),
                 (121.0, lambda: seen.append(len(play.route("172.16.0.0/17")))), until=130)  # fmt: skip
    assert seen == [0, 1]


def test_another_programs_route_is_never_touched(play: Play) -> None:
    """If another program takes the destination, that is named once, and once more when it is over; its route stays."""

    def take() -> None:
        play.delete()
        [done] = play.kernel.change([Change("add", theirs)])
        assert done.ok

    theirs = Route.to("172.16.0.0/17", dev="ib0", protocol=4)
    seen: list[list[str]] = []
    play.perform(
        (10.0, take),
        (300.0, lambda: seen.append(play.route("172.16.0.0/17"))),
        (310.0, lambda: play.kernel.change([Change("delete", theirs)])),
        (311.0, lambda: seen.append(play.route("172.16.0.0/17"))),
        until=400,
    )
    assert seen == [[str(theirs)], ["172.16.0.0/17 via 10.0.0.1 dev eth0 proto hostrouting"]]
    [told] = [it for it in play.service.texts if it.startswith("172.16.0.0/17: another route")]
    fields = {it.text: it.fields for it in play.service.lines}
    assert fields[told]["HOSTROUTING_PREFIX"] == "172.16.0.0/17"
    [escaped] = [it for it in play.service.texts if it.startswith("OVERLAP")]
    assert (fields[escaped]["HOSTROUTING_CIDR"], fields[escaped]["HOSTROUTING_DEV"]) == (CIDR, "ib0")
    assert play.service.texts.count(f"no longer: {told}") == 1
    assert [it for it in play.service.texts if it.startswith("the verdict")] == [
        "the verdict is ok",
        "the verdict is overlap (it was ok)",
        "the verdict is ok (it was overlap)",
    ]


def test_a_fight(play: Play) -> None:
    """What is undone again and again is repaired ten times, then once a minute; it is named once, with both sides."""
    kept = [0.0]

    def undo() -> None:
        if play.route("172.16.0.0/17"):
            kept.append(play.clock.now())
            play.delete()

    play.perform(*((at, undo) for at in range(10, 250)), until=1000)
    undone = kept[1:]
    assert undone[:10] == list(range(10, 20))
    assert all(50 <= after - before <= 65 for before, after in itertools.pairwise(undone[10:]))
    [named] = [it for it in play.service.texts if "does not stay" in it]
    assert named == (
        "172.16.0.0/17 does not stay: it was repaired 4 times, and the last time there was no route instead of "
        "[172.16.0.0/17 via 10.0.0.1 dev eth0 proto hostrouting]; to see what changes it, run: ip monitor"
    )
    assert play.state()["fights"] == [], "it has ended, because the other program stopped"
    assert play.route("172.16.0.0/17")


def test_a_flapping_link(play: Play) -> None:
    """If a link takes the routes with it eight times in a row, they are back at once each time."""
    seen: list[int] = []

    def see() -> None:
        seen.append(len(play.route("172.16.0.0/17")))

    play.perform(
        *((at + late, scene) for at in range(10, 90, 10) for late, scene in ((0, play.delete), (0.2, see))), until=100
    )
    assert seen == [1] * 8


def test_an_opponent_that_is_faster(play: Play) -> None:
    """If a route is gone again before it can be read back, that is a fight as well, and it is slowed down."""
    real, adds = play.kernel.change, list[float]()

    def change(changes: Iterable[Change]) -> tuple[Outcome, ...]:
        asked = list(changes)
        outcomes = real(asked)
        mine = [it for it in asked if it.verb == "add" and str(it.route.prefix) == "172.16.0.0/17"]
        if mine and play.clock.now() < 300:
            adds.append(play.clock.now())
            real([Change("delete", it.route) for it in mine])
        return outcomes

    play.kernel.change = change  # type: ignore[method-assign]
    play.perform((10.0, play.delete), until=1000)
    assert 5 < len(adds) < 40
    assert [it for it in play.service.texts if "172.16.0.0/17 does not stay" in it]
    assert play.route("172.16.0.0/17")


def test_failures(play: Play) -> None:
    """While looks fail, they come less and less often, at last every minute; the reason is told once."""
    for nth in range(1, 30):
        play.kernel.faults.fail("snapshot", BackendTimeout("the kernel does not answer"), nth=nth)
    play.perform(until=600)
    state = play.state()
    assert state["failure"] is None
    told = [it for it in play.service.texts if "does not answer" in it]
    assert told[0].startswith("configure-static-routes: ")
    assert told[-1].startswith("no longer: ")
    assert len(told) <= 4
    assert state["verdict"] == "ok"


def test_a_failed_look_changes_no_answer(play: Play) -> None:
    """What was wrong before a look that failed is still wrong: nothing is said to be over, and the verdict stays."""
    play.kernel.add_link("ib9")
    appears = Route.to("172.16.9.0/24", dev="ib9", protocol=4)
    states: list[dict[str, object]] = []

    def fail() -> None:
        for nth in range(1, 3):
            play.kernel.faults.fail("snapshot", BackendTimeout("the kernel does not answer"), nth=nth)
        play.orders.look()

    play.perform(
        (10.0, lambda: play.kernel.change([Change("add", appears)])),
        (100.03, fail),
        (100.19, lambda: states.append(play.state())),
        (110.0, lambda: states.append(play.state())),
        until=120,
    )
    assert [it["failure"] is None for it in states] == [False, True]
    assert [(it["verdict"], it["verdictSince"]) for it in states] == [("overlap", "2026-01-01T00:00:10Z")] * 2
    assert [it for it in play.service.texts if it.startswith("the verdict")] == [
        "the verdict is ok",
        "the verdict is overlap (it was ok)",
    ]
    assert not [it for it in play.service.texts if it.startswith("no longer: OVERLAP")]


def test_what_is_refused_does_not_starve_the_rest(play: Play) -> None:
    """However many routes the kernel refuses, the others are repaired in the same look."""
    real = play.kernel.change

    def change(changes: Iterable[Change]) -> tuple[Outcome, ...]:
        asked = list(changes)
        refused = RouteRefused("the kernel refuses it", route="x", errno=errno.EINVAL)
        if any(str(it.route.prefix).startswith("10.1") and it.verb == "add" for it in asked):
            return tuple(Outcome(it, refused) for it in asked)
        return real(asked)

    prefixes = [f"10.{100 + number}.0.0/16" for number in range(40)] + [
        f"10.{number}.0.0/16" for number in range(20, 60)
    ]
    play.settings = config(*prefixes)
    play.kernel.change = change  # type: ignore[method-assign]
    play.perform(until=0.01)
    assert sum(bool(play.route(it)) for it in prefixes) == 40
    assert "; and 30 more" in str(play.state()["failure"])


def test_a_lock_that_cannot_be_taken(play: Play) -> None:
    """It is a failure like another: what was known holds, and the guard goes on."""
    files, seen = play.host.files, list[dict[str, object]]()

    def mend() -> None:
        seen.append(play.state())
        files.strange.clear()

    scenes = [
        (10.0, lambda: files.strange.update({LAYOUT.lock_path: "a directory"})),
        (10.1, play.delete),
        (20.3, mend),
    ]
    play.perform(*scenes, until=150)
    assert "a directory" in str(seen[0]["failure"])
    assert seen[0]["verdict"] == "ok"
    assert play.route("172.16.0.0/17")


def test_a_kernel_that_does_not_answer(play: Play) -> None:
    """A change that times out is tried once in a look, not for each half of the changes."""
    asked: list[int] = []

    def change(changes: Iterable[Change]) -> tuple[Outcome, ...]:
        asked.append(len(list(changes)))
        raise BackendTimeout("the kernel does not answer")

    play.settings = config(*(f"10.{number}.0.0/16" for number in range(100, 140)))
    play.kernel.change = change  # type: ignore[method-assign]
    play.perform(until=0.05)
    assert len(asked) <= 3, "one attempt, and the attempts to take it back"


def test_tables_that_keep_changing(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the tables cannot be read at one moment, the former verdict holds; if that lasts, it is a failure."""
    real = examine

    def restless(*given: Any, **named: Any) -> Examination:
        found = real(*given, **named)
        if not 10 < play.clock.now() < until:
            return found
        return attrs.evolve(found, families=tuple(attrs.evolve(it, restless=True) for it in found.families))

    monkeypatch.setattr("hostrouting.tasks.overlap_check.examine", restless)
    until = 40.0
    states: list[dict[str, object]] = []

    def go_on() -> None:
        nonlocal until
        states.append(play.state())
        until = 1000.0
        play.delete()

    play.perform((12.0, play.delete), (100.3, go_on), (400.7, lambda: states.append(play.state())), until=410)
    assert [it["failure"] for it in states[:1]] == [None]
    assert "keep changing" in str(states[1]["failure"])
    assert [it["verdict"] for it in states] == ["ok", "ok"]
    assert [it for it in play.service.texts if it.startswith("the verdict")] == ["the verdict is ok"]


def test_a_route_with_a_lifetime() -> None:
    """A problem whose text changes with each look is told once."""
    play = Play(h200(dual_stack=True), config("fd00:9::/32"))

    def take() -> None:
        play.delete("fd00:9::/32")
        held = Route.to("fd00:9::/32", dev="ib0", protocol=9, metric=1024)
        play.kernel.change([Change("add", attrs.evolve(held, expires=1800))])

    play.perform((10.0, take), until=400)
    [told] = [it for it in play.service.texts if "fd00:9::/32: another route" in it]
    assert "expires" in told


@pytest.mark.parametrize("report", ["[]", "{", "5", "null"])
def test_a_damaged_report(play: Play, report: str) -> None:
    """The report is written again."""
    play.host.files.texts[LAYOUT.report_path] = report
    play.perform(until=10)
    assert json.loads(play.host.files.texts[LAYOUT.report_path])["verdict"] == "ok"


def test_markers_that_cannot_be_written(play: Play) -> None:
    """The verdict and the overlap are told all the same, and so is the file."""
    play.kernel.add_link("ib9")
    play.host.files.broken[LAYOUT.report_path] = "No space left on device"
    appears = Route.to("172.16.9.0/24", dev="ib9", protocol=4)
    play.perform((10.0, lambda: play.kernel.change([Change("add", appears)])), until=20)
    assert play.state()["verdict"] == "overlap"
    assert [it for it in play.service.texts if it.startswith("OVERLAP: expected CIDR 172.16.0.0/16")]
    assert [it for it in play.service.texts if f"cannot write {LAYOUT.report_path}" in it]


def test_a_suspended_machine(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a suspension, in which the clock that waits stood still, it looks at once."""
    slept = timedelta()
    real = play.clock.utc
    monkeypatch.setattr(play.clock, "utc", lambda: real() + slept)
    monkeypatch.setattr("hostrouting.backends.memory.watch.MemoryWatch.hear", lambda _: None)

    def suspend() -> None:
        nonlocal slept
        slept = timedelta(hours=8)
        play.delete()

    seen: list[int] = []
    play.perform((65.0, suspend), (100.0, lambda: seen.append(len(play.route("172.16.0.0/17")))), until=101)
    assert seen == [1]


def test_tables_that_keep_changing_take_their_share(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """If each look takes half a second of processor time, the guard uses a tenth of the time, not more."""
    used = [0.0]

    def restless(*_given: Any, **_named: Any) -> Examination:
        used[0] += 0.5
        raise Unsettled("the tables keep changing")

    monkeypatch.setattr("hostrouting.tasks.overlap_check.examine", restless)
    play.spent = lambda: used[0]
    play.perform(until=100)
    assert used[0] <= 0.1 * 100 + 2 + 1


def test_a_new_configuration_begins_anew(play: Play) -> None:
    """The verdict on a CIDR that is no longer checked is forgotten, even if the next look fails."""
    play.again = lambda: config(*REPAIR, cidrs=("10.0.0.0/8",))

    def change() -> None:
        for nth in range(1, 3):
            play.kernel.faults.fail("snapshot", BackendTimeout("the kernel does not answer"), nth=nth)
        play.orders.reload()

    states: list[dict[str, object]] = []
    play.perform((10.0, change), (10.05, lambda: states.append(play.state())), until=20)
    assert states[0]["verdict"] is None
    assert "172.16.0.0/16" not in play.host.files.texts[LAYOUT.figures_path]


def test_each_failure_has_its_end(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two tasks that fail, the one that works again is told by itself."""
    broken = {"routes", "check"}

    def routes(backend: RouteBackend) -> tuple[Snapshot, bool]:
        if "routes" in broken:
            raise BackendTimeout("no answer for routes")
        return read(backend)

    def check(*given: Any, **named: Any) -> Examination:
        if "check" in broken:
            raise BackendTimeout("no answer for the check")
        return examine(*given, **named)

    monkeypatch.setattr("hostrouting.tasks.static_routes.read", routes)
    monkeypatch.setattr("hostrouting.tasks.overlap_check.examine", check)
    play.perform((5.0, lambda: broken.discard("routes")), (100.0, lambda: broken.discard("check")), until=300)
    told = [it for it in play.service.texts if "no answer" in it]
    assert told == [
        "configure-static-routes: no answer for routes",
        "check-route-overlap: no answer for the check",
        "no longer: configure-static-routes: no answer for routes",
        "no longer: check-route-overlap: no answer for the check",
    ]


def test_thousands_of_problems(play: Play) -> None:
    """If the device of thousands of routes is down, the log gets a few lines."""
    play.settings = config(*(f"10.{number // 250}.{number % 250}.0/24" for number in range(2000)), dev="ib9")
    play.perform(until=30)
    assert len(play.service.texts) < 30
    assert "1,980 more problems like these" in play.service.texts


def test_the_time_of_the_boot_check_is_kept(play: Play) -> None:
    """A report without a time, as the boot script writes it, gets the time at which it was written."""
    files = play.host.files
    document = json.loads(files.texts[LAYOUT.report_path])
    document.pop("since", None)
    files.texts[LAYOUT.report_path] = json.dumps(document)
    files.times[LAYOUT.report_path] = 1_700_000_000.0
    play.perform(until=10)
    assert json.loads(files.texts[LAYOUT.report_path])["since"] == "2023-11-14T22:13:20Z"


def test_the_table_and_the_route_of_the_rewrite(play: Play) -> None:
    """If the route cannot be added, the table is loaded all the same, and each has its own line."""
    rewrite = {"enabled": True, "interfaces": ["eth0"], "condition": "always"}
    play = Play(h200(dual_stack=True), HostRoutingConfig(probe_rewrite=rewrite))
    real = play.kernel.change

    def change(changes: Iterable[Change]) -> tuple[Outcome, ...]:
        asked = list(changes)
        if play.clock.now() >= 10 and any(it.verb == "add" for it in asked):
            refused = RouteRefused("the kernel refuses it", route="x", errno=errno.EINVAL)
            return tuple(Outcome(it, refused) for it in asked)
        return real(asked)

    def undo() -> None:
        [route] = [it for it in play.kernel.snapshot().routes if str(it.prefix).startswith("2603:")]
        real([Change("delete", route)])
        play.host.tables.flush()

    play.kernel.change = change  # type: ignore[method-assign]
    play.perform((10.0, undo), until=11)
    assert [
        it for it in play.service.texts if it.startswith("repaired nftables table ip6 hostrouting_slb: there was none")
    ]
    assert [it for it in play.service.texts if "the kernel refuses it" in it]


def test_the_watchdog(play: Play) -> None:
    """It is fed between looks at least three times within its time, and before each task of a look."""
    play.service.watchdog = 9.0
    play.perform(until=0.5)
    first = play.service.notified.count("WATCHDOG=1")
    assert first >= 5, "before each of four tasks, and after the look"
    play.perform(until=play.clock.now() + 55)
    assert play.service.notified.count("WATCHDOG=1") - 2 * first >= 55 / 3 - 1


def test_markers_follow_the_answer(play: Play) -> None:
    """Marker and report change when the verdict does, once, with since when; a running machine is not touched."""
    play.kernel.add_link("ib9")
    files = play.host.files
    seen: list[tuple[bool, bool, object]] = []

    def see() -> None:
        document = json.loads(files.texts[LAYOUT.report_path])
        seen.append((LAYOUT.ok_path in files.texts, LAYOUT.detected_path in files.texts, document.get("since")))

    appears = Route.to("172.16.9.0/24", dev="ib9", protocol=4)
    play.perform(
        (10.0, lambda: play.kernel.change([Change("add", appears)])),
        (11.0, see),
        (500.0, see),
        (510.0, lambda: play.kernel.change([Change("delete", appears)])),
        (511.0, see),
        until=520,
    )
    since = "2026-01-01T00:00:10Z"
    assert seen == [(False, True, since), (False, True, since), (True, False, "2026-01-01T00:08:30Z")]
    writes = [it for it in files.writes if it == LAYOUT.report_path]
    assert len(writes) == 6, "by the installation, then with the time, and removed and written once for each change"
    assert play.host.manager is not None
    assert LAYOUT.gate_unit not in play.host.manager.calls


def test_reload(play: Play) -> None:
    """The configuration is read again when that is ordered, whole or not at all."""
    answers = [config(*REPAIR, "10.9.0.0/16", cidrs=(CIDR,))]

    def again() -> HostRoutingConfig:
        if answers:
            return answers.pop()
        raise ConfigError([], source="agent.json")

    play.again = again
    seen: list[int] = []
    play.perform(
        (10.0, play.orders.reload),
        (11.0, lambda: seen.append(len(play.route("10.9.0.0/16")))),
        (20.0, play.orders.reload),
        (21.0, lambda: seen.append(len(play.route("10.9.0.0/16")))),
        until=30,
    )
    assert seen == [1, 1]
    assert "the configuration has changed; the new one is used from now on" in play.service.texts
    assert [it for it in play.service.texts if it.startswith("the configuration stays as it was: ")]
    assert play.service.notified.count("READY=1") == 3


def test_a_storm(play: Play) -> None:
    """Thousands of events do not make it look thousands of times, and it still repairs what was changed."""
    dummy = Route.to("10.99.0.0/16", dev="eth0", protocol=4)

    def churn() -> None:
        play.kernel.change([Change("add", dummy), Change("delete", dummy)])

    seen: list[int] = []
    # No scene is at a moment at which the guard looks: a backend is for one thread at a time.
    scenes = [(10 + at / 101.37, churn) for at in range(1000)]
    scenes.insert(500, (14.9301, play.delete))
    scenes.append((20.3, lambda: seen.append(len(play.route("172.16.0.0/17")))))
    play.perform(*scenes, until=30)
    assert seen == [1]
    looks = play.state()["looks"]
    assert isinstance(looks, int)
    assert 20 < looks < 100


def test_another_run_holds_the_host(play: Play) -> None:
    """While another run changes the host, nothing is repaired; afterwards it is, soon."""
    files, seen = play.host.files, list[int]()

    def see() -> None:
        seen.append(len(play.route("172.16.0.0/17")))

    play.perform(
        (10.0, lambda: files.locked.add(LAYOUT.lock_path)),
        (11.0, play.delete),
        (40.0, see),
        (40.1, lambda: files.locked.discard(LAYOUT.lock_path)),
        (42.0, see),
        until=50,
    )
    assert seen == [0, 1]
    assert play.state()["failure"] is None


def test_another_run_holds_the_host_for_long(play: Play) -> None:
    """After two minutes that is said, once, and what was known still holds; afterwards everything is as before."""
    files = play.host.files
    states: list[dict[str, object]] = []
    play.perform(
        (10.0, lambda: files.locked.add(LAYOUT.lock_path)),
        (11.0, play.delete),
        (700.0, lambda: states.append(play.state())),
        (700.1, lambda: files.locked.discard(LAYOUT.lock_path)),
        until=800,
    )
    told = [it for it in play.service.texts if "guard:" in it]
    assert told == [told[0], f"no longer: {told[0]}"]
    assert told[0].startswith("guard: another run has not finished on this host within ")
    assert states[0]["verdict"] == "ok"
    assert f"guard: {states[0]['failure']}".endswith(told[0])
    assert play.state()["failure"] is None
    assert len(play.route("172.16.0.0/17")) == 1


def test_it_cannot_listen_for_a_while(play: Play) -> None:
    """That is said once; the regular looks go on, and when it can listen again, it does."""
    seen: list[int] = []
    for nth in range(1, 101):
        play.kernel.faults.fail("wait", BackendError("too many open files"), nth=nth + 1)
    scenes = [(10.0, play.delete), (70.0, lambda: seen.append(len(play.route("172.16.0.0/17"))))]
    scenes += [(150.0, play.delete), (150.2, lambda: seen.append(len(play.route("172.16.0.0/17"))))]
    report = play.perform(*scenes, until=160)
    assert not [it for it in report.failures if it.path[-1:] == ("guard",)]
    assert seen == [1, 1]
    told = [it for it in play.service.texts if "too many" in it]
    assert told == ["changes are not noticed until the next regular look: too many open files"]
    assert play.kernel.faults.waiting == 0


def test_a_long_time(play: Play) -> None:
    """A week with a fault every ten minutes: each is repaired, and the second half needs no more memory than the first."""
    days = 7 if LONG else 0.5
    sizes: list[int] = []

    def weigh() -> None:
        play.service.lines.clear()
        play.service.notified.clear()
        play.host.files.writes.clear()
        gc.collect()
        sizes.append(sys.getallocatedblocks())

    faults = int(days * 144) - 1
    scenes: list[tuple[float, Callable[[], object]]] = []
    for nth in range(1, faults + 1):
        scenes += [(600.0 * nth + 0.07, play.delete), (600.0 * nth + 10.07, weigh)]
    play.perform(*scenes, until=days * 86_400)
    assert play.state()["repairs"] == faults
    middle = len(sizes) // 2
    assert min(sizes[-10:]) - min(sizes[middle : middle + 10]) < 5 * len(sizes)


def test_a_flushed_table() -> None:
    """The table of the probe rewrite is loaded again 150 ms after another program has flushed nftables."""
    kernel = h200(dual_stack=True)
    settings = HostRoutingConfig(probe_rewrite={"enabled": True, "interfaces": ["eth0"], "condition": "always"})
    play = Play(kernel, settings)
    [name] = play.host.tables.tables
    seen: list[bool] = []
    play.perform((10.0, play.host.tables.flush), (10.2, lambda: seen.append(name in play.host.tables.tables)), until=20)
    assert seen == [True]
    [line] = [it for it in play.service.lines if it.text.startswith("repaired nftables")]
    table = f"nftables table ip6 {name}"
    assert line.text == f"repaired {table}: there was none, now there is the one that was installed"
    assert line.fields["HOSTROUTING_KEY"] == table
    assert "HOSTROUTING_PREFIX" not in line.fields


def test_what_is_removed_stays_removed(play: Play) -> None:
    """A guard of what is installed notices that it was removed, and does not bring it back."""
    play.again, play.follows = (HostRoutingConfig), True
    play.perform((10.0, lambda: run(Remove(play.settings, host=play.host))), until=200)
    assert not play.route("172.16.0.0/17")


def test_what_the_kernel_refuses_is_no_fight(play: Play) -> None:
    """A repair that the kernel refuses is a failure, not another program's doing; the other routes are repaired."""
    refused = RouteRefused("the kernel refuses it", route="10.9.0.0/16", errno=errno.EINVAL)
    real = play.kernel.change

    def change(changes: Iterable[Change]) -> tuple[Outcome, ...]:
        asked = list(changes)
        if any(str(it.route.prefix) == "10.9.0.0/16" for it in asked):
            return tuple(Outcome(it, refused) for it in asked)
        return real(asked)

    play.settings = config(*REPAIR, "10.9.0.0/16", cidrs=(CIDR,))
    play.kernel.change = change  # type: ignore[method-assign]
    seen: list[int] = []
    play.perform((50.0, play.delete), (50.3, lambda: seen.append(len(play.route("172.16.0.0/17")))), until=300)
    assert seen == [1]
    assert play.state()["fights"] == []
    assert "the kernel refuses it" in str(play.state()["failure"])


def test_a_rewrite_that_comes_later() -> None:
    """If a new configuration enables the probe rewrite, the events of nftables are heard from then on."""
    rewrite = {"enabled": True, "interfaces": ["eth0"], "condition": "always"}
    play = Play(h200(dual_stack=True), config("10.9.0.0/16"))
    play.again = lambda: HostRoutingConfig(probe_rewrite=rewrite)
    tables, seen = play.host.tables, list[int]()
    scenes = [(10.0, play.orders.reload), (20.0, tables.flush), (20.2, lambda: seen.append(len(tables.tables)))]
    play.perform(*scenes, until=30)
    assert seen == [1]


def test_files_that_cannot_be_written(play: Play) -> None:
    """That its own files cannot be written is said once, whenever that begins."""
    broken = play.host.files.broken
    play.perform((10.0, lambda: broken.update({LAYOUT.guard_path: "No space left on device"})), until=400)
    assert len([it for it in play.service.texts if "No space left on device" in it]) == 1


def test_waiting_for_another_run_is_not_said_each_second(play: Play, caplog: pytest.LogCaptureFixture) -> None:
    """While another run holds the host, the guard says nothing."""
    with caplog.at_level("INFO"):
        play.perform((10.0, lambda: play.host.files.locked.add(LAYOUT.lock_path)), until=100)
    assert "another run" not in caplog.text


def test_of_an_image(tmp_path: Path) -> None:
    """An image has no kernel, so there is nothing to guard."""
    report = phases.run(Guard(config(*REPAIR), host=Host.offline(str(tmp_path))), observers=[])
    assert "an image does not have a running kernel" in str(report)


def test_remove_takes_its_files(play: Play) -> None:
    """What a guard has written is removed with the rest, and listed before."""
    play.perform(until=10)
    files = {LAYOUT.guard_path, LAYOUT.figures_path}
    assert files <= set(play.host.files.texts)
    remove = Remove(play.settings, host=play.host)
    assert files <= set(remove.plan(phases.Context(observers=[])).files.removes)
    run(remove)
    assert not files & set(play.host.files.texts)
