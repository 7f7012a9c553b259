"""Guard when it cannot look, listen, repair or write: what it says, what it keeps, and when it tries again; in memory."""

import errno
import json
from collections.abc import Iterable
from typing import Any

import attrs
import pytest

from hostrouting.boot.installed import kept_config
from hostrouting.check.examine import Examination, examine, read
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import BackendError, ConfigError, FileError, RouteRefused
from hostrouting.kernel.base import Outcome, RouteBackend, RouteRequest
from hostrouting.model.route import Route
from hostrouting.model.snapshot import Snapshot
from hostrouting.routes.apply import Applied, apply_plan
from hostrouting.routes.plan import RoutePlan
from hostrouting.tasks.configure import Configure
from hostrouting.testing import h200
from tests.support.guard_play import Play
from tests.support.tasks import CIDR, LAYOUT, REPAIR, config, run


def test_failures(play: Play) -> None:
    """While looks fail, they come less and less often, at last every minute; the reason is reported once."""
    for nth in range(1, 30):
        play.kernel.faults.fail("snapshot", BackendError("the kernel does not answer", kind="timeout"), nth=nth)
    play.perform(until=600)
    state = play.state()
    assert state["failure"] is None
    told = play.told("does not answer")
    assert told[0].startswith("configure-static-routes: ")
    assert told[-1].startswith("no longer: ")
    assert len(told) <= 4
    assert state["verdict"] == "ok"


def test_a_failed_look_changes_no_answer(play: Play) -> None:
    """A failed look does not end a problem: no recovery is reported, and the verdict stays."""
    play.kernel.add_link("ib9")
    appears = Route.to("172.16.9.0/24", dev="ib9", protocol=4)

    def fail() -> None:
        for nth in range(1, 3):
            play.kernel.faults.fail("snapshot", BackendError("the kernel does not answer", kind="timeout"), nth=nth)
        play.orders.reload()

    play.perform(
        (10.0, lambda: play.kernel.change([RouteRequest("add", appears)])),
        (100.03, fail),
        (100.04, play.note),
        (110.0, play.note),
        until=120,
    )
    assert [state["failure"] is None for state in play.states] == [False, True]
    assert [(state["verdict"], state["verdictSince"]) for state in play.states] == [
        ("overlap", "2026-01-01T00:00:10Z")
    ] * 2
    assert play.told("^the verdict") == ["the verdict is ok", "the verdict is overlap (it was ok)"]
    assert not play.told("^no longer: OVERLAP")


def test_what_is_refused_does_not_starve_the_rest(play: Play) -> None:
    """However many routes the kernel refuses, the others are repaired in the same look, in a second transaction."""

    def why(change: RouteRequest) -> str:
        is_refused = str(change.route.prefix).startswith("10.1") and change.verb == "add"
        return "the kernel refuses it" if is_refused else ""

    prefixes = [f"10.{100 + number}.0.0/16" for number in range(40)] + [
        f"10.{number}.0.0/16" for number in range(20, 60)
    ]
    play.settings = config(*prefixes)
    play.refuse(why)
    batches = play.count_changes()
    play.perform(until=0.01)
    assert sum(bool(play.route(prefix)) for prefix in prefixes) == 40
    assert batches == [80, 40, 40, 2], "all, what was made of it back, the rest, and the two routes of before"
    failure = str(play.state()["failure"])
    assert failure.count("the kernel refuses it") == 10
    assert failure.endswith("; and 30 more")
    fed = play.service.notified.count("WATCHDOG=1")
    assert fed >= 5 + 2 * 2, "between the steps of each transaction too"


