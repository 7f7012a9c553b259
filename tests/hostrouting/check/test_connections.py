"""hostrouting.check.connections: the second lookup, with the source that Linux has chosen."""

import socket

import pytest

from hostrouting.check.check import check_snapshot
from hostrouting.check.judge import Judge
from hostrouting.check.results import CheckReport, Opinion
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.fib.engine import Decision
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import TABLE_LOCAL, NextHop, Route
from hostrouting.model.rule import Rule, default_rules
from hostrouting.model.snapshot import Link, Snapshot
from tests.support.commands import ports
from tests.support.namespace import private_namespace
from tests.support.sections import expect
from tests.support.topologies import IB0, address, checked as checked_ranges, rule, vm_with

HOST = (
    "link set lo up",
    *ports("eth0", "ib0"),
    "address add fd00::4/64 dev eth0 nodad",
    "address add fd20::4/64 dev ib0 nodad",
)
BY_SOURCE = (
    "rule add from fd00::4 lookup 100 pref 100",
    "route add default via fd00::1 dev eth0 table 100",
)


def checked(snapshot: Snapshot) -> CheckReport:
    """The check of this host."""
    section = expect("fd44::/16", expected_devs=["eth0"])
    return check_snapshot(snapshot, HostRoutingConfig(route_overlap=section))


def source_of_a_connection() -> str:
    """The source that Linux gives to a connected socket."""
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sender:
        sender.connect(("fd44::1", 53))
        return str(sender.getsockname()[0])


@pytest.mark.linux
@pytest.mark.needs("root")
@pytest.mark.parametrize(
    "failing", ["", "route add unreachable fd44::/16", "rule add pref 200 to fd44::/17 prohibit"]
)
def test_a_route_that_is_found_with_a_source(failing: str) -> None:
    """Where the first lookup fails, IPv6 chooses a source and looks up again. It is in doubt
    whether that leads to the uplink, because it may choose another source.
    """
    lines = [line for line in (*BY_SOURCE, failing) if line]
    with private_namespace() as namespace, namespace.inside():
        namespace.batch(HOST)
        namespace.batch(lines, family=6)
        assert source_of_a_connection() == "fd00::4"
        snapshot = namespace.snapshot()
    report = checked(snapshot)
    assert report.verdict == "undecided"
    cause = "from fd00::4, they take [default via fd00::1 dev eth0 table 100"
    assert cause in report.doubts[0].sentence


@pytest.mark.linux
@pytest.mark.needs("root")
def test_a_route_that_is_found_with_a_source_that_passes_a_rule() -> None:
    """The rule with `not` refuses packets without a source."""
    lines = (
        "rule del pref 32766",
        "rule add lookup main pref 110",
        "route add default via fd00::1 dev eth0",
        "rule add not from fd00::4 prohibit pref 100",
    )
    with private_namespace() as namespace, namespace.inside():
        namespace.batch(HOST[:-1])  # the only source that it can choose
        namespace.batch(lines, family=6)
        assert source_of_a_connection() == "fd00::4"
        snapshot = namespace.snapshot()
    assert checked(snapshot).doubts[0].name == "unknown-source"


@pytest.mark.linux
@pytest.mark.needs("root")
@pytest.mark.parametrize(
    "rule",
    [
        "from fd00::4 lookup 101",  # leads to ib0
        "from fd77::/64 lookup 100",  # this host has no such source
        "from fd00::4 prohibit",
        "from fd00::4 fwmark 1 lookup 100",
        "from fd00::4 iif ib0 lookup 100",
    ],
)
def test_no_route_that_is_right_is_found_with_a_source(rule: str) -> None:
    """Then what has no route escapes."""
    lines = (
        BY_SOURCE[1],
        f"rule add {rule} pref 100",
        "route add default via fd20::1 dev ib0 table 101",
    )
    with private_namespace() as namespace:
        namespace.batch(HOST)
        namespace.batch(lines, family=6)
        report = checked(namespace.snapshot())
    assert [escape.kind for escape in report.escapes] == ["no-route"]


def test_a_route_in_doubt_that_is_found_with_a_source() -> None:
    """It may be the right one, so the packets are not said to escape."""
    hops = (NextHop("eth0"), NextHop("eth0", gateway=as_ip("fd00::1")))
    host = Snapshot(
        links=(Link("eth0", index=2),),
        addresses=(address("fd00::4/64", "eth0"),),
        rules=(
            *default_rules(6)[:1],
            Rule(family=6, priority=100, table=100, src=Prefix.parse("fd00::4/128")),
            *default_rules(6)[1:],
        ),
        routes=(
            Route.to("::/0", dev="eth0", gateway="fd00::1"),
            Route.to("fd44::/16", type="throw"),
            Route(Prefix.parse("fd44::/16"), hops, table=100, protocol=4),
        ),
    )
    report = checked(host)
    assert report.verdict == "undecided", report


