"""Guard against another program that keeps undoing what it does, in memory and with a clock that never waits."""

import itertools
from collections.abc import Iterable

from hostrouting.config.probe_rewrite import ProbeRewriteConfig
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.kernel.base import Outcome, RouteRequest
from hostrouting.model.route import Route
from hostrouting.testing import h200
from tests.support.guard_play import Play
from tests.support.tasks import CIDR, REPAIR, config


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
    [named] = play.told("does not stay")
    assert named == (
        "172.16.0.0/17 does not stay: it was repaired 4 times, and the last time there was no route instead of "
        "[172.16.0.0/17 via 10.0.0.1 dev eth0 proto hostrouting]; to see what changes it, run: ip monitor"
    )
    assert play.state()["fights"] == [], "it has ended, because the other program stopped"
    assert play.route("172.16.0.0/17")


def test_many_routes_that_do_not_stay() -> None:
    """One line says how many routes these are, and guard.json lists them. A few routes have a line each."""
    few = [f"10.100.{number}.0/24" for number in range(3)]
    play = Play(h200(), config(*few, *(f"10.101.{number}.0/24" for number in range(200))))

    def undo(prefixes: str) -> None:
        routes = [route for route in play.kernel.snapshot().routes if str(route.prefix).startswith(prefixes)]
        assert all(it.ok for it in play.kernel.change([RouteRequest("delete", route) for route in routes]))

    scenes = [(10.0 + 5 * nth, lambda: undo("10.100.")) for nth in range(4)]
    scenes += [(100.0 + 5 * nth, lambda: undo("10.101.")) for nth in range(4)]
    play.perform(*scenes, until=130)
    told = play.told("not stay")
    assert [it.partition(" ")[0] for it in told[:3]] == few
    route = "[10.101.0.0/24 via 10.0.0.1 dev eth0 proto hostrouting]"
    [line] = told[3:]
    assert line == (
        "200 routes do not stay; one of them: 10.101.0.0/24 was repaired 4 times, and the last time there was no route "
        f"instead of {route}; to see what changes it, run: ip monitor"
    )
    fights = play.state()["fights"]
    assert isinstance(fights, list)
    assert len(fights) == 203


def test_a_default_gateway_that_keeps_changing(play: Play) -> None:
    """The routes follow each change at once, however often it comes, and the fight is named."""
    gateways, behind = itertools.cycle(["10.0.0.2", "10.0.0.1"]), list[str]()

    def change() -> None:
        [old] = [route for route in play.kernel.snapshot().routes if str(route.prefix) == "0.0.0.0/0"]
        new = Route.to("0.0.0.0/0", gateway=next(gateways), dev="eth0", protocol=old.protocol, metric=old.metric)
        assert all(it.ok for it in play.kernel.change([RouteRequest("delete", old), RouteRequest("add", new)]))

    def see() -> None:
        [default] = play.route("0.0.0.0/0")
        behind.extend(it for it in play.route("172.16.0.0/17") if default.split()[2] not in it)

    play.spent = lambda: 0.0
    scenes = [(10.0 + 5 * nth + late, it) for nth in range(50) for late, it in ((0.0, change), (0.3, see))]
    play.perform(*scenes, until=270)
    assert behind == []
    told = play.told("not stay")
    assert [it.partition(" was")[0] for it in told] == [
        "172.16.0.0/17 does not stay: it",
        "172.16.128.0/17 does not stay: it",
    ]


def test_a_new_configuration_is_not_a_fight(play: Play) -> None:
    """Changes that follow a new configuration are not counted."""
    gateway = {"gateway": "10.0.0.9"}
    other = HostRoutingConfig(static_routes={"enabled": True, "routes": [{"destination": REPAIR[0], **gateway}]})
    answers = itertools.cycle([other, config(REPAIR[0])])
    play.again = lambda: next(answers)
    play.perform(*((10.0 + nth, play.orders.reload) for nth in range(8)), until=30)
    repairs = play.state()["repairs"]
    assert isinstance(repairs, int)
    assert repairs >= 8
    assert not play.told("not stay")


def test_a_flapping_link(play: Play) -> None:
    """If a link takes the routes with it eight times in a row, they are back at once each time."""
    flap = ((0, play.delete), (0.2, play.see))
    play.perform(*((at + late, scene) for at in range(10, 90, 10) for late, scene in flap), until=100)
    assert play.seen == [1] * 8


def test_a_link_that_goes_down_again_and_again() -> None:
    """Linux takes the route of the rewrite with the link each time: it is added each time, which is not a fight."""
    play = Play(h200(dual_stack=True), HostRoutingConfig(probe_rewrite={"enabled": True, "interfaces": ["eth0"]}))
    prefix, kernel = f"{ProbeRewriteConfig().global_address}/128", play.kernel
    flap = ((0, lambda: kernel.set_down("eth0")), (5, lambda: kernel.set_up("eth0")), (9, lambda: play.see(prefix)))
    play.perform(*((at + late, scene) for at in range(10, 150, 10) for late, scene in flap), until=160)
    assert play.seen == [1] * 14
    told = play.service.texts
    assert not [it for it in told if "not stay" in it or "could not be applied" in it or it.startswith("repaired nft")]
    assert [it for it in told if "waiting for the device eth0 to be up" in it]


def test_an_opponent_that_is_faster(play: Play) -> None:
    """If a route is gone again before it can be read back, that is a fight as well, and it is slowed down."""
    real, adds = play.kernel.change, list[float]()

    def change(changes: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        asked = list(changes)
        outcomes = real(asked)
        mine = [it for it in asked if it.verb == "add" and str(it.route.prefix) == "172.16.0.0/17"]
        if mine and play.clock.now() < 300:
            adds.append(play.clock.now())
            real([RouteRequest("delete", it.route) for it in mine])
        return outcomes

    play.kernel.change = change  # type: ignore[method-assign]
    play.perform((10.0, play.delete), until=1000)
    assert 5 < len(adds) < 40
    assert play.told("172.16.0.0/17 does not stay")
    assert play.route("172.16.0.0/17")


def test_what_the_kernel_refuses_is_no_fight(play: Play) -> None:
    """A repair that the kernel refuses is a failure, not another program's doing; the other routes are repaired."""
    play.settings = config(*REPAIR, "10.9.0.0/16", cidrs=(CIDR,))
    play.refuse(lambda change: "the kernel refuses it" if str(change.route.prefix) == "10.9.0.0/16" else "")
    play.perform((50.0, play.delete), (50.3, play.see), until=300)
    assert play.seen == [1]
    assert play.state()["fights"] == []
    assert "the kernel refuses it" in str(play.state()["failure"])
