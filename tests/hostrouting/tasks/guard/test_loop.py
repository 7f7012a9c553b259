"""Guard, on hosts in memory and with a clock that never waits: what it repairs, when it looks, and what it tells."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import attrs
import pytest

import phases
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import BackendError
from hostrouting.host.host import Host
from hostrouting.kernel.base import RouteBackend, RouteRequest
from hostrouting.kernel.concern import Concern
from hostrouting.model.prefix import Prefix
from hostrouting.model.route import Route
from hostrouting.tasks.guard.loop import Guard
from hostrouting.testing import h200
from tests.support.guard_play import Play
from tests.support.tasks import CIDR, LAYOUT, REPAIR, config


def test_a_deleted_route(play: Play) -> None:
    """The route is back 150 ms after it was deleted, and one line says so."""
    play.perform((10.0, play.delete), (10.1, play.see), (10.2, play.see), until=20)
    assert play.seen == [0, 1]
    assert play.service.texts == [
        "the verdict is ok",
        "repaired 172.16.0.0/17: there was no route, now there is [172.16.0.0/17 via 10.0.0.1 dev eth0 proto hostrouting]",
    ]
    assert play.state()["repairs"] == 1


def test_without_events(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """If no event arrives, the next regular look finds it: every 60 s, 10 % more or less."""
    monkeypatch.setattr("hostrouting.testing.kernel.backend.MemoryWatch.hear", lambda _: None)
    play.perform((70.0, play.delete), (119.0, play.see), (121.0, play.see), until=130)
    assert play.seen == [0, 1]


def test_what_is_read_again(play: Play) -> None:
    """Looks after events share a backend, which keeps what has not changed; a minute later, all is read again."""
    opened, backend = list[float](), play.host.backend

    def count() -> RouteBackend:
        opened.append(play.clock.now())
        assert backend is not None
        return backend()

    play.host = attrs.evolve(play.host, backend=count)
    play.perform(*((25.0 * number, play.delete) for number in range(1, 5)), until=170)
    # Those of the watch and of the first look; then each minute, however many looks come after events.
    assert opened == [0.0, 0.0, pytest.approx(60.2, abs=0.1), pytest.approx(120.3, abs=0.1)]


def test_another_programs_route_is_never_touched(play: Play) -> None:
    """If another program takes the destination, that is named once, and once more when it is over; its route stays."""

    def take() -> None:
        play.delete()
        play.kernel.ip_route("add", theirs)

    theirs = Route.to("172.16.0.0/17", dev="ib0", protocol=4)
    seen: list[list[str]] = []
    play.perform(
        (10.0, take),
        (300.0, lambda: seen.append(play.route("172.16.0.0/17"))),
        (310.0, lambda: play.kernel.change([RouteRequest("delete", theirs)])),
        (311.0, lambda: seen.append(play.route("172.16.0.0/17"))),
        until=400,
    )
    assert seen == [[str(theirs)], ["172.16.0.0/17 via 10.0.0.1 dev eth0 proto hostrouting"]]
    [told] = play.told("^ROUTE-CONFLICT: 172.16.0.0/17 ")
    fields = {line.text: line.fields for line in play.service.lines}
    assert fields[told]["HOSTROUTING_PREFIX"] == "172.16.0.0/17"
    [escaped] = play.told("^OVERLAP")
    assert (fields[escaped]["HOSTROUTING_CIDR"], fields[escaped]["HOSTROUTING_DEV"]) == (CIDR, "ib0")
    [over] = play.told("^no longer: ROUTE-CONFLICT: ")
    assert told.startswith(f"{over.removeprefix('no longer: ')}; ")  # without what to do
    assert play.told("^the verdict") == [
        "the verdict is ok",
        "the verdict is overlap (it was ok)",
        "the verdict is ok (it was overlap)",
    ]


def test_an_edited_gate(play: Play) -> None:
    """An edited file that decides whether a machine starts is a problem until it is written again, and is left alone."""
    path, texts = LAYOUT.gate_script_path, play.host.files.texts
    text = texts[path]
    edited = text.replace("\n", "\nexit 0\n", 1)
    seen: list[Any] = []
    scenes = [(10.0, lambda: texts.update({path: edited})), (100.0, lambda: seen.append(play.state()["findings"]))]
    scenes += [(101.0, lambda: seen.append(texts[path])), (102.0, lambda: texts.update({path: text}))]
    play.perform(*scenes, until=200)
    [[told], kept] = seen
    assert kept == edited
    assert told["target"] == path
    line = f"GATE-OPEN: {told['sentence']}; {told['remedy']}"
    assert play.service.texts == ["the verdict is ok", line, f"no longer: GATE-OPEN: {told['sentence']}"]


def test_a_gate_that_cannot_be_read(play: Play) -> None:
    """The look fails for this reason, and the routes are still kept."""
    play.perform(
        (1.0, lambda: play.host.files.strange.update({LAYOUT.gate_script_path: "a fifo"})), (2.0, play.delete), until=5
    )
    [told] = play.told("^gate: ")
    assert LAYOUT.gate_script_path in told
    assert play.route("172.16.0.0/17")


def test_a_route_with_a_lifetime() -> None:
    """A problem whose text changes with each look is reported once."""
    play = Play(h200(dual_stack=True), config("fd00:9::/32"))

    def take() -> None:
        play.delete("fd00:9::/32")
        held = Route.to("fd00:9::/32", dev="ib0", protocol=9, metric=1024)
        play.kernel.ip_route("add", attrs.evolve(held, expires=1800))

    play.perform((10.0, take), until=400)
    [told] = play.told("^ROUTE-CONFLICT: fd00:9::/32 ")
    assert "expires" in told


def test_a_suspended_machine(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a suspension, in which the clock of waits stood still, the guard looks at once."""
    slept = timedelta()
    real = play.clock.utc
    monkeypatch.setattr(play.clock, "utc", lambda: real() + slept)
    monkeypatch.setattr("hostrouting.testing.kernel.backend.MemoryWatch.hear", lambda _: None)

    def suspend() -> None:
        nonlocal slept
        slept = timedelta(hours=8)
        play.delete()

    play.perform((65.0, suspend), (100.0, play.see), until=101)
    assert play.seen == [1]


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
    """If the route cannot be added, the table is loaded anyway, and each has its own line."""
    rewrite = {"enabled": True, "interfaces": ["eth0"]}
    play = Play(h200(dual_stack=True), HostRoutingConfig(probe_rewrite=rewrite))
    real = play.kernel.change

    def why(change: RouteRequest) -> str:
        return "the kernel refuses it" if play.clock.now() >= 10 and change.verb == "add" else ""

    def undo() -> None:
        [route] = [it for it in play.kernel.snapshot().routes if str(it.prefix).startswith("2603:")]
        real([RouteRequest("delete", route)])
        play.host.tables.flush()

    play.refuse(why)
    play.perform((10.0, undo), until=11)
    assert play.told("^repaired nftables table ip6 hostrouting_slb: there was none")
    assert play.told("the kernel refuses it")