def test_each_step_finds_other_routes(play: Play) -> None:
    """Refused when it is added, when it is deleted, or undone by another program: each is named, and the rest is repaired."""
    real = play.kernel.change

    def undo(changes: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        [change] = changes
        outcomes = real([change])
        if f"{change.verb} {change.route.prefix}" == "add 10.3.0.0/16":
            real([RouteRequest("delete", change.route)])
        return outcomes

    def why(change: RouteRequest) -> str:
        key = f"{change.verb} {change.route.prefix}"
        is_refused = key == "add 10.1.0.0/16" or (change.verb == "delete" and change.route == wrong)
        return f"not {key}" if is_refused else ""

    wrong = Route.to("10.2.0.0/16", gateway="10.0.0.9", dev="eth0", protocol=213)
    play.kernel.ip_route("add", wrong)
    play.settings = config("10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16", "10.4.0.0/16")
    play.kernel.change = undo  # type: ignore[method-assign]
    play.refuse(why)
    play.perform(until=0.01)
    assert play.route("10.4.0.0/16")
    assert play.route("10.2.0.0/16") == [str(wrong)]
    failure = str(play.state()["failure"])
    assert [it in failure for it in ("not add 10.1.0.0/16", "not delete 10.2.0.0/16", "[10.3.0.0/16 via")] == [True] * 3


def test_a_kernel_that_refuses_another_route_each_time(play: Play) -> None:
    """After five attempts the rest is left to the next look, and their number is reported."""
    real = play.kernel.change

    def change(changes: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        asked = list(changes)
        refused = RouteRefused(f"not {asked[0].route.prefix}", route="x", errno=errno.EINVAL)
        first = [Outcome(asked.pop(0), refused)] if asked[0].verb == "add" else []
        return (*first, *real(asked))

    play.settings = config(*(f"10.{number}.0.0/16" for number in range(101, 111)))
    play.kernel.change = change  # type: ignore[method-assign]
    play.perform(until=0.01)
    told = [f"not 10.{number}.0.0/16" for number in range(101, 106)]
    assert play.state()["failure"] == "configure-static-routes: " + "; ".join(
        ["7 more routes are tried again at the next look", *told]
    )


def test_a_lock_that_cannot_be_taken(play: Play) -> None:
    """A lock that cannot be taken is a failure of the look: what was known stays, and the guard continues."""
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
    assert (seen[0]["verdict"], seen[0]["looks"]) == ("ok", 1)
    assert play.route("172.16.0.0/17")


def test_a_kernel_that_does_not_answer(play: Play) -> None:
    """A change that times out is tried once in a look, not for each half of the changes."""
    asked: list[int] = []

    def change(changes: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        asked.append(len(list(changes)))
        raise BackendError("the kernel does not answer", kind="timeout")

    play.settings = config(*(f"10.{number}.0.0/16" for number in range(100, 140)))
    play.kernel.change = change  # type: ignore[method-assign]
    play.perform(until=0.05)
    assert len(asked) <= 3, "one attempt, and the attempts to take it back"


def test_tables_that_keep_changing(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the tables keep changing while they are read, the former verdict stays; if that lasts, it is a failure."""
    real = examine

    def restless(*given: Any, **named: Any) -> Examination:
        found = real(*given, **named)
        if not 10 < play.clock.now() < until:
            return found
        return attrs.evolve(found, families=tuple(attrs.evolve(family, restless=True) for family in found.families))

    monkeypatch.setattr("hostrouting.tasks.overlap_check.examine", restless)
    until = 40.0

    def go_on() -> None:
        nonlocal until
        play.note()
        until = 1000.0
        play.delete()

    play.perform((12.0, play.delete), (30.0, play.note), (100.3, go_on), (400.7, play.note), until=410)
    states = play.states
    assert [state["failure"] for state in states[:2]] == [None] * 2
    assert "keep changing" in str(states[2]["failure"])
    assert [state["verdict"] for state in states] == ["ok"] * 3
    assert play.told("^the verdict") == ["the verdict is ok"]
    assert [state["unknown"] for state in states] == [["check-route-overlap"], [], ["check-route-overlap"]]
    assert states[0]["lastLook"] == "2026-01-01T00:00:00Z", "nothing is known from a later moment"
    assert str(states[2]["lastLook"]) < "2026-01-01T00:02"


def test_tables_that_keep_changing_take_their_share(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """If each look takes half a second of processor time, the guard uses a tenth of the time, not more."""
    used = [0.0]

    def restless(*_given: Any, **_named: Any) -> Examination:
        used[0] += 0.5
        raise BackendError("the tables keep changing", kind="unsettled")

    monkeypatch.setattr("hostrouting.tasks.overlap_check.examine", restless)
    play.spent = lambda: used[0]
    play.perform(until=100)
    assert used[0] <= 0.1 * 100 + 2 + 1


@pytest.mark.parametrize("report", ["[]", "{", "5", "null"])
def test_a_damaged_report(play: Play, report: str) -> None:
    """The report is written again."""
    play.host.files.texts[LAYOUT.report_path] = report
    play.perform(until=10)
    assert json.loads(play.host.files.texts[LAYOUT.report_path])["verdict"] == "ok"


def test_markers_that_cannot_be_written(play: Play) -> None:
    """The verdict, the overlap and the file are still reported."""
    play.kernel.add_link("ib9")
    play.host.files.broken[LAYOUT.report_path] = "No space left on device"
    appears = Route.to("172.16.9.0/24", dev="ib9", protocol=4)
    play.perform((10.0, lambda: play.kernel.change([RouteRequest("add", appears)])), until=20)
    assert play.state()["verdict"] == "overlap"
    assert play.told("^OVERLAP: expected CIDR 172.16.0.0/16")
    assert play.told(f"cannot write {LAYOUT.report_path}")


def test_each_failure_has_its_end(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """If two tasks fail, the recovery of one is reported separately."""
    broken = {"routes", "check"}

    def routes(backend: RouteBackend, **_how: bool) -> tuple[Snapshot, bool]:
        if "routes" in broken:
            raise BackendError("no answer for routes", kind="timeout")
        return read(backend)

    def check(*given: Any, **named: Any) -> Examination:
        if "check" in broken:
            raise BackendError("no answer for the check", kind="timeout")
        return examine(*given, **named)

    monkeypatch.setattr("hostrouting.tasks.static_routes.read", routes)
    monkeypatch.setattr("hostrouting.tasks.overlap_check.examine", check)
    play.perform((5.0, lambda: broken.discard("routes")), (100.0, lambda: broken.discard("check")), until=300)
    told = play.told("no answer")
    assert told == [
        "configure-static-routes: no answer for routes",
        "check-route-overlap: no answer for the check",
        "no longer: configure-static-routes: no answer for routes",
        "no longer: check-route-overlap: no answer for the check",
    ]


def test_it_cannot_listen_for_a_while(play: Play) -> None:
    """Beginning and end are reported once each; guard.json and the figures have it, and the looks go on."""

    def look() -> None:
        play.see()
        play.note()

    for nth in range(2, 6):
        play.kernel.faults.fail("wait", BackendError("too many open files"), nth=nth)
    scenes = [(40.0, play.delete), (59.0, look), (95.0, look), (150.0, play.delete), (150.2, look)]
    report = play.perform(*scenes, until=160)
    assert not [failure for failure in report.failures if failure.path[-1:] == ("guard",)]
    assert play.kernel.faults.waiting == 0
    assert play.seen == [0, 1, 1]
    text = (
        "cannot listen to changes of routes: too many open files; until that works again, these changes are noticed "
        "once a minute"
    )
    assert play.told("too many") == [text, f"no longer: {text}"]
    assert [(state["failure"], state["verdict"]) for state in play.states] == [(text, "ok"), (None, "ok"), (None, "ok")]


def test_it_cannot_listen_to_nftables(play: Play) -> None:
    """A new configuration is used at once and whole, also if its nftables cannot be listened to; routes still are."""
    play = Play(h200(dual_stack=True), config("10.9.0.0/16"))
    rewrite = {"enabled": True, "interfaces": ["eth0"]}
    play.again = lambda: attrs.evolve(play.settings, probe_rewrite=rewrite)
    tables, seen = play.host.tables, list[tuple[int, int]]()

    def see() -> None:
        seen.append((len(tables.tables), len(play.route("10.9.0.0/16"))))

    for nth in range(1, 9):
        play.kernel.faults.fail("listen", BackendError("not enough memory"), nth=nth)
    scenes = [(10.0, play.orders.reload), (10.1, see), (20.0, lambda: play.delete("10.9.0.0/16")), (20.2, see)]
    scenes += [(21.0, tables.flush), (21.2, see), (200.0, see), (200.1, tables.flush), (200.3, see)]
    report = play.perform(*scenes, until=210)
    assert not [failure for failure in report.failures if failure.path[-1:] == ("guard",)]
    assert seen == [(1, 1), (1, 1), (0, 1), (1, 1), (1, 1)]
    told = play.told("cannot listen")
    assert told == [told[0], f"no longer: {told[0]}"]
    assert told[0].startswith("cannot listen to changes of nftables: not enough memory; ")


@pytest.mark.parametrize("path", [LAYOUT.guard_path, LAYOUT.figures_path])
def test_files_that_cannot_be_written(play: Play, path: str) -> None:
    """If the guard cannot write one of its files, beginning and end of this are reported once each."""
    files = play.host.files
    scenes = [(10.0, lambda: files.broken.update({path: "No space left on device"}))]
    scenes += [(200.0, play.note), (300.0, files.broken.clear)]
    play.perform(*scenes, until=400)
    told = play.told("No space left on device")
    assert told == [told[0], f"no longer: {told[0]}"]
    assert play.states[0]["failure"] == (told[0] if path == LAYOUT.figures_path else None)
    assert play.state()["failure"] is None


def test_a_state_directory_that_became_read_only(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service ends, with that as its only reason, so that systemd starts it again; what it repaired is reported."""

    def fail(_: object, path: str, *_given: Any, **_named: Any) -> bool:
        raise FileError("read-only", path=path, errno=errno.EROFS)

    def change() -> None:
        play.delete()
        monkeypatch.setattr(type(play.host.files), "write", fail)

    play.service.watchdog = 180.0
    report = play.perform((10.0, change), until=20)
    assert "read-only" in str(report)
    assert play.told("^repaired 172.16.0.0/17")
    assert "read-only" not in play.service.texts


def test_what_a_run_has_changed_since(play: Play) -> None:
    """If a script is missing before the guard has read what a run has installed, the former routes do not come back.

    A guard once deleted the routes of a run that had succeeded, and added those of the one before it.
    """
    present = config(*REPAIR, "10.9.0.0/16", cidrs=(CIDR,))
    script = play.host.files.texts[LAYOUT.check_script_path]
    play.again, play.follows = lambda: kept_config(play.host), True

    def change() -> None:
        run(Configure(present, host=play.host))
        play.host.files.remove(LAYOUT.check_script_path)

    def mend() -> None:
        play.see("10.9.0.0/16")
        play.host.files.write(LAYOUT.check_script_path, script, mode=0o755)
        play.delete("10.9.0.0/16")

    play.perform((10.0, change), (100.0, mend), (300.0, lambda: play.see("10.9.0.0/16")), until=310)
    assert play.seen == [1, 1]
    assert play.told(f"{LAYOUT.check_script_path}: is missing")


def test_what_a_run_has_changed_before_the_first_look(play: Play) -> None:
    """If the configuration cannot be read at the first look, that with which the guard began is not used.

    A run may have changed the host in between. Kills: the guard takes the present list for that of its configuration.
    """
    play.host.files.remove(LAYOUT.check_script_path)
    play.again, play.follows = lambda: kept_config(play.host), True
    play.perform((1.0, play.delete), (100.0, play.see), until=110)
    assert play.seen == [0]
    assert play.told(f"{LAYOUT.check_script_path}: is missing")


def test_a_configuration_that_cannot_be_read(play: Play) -> None:
    """The former configuration stays; the fault is reported once, and is in guard.json until the file can be read."""
    broken = False
    states: list[dict[str, object]] = []

    def again() -> HostRoutingConfig:
        if broken:
            raise ConfigError([], source="agent.json")
        return play.settings

    def damage() -> None:
        nonlocal broken
        broken = True

    def mend() -> None:
        nonlocal broken
        states.append(play.state())
        assert "hostrouting_guard_problems 1" in play.host.files.texts[LAYOUT.figures_path].splitlines()
        broken = False

    play.again, play.follows = again, True
    play.perform((10.0, damage), (150.0, mend), until=250)
    assert str(states[0]["failure"]).startswith("the configuration stays as it was: ")
    assert (states[0]["verdict"], states[0]["looks"]) == ("ok", 3), "a look that was made did not fail"
    assert "hostrouting_guard_failures_total 0" in play.host.files.texts[LAYOUT.figures_path].splitlines()
    assert play.service.texts[1:] == [states[0]["failure"], f"no longer: {states[0]['failure']}"]
    assert play.state()["failure"] is None


def test_the_time_of_a_repair(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of the last repair is that of this repair, also if another task has failed since its own repair."""
    rewrite = {"enabled": True, "interfaces": ["eth0"]}
    play = Play(h200(dual_stack=True), attrs.evolve(config(*REPAIR), probe_rewrite=rewrite))
    play.spent = lambda: 0.0
    seconds = {"172.16.0.0/17": 5.0}
    real = apply_plan

    def apply(plan: RoutePlan, *given: Any, **named: Any) -> Applied:
        play.clock.event().wait(sum(seconds.pop(str(change.route.prefix), 0.0) for change in plan.changes))
        return real(plan, *given, **named)

    def fail(_: RouteBackend, **_how: bool) -> tuple[Snapshot, bool]:
        raise BackendError("no answer", kind="timeout")

    def break_reading() -> None:
        monkeypatch.setattr("hostrouting.tasks.static_routes.read", fail)

    monkeypatch.setattr("hostrouting.tasks.static_routes.apply_plan", apply)
    play.perform((10.0, play.delete), (12.0, break_reading), (20.0, play.host.tables.flush), until=20.2)
    assert play.state()["repairs"] == 2
    assert "hostrouting_guard_repair_seconds 0.0" in play.host.files.texts[LAYOUT.figures_path].splitlines()


def test_thousands_of_problems(play: Play) -> None:
    """If the device of thousands of routes is down, the log gets a few lines."""
    play.settings = config(*(f"10.{number // 250}.{number % 250}.0/24" for number in range(2000)), dev="ib9")
    play.perform(until=30)
    assert len(play.service.texts) < 5


def test_many_findings(play: Play) -> None:
    """If another program takes many destinations, the first have a line each, and one line counts the others.

    The escapes have lines of their own, although the check comes after the routes.
    """
    destinations = [f"10.{number}.0.0/16" for number in range(1, 41)]
    play.kernel.change(
        [RouteRequest("add", Route.to(destination, dev="ib0", protocol=4)) for destination in destinations]
    )
    play.settings = config(*destinations, cidrs=("10.7.0.0/16",))
    play.perform(until=30)
    assert sum(text.startswith("ROUTE-CONFLICT") for text in play.service.texts) == 20
    assert "20 more findings like these" in play.service.texts
    assert sum(text.startswith("OVERLAP: expected CIDR 10.7.0.0/16") for text in play.service.texts) == 1
