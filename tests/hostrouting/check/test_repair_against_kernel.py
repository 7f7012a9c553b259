"""hostrouting.check.repair against Linux itself: the routes of a repair are added, and the kernel is asked.

Nothing here can reach the host's own namespace, and no packet is sent.
"""

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostrouting.check.overlap import check_overlap
from hostrouting.check.repair import propose_repair
from hostrouting.fib.engine import Fib
from hostrouting.fib.packet import PLAIN
from hostrouting.model.prefix import Prefix, ip_at
from hostrouting.model.route import OURS, Route
from hostrouting.model.snapshot import Link, Snapshot
from hostrouting.routes.uplink import resolve_route
from tests.support.commands import furnish, route_command, rule_command
from tests.support.namespace import private_namespace
from tests.support.strategies import DEVICES, blocks, prefixes, routes, rules

if TYPE_CHECKING:
    from hostrouting.model.rule import Rule

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

DEFAULT = "route add default via 10.0.0.1 dev eth0 proto dhcp"


def networks(block: Prefix) -> st.SearchStrategy[Route]:
    """Networks of other devices in the block."""
    return st.builds(
        lambda prefix, dev, metric: Route.to(prefix, dev=dev, metric=metric, protocol=2),
        prefixes(block),
        st.sampled_from(["ib0", "ib0", "wg0", "eth0"]),
        st.sampled_from([0, 0, 100]),
    )


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_the_kernel_agrees(data: st.DataObject) -> None:
    """The kernel accepts every route of a repair, and afterwards only unsafe ranges escape."""
    block = data.draw(blocks(bits=3))
    near: list[Route] = data.draw(st.lists(networks(block), min_size=1, max_size=6))
    more: list[Route] = data.draw(st.lists(routes(block), max_size=3))
    own_rules: list[Rule] = data.draw(st.lists(rules(block), max_size=2, unique_by=lambda it: it.priority))
    links = tuple(Link(name=name, index=0) for name in DEVICES)
    with private_namespace() as namespace:
        furnish(namespace, links)
        namespace.batch([DEFAULT])
        namespace.batch([*map(route_command, [*near, *more]), *map(rule_command, own_rules)], force=True)
        before = Snapshot(links=links, rules=namespace.rules(4), routes=namespace.routes(4))
        fib = Fib(before)
        report = check_overlap(fib, [block], expected_devs=["eth0"], allowed_devs=["wg0"], flow=PLAIN)
        repair = propose_repair(fib, report, flow=PLAIN)
        wanted = [resolve_route(route, fib) for route in repair.routes]
        for route in wanted:
            assert isinstance(route, Route)
            added = route_command(route).replace("append", "add")  # "add" would be refused if the key were held
            namespace.batch([added])
        addresses = range(block.first, block.last + 1)
        answers = namespace.get(4, [str(ip_at(4, address)) for address in addresses])
        assert set(before.routes) <= set(namespace.routes(4))
    unsafe = {address for it in repair.unsafe for address in range(it.first, it.last + 1)}
    for address, answer in zip(addresses, answers, strict=True):
        welcome = isinstance(answer, Route) and (answer.type != "unicast" or {"eth0", "wg0"} >= set(answer.devs))
        assert welcome or address in unsafe


@pytest.mark.parametrize("metric", [1, 5, 1024])
def test_our_stale_ipv6_route(metric: int) -> None:
    """If our own route leads to the wrong device, Linux uses the repair instead. Kills: our lower metric still wins."""
    cidr = Prefix.parse("2001:db8:99::/64")
    with private_namespace() as namespace:
        furnish(namespace, links := tuple(Link(name=name, index=0) for name in DEVICES))
        default = "route add default via fe80::1 dev eth0"
        namespace.batch([default, f"route add {cidr} dev ib0 metric {metric} proto {OURS}"], family=6)
        fib = Fib(Snapshot(links=links, rules=namespace.rules(6), routes=namespace.routes(6)))
        repair = propose_repair(fib, check_overlap(fib, [cidr]))
        for wish in repair.routes:
            route = resolve_route(wish, fib)
            assert isinstance(route, Route)
            namespace.batch([route_command(route).replace("append", "replace")], family=6)
        [answer] = namespace.get(6, ["2001:db8:99::7"])
    assert isinstance(answer, Route)
    assert (answer.devs, repair.proof.escapes) == (("eth0",), ())
