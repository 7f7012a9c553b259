"""hostrouting.check.repair: whether Linux accepts a gateway, with Linux itself as the oracle."""

from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostrouting.check.overlap import check_overlap
from hostrouting.check.repair import propose_repair, refused_gateway
from hostrouting.check.report import unsafe_findings
from hostrouting.fib.engine import Fib
from hostrouting.kernel.base import RouteRequest
from hostrouting.model.prefix import IPV4, IPV6, Prefix, as_ip, ip_at
from hostrouting.model.route import SCOPE_HOST, TABLE_LOCAL, NextHop, Route, RouteType
from hostrouting.model.rule import Rule, default_rules
from hostrouting.testing import MemoryBackend
from tests.support.commands import LINKS, furnish, route_command, rule_command, wishes
from tests.support.examples import scaled
from tests.support.namespace import private_namespace
from tests.support.strategies import DEVICES, blocks
from tests.support.topologies import h200, host

LOCAL, *REST = default_rules(4)
DEFAULT = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", protocol=16)


@pytest.mark.linux
@pytest.mark.needs("root")
@settings(max_examples=scaled(30), suppress_health_check=[HealthCheck.too_slow], deadline=None, print_blob=True)
@given(data=st.data(), family=st.sampled_from([IPV4, IPV6]))
def test_the_kernel_agrees(data: st.DataObject, family: int) -> None:
    """On any host, Linux accepts a route by a gateway exactly if refused_gateway returns None."""
    block = data.draw(blocks(family))
    wanted_rules, wanted_routes = data.draw(wishes(block))
    gateways = [ip_at(family, number) for number in range(block.first, block.last + 1)]
    near = as_ip("10.0.0.1" if family == IPV4 else "fd00::1")
    asked = [
        NextHop(dev, gateway=gateway, onlink=onlink)
        for dev in DEVICES
        for gateway in (*gateways, near)
        for onlink in (False, True)
    ]
    with private_namespace() as namespace:
        furnish(namespace, LINKS, data.draw(st.sets(st.sampled_from(["ib0", "wg0"]))))
        batch = [*map(route_command, wanted_routes), *map(rule_command, wanted_rules)]
        namespace.batch(batch, force=True, family=family)
        fib = Fib(namespace.snapshot(family))
        spare = "198.18.0.{}/32" if family == IPV4 else "2001:2::{:x}/128"
        lines = [f"route add {spare.format(at)} {leg}" for at, leg in enumerate(asked)]
        done = namespace.ip(f"-{family}", "-force", "-batch", "-", lines=lines)
    failed = {
        int(line.rpartition(":")[2]) - 1 for line in done.stderr.splitlines() if line.startswith("Command failed")
    }
    for at, leg in enumerate(asked):
        refusal = refused_gateway(fib, leg)
        # Of several next hops around an onlink gateway, Linux checks the one that it chose by a hash.
        if family == IPV6 and leg.onlink and refusal is not None and leg.dev in refusal.devs and len(refusal.devs) > 1:
            continue
        assert (refusal is not None) is (at in failed), f"{leg}: {refusal}\n{done.stderr}\n" + "\n".join(
            map(str, [*fib.snapshot.rules, *fib.snapshot.routes])
        )


def refused(*rules: Rule) -> list[str]:
    """The remarks on the repair of the H200 host with these rules added."""
    snapshot = host([("eth0", "10.0.0.4/24"), ("ib0", "172.16.1.10/16")], [DEFAULT], rules=[LOCAL, *rules, *REST])
    fib = Fib(snapshot)
    report = check_overlap(fib, ["172.16.0.0/16"], expected_devs=["eth0"])
    repair = propose_repair(fib, report)
    assert bool(repair.routes) is not bool(repair.unsafe)
    return [finding.sentence for finding in unsafe_findings(repair.unsafe)]


def test_a_rule_for_all_but_the_cluster() -> None:
    """A rule that refuses everything except the cluster refuses the gateway: the repair is unsafe, with the rule."""
    rule = Rule(family=4, priority=10, action="prohibit", invert=True, dst=Prefix.parse("172.16.0.0/16"))
    [told] = refused(rule)
    assert told.endswith(
        "cannot be repaired: Linux refuses a route via 10.0.0.1 dev eth0, because the gateway is matched by"
        " rule 10: not from all to 172.16.0.0/16 prohibit"
    )
    assert refused() == []


def onto(prefix: str, dev: str, table: int = 254, type: RouteType = "unicast", metric: int = 0) -> Route:  # noqa: A002
    """A route without a gateway."""
    scope = SCOPE_HOST if type == "local" and "." in prefix else None
    return Route.to(prefix, dev=dev, table=table, type=type, metric=metric, scope=scope)


def rule(priority: int = 1, table: int = 100, *, family: int = IPV6, **fields: Any) -> Rule:
    """A rule for table 100."""
    return Rule(family=family, priority=priority, table=table, **fields)


