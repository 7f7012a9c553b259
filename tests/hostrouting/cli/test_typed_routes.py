"""Somebody has typed the routes that repair a host: nothing deletes them as long as addresses would
escape without them, and the commands say how to keep them.

The commands of `check` are a plain `ip route add`; earlier releases gave their routes our protocol.
"""

import json

from hostrouting.model.route import OURS, Route
from hostrouting.testing import FakeHost, h200, plain_vm
from tests.support.cli import say
from tests.support.incidents import (
    BY_HAND,
    add_ib0,
    apply,
    apply_installed,
    config,
    escaping_node,
    node,
    plan,
    plan_installed,
    type_pipeline,
)
from tests.support.tasks import CIDR, REPAIR, ours, type_routes

STATIC = 4
"""The protocol of a route that a network manager sets at each boot."""
PERMANENTLY = "hostrouting repair | hostrouting apply --config -"


# Routes with our protocol.


def test_a_route_of_ours_in_the_place_of_the_repair() -> None:
    """No command can add a route there, so only the permanent repair is printed."""
    host = escaping_node()
    for destination in REPAIR:
        wrong = Route.to(destination, dev="ib0", protocol=OURS)
        host.kernel.ip_route("add", wrong)
    answer = say("repair", "--commands", host=host)
    assert answer.code == 1
    assert answer.out == ""
    assert "a route of hostrouting has the place of one of these" in answer.err
    assert answer.err.splitlines()[-1].endswith(f"as root: {PERMANENTLY}")
    assert "Until the next boot" not in say("check", host=host).out


def test_typed_routes_are_not_deleted_where_addresses_would_escape() -> None:
    """In STRICT, `apply` is refused before it deletes what keeps addresses from escaping."""
    host = escaping_node()
    type_routes(host, *REPAIR)
    assert "WOULD FAIL" in plan_installed(host).out
    refused = apply_installed(host)
    assert refused.code == 2
    assert len(ours(host)) == len(REPAIR)
    assert "Nothing was changed." in refused.out
    assert PERMANENTLY in say("check", host=host).out
    assert apply_installed(host, "--allow-removal").code == 1
    assert not ours(host)


def test_a_repair_costs_nothing_that_is_lost_already() -> None:
    """The typed routes have taken the addresses; to configure these routes changes nothing."""
    host = node(config(mode="WARN"))
    assert "REPAIR-COST" in say("check", host=host).out
    assert "IP traffic to" in say("repair", host=host).err
    type_routes(host, *REPAIR)
    assert "IP traffic to" not in say("repair", host=host).err


def test_typed_routes_on_a_host_where_nothing_is_installed() -> None:
    """A configuration that lacks them is refused; that of `repair` is not."""
    host = FakeHost(kernel=h200())
    type_routes(host, *REPAIR)
    refused = apply(host, json.dumps(config()))
    assert refused.code == 2
    assert len(ours(host)) == len(REPAIR)
    assert "would escape, and does not escape now" in refused.out
    assert "--allow-removal" in refused.out
    check = say("check", CIDR, host=host)
    [line] = [line for line in check.lines if "ROUTE-NOT-CONFIGURED" in line]
    assert type_pipeline(host, line.partition("as root: ")[2]).code == 0


# Routes by hand, with another protocol.


def test_a_verdict_that_rests_on_routes_by_hand() -> None:
    """They are gone after a boot: a warning, which is also the first line of `status`."""
    host = escaping_node()
    type_routes(host, *REPAIR, protocol=BY_HAND)
    status = say("status", host=host)
    assert status.code == 1
    lost = "after the next boot, 172.16.0.0/16 will escape"
    assert status.lines[0].startswith(f"DIFFERS: {lost}")
    check = say("check", host=host)
    assert check.code == 0
    assert say("check", "--fail-on", "warning", host=host).code == 1
    for page in (status.out, check.out):
        assert lost in page
        assert f"as root: {PERMANENTLY}" in page


def test_a_verdict_that_rests_on_routes_that_come_at_each_boot() -> None:
    """A route that a network manager sets is not by hand."""
    host = escaping_node()
    type_routes(host, *REPAIR, protocol=STATIC)
    status = say("status", host=host)
    assert status.code == 0
    check = say("check", "--fail-on", "warning", host=host)
    assert check.code == 0
    for page in (status.out, check.out):
        assert "ROUTE-NOT-CONFIGURED" not in page
        assert PERMANENTLY not in page


def test_routes_by_hand_are_configured_without_a_moment_without_them() -> None:
    """The line deletes nothing: `apply` leaves these routes, and the gate sets ours at the next
    boot.
    """
    host = escaping_node()
    type_routes(host, *REPAIR, protocol=BY_HAND)
    before = host.kernel.snapshot().routes
    assert "ip route del" not in say("status", host=host).out

    printed = say("repair", host=host)
    assert "the printed configuration makes that last" in printed.err
    assert "nothing to repair" not in printed.err
    assert plan(host, printed.out).lines[0].startswith("TO DO")
    applied = apply(host, printed.out)
    assert applied.code == 0
    assert applied.lines[0] == "DONE: this host matches the configuration"
    assert host.kernel.snapshot().routes == before
    status = say("status", host=host)
    assert status.code == 0
    assert "ROUTE-NOT-CONFIGURED" not in status.out

    lose_routes_by_hand(host)
    assert apply_installed(host).code == 0
    assert len(ours(host)) == len(REPAIR)


def lose_routes_by_hand(host: FakeHost) -> None:
    """The host boots."""
    for route in host.kernel.snapshot().routes:
        if route.protocol == BY_HAND:
            host.kernel.ip_route("delete", route)


def test_a_route_by_hand_to_a_network_that_is_not_in_the_configuration() -> None:
    """The line to type names the CIDR that was typed: without it, the route would only be gone."""
    other = "172.30.1.0/24"
    host = node(config(), plain_vm)
    add_ib0(host, "172.30.9.9/16")
    type_routes(host, other, protocol=BY_HAND)

    check = say("check", other, host=host)
    [line] = [line for line in check.lines if "ROUTE-NOT-CONFIGURED" in line]
    assert f"the route to {other} is not in the configuration" in line
    assert type_pipeline(host, line.partition("as root: ")[2]).code == 0

    check = say("check", other, host=host)
    assert check.code == 0
    assert "ROUTE-NOT-CONFIGURED" not in check.out
