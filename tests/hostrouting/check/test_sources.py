"""The sources of packets of this host, against Linux: on random hosts, Linux writes one of those
the check names.
"""

import json
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, assume, event, given, settings, strategies as st

from hostrouting.check.judge import Judge
from hostrouting.check.sources import node_ip, sources_of
from hostrouting.config.settings import RouteOverlapConfig
from hostrouting.fib.engine import Fib
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.prefix import IP, IPV4, IPV6, Prefix, as_ip
from hostrouting.model.route import Route
from hostrouting.testing import plain_vm
from tests.support.commands import ports
from tests.support.examples import scaled
from tests.support.namespace import private_namespace

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

DEVS = ("eth0", "eth1", "ib0")
ELSEWHERE = {
    IPV4: ["203.0.113.9"],
    IPV6: ["2001:db8:77::9", "fd77::9"],  # IPv6 chooses the source by the destination, too
}
LENGTHS = {IPV4: [16, 24, 25, 32], IPV6: [48, 64, 128]}
SCOPES = {IPV4: ["global", "global", "global", "link", "host"], IPV6: ["global"]}
NETWORKS = {IPV4: ["10.{}.0.{}", "10.{}.1.{}"], IPV6: ["2001:db8:{}::{:x}", "fd00:0:{}::{:x}"]}
"""Of a device, by its number."""


@st.composite
def addresses(draw: st.DrawFn, family: int) -> list[str]:
    """Addresses of the devices, in any order: also several in one network, and of other scopes."""
    commands: list[str] = []
    for number in draw(st.lists(st.integers(2, 250), max_size=6, unique=True)):
        dev = draw(st.sampled_from([*DEVS, "lo"]))
        place = draw(st.sampled_from(NETWORKS[family])).format(_number(dev), number)
        length = draw(st.sampled_from(LENGTHS[family]))
        scope = draw(st.sampled_from(SCOPES[family]))
        nodad = " nodad" if family == IPV6 else ""
        commands.append(f"address add {place}/{length} dev {dev} scope {scope}{nodad}")
    return commands


def _number(dev: str) -> int:
    return DEVS.index(dev) if dev in DEVS else 9


@st.composite
def default_routes(draw: st.DrawFn, family: int) -> str:
    """A default route by one or two devices, whose gateways may be in their networks; or, by one
    device, without a gateway.
    """
    hops: list[str] = []
    for dev in draw(st.lists(st.sampled_from(DEVS), min_size=1, max_size=2, unique=True)):
        gateway = draw(st.sampled_from(NETWORKS[family])).format(_number(dev), 1)
        hops.append(f"nexthop via {gateway} dev {dev} onlink")
    if draw(st.booleans()):
        return f"route add default dev {dev}"
    return f"route add default {' '.join(hops)}"


class Answers(NamedTuple):
    """What Linux and the check say about the source of packets."""

    taken: IP | None
    named: tuple[IP, ...]
    node_ip: IP | None


def answers_on_a_host(family: int, addresses: list[str], default: str, destination: str) -> Answers:
    """The source of packets to this destination on a host with these addresses."""
    with private_namespace() as namespace, namespace.inside(), NetlinkBackend() as backend:
        namespace.batch(["link set lo up", *ports(*DEVS)])
        # One address beside another may not have another scope.
        namespace.batch(addresses, force=True)
        namespace.batch([default], family=family)
        snapshot = backend.snapshot()
        answer = namespace.ip("-j", "route", "get", destination).stdout
    taken = json.loads(answer or "[{}]")[0].get("prefsrc", "::1")
    judge = Judge(Fib(snapshot, family), RouteOverlapConfig())
    decision, _ = judge.fib.outcomes(int(as_ip(destination)))
    return Answers(
        None if taken == "::1" else as_ip(taken),  # no address: IPv6 says so, too
        sources_of(judge, decision.route),
        node_ip(judge),
    )


@pytest.mark.parametrize("family", [IPV4, IPV6])
@settings(
    max_examples=scaled(30),
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    deadline=None,
)
@given(data=st.data())
def test_linux_takes_one_of_the_sources(family: int, data: st.DataObject) -> None:
    """If there is only one, Linux takes that; and if the node IP is known, it is the one."""
    answers = answers_on_a_host(
        family,
        data.draw(addresses(family)),
        data.draw(default_routes(family)),
        data.draw(st.sampled_from(ELSEWHERE[family])),
    )
    assume(answers.taken)  # a host need not have any address
    event(f"sources: {min(len(answers.named), 2)}")
    assert answers.taken in answers.named
    assert answers.node_ip in {None, answers.taken}


def test_a_changed_host_has_the_known_sources() -> None:
    """What Linux has said of a route holds while a repair is looked for, too."""
    known = {Route.to(Prefix.parse("10.0.0.0/8"), dev="eth0"): as_ip("10.0.0.4")}
    judge = Judge(Fib(plain_vm().snapshot(), IPV4), RouteOverlapConfig(), known)
    for changed in (judge.with_routes(()), judge.with_rules(())):
        assert changed.known_sources == known


def test_a_route_of_scope_link_takes_an_address_of_scope_link() -> None:
    """As avahi-autoipd adds both.

    Kills: only global addresses are sources.
    """
    zeroconf = "address add 169.254.7.7/16 dev eth0 scope link"
    dhcp = "address add 10.0.0.4/24 dev eth0"
    default = "route add default dev eth0"
    answers = answers_on_a_host(IPV4, [zeroconf, dhcp], default, "203.0.113.9")
    own = as_ip("169.254.7.7")
    assert answers == (own, (own,), own)
