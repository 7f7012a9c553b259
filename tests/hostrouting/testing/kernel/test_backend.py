"""MemoryBackend: the contract, its methods beyond it, and known facts about Linux, one by one."""

import errno
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import attrs
import pytest

from hostrouting.errors import BackendError, RouteRefused
from hostrouting.fib import PLAIN
from hostrouting.kernel.base import RouteRequest, Verb
from hostrouting.model import OURS, Link, NextHop, Prefix, Route, Rule, as_ip
from hostrouting.testing import h200, plain_vm
from hostrouting.testing.contract import BackendContract, contract_host
from hostrouting.testing.kernel import MemoryBackend
from phases.testing import FakeClock
from tests.support.kinds import kind_of

FABRIC = Prefix.parse("172.16.0.0/16")


def ours(prefix: str, gateway: str | None = "10.0.0.1", dev: str = "eth0", metric: int = 0) -> Route:
    """A route of ours."""
    return Route.to(prefix, dev=dev, gateway=gateway, metric=metric, protocol=OURS)


def do(kernel: MemoryBackend, verb: Verb, route: Route) -> RouteRefused | None:
    """The result of one change."""
    (outcome,) = kernel.change([RouteRequest(verb, route)])
    return outcome.error


def at(kernel: MemoryBackend, prefix: Prefix) -> list[str]:
    """The routes of this prefix in table main."""
    routes = kernel.snapshot(family=prefix.family, table=254).routes
    return [f"{'/'.join(it.devs)} {it.protocol}" for it in routes if it.prefix == prefix]


def refused(happening: Callable[[], object]) -> tuple[int | None, str]:
    """The errno and the text of a refusal."""
    with pytest.raises(BackendError) as caught:
        happening()
    return caught.value.errno, caught.value.kernel


class TestRoutes:
    """The facts about routes that this library relies on."""

    def test_replace_takes_a_connected_route_for_good(self) -> None:
        """`replace` overwrites ib0's own route; deleting ours does not restore it, and after down and up it is last."""
        kernel = h200()
        assert do(kernel, "replace", ours(str(FABRIC))) is None
        assert at(kernel, FABRIC)[:2] == ["eth0 213", "ib1 2"]
        assert do(kernel, "delete", ours(str(FABRIC))) is None
        assert at(kernel, FABRIC)[0] == "ib1 2"
        kernel.set_down("ib0")
        kernel.set_up("ib0")
        assert at(kernel, FABRIC)[-1] == "ib0 2"

    def test_two_halves_win_without_touching_it(self) -> None:
        """The two /17s of the repair decide for the whole /16, and the eight connected routes stay."""
        kernel = h200()
        for half in FABRIC.halves():
            assert do(kernel, "add", ours(str(half))) is None
        answers = kernel.lookup([as_ip("172.16.1.1"), as_ip("172.16.200.1")])
        assert [it.route.devs for it in answers if it.route] == [("eth0",), ("eth0",)]
        assert len(at(kernel, FABRIC)) == 8

    def test_the_refusal_names_gateway_device_and_addresses(self) -> None:
        """A gateway that is not on-link is reported with the device and its addresses."""
        error = do(plain_vm(), "add", ours("192.0.2.0/24", gateway="203.0.113.1"))
        assert error is not None
        assert error.kind == "gateway-not-on-link"
        assert "gateway 203.0.113.1 is not on-link on eth0 (10.0.0.4/24)" in str(error)
        assert (error.errno, error.kernel) == (errno.ENETUNREACH, "Nexthop has invalid gateway")

    def test_somebody_else_deletes_as_ip_does(self) -> None:
        """`ip route del PREFIX` deletes the first route of the prefix, whoever added it; our delete does not."""
        kernel = plain_vm()
        assert do(kernel, "add", ours("192.0.2.0/24", metric=7)) is None
        assert kind_of(do(kernel, "delete", ours("192.0.2.0/24"))) == "no-such-route"
        kernel.ip_route("delete", Route(Prefix.parse("192.0.2.0/24"), type="unspec"))
        assert kernel.snapshot(protocol=OURS).routes == ()

    def test_delete_refuses_to_take_another_one(self) -> None:
        """If Linux would delete a different route, nothing is deleted."""
        kernel = plain_vm()
        first, second = ours("192.0.2.0/24", gateway="10.0.0.2"), ours("192.0.2.0/24", gateway=None)
        second = attrs.evolve(second, scope=0)
        assert [do(kernel, "append", it) for it in (first, second)] == [None, None]
        error = do(kernel, "delete", second)
        assert kind_of(error) == "refused"
        assert "via 10.0.0.2" in str(error)
        assert len(kernel.snapshot(protocol=OURS).routes) == 2

    def test_the_state_of_legs_is_not_asked_for(self) -> None:
        """A route that was read while its device had no carrier can be deleted and added unchanged."""
        kernel = plain_vm()
        assert do(kernel, "add", ours("192.0.2.0/24")) is None
        kernel.set_carrier("eth0", carrier=False)
        (route,) = kernel.snapshot(protocol=OURS).routes
        assert route.legs[0].linkdown
        kernel.set_carrier("eth0", carrier=True)
        assert do(kernel, "delete", route) is None
        assert do(kernel, "add", route) is None
        assert kernel.snapshot(protocol=OURS).routes == (ours("192.0.2.0/24"),)

    def test_ipv6_appends_into_one_route(self) -> None:
        """IPv6: metric 1024 by default, `append` makes ECMP, `replace` collapses it, a second `add` is refused."""
        kernel = plain_vm()
        kernel.add_address("eth0", "fd00::4/64")
        first, second = (ours("fd16::/64", gateway=f"fd00::{number}") for number in (1, 2))
        assert do(kernel, "add", first) is None
        assert kind_of(do(kernel, "add", second)) == "exists"
        assert do(kernel, "append", second) is None
        (both,) = kernel.snapshot(protocol=OURS).routes
        assert (both.metric, [str(leg.gateway) for leg in both.legs]) == (1024, ["fd00::1", "fd00::2"])
        assert do(kernel, "replace", first) is None
        assert kernel.snapshot(protocol=OURS).routes == (attrs.evolve(first, metric=1024),)


