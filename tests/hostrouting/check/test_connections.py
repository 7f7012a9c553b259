"""hostrouting.check.connections: the second lookup, with the source that Linux has chosen."""

import pytest

from hostrouting.model.route import TABLE_LOCAL, Route
from tests.support.topologies import IB0, checked, rule, vm_with


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
    report = checked(host, "224.0.0.0/4")
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
    [escape] = checked(host, "172.16.0.0/16").escapes
    assert escape.prefixes == (escape.cidr,)


def test_connections_that_are_no_worse_off() -> None:
    """They escape by another device than plain packets: it is the plain ones that are named."""
    host = vm_with(
        Route.to("172.16.0.0/16", dev="ib0"),
        Route.to("172.16.0.0/16", dev="ib1", table=100),
        rules=(rule("10.0.0.4"),),
        links=(IB0, IB0._replace(name="ib1", index=20)),
    )
    [escape] = checked(host).escapes
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
    assert checked(host).escapes
    assert checked(host, intended_rules=[intended]).escapes == ()
