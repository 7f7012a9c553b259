"""NetlinkBackend on Linux and the fake kernel agree: the same batches give the same outcomes, texts and tables."""

import errno
import re
from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from hostrouting.kernel.base import Outcome, RouteBackend, RouteRequest, Verb
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.prefix import IPV4, IPV6, Prefix, as_ip
from hostrouting.model.route import PREFERENCES, NextHop, Route, RouteType
from hostrouting.testing.kernel import FakeKernel
from tests.support.commands import ports
from tests.support.namespace import private_namespace

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

ADDRESSES = (
    ("eth0", "10.0.0.4/24"),
    ("eth0", "10.0.0.5/24"),
    ("ib0", "172.16.1.10/16"),
    ("eth0", "2001:db8:9::4/64"),
    ("ib0", "2001:db8:8::4/64"),
)
PREFIXES = {
    4: [Prefix.parse(it) for it in ("192.0.2.0/24", "192.0.2.0/25", "0.0.0.0/0")],
    6: [Prefix.parse(it) for it in ("2001:db8:1::/64", "2001:db8:1::/65", "::/0")],
}
GATEWAYS = {
    4: [None, *map(as_ip, ("10.0.0.1", "10.0.0.2", "172.16.0.1", "0.0.0.0"))],  # noqa: S104  a gateway that is none
    6: [None, *map(as_ip, ("2001:db8:9::1", "2001:db8:9::2", "2001:db8:8::1"))],
}
SOURCES = [Prefix.parse(it) for it in ("fd00:a::/64", "fd00:a::8/125", "::/0", "10.0.0.0/8")]
PATHLESS: list[RouteType] = ["blackhole", "unreachable", "prohibit", "throw"]


def seldom(usual: Any, *others: Any, of: int = 5) -> st.SearchStrategy[Any]:
    """Mostly this value, sometimes another one."""
    return st.sampled_from([usual] * of + list(others))


@st.composite
def routes(draw: st.DrawFn, family: int) -> Route:
    """A route to one of three places, valid or invalid in any way in which a Route can be."""
    devices = seldom("eth0", "ib0", "gone0", "idle0", "n\udcffx", None)
    legs = st.builds(
        lambda dev, gateway, weight, onlink: NextHop(dev, gateway=gateway, weight=weight, onlink=onlink),
        devices,
        st.sampled_from(GATEWAYS[family]),
        seldom(1, 2, 300) if family == IPV4 else st.just(1),
        seldom(False, True, of=9),
    )
    kind: RouteType = draw(seldom("unicast", *PATHLESS))
    ways = tuple(draw(st.lists(legs, min_size=1, max_size=draw(st.sampled_from([1, 1, 2])))))
    ways = draw(seldom((), ways)) if kind != "unicast" else ways
    v4 = family == IPV4
    return Route(
        draw(st.sampled_from(PREFIXES[family])),
        ways,
        type=kind,
        metric=draw(st.sampled_from([0, 0, 5, 1024, 1 << 32])),
        protocol=draw(st.sampled_from([213, 213, 213, 4, 0, 256])),
        table=draw(seldom(254, 100, -1)),
        tos=draw(seldom(0, 16, 300)) if v4 else 0,
        scope=draw(st.sampled_from([0, 0, 253, 300])) if v4 else 0,
        prefsrc=as_ip("10.0.0.5") if v4 and kind == "unicast" and draw(st.integers(0, 3)) == 0 else None,
        mtu=draw(seldom(None, 1400, 1300, 0, 70000, 1 << 33)),
        advmss=draw(seldom(None, 1300, of=9)),
        # Only IPv6 has these; for IPv4 both backends refuse them.
        source=draw(seldom(None, *SOURCES, of=6 if family == IPV6 else 40)),
        preference=draw(seldom("medium", *PREFERENCES, of=6 if family == IPV6 else 60)),
        expires=draw(seldom(None, 600, 1 << 32, of=6 if family == IPV6 else 40)),
    )


@st.composite
def batches(draw: st.DrawFn, family: int) -> list[list[RouteRequest]]:
    """Changes of a few routes, in a few batches, so that a deleted route sometimes exists."""
    pool = draw(st.lists(routes(family), min_size=2, max_size=5))
    # Some differ in one field only.
    pool += [attrs.evolve(it, **{name: value}) for it in pool[:2] for name, value in [draw(st.sampled_from(TWISTS))]]
    verbs: list[Verb] = ["add", "append", "prepend", "replace", "delete", "delete"]
    changes = st.builds(RouteRequest, st.sampled_from(verbs), st.sampled_from(pool))
    batch = st.lists(changes, min_size=2, max_size=10) | st.lists(changes, min_size=1, max_size=1)
    return draw(st.lists(batch, min_size=1, max_size=6))