def test_sources_that_change_nothing_are_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a host with many addresses, a lost range costs no opinion for each of them."""
    by_source = Rule(family=6, priority=100, table=100, src=Prefix.parse("fd77::/64"))
    host = Snapshot(
        links=(Link("eth0", index=2),),
        addresses=tuple(address(f"fd00::{number}/64", "eth0") for number in range(1, 65)),
        rules=(*default_rules(6)[:1], by_source, *default_rules(6)[1:]),
        routes=(
            Route.to("::/0", dev="eth0", gateway="fd00::1"),
            Route.to("fd44::/16", type="unreachable"),
        ),
    )
    judged: list[Decision] = []
    opinion = Judge.opinion

    def noted(judge: Judge, decision: Decision) -> Opinion:
        judged.append(decision)
        return opinion(judge, decision)

    monkeypatch.setattr(Judge, "opinion", noted)
    assert checked(host).verdict == "overlap"
    assert len(judged) < len(host.addresses)


def test_packets_that_escape_by_a_device_are_found_without_a_source() -> None:
    """Linux does not look up again, although a rule has the right route for one source."""
    host = Snapshot(
        links=(Link("eth0", index=2), Link("ib0", index=3)),
        addresses=(address("fd00::4/64", "eth0"),),
        rules=(
            *default_rules(6)[:1],
            Rule(family=6, priority=100, table=100, src=Prefix.parse("fd00::4/128")),
            *default_rules(6)[1:],
        ),
        routes=(
            Route.to("::/0", dev="eth0", gateway="fd00::1"),
            Route.to("fd44::/16", dev="ib0"),
            Route.to("::/0", dev="eth0", gateway="fd00::1", table=100),
        ),
    )
    assert checked(host).verdict == "overlap"


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(Route.to("128.0.0.0/1", dev="eth0", table=100), id="without the gateway"),
        pytest.param(Route.to("128.0.0.0/1", dev="ib0", table=100), id="by another device"),
    ],
)
def test_connections_to_the_addresses_of_every_host(second: Route) -> None:
    """They are fine by any device, also where the second lookup has another route
    than the first.
    """
    host = vm_with(
        Route.to("128.0.0.0/1", dev="eth0", gateway="10.0.0.1"),
        second,
        rules=(rule("10.0.0.4"),),
        links=(IB0,),
    )
    report = checked_ranges(host, "224.0.0.0/4")
    assert report.verdict == "ok", report


def test_connections_that_escape_in_several_parts() -> None:
    """The parts, which plain packets leave by two routes, are one range for connections, with an
    own address inside.
    """
    host = vm_with(
        Route.to("172.16.0.0/17", dev="eth0", gateway="10.0.0.1"),
        Route.to("172.16.5.5/32", dev="lo", type="local", table=TABLE_LOCAL),
        Route.to("172.16.0.0/16", dev="ib0", table=100),
        rules=(rule("10.0.0.4"),),
        links=(IB0,),
    )
    [escape] = checked_ranges(host, "172.16.0.0/16").escapes
    assert escape.prefixes == (escape.cidr,)


def test_connections_that_are_no_worse_off() -> None:
    """They escape by another device than plain packets: it is the plain ones that are named."""
    host = vm_with(
        Route.to("172.16.0.0/16", dev="ib0"),
        Route.to("172.16.0.0/16", dev="ib1", table=100),
        rules=(rule("10.0.0.4"),),
        links=(IB0, IB0._replace(name="ib1", index=20)),
    )
    [escape] = checked_ranges(host).escapes
    assert escape.devs == ("ib0",)


@pytest.mark.parametrize("intended", ["from 10.0.0.4", "to 172.16.0.0/16"])
def test_connections_by_an_intended_rule(intended: str) -> None:
    """They are, whichever of the two lookups takes the rule."""
    host = vm_with(
        Route.to("172.16.0.0/16", dev="eth0", gateway="10.0.0.1", table=101),
        Route.to("172.16.0.0/16", dev="ib0", table=100),
        rules=(rule("10.0.0.4"), rule(dst="172.16.0.0/16", priority=101, table=101)),
        links=(IB0,),
    )
    assert checked_ranges(host).escapes
    assert checked_ranges(host, intended_rules=[intended]).escapes == ()
