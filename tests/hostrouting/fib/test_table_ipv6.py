"""hostrouting.fib in what IPv6 does in its own way, host by host. Random hosts: `test_table_ipv6_against_kernel`."""

import attrs
import pytest

from hostrouting.check.overlap import check_overlap
from hostrouting.fib.engine import Fib
from hostrouting.fib.packet import PLAIN, Flow, Sought
from hostrouting.fib.table_ipv6 import TableIPv6
from hostrouting.fib.trace import trace_route
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import NextHop, Route, RouteType
from hostrouting.model.route_table import RouteTable
from hostrouting.model.rule import default_rules
from hostrouting.model.snapshot import Snapshot

DEFAULT = Route.to("::/0", dev="eth0", gateway="fe80::1", metric=1024)


def node(*routes: Route, forwarding: bool | None = True) -> Fib:
    """A host with a default route by eth0, and these routes."""
    return Fib(Snapshot(rules=default_rules(6), routes=[DEFAULT, *routes], ipv6_forwarding=forwarding))


def by(
    dev: str, prefix: str = "2001:db8::/32", *, source: str = "", kind: RouteType = "unicast", **fields: object
) -> Route:
    """A route by a device, or one that has none."""
    return Route(
        Prefix.parse(prefix),
        () if kind != "unicast" else (NextHop(dev),),
        type=kind,
        source=Prefix.parse(source) if source else None,
        **fields,  # type: ignore[arg-type]  # fields of a route
    )


def test_next_hops_are_ranked_one_by_one() -> None:
    """The device that a packet came in by favours only the next hop there, if its gateway can be reached."""
    legs = (NextHop("ib0", gateway=as_ip("fe80::1")), NextHop("eth0", gateway=as_ip("fe80::2")))
    refuses = by("", kind="unreachable", metric=1)
    both = Route(Prefix.parse("2001:db8::/32"), legs, metric=1)
    fib = node(refuses, both, forwarding=False)
    packet = attrs.evolve(PLAIN, iif="eth0")
    found = fib.lookup("2001:db8::9", packet)
    [variant] = found.variants
    assert (found.kind, variant.decision.kind) == ("unicast", "unreachable")
    assert [str(condition) for case in variant.cases for condition in case] == [
        "not reachable fe80::2 dev eth0 (rule 32766)"
    ]


@pytest.mark.parametrize(("forwarding", "others"), [(True, []), (False, ["ib0"]), (None, ["ib0"])])
def test_a_gateway_that_may_not_be_reachable(forwarding: bool | None, others: list[str]) -> None:  # noqa: FBT001
    """A host that does not forward uses another route while a gateway is not reachable: a note names that route."""
    fib = node(Route.to("2001:db8::/32", dev="ib0", metric=1), Route.to("2001:db8::/48", dev="eth0", gateway="fe80::1", metric=1),
               forwarding=forwarding)  # fmt: skip
    found = fib.lookup("2001:db8::9")
    assert (found.devs, [variant.decision.devs[0] for variant in found.variants]) == (("eth0",), others)
    report = check_overlap(fib, ["2001:db8::/48"])
    assert report.verdict == ("undecided" if others else "ok")
    conditions = [str(condition) for note in report.notes for case in note.cases for condition in case]
    assert conditions == ["not reachable fe80::1 dev eth0 (rule 32766)"] * len(others)


def test_each_reason() -> None:
    """A trace says why a route was not used."""
    routes = [
        by("ib0", metric=1, expires=-1),
        by("ib1", metric=1, preference="high"),
        by("ib2", metric=1),
        by("ib3", metric=2),
        by("ib4", "2001:db8::/48", source="fd00:a::/32", metric=1),
    ]
    trace = trace_route(node(*routes).snapshot, "2001:db8::9")
    assert trace.devs == ("ib1",)
    assert {it.route.devs[0]: it.reason for it in trace.passed} == {
        "ib0": "expired",
        "ib2": "preference",
        "ib3": "metric",
        "ib4": "source",
        "eth0": "shorter",
    }


def test_the_end_of_a_route_and_equality() -> None:
    """Two routes are equal whatever their seconds, but not if one stays or has expired."""
    one = by("ib0", expires=500)
    assert one == attrs.evolve(one, expires=499)
    assert len({one, attrs.evolve(one, expires=None), attrs.evolve(one, expires=-1)}) == 3


@pytest.mark.parametrize("others", [0, 1000])
def test_until_when_a_verdict_holds(others: int) -> None:
    """A report has the seconds until the first deciding route expires, also among many routes; others do not count."""
    many = [by("eth0", f"2001:db9:{at:x}::/48", metric=1) for at in range(others)]
    unused = by("eth0", metric=2, expires=30)
    fib = node(by("eth0", metric=1, expires=600), unused, by("eth0", "2001:db8:7::/48", metric=1, expires=90), *many)
    for cidr, seconds in (("2001:db8::/32", [90]), ("2001:db8:8::/48", [600]), ("2001:db9::/32", [])):
        assert [remark.facts["seconds"] for remark in check_overlap(fib, [cidr]).remarks] == seconds


def test_in_words() -> None:
    """A route has the words of `ip -6 route`."""
    route = attrs.evolve(DEFAULT, source=Prefix.parse("fd00:a::/32"), preference="low", expires=90)
    assert str(route) == "default from fd00:a::/32 via fe80::1 dev eth0 proto unspec metric 1024 pref low expires 90sec"
    assert Flow(source=as_ip("fd00::1")).sought(6).source == int(as_ip("fd00::1"))


