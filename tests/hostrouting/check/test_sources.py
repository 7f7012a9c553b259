"""The sources of this host's packets, against Linux: on random hosts, IPv4 writes one of the
addresses that the check names.
"""

import json

import pytest
from hypothesis import HealthCheck, assume, event, given, settings, strategies as st

from hostrouting.check.judge import Judge
from hostrouting.check.sources import node_ip, sources_of
from hostrouting.config.settings import RouteOverlapConfig
from hostrouting.fib.engine import Fib
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.prefix import IPV4, as_ip
from tests.support.commands import ports
from tests.support.examples import scaled
from tests.support.namespace import private_namespace

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

DEVS = ("eth0", "eth1", "ib0")
ELSEWHERE = "203.0.113.9"


@st.composite
def addresses(draw: st.DrawFn) -> list[str]:
    """Addresses of the devices, in any order: also several in one network, and of other scopes."""
    commands: list[str] = []
    for number in draw(st.lists(st.integers(2, 250), max_size=6, unique=True)):
        dev = draw(st.sampled_from([*DEVS, "lo"]))
        network = draw(st.integers(0, 2))
        length = draw(st.sampled_from([16, 24, 25, 32]))
        scope = draw(st.sampled_from(["global", "global", "global", "link", "host"]))
        place = f"10.{DEVS.index(dev) if dev in DEVS else 9}.{network}.{number}"
        commands.append(f"address add {place}/{length} dev {dev} scope {scope}")
    return commands


@st.composite
def default_routes(draw: st.DrawFn) -> str:
    """A default route by one or two devices, whose gateways may be in their networks."""
    hops: list[str] = []
    for dev in draw(st.lists(st.sampled_from(DEVS), min_size=1, max_size=2, unique=True)):
        gateway = f"10.{DEVS.index(dev)}.{draw(st.integers(0, 2))}.1"
        hops.append(f"nexthop via {gateway} dev {dev} onlink")
    return f"route add default {' '.join(hops)}"


@settings(
    max_examples=scaled(30),
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    deadline=None,
)
@given(addresses=addresses(), default=default_routes())
def test_linux_takes_one_of_the_sources(addresses: list[str], default: str) -> None:
    """If there is only one, Linux takes that; and if the node IP is known, it is the one."""
    with private_namespace() as namespace, namespace.inside(), NetlinkBackend() as backend:
        namespace.batch(["link set lo up", *ports(*DEVS)])
        namespace.batch(addresses, force=True)  # one beside another may not have another scope
        namespace.batch([default])
        snapshot = backend.snapshot()
        [answer] = json.loads(namespace.ip("-j", "route", "get", ELSEWHERE).stdout)
    taken = answer.get("prefsrc")
    assume(taken)  # a host need not have any address
    judge = Judge(Fib(snapshot, IPV4), RouteOverlapConfig())
    decision, _ = judge.fib.outcomes(int(as_ip(ELSEWHERE)))
    sources = sources_of(judge, decision.route)
    event(f"sources: {min(len(sources), 2)}")
    assert as_ip(taken) in sources
    assert node_ip(judge) in {None, as_ip(taken)}