APART = rule(100, 200, family=IPV4)
MULTICAST = onto("10.0.0.0/8", "eth0", type="multicast")
IN_TABLE_100 = onto("fd00:16::/124", "eth0", 100)
LOCAL_8 = onto("10.0.0.0/8", "lo", TABLE_LOCAL, "local")


@pytest.fixture(
    params=[
        # IPv4: the gateway has to be a neighbour for who sends by this device.
        ("10.0.0.1 dev eth0", (), True),
        ("10.0.0.255 dev eth0", (), False),
        ("10.0.0.1 dev eth1", (), False),
        ("10.8.0.1 dev eth0", (onto("10.8.0.0/16", "eth0"),), True),
        ("10.8.0.1 dev eth0", (onto("10.8.0.0/16", "eth1"),), False),
        ("10.8.0.1 dev eth0", (Route.to("10.8.0.0/16", dev="eth0", gateway="10.0.0.1"),), False),
        ("10.8.0.1 dev ib0", (onto("10.8.0.0/16", "ib0"),), True),
        ("10.0.0.1 dev eth0", (Rule(family=4, priority=1, action="prohibit", oif="eth0"),), False),
        ("10.0.0.1 dev eth0", tuple(Rule(family=4, priority=1, action="prohibit", ipproto=it) for it in (1, 17)), True),
        # With onlink, table local must not contradict; main is a part of it until there is another rule.
        ("10.77.0.1 dev eth0 onlink", (MULTICAST,), False),
        ("10.77.0.1 dev eth0 onlink", (MULTICAST, APART), True),
        ("10.77.0.1 dev eth0 onlink", (onto("10.0.0.0/8", "eth0", type="broadcast"),), False),
        ("10.77.0.1 dev eth0 onlink", (onto("10.0.0.0/8", "eth0", TABLE_LOCAL, "local"),), False),
        ("10.77.0.1 dev eth0 onlink", (LOCAL_8,), False),
        ("10.77.0.1 dev eth0 onlink", (LOCAL_8, onto("10.77.0.0/16", "eth0")), True),
        ("10.77.0.1 dev eth0 onlink", (LOCAL_8, onto("10.77.0.0/16", "eth0"), APART), False),
        ("10.77.0.1 dev eth0 onlink", (onto("10.0.0.0/8", "eth1", type="multicast"),), False),
        ("10.77.0.1 dev eth0 onlink", (attrs.evolve(MULTICAST, table=100),), True),
        ("10.77.0.1 dev eth0 onlink", (attrs.evolve(MULTICAST, table=253),), True),
        ("10.77.0.1 dev eth0 onlink", (onto("10.0.0.0/8", "eth1"),), True),
        ("10.77.0.1 dev eth0 onlink", (Route.to("10.0.0.0/8", type="prohibit"),), True),
        # IPv6: a neighbour in table main, or as the rules say, for what comes in by no device; nothing is suppressed.
        # Only where the rules are followed, a lost carrier matters.
        ("fd00:99::1 dev eth0", (Rule(family=6, priority=1, action="prohibit"),), True),
        ("fd00:16::1 dev eth0", (), False),
        ("fd00:16::1 dev eth0", (Route.to("fd00:16::/64", type="prohibit"),), False),
        ("fd00:16::1 dev eth0", (Route.to("fd00:16::/64", dev="eth0", gateway="fd00:99::1"),), False),
        ("fd00:16::1 dev eth0", (onto("fd00:16::/64", "eth1", metric=10),), False),
        (
            "fd00:16::1 dev eth0",
            (onto("fd00:16::/64", "eth1", metric=10), onto("fd00:16::/64", "eth0", metric=20)),
            True,
        ),
        ("fd00:16::1 dev ib0", (onto("fd00:16::/64", "ib0"),), True),
        ("fd00:16::1 dev ib0", (onto("fd00:16::/64", "ib0", 100), rule()), False),
        ("fd00:16::1 dev eth0", (IN_TABLE_100, rule()), True),
        ("fd00:16::1 dev eth0", (IN_TABLE_100, rule(suppress_prefixlength=124)), True),
        ("fd00:16::1 dev eth0", (IN_TABLE_100, rule(suppress_ifgroup=0)), True),
        ("fd00:16::1 dev eth0", (IN_TABLE_100, rule(iif="lo", invert=True)), True),
        ("fd00:16::1 dev eth0", (IN_TABLE_100, rule(iif="lo")), False),
        ("fd00:16::1 dev eth0", (IN_TABLE_100, rule(oif="eth0")), True),
        ("fd00:16::1 dev eth0", (IN_TABLE_100, rule(src=Prefix.parse("fd00:99::4/128"))), False),
        ("fd00:16::1 dev eth0", (IN_TABLE_100, rule(ipproto=1), rule(ipproto=17)), False),
        # With onlink, table main must not lead elsewhere, except by a network that begins with ::.
        ("fd00:77::1 dev eth0 onlink", (), True),
        ("fd00:77::1 dev eth0 onlink", (onto("fd00::/16", "lo", TABLE_LOCAL, "local"),), True),
        ("fd00:77::1 dev eth0 onlink", (onto("fd00::/16", "eth0"),), True),
        ("fd00:77::1 dev eth0 onlink", (onto("fd00::/16", "eth1"),), False),
        ("fd00:77::1 dev eth0 onlink", (onto("fd00::/16", "ib0"),), False),
        ("fd00:77::1 dev eth0 onlink", (onto("fd00::/16", "eth1"), onto("fd00::/16", "eth0")), True),
        ("fd00:77::1 dev eth0 onlink", (onto("fd00::/16", "lo", type="local"),), False),
        ("fd00:77::1 dev eth0 onlink", (onto("fd00::/16", "eth0", type="multicast"),), False),
        ("fd00:77::1 dev eth0 onlink", (onto("fd00::/16", "eth1", 100), rule()), True),
        (
            "fd00:77::1 dev eth0 onlink",
            (onto("fd00::/16", "eth1"), Rule(family=6, priority=1, action="prohibit")),
            False,
        ),
        ("fd00:77::1 dev eth0 onlink", (Route.to("fd00::/16", type="prohibit"),), True),
        ("2001:db8::1 dev eth0 onlink", (onto("::/2", "eth1"),), True),
        ("2001:db8::1 dev eth0 onlink", (onto("2000::/3", "eth1"),), False),
    ],
    ids=lambda row: f"{row[0]} {' '.join(map(str, row[1]))}",
)
def gateway(request: pytest.FixtureRequest) -> tuple[NextHop, tuple[Route | Rule, ...], Route, bool]:
    """A next hop, the routes and rules of a host whose ib0 has no carrier, a route by it, and whether Linux takes it."""
    words, also, accepts = request.param
    address, _, dev, *onlink = words.split()
    leg = NextHop(dev, gateway=as_ip(address), onlink=bool(onlink))
    return leg, also, Route(Prefix.parse("2001:2::1/128" if ":" in address else "198.18.0.1/32"), (leg,)), accepts


