"""FakeKernel: the contract, its methods beyond it, and known facts about Linux, one by one."""

import errno
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import attrs
import pytest

from hostrouting.errors import BackendError
from hostrouting.kernel.base import RouteRequest, Verb
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import OURS, NextHop, Route
from hostrouting.model.rule import Rule
from hostrouting.testing import h200, plain_vm
from hostrouting.testing.contract import BackendContract, contract_host
from hostrouting.testing.kernel import FakeKernel
from phases.testing import FakeClock

FABRIC = Prefix.parse("172.16.0.0/16")


def ours(prefix: str, gateway: str | None = "10.0.0.1", dev: str = "eth0", metric: int = 0) -> Route:
    """One of our routes."""
    return Route.to(prefix, dev=dev, gateway=gateway, metric=metric, protocol=OURS)


def do(kernel: FakeKernel, verb: Verb, route: Route) -> BackendError | None:
    """The result of one change."""
    (outcome,) = kernel.change([RouteRequest(verb, route)])
    return outcome.error


def at(kernel: FakeKernel, prefix: Prefix) -> list[str]:
    """The routes of this prefix in table main."""
    routes = kernel.snapshot(family=prefix.family, table=254).routes
    return [f"{'/'.join(route.devs)} {route.protocol}" for route in routes if route.prefix == prefix]


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
        assert [answer.route.devs for answer in answers if answer.route] == [("eth0",), ("eth0",)]
        assert len(at(kernel, FABRIC)) == 8


class TestWorld:
    """Events on a host, and their consequences."""

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


def brief(gateway: str | None = "fe80::1", dev: str = "eth0", **more: Any) -> Route:
    """An IPv6 route of ours."""
    return attrs.evolve(ours("2001:db8:1::/64", gateway=gateway, dev=dev, metric=1024), **more)


def lasting(kernel: FakeKernel) -> list[int | None]:
    """The seconds that our routes still last."""
    return [route.expires for route in kernel.snapshot(protocol=OURS).routes]


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

    def test_it_passes_as_on_the_clock_of_a_wait(self) -> None:
        """The seconds that a wait takes also pass for routes; the watch reports a route that expires meanwhile."""
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


def found(kernel: FakeKernel) -> str | None:
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

    def make(self) -> AbstractContextManager[FakeKernel]:
        """The contract's own host."""
        return contract_host()