WHERE, ADDRESS = Prefix.parse("2001:db8::/32"), int(as_ip("2001:db8::9"))


def table(*routes: Route, forwarding: bool = True) -> TableIPv6:
    """A table with these routes."""
    found = TableIPv6(RouteTable.of(routes), frozenset(), forwarding=forwarding)
    for column in found.routes.columns:
        found.add(column)
    return found


def hits(found: TableIPv6, *, source: int | None = None, iif: str = "") -> list[str]:
    """The questions and the device of each hit."""
    return [
        " ".join([*(" ".join(ask.words) for ask in hit.asks), *(hit.entry.route.devs if hit.entry else ["none"])])
        for hit in found.chain(ADDRESS, Sought(source=source, iif=iif))
    ]


@pytest.mark.parametrize(
    ("sources", "found"),
    [
        (["fd00::/127"], ["from fd00::/127 a0", "any"]),
        # What others inside it leave of a prefix: its last address, an address behind several, or none at all.
        (["fd00::/127", "fd00::/128"], ["from fd00::/128 a1", "from fd00::/127 a0", "any"]),
        (["fd00::/126", "fd00::/128", "fd00::1/128"],
         ["from fd00::/128 a1", "from fd00::1/128 a2", "from fd00::/126 a0", "any"]),
        (["fd00::/127", "fd00::/128", "fd00::1/128"], ["from fd00::/128 a1", "from fd00::1/128 a2", "any"]),
        (["fd00::/127", "fd00::1/128"], ["from fd00::1/128 a1", "from fd00::/127 a0", "any"]),
        (["fd00::/16", "fd01::/16"], ["from fd00::/16 a0", "from fd01::/16 a1", "any"]),
        (["::/1"], ["from ::/1 a0", "any"]),
    ],
)  # fmt: skip
def test_a_hit_for_each_prefix_of_sources(sources: list[str], found: list[str]) -> None:
    """The longest first, each with a packet that no longer one has; a prefix without such a packet has no hit."""
    several = (by(f"a{at}", source=source, metric=1) for at, source in enumerate(sources))
    assert hits(table(*several, by("any", "::/0"))) == found


def test_gateways_that_do_not_answer() -> None:
    """A host that does not forward skips each of them, and takes the first if none is left; one that forwards skips none."""
    [near, far] = (Route.to(prefix, dev=dev, gateway="fe80::1") for prefix, dev in ((str(WHERE), "a"), ("::/0", "b")))
    asked = "reachable fe80::1 dev"
    assert hits(table(near, far, forwarding=False), source=0) == [f"{asked} a a", f"{asked} b b", "a"]
    assert hits(table(near, by("b", "::/0"), forwarding=False), source=0) == [f"{asked} a a", "b"]
    assert hits(table(near, forwarding=False), source=0) == hits(table(near, far), source=0) == ["a"]
    assert hits(table(by("a"), far, forwarding=False), source=0) == ["a"]
    both = attrs.evolve(near, legs=(*near.legs, NextHop("b", gateway=as_ip("fe80::2"))))
    ranked = ["reachable fe80::2 dev b a b", "reachable fe80::1 dev a a b", "a b"]
    assert hits(table(both, forwarding=False), source=0, iif="b") == ranked
    assert hits(table(far, by("c", "::/0", source="fd00::/16", metric=1)), source=0) == ["b"]


def test_a_table_that_is_sure() -> None:
    """Nothing unknown makes a difference unless a gateway may not answer, or the source is unknown and matters."""
    near, sought = Route.to(str(WHERE), dev="a", gateway="fe80::1"), Sought(source=None)
    for routes, forwarding, is_unsure in (
        ([near], True, False),
        ([], True, False),
        ([near], False, False),
        ([near, by("b", "::/0")], False, True),
        ([by("a"), by("b", "::/0")], False, False),
        ([by("a", source="fd00::/16")], True, True),
    ):
        assert table(*routes, forwarding=forwarding).best(ADDRESS, sought)[1] is is_unsure


def test_which_prefixes_are_skipped() -> None:
    """One with routes for other sources only; never the default one, nor any once one was reached."""
    some, source = by("a", source="fd00::/16"), int(as_ip("fd00::1"))
    found = table(some, by("any"))
    assert [found.skips(WHERE, Sought(source=number)) for number in (source, 1, 0)] == [False, True, True]
    unset = table(by("a", source="::/128"))
    assert not unset.skips(WHERE, Sought(source=None)), "an unknown source is judged as none"
    assert unset.best(ADDRESS, Sought(source=None))[0] is not None
    assert not found.skips(Prefix.parse("2001:db8::/48"), Sought())
    assert not table(by("any")).skips(WHERE, Sought())
    assert hits(table(by("a", "::/0", source="fd00::/16"), by("any", "::/0")), source=1) == ["any"]
    assert hits(table(by("old", "2001:db8::/48", expires=-1), some, by("any"), by("b", "::/0")), source=1) == ["any"]


def test_the_length_of_several_routes() -> None:
    """A rule that suppresses short prefixes leaves each of several routes with one."""
    entries = table(by("a", metric=1), by("b", metric=2)).of(WHERE.network, WHERE.length)
    assert [entry.length for entry in entries] == [32, 32]