def test_each_gateway(gateway: tuple[NextHop, tuple[Route | Rule, ...], Route, bool]) -> None:
    """On the fake kernel, which takes the route or refuses it, too."""
    leg, also, added, accepts = gateway
    kernel = MemoryBackend()
    kernel.set_up("lo")
    for link in LINKS:
        kernel.add_link(link)
    kernel.add_address("eth0", "10.0.0.4/24")
    kernel.add_address("eth0", "fd00:99::4/64")
    kernel.set_carrier("ib0", carrier=False)
    for it in also:
        kernel.add_rule(it) if isinstance(it, Rule) else kernel.ip_route("append", it)
    refusal = refused_gateway(Fib(kernel.snapshot(family=added.prefix.family)), leg)
    [outcome] = kernel.change([RouteRequest("add", added)])
    assert (refusal is None, outcome.ok) == (accepts, accepts)


@pytest.mark.linux
@pytest.mark.needs("root")
def test_each_gateway_on_linux(gateway: tuple[NextHop, tuple[Route | Rule, ...], Route, bool]) -> None:
    """Linux does the same."""
    leg, also, added, accepts = gateway
    family = added.prefix.family
    with private_namespace() as namespace:
        furnish(namespace, LINKS, {"ib0"})
        commands = [rule_command(it) if isinstance(it, Rule) else route_command(it, onlink="") for it in also]
        namespace.batch(commands, family=family)
        refusal = refused_gateway(Fib(namespace.snapshot(family)), leg)
        done = namespace.ip(f"-{family}", "route", "add", str(added.prefix), *str(leg).split())
        assert (refusal is None, done.stderr == "") == (accepts, accepts), done.stderr


def test_nothing_to_ask() -> None:
    """A next hop without a gateway, or with a link-local one, is not looked up."""
    for leg in (NextHop("eth0"), NextHop("ib0", gateway=as_ip("fe80::1"))):
        assert refused_gateway(Fib(h200()), leg) is None


@pytest.mark.parametrize("merged", [True, False])
def test_tables_known_to_be_merged(merged: bool) -> None:  # noqa: FBT001  a parameter
    """Whether the IPv4 tables are merged is taken from the host. Kills: it is derived from the rules again."""
    near = [onto("10.8.0.0/16", "eth0", TABLE_LOCAL, "broadcast"), onto("10.8.0.0/24", "eth0")]
    fib = Fib(host([("eth0", "10.0.0.4/24")], near), merged=merged)
    assert (refused_gateway(fib, NextHop("eth0", gateway=as_ip("10.8.0.1"))) is None) is merged