def test_the_watchdog(play: Play) -> None:
    """The watchdog hears from the guard at least three times in its period, and before each task of a look."""
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
        (10.0, lambda: play.kernel.change([RouteRequest("add", appears)])),
        (11.0, see),
        (500.0, see),
        (510.0, lambda: play.kernel.change([RouteRequest("delete", appears)])),
        (511.0, see),
        until=520,
    )
    since = "2026-01-01T00:00:10Z"
    assert seen == [(False, True, since), (False, True, since), (True, False, "2026-01-01T00:08:30Z")]
    writes = [write for write in files.writes if write == LAYOUT.report_path]
    assert len(writes) == 6, "by the installation, then with the time, and removed and written once for each change"
    assert play.host.manager is not None
    assert LAYOUT.gate_unit not in play.host.manager.calls


def test_a_storm(play: Play) -> None:
    """Thousands of events do not make it look thousands of times, and it still repairs what was changed."""
    dummy = Route.to("10.99.0.0/16", dev="eth0", protocol=4)

    def churn() -> None:
        play.kernel.change([RouteRequest("add", dummy), RouteRequest("delete", dummy)])

    # No scene is at a moment at which the guard looks: a backend is for one thread at a time.
    scenes = [(10 + at / 101.37, churn) for at in range(1000)]
    scenes.insert(500, (14.9301, play.delete))
    scenes.append((20.3, play.see))
    play.perform(*scenes, until=30)
    assert play.seen == [1]
    looks = play.state()["looks"]
    assert isinstance(looks, int)
    assert 20 < looks < 100


def test_a_flushed_table() -> None:
    """The table of the probe rewrite is loaded again 150 ms after another program has flushed nftables."""
    kernel = h200(dual_stack=True)
    settings = HostRoutingConfig(probe_rewrite={"enabled": True, "interfaces": ["eth0"]})
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


def test_a_rewrite_that_comes_later() -> None:
    """If a new configuration enables the probe rewrite, the events of nftables are heard from then on."""
    rewrite = {"enabled": True, "interfaces": ["eth0"]}
    play = Play(h200(dual_stack=True), config("10.9.0.0/16"))
    play.again = lambda: HostRoutingConfig(probe_rewrite=rewrite)
    tables, seen = play.host.tables, list[int]()
    scenes = [(10.0, play.orders.reload), (20.0, tables.flush), (20.2, lambda: seen.append(len(tables.tables)))]
    play.perform(*scenes, until=30)
    assert seen == [1]


def test_of_an_image(tmp_path: Path) -> None:
    """An image has no kernel, so there is nothing to guard."""
    report = phases.run(Guard(config(*REPAIR), host=Host.offline(str(tmp_path))), observers=[])
    assert "an image does not have a running kernel" in str(report)


def test_what_is_listened_to(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a look, the watch leaves out what cannot change its answers; after one that failed, it reports everything."""
    heeded: list[object] = []

    def heed(_: object, concerns: tuple[Concern, ...] | None) -> None:
        told = Prefix.parse("10.77.0.0/16"), Prefix.parse("172.16.0.0/24")
        far, near = ((prefix.family, 254, 4, prefix.network, prefix.length) for prefix in told)
        heeded.append(concerns and [(concern.has_route(*far), concern.has_route(*near)) for concern in concerns])

    def fail() -> None:
        play.kernel.faults.fail("snapshot", BackendError("the kernel does not answer", kind="timeout"))
        play.orders.reload()

    monkeypatch.setattr("hostrouting.testing.kernel.backend.MemoryWatch.heed", heed)
    play.perform((10.0, fail), until=20)
    assert heeded == [[(False, True)] * 2, None, [(False, True)] * 2]


def test_a_route_that_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """An advertised default route ends without an event, and the guard says so within a second or two."""
    play = Play(h200(dual_stack=True), config(cidrs=("fd00:9::/32",)))
    monkeypatch.setattr("hostrouting.testing.kernel.backend.MemoryWatch.hear", lambda _: None)
    [default] = [route for route in play.kernel.snapshot().routes if str(route.prefix) == "::/0"]
    play.kernel.ip_route("replace", attrs.evolve(default, expires=100))
    verdicts: list[object] = []
    play.perform(*((at, lambda: verdicts.append(play.state()["verdict"])) for at in (99.0, 102.0)), until=110)
    assert verdicts == ["ok", "no-default-route"]