class TestWorld:
    """Events on a host, and their consequences."""

    def test_down_flushes_and_up_restores_connected_routes_only(self) -> None:
        """Setting a device down deletes its routes; setting it up restores those of its addresses, and no others."""
        kernel = plain_vm()
        kernel.set_down("eth0")
        assert kernel.snapshot(family=4, table=254).routes == ()
        kernel.set_up("eth0")
        assert [str(it.prefix) for it in kernel.snapshot(family=4, table=254).routes] == ["10.0.0.0/24"]

    def test_the_last_address_takes_every_route(self) -> None:
        """Deleting an address keeps routes by gateways; deleting the last one deletes them."""
        kernel = plain_vm()
        kernel.add_address("eth0", "192.0.2.4/24")
        kernel.delete_address("eth0", "10.0.0.4/24")
        assert [it.prefix.length for it in kernel.snapshot(family=4, table=254).routes] == [0, 24]
        kernel.delete_address("eth0", "192.0.2.4/24")
        assert kernel.snapshot(family=4, table=254).routes == ()

    def test_a_device_that_goes_leaves_its_rules(self) -> None:
        """Rules for a deleted device stay, and match nothing."""
        kernel = plain_vm()
        kernel.add_link("wg0")
        rule = Rule(family=4, priority=5, action="blackhole", oif="wg0", protocol=3)
        kernel.add_rule(rule)
        kernel.delete_link("wg0")
        assert rule in kernel.snapshot().rules
        assert kernel.lookup([as_ip("10.0.0.9")], attrs.evolve(PLAIN, oif="eth0"))[0].kind == "unicast"
        assert kind_of(do(kernel, "add", ours("192.0.2.0/24", dev="wg0", gateway=None))) == "no-such-device"

    def test_what_linux_refuses(self) -> None:
        """A refused change of the fake kernel raises Linux's errno and text."""
        kernel = plain_vm()
        rule = Rule(family=4, priority=9, action="goto", target=5)
        assert refused(lambda: kernel.add_link("eth0"))[0] == errno.EEXIST
        assert refused(lambda: kernel.delete_link("lo"))[0] == errno.EOPNOTSUPP
        assert refused(lambda: kernel.set_up("gone"))[0] == errno.ENODEV
        assert refused(lambda: kernel.add_address("eth0", "10.0.0.4/24")) == (
            errno.EEXIST,
            "ipv4: Address already assigned",
        )
        assert refused(lambda: kernel.delete_address("eth0", "10.0.0.5/24"))[0] == errno.EADDRNOTAVAIL
        assert refused(lambda: kernel.add_rule(rule)) == (errno.EINVAL, "Backward goto not supported")
        assert refused(lambda: kernel.delete_rule(Rule(family=4, priority=7, table=7)))[0] == errno.ENOENT

    def test_links_keep_what_they_were_given(self) -> None:
        """A Link is added unchanged, and gets a new index if it has none."""
        kernel = MemoryBackend()
        shown = kernel.add_link(Link(name="ib0", index=0, type=32, group=7, carrier=False))
        assert shown == Link(name="ib0", index=2, type=32, group=7, carrier=False)
        assert kernel.snapshot().link("ib0") == shown


