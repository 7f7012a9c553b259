"""hostrouting.check.repair: whether Linux accepts a gateway, with Linux itself as the oracle."""

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostrouting.check.overlap import check_overlap
from hostrouting.check.repair import propose_repair, refused_gateway
from hostrouting.check.report import unsafe_findings
from hostrouting.fib.engine import Fib
from hostrouting.model.prefix import IPV4, IPV6, Prefix, as_ip, ip_at
from hostrouting.model.route import NextHop, Route
from hostrouting.model.rule import Rule, default_rules
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


def test_nothing_to_ask() -> None:
    """A next hop without a gateway, or with a link-local one, is not looked up."""
    fib = Fib(h200())
    for leg in (
        NextHop("eth0"),
        NextHop("eth0", gateway=as_ip("9.9.9.9"), onlink=True),
        NextHop("ib0", gateway=as_ip("fe80::1")),
    ):
        assert refused_gateway(fib, leg) is None
    decision = refused_gateway(fib, NextHop("eth0", gateway=as_ip("9.9.9.9")))
    assert decision is not None
    assert decision.kind == "no-route"


def test_a_lost_carrier() -> None:
    """A gateway on a device without a carrier is accepted, also where routes by such devices are ignored."""
    snapshot = host([("eth0", "10.0.0.4/24"), ("ib0", "172.16.1.10/16")], [DEFAULT])
    links = tuple(
        attrs.evolve(link, carrier=link.name != "ib0", ignore_routes_with_linkdown=True) for link in snapshot.links
    )
    routes = [
        attrs.evolve(route, legs=tuple(attrs.evolve(leg, dead=True, linkdown=True) for leg in route.legs))
        if "ib0" in route.devs
        else route
        for route in snapshot.routes
    ]
    fib = Fib(attrs.evolve(snapshot, links=links, routes=routes))
    assert refused_gateway(fib, NextHop("ib0", gateway=as_ip("172.16.0.1"))) is None


@pytest.mark.linux
@pytest.mark.needs("root")
@pytest.mark.parametrize(
    ("rule", "accepts"),
    [
        ("lookup 100", True),
        ("lookup 100 suppress_prefixlength 124", True),
        ("lookup 100 suppress_ifgroup 0", True),
        ("not iif lo lookup 100", True),
        ("iif lo lookup 100", False),
        ("from fd00:99::4 lookup 100", False),
    ],
)
def test_rules_that_do_otherwise_for_a_gateway(rule: str, accepts: bool) -> None:  # noqa: FBT001  a parameter
    """Of the IPv6 lookup of a gateway nothing is suppressed, and it comes in by no device, not even by lo."""
    with private_namespace() as namespace:
        furnish(namespace, LINKS, set())
        namespace.batch(["route add fd00:16::/124 dev eth0 table 100", f"rule add pref 1 {rule}"], family=IPV6)
        refusal = refused_gateway(Fib(namespace.snapshot(IPV6)), NextHop("eth0", gateway=as_ip("fd00:16::1")))
        done = namespace.ip("-6", "route", "add", "2001:2::/128", "via", "fd00:16::1", "dev", "eth0")
        assert (refusal is None, not done.stderr) == (accepts, accepts)


@pytest.mark.linux
@pytest.mark.needs("root")
@pytest.mark.parametrize(
    ("gateway", "line", "accepts"),
    [
        ("10.77.0.1", "route add multicast 10.0.0.0/8 dev eth0", False),
        ("10.77.0.1", "route add broadcast 10.0.0.0/8 dev eth0", False),
        ("10.77.0.1", "route add local 10.0.0.0/8 dev eth0", False),
        ("10.77.0.1", "route add local 10.0.0.0/8 dev lo", False),
        ("10.77.0.1", "route add multicast 10.0.0.0/8 dev ib0", False),
        ("10.77.0.1", "route add multicast 10.0.0.0/8 dev eth0 table 100", True),
        ("10.77.0.1", "route add 10.0.0.0/8 dev ib0", True),
        ("10.77.0.1", "route add prohibit 10.0.0.0/8", True),
        ("fd00:77::1", "route add fd00::/16 dev ib0", False),
        ("fd00:77::1", "route add local fd00::/16 dev lo table main", False),
        ("fd00:77::1", "route add multicast fd00::/16 dev eth0 table main", False),
        ("fd00:77::1", "route add fd00::/16 dev ib0 table 100", True),
        ("fd00:77::1", "route add fd00::/16 dev eth0", True),
        ("fd00:77::1", "route add prohibit fd00::/16", True),
        ("2001:db8::1", "route add ::/2 dev ib0", True),
        ("2001:db8::1", "route add 2000::/3 dev ib0", False),
    ],
)
@pytest.mark.parametrize("rules", [(), ("rule add pref 100 lookup 200",)], ids=["merged", "apart"])
def test_onlink(gateway: str, line: str, accepts: bool, rules: tuple[str, ...]) -> None:  # noqa: FBT001  a parameter
    """A gateway that is onlink is refused if the tables contradict. Kills: an onlink gateway is not looked up."""
    family = as_ip(gateway).version
    # With custom rules, IPv4 does not find a route of table main in table local.
    accepts = accepts or (bool(rules) and "multicast 10" in line)
    leg = NextHop("eth0", gateway=as_ip(gateway), onlink=True)
    spare = "198.18.0.1/32" if family == IPV4 else "2001:2::1/128"
    with private_namespace() as namespace:
        furnish(namespace, LINKS)
        namespace.batch([line, *rules], family=family)
        refusal = refused_gateway(Fib(namespace.snapshot(family)), leg)
        done = namespace.ip(f"-{family}", "route", "add", spare, *str(leg).split())
        assert (refusal is None, not done.stderr) == (accepts, accepts)