TWISTS: list[tuple[str, Any]] = [
    *[("mtu", 1400), ("metric", 0), ("metric", 1024), ("protocol", 0), ("protocol", 213)],
    *[("source", None), ("source", SOURCES[1]), ("preference", "high"), ("expires", None), ("expires", 600)],
]


@pytest.fixture(scope="module")
def linux() -> Iterator[NetlinkBackend]:
    """A namespace with two devices that are up and one that is down."""
    with private_namespace() as namespace:
        namespace.batch(
            [
                "link set lo up",
                *ports("eth0", "ib0", "idle0"),
                "link set idle0 down",
                *(f"address add {address} dev {dev} {'nodad' * (':' in address)}" for dev, address in ADDRESSES),
            ]
        )
        with NetlinkBackend(netns=namespace.path) as backend:
            yield backend


def fake() -> FakeKernel:
    """The same host."""
    kernel = FakeKernel()
    kernel.set_up("lo")
    for name in ("eth0", "ib0"):
        kernel.add_link(name)
    kernel.add_link("idle0", up=False)
    for dev, address in ADDRESSES:
        kernel.add_address(dev, address)
    return kernel


def table(backend: RouteBackend, family: int) -> list[Route]:
    """The routes used by the tests, in the kernel's order."""
    return [route for route in backend.snapshot(family=family).routes if route.prefix in PREFIXES[family]]


def empty(backend: RouteBackend, family: int) -> None:
    """Delete all of them, one after the other: indistinguishable routes are deleted when they are first."""
    while standing := table(backend, family):
        backend.change(RouteRequest("delete", route) for route in standing)
        # Of several next hops with different owners, those of the first owner went.
        assert table(backend, family) != standing


def told(outcomes: tuple[Outcome, ...]) -> list[tuple[object, ...]]:
    """The result of each change: the class of the error and its number.

    For a single change also the text, without the kernel's own. (In a batch the details are read afterwards.)
    """
    words = [""] * len(outcomes)
    if len(outcomes) == 1:
        words = [without_seconds(str(outcome.error).partition(" (kernel:")[0]) for outcome in outcomes]
    return [
        () if it.error is None else (it.error.kind, it.error.errno, said)
        for it, said in zip(outcomes, words, strict=True)
    ]


def without_seconds(text: str) -> str:
    """The text without the seconds until a route expires, which pass on Linux only."""
    return re.sub(r"expires \d+sec", "expires", text)


THROW = Route.to("2001:db8:1::/64", type="throw", protocol=213, metric=1024)
BESIDE = Route.to("2001:db8:1::/64", dev="eth0", protocol=213, metric=1024)
GATED = Route.to("192.0.2.0/24", dev="eth0", gateway="10.0.0.1", protocol=213)
SOURCED = attrs.evolve(GATED, prefsrc=as_ip("10.0.0.5"))
ECMP = attrs.evolve(GATED, legs=(*GATED.legs, NextHop("eth0", gateway=as_ip("10.0.0.2"))))
SIX = Route.to("2001:db8:1::/64", dev="eth0", protocol=213, metric=0)
SOME, FEWER, ANY = (attrs.evolve(SIX, source=source) for source in SOURCES[:3])
# Linux makes one route of these, and lists it with the protocol of the first.
OWN, BIRD = (
    attrs.evolve(SIX, legs=(NextHop("eth0", gateway=as_ip(gateway)),), metric=1024, protocol=protocol)
    for gateway, protocol in (("fe80::1", 213), ("fe80::9", 12))
)
HIGH, BRIEF = attrs.evolve(SIX, preference="high"), attrs.evolve(SIX, expires=600)


@pytest.mark.parametrize("family", [4, 6])
@settings(
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],  # shrinking takes minutes
)
@given(data=st.data())
def test_same_batches_same_outcomes(linux: NetlinkBackend, family: int, data: st.DataObject) -> None:
    """For any batches, every outcome, its text, and the table are the same."""
    empty(linux, family)
    kernel = fake()
    for batch in data.draw(batches(family)):
        outcomes = zip(batch, told(linux.change(batch)), told(kernel.change(batch)), strict=True)
        assert [(str(change), said, other) for change, said, other in outcomes if said != other] == []
        listed = [[without_seconds(str(it)) for it in table(backend, family)] for backend in (linux, kernel)]
        assert listed[0] == listed[1]


