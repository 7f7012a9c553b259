"""hostrouting.fib in what IPv6 does in its own way, host by host. Random hosts: `test_table_ipv6_against_kernel`."""

import attrs
import pytest

from hostrouting.check.overlap import check_overlap
from hostrouting.fib import PLAIN, Fib, Flow
from hostrouting.fib.trace import trace_route
from hostrouting.model import NextHop, Prefix, Route, RouteType, Snapshot, as_ip, default_rules

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


def dev(fib: Fib, source: str = "::", *, oif: str = "", iif: str = "lo") -> str:
    """The device of a packet from this source, or the kind of its answer."""
    found = fib.lookup("2001:db8::9", attrs.evolve(PLAIN, source=source, oif=oif, iif=iif))
    return ", ".join(found.devs) or found.kind


def test_a_route_for_some_sources() -> None:
    """The route counts for these sources only; for all others its whole prefix is skipped, except a default route."""
    fib = node(by("ib0", source="fd00:a::/32", metric=1), by("eth1", metric=1))
    assert (dev(fib, "fd00:a::1"), dev(fib, "fd00:b::1"), dev(fib)) == ("ib0", "eth0", "eth0")
    fib = node(by("ib0", "::/0", source="fd00:a::/32", metric=1))
    assert (dev(fib, "fd00:a::1"), dev(fib, "fd00:b::1")) == ("ib0", "eth0")


def test_the_longest_source() -> None:
    """Among sources the longest prefix counts; the next shorter one if none of its routes can be used."""
    long = by("ib0", source="fd00:a::/64", metric=1)
    fib = node(long, by("ib1", source="fd00:a::/32", metric=1))
    assert (dev(fib, "fd00:a::1"), dev(fib, "fd00:a:1::1")) == ("ib0", "ib1")
    fib = node(attrs.evolve(long, expires=-1), by("ib1", source="fd00:a::/32", metric=1))
    assert dev(fib, "fd00:a::1") == "ib1"


def test_what_has_expired() -> None:
    """A route that has expired is listed, but not used; one that will expire is used."""
    assert dev(node(by("ib0", expires=-1, metric=1))) == "eth0"
    assert dev(node(by("ib0", expires=0, metric=1))) == "ib0"


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({"metric": 1}, {"metric": 2, "preference": "high"}, "ib0"),
        ({"metric": 1}, {"metric": 1, "preference": "high"}, "ib1"),
        ({"metric": 1, "preference": "low"}, {"metric": 1}, "ib1"),
        ({"metric": 1}, {"metric": 1}, "ib0"),
    ],
)
def test_preference(first: dict[str, object], second: dict[str, object], expected: str) -> None:
    """The lowest metric counts first, then the preference of the router, then the place in the list."""
    assert dev(node(by("ib0", **first), by("ib1", **second))) == expected  # type: ignore[arg-type]  # fields of a route


def test_only_the_lowest_metric_counts_first() -> None:
    """If no route with the lowest metric can be used, the preference decides among all others, whatever their metric."""
    fib = node(by("ib0", metric=1, expires=-1), by("ib1", metric=2), by("eth1", metric=3, preference="high"))
    assert dev(fib) == "eth1"


def test_the_device_that_a_packet_came_in_by() -> None:
    """Routes of one metric and preference by this device are preferred."""
    fib = node(by("ib0", metric=1), by("ib1", metric=1))
    assert (dev(fib), dev(fib, iif="ib1")) == ("ib0", "ib1")


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


def test_a_route_that_refuses_is_ranked_like_others() -> None:
    """Without a device, of two routes with one metric the first is used, whether or not it has next hops."""
    refuses, sends = by("", kind="prohibit", metric=1), by("ib0", metric=1)
    assert (dev(node(refuses, sends)), dev(node(sends, refuses))) == ("prohibit", "ib0")


def test_a_bound_socket() -> None:
    """A bound socket uses no route by another device, and none that refuses packets."""
    fib = node(by("ib0", "2001:db8::/48", metric=1), by("", "2001:db8::/64", kind="blackhole", metric=1))
    assert (dev(fib), dev(fib, oif="ib0"), dev(fib, oif="eth0")) == ("blackhole", "ib0", "eth0")


@pytest.mark.parametrize(("forwarding", "others"), [(True, []), (False, ["ib0"]), (None, ["ib0"])])
def test_a_gateway_that_may_not_be_reachable(forwarding: bool | None, others: list[str]) -> None:  # noqa: FBT001
    """Unless the host forwards packets, it uses another route while a gateway is not reachable: a note names it."""
    fib = node(Route.to("2001:db8::/32", dev="ib0", metric=1), Route.to("2001:db8::/48", dev="eth0", gateway="fe80::1", metric=1),
               forwarding=forwarding)  # fmt: skip
    found = fib.lookup("2001:db8::9")
    assert (found.devs, [it.decision.devs[0] for it in found.variants]) == (("eth0",), others)
    report = check_overlap(fib, ["2001:db8::/48"])
    assert report.verdict == ("undecided" if others else "ok")
    conditions = [str(condition) for note in report.notes for case in note.cases for condition in case]
    assert conditions == ["not reachable fe80::1 dev eth0 (rule 32766)"] * len(others)


def test_the_last_gateway_is_used_anyway() -> None:
    """If nothing but unreachable gateways is left, the first route is used all the same: nothing else can happen."""
    assert node(forwarding=False).lookup("2001:db8::9").variants == ()


def test_a_source_that_is_not_known() -> None:
    """The answer names the sources that get another one."""
    found = node(by("ib0", source="fd00:a::/32", metric=1)).lookup("2001:db8::9")
    assert found.devs == ("eth0",)
    [variant] = found.variants
    assert (variant.decision.devs, [str(it) for it in variant.cases[0]]) == (
        ("ib0",),
        ["from fd00:a::/32 (rule 32766)"],
    )


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
    assert check_overlap(fib, ["2001:db8::/32"]).holds_for == 90
    assert check_overlap(fib, ["2001:db8:8::/48"]).holds_for == 600
    assert check_overlap(fib, ["2001:db9::/32"]).holds_for is None


def test_in_words() -> None:
    """A route has the words of `ip -6 route`."""
    route = attrs.evolve(DEFAULT, source=Prefix.parse("fd00:a::/32"), preference="low", expires=90)
    assert str(route) == "default from fd00:a::/32 via fe80::1 dev eth0 proto unspec metric 1024 pref low expires 90sec"
    assert Flow(source=as_ip("fd00::1")).sought(6).source == int(as_ip("fd00::1"))