def brief(gateway: str | None = "fe80::1", dev: str = "eth0", **more: Any) -> Route:
    """An IPv6 route of ours."""
    return attrs.evolve(ours("2001:db8:1::/64", gateway=gateway, dev=dev, metric=1024), **more)


def lasting(kernel: MemoryBackend) -> list[int | None]:
    """The seconds that our routes still last."""
    return [it.expires for it in kernel.snapshot(protocol=OURS).routes]


class TestTime:
    """Routes that expire, while time passes."""

    def test_an_expired_route_is_listed_until_it_is_collected(self) -> None:
        """Linux looks for expired routes half a minute after the first one was added, and then again and again."""
        kernel = plain_vm()
        for gateway, seconds in (("fe80::1", 10), ("fe80::2", 100), ("fe80::3", None)):
            assert do(kernel, "add", brief(gateway, metric=seconds or 7, expires=seconds, mtu=1400)) is None
        assert lasting(kernel) == [None, 10, 100]
        assert found(kernel) == "fe80::3"
        kernel.ip_route("delete", brief("fe80::3", metric=7))
        assert found(kernel) == "fe80::1"
        kernel.pass_time(9.5)
        assert (lasting(kernel), found(kernel)) == ([0, 90], "fe80::1")
        kernel.pass_time(1)
        assert (lasting(kernel), found(kernel)) == ([-1, 89], "fe80::2")
        assert [line for line in str(kernel).splitlines() if line.startswith("2001:db8:1::/64")] == [
            "2001:db8:1::/64 via fe80::1 dev eth0 proto hostrouting metric 10 expires 0sec mtu 1400 pref medium",
            "2001:db8:1::/64 via fe80::2 dev eth0 proto hostrouting metric 100 expires 89sec mtu 1400 pref medium",
        ]
        kernel.pass_time(19.5)
        assert lasting(kernel) == [70]
        kernel.pass_time(89)
        assert (lasting(kernel), found(kernel)) == ([-19], None)
        kernel.pass_time(1)
        assert lasting(kernel) == []
        assert do(kernel, "add", brief(expires=10)) is None
        kernel.pass_time(1e9)
        assert lasting(kernel) == []

    def test_a_device_that_is_set_down_takes_them_along(self) -> None:
        """When any device is set down, expired routes are collected at once."""
        kernel = plain_vm()
        kernel.add_link("ib0")
        assert do(kernel, "add", brief(expires=0)) is None
        kernel.pass_time(1)
        assert lasting(kernel) == [-1]
        kernel.set_down("ib0")
        assert lasting(kernel) == []

    def test_they_can_be_collected_by_hand(self) -> None:
        """`collect_expired` deletes those that have expired, and nothing else."""
        kernel = plain_vm()
        assert [do(kernel, "append", brief(f"fe80::{it}", expires=it)) for it in (1, 2)] == [None, None]
        kernel.pass_time(1.5)
        kernel.collect_expired()
        assert lasting(kernel) == [0]

    def test_a_refused_request_sets_the_end(self) -> None:
        """A route that is appended again is refused, but an end that it has becomes the one that was asked for."""
        kernel = plain_vm()
        assert do(kernel, "append", brief(expires=10)) is None
        for asked, then in ((20, 20), (None, None), (30, None)):
            assert kind_of(do(kernel, "append", brief(expires=asked))) == "exists"
            assert lasting(kernel) == [then]
        assert kind_of(do(kernel, "add", brief(expires=10))) == "exists"

    def test_each_next_hop_has_its_own(self) -> None:
        """Each next hop keeps its preference and its end; those of the first are listed, those of the best decide."""
        kernel = plain_vm()
        assert do(kernel, "append", brief(expires=5)) is None
        assert do(kernel, "append", brief("fe80::2", preference="high")) is None
        assert do(kernel, "append", brief(None, preference="medium")) is None
        kernel.pass_time(6)
        several, single = kernel.snapshot(protocol=OURS).routes
        assert (several.expires, several.preference, len(several.legs)) == (-1, "medium", 2)
        (answer,) = kernel.lookup(["2001:db8:1::1"])
        assert answer.route == several != single
        kernel.pass_time(30)
        assert [len(it.legs) for it in kernel.snapshot(protocol=OURS).routes] == [1, 1]

    def test_it_passes_as_on_the_clock_of_a_wait(self) -> None:
        """The seconds that a wait takes also pass for routes; that one was collected is heard."""
        kernel, clock = plain_vm(), FakeClock()
        clock.advance(5)
        assert do(kernel, "append", brief(expires=5)) is None
        with kernel.watch() as watch:
            assert watch.wait(4, clock=clock) is False
            assert lasting(kernel) == [1]
            assert watch.wait(20, clock=clock) is False
            assert lasting(kernel) == [-19]
            assert watch.wait(6, clock=clock) is True
        assert lasting(kernel) == []

    def test_ipv4_has_none_of_it(self) -> None:
        """Another program can ask for it in IPv4: Linux ignores that."""
        kernel = plain_vm()
        asked = attrs.evolve(ours("192.0.2.0/24"), expires=5, preference="low", source=Prefix.parse("10.9.0.0/16"))
        kernel.ip_route("add", asked)
        assert kernel.snapshot(protocol=OURS).routes == (ours("192.0.2.0/24"),)