@pytest.mark.parametrize(
    ("standing", "asked"),
    [
        ([THROW, BESIDE], BESIDE),
        ([THROW, BESIDE], THROW),
        ([BESIDE, THROW], THROW),
        ([SOURCED, GATED], GATED),
        ([SOURCED, GATED], SOURCED),
        ([attrs.evolve(GATED, mtu=1400), GATED], GATED),
        ([attrs.evolve(GATED, mtu=1300), attrs.evolve(GATED, mtu=1400)], attrs.evolve(GATED, mtu=1400)),
        ([GATED], attrs.evolve(GATED, mtu=1400)),
        ([GATED], attrs.evolve(GATED, mtu=0)),
        ([attrs.evolve(GATED, mtu=0)], attrs.evolve(GATED, mtu=0)),
        ([attrs.evolve(GATED, mtu=1400), attrs.evolve(GATED, mtu=0)], attrs.evolve(GATED, mtu=0)),
        ([attrs.evolve(GATED, mtu=0, protocol=4), attrs.evolve(GATED, mtu=0)], attrs.evolve(GATED, mtu=0)),
        ([attrs.evolve(GATED, protocol=4), attrs.evolve(GATED, protocol=0)], attrs.evolve(GATED, protocol=0, mtu=0)),
        ([attrs.evolve(GATED, protocol=0), attrs.evolve(GATED, protocol=4)], attrs.evolve(GATED, protocol=0, mtu=0)),
        ([attrs.evolve(GATED, protocol=4)], attrs.evolve(GATED, protocol=0, mtu=0)),
        ([ECMP], GATED),
        ([GATED, ECMP], ECMP),
        ([ECMP, GATED], GATED),
        ([ECMP], attrs.evolve(ECMP, legs=ECMP.legs[::-1])),
        ([attrs.evolve(GATED, protocol=4), GATED], GATED),
        ([attrs.evolve(SIX, metric=100), attrs.evolve(SIX, metric=1024)], SIX),
        ([SIX], attrs.evolve(SIX, protocol=0)),
        ([attrs.evolve(SIX, protocol=0)], attrs.evolve(SIX, protocol=0)),
        ([SIX, SOME, FEWER], SOME),
        ([SIX, SOME, FEWER], SIX),
        ([SOME, FEWER], SIX),
        ([SIX, FEWER], SOME),
        ([SIX], SOME),
        ([ANY], SIX),
        ([SIX], ANY),
        ([OWN, BIRD], OWN),
        ([OWN, BIRD], BIRD),
        ([OWN, BIRD], attrs.evolve(BIRD, protocol=OWN.protocol)),
        ([BIRD, OWN], attrs.evolve(OWN, metric=0)),
        ([BIRD, OWN], attrs.evolve(OWN, metric=100)),
        ([OWN, BIRD, attrs.evolve(OWN, metric=100)], attrs.evolve(OWN, metric=0)),
        ([HIGH], SIX),
        ([HIGH], HIGH),
        ([SIX], HIGH),
        ([BRIEF], SIX),
        ([BRIEF], attrs.evolve(BRIEF, expires=7)),
        ([SIX], BRIEF),
        ([attrs.evolve(SIX, expires=0xFFFFFFFF)], SIX),
        ([attrs.evolve(THROW, expires=600, preference="low")], THROW),
        ([GATED], attrs.evolve(GATED, source=SOURCES[3])),
        ([GATED], attrs.evolve(GATED, legs=(NextHop("gone0", gateway=as_ip("10.0.0.1")),))),
    ],
    ids=lambda it: " | ".join(map(str, it)) if isinstance(it, list) else str(it),
)
def test_the_very_route_or_none(linux: NetlinkBackend, standing: list[Route], asked: Route) -> None:
    """A delete deletes the route that is equal in every field, or none and gives the reason."""
    family = asked.prefix.family
    empty(linux, family)
    kernel = fake()
    for backend in (linux, kernel):
        assert told(backend.change([RouteRequest("append", route) for route in standing])) == [()] * len(standing)
    before = table(linux, family)
    found = [told(backend.change([RouteRequest("delete", asked)])) for backend in (linux, kernel)]
    assert found[0] == found[1]
    assert table(linux, family) == table(kernel, family)
    gone = [route for route in before if route not in table(linux, family)]
    assert len(gone) == (found[0] == [()])
    assert all((it.prefsrc, it.mtu) == (asked.prefsrc, asked.mtu or None) for it in gone)
    empty(linux, family)


def test_more_legs_than_a_message_holds(linux: NetlinkBackend) -> None:
    """A route with thousands of next hops is refused with a message; its neighbours in the batch are done."""
    legs = tuple(NextHop("eth0", gateway=as_ip(f"10.0.0.{at % 200 + 6}")) for at in range(5000))
    batch = [RouteRequest("add", attrs.evolve(GATED, legs=legs)), RouteRequest("add", GATED)]
    empty(linux, 4)
    found = [told(backend.change(batch)) for backend in (linux, fake())]
    assert found[0] == found[1]
    assert [len(it) for it in found[0]] == [3, 0]
    assert found[0][0][:2] == ("invalid", errno.ERANGE)
    empty(linux, 4)
