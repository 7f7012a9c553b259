"""hostrouting.fib in what IPv6 does in its own way, host by host. Random hosts: `test_table_ipv6_against_kernel`."""

import attrs
import pytest

from hostrouting.check.overlap import check_overlap
from hostrouting.fib.engine import Fib
from hostrouting.fib.packet import PLAIN, Flow
from hostrouting.fib.trace import trace_route
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import NextHop, Route, RouteType
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