def found(kernel: MemoryBackend) -> str | None:
    """The gateway of the route that decides."""
    (answer,) = kernel.lookup(["2001:db8:1::1"])
    return str(answer.route.legs[0].gateway) if answer.route else None


def test_it_prints_what_ip_prints() -> None:
    """`str()` is what an operator would see: rules, then routes, with ECMP next hops on separate lines."""
    kernel = plain_vm()
    legs = tuple(NextHop("eth0", gateway=as_ip(f"10.0.0.{number}")) for number in (1, 2))
    assert do(kernel, "add", Route(Prefix.parse("192.0.2.0/24"), legs, protocol=OURS)) is None
    assert str(kernel).splitlines()[:9] == [
        "# ip rule",
        "0:\tfrom all lookup local",
        "32766:\tfrom all lookup main",
        "32767:\tfrom all lookup default",
        "# ip route show table all",
        "default via 10.0.0.1 dev eth0 proto dhcp metric 100",
        "10.0.0.0/24 dev eth0 proto kernel scope link src 10.0.0.4",
        "192.0.2.0/24 proto hostrouting",
        "\tnexthop via 10.0.0.1 dev eth0 weight 1",
    ]


# The memory kernel keeps the promises of RouteBackend


class TestMemoryBackend(BackendContract):
    """Every promise, on the fake kernel."""

    def make(self) -> AbstractContextManager[MemoryBackend]:
        """The contract's own host."""
        return contract_host()
