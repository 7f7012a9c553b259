"""Hosts for tests, by name, each a snapshot as the kernel would list it, and the check of one."""

from collections.abc import Iterable
from typing import Any

from hostrouting.check.check import check_snapshot
from hostrouting.check.results import CheckReport
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.model.prefix import Prefix
from hostrouting.model.route import Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Link, Snapshot
from hostrouting.testing import FakeKernel, topologies
from tests.support.sections import expect


def host(
    interfaces: Iterable[tuple[str, str]], routes: Iterable[Route] = (), links: Iterable[Link] = ()
) -> Snapshot:
    """A host with IPv4 addresses on devices, the routes that the kernel adds for them, and further
    routes.

    A device that is not in `links` is an ordinary one.
    """
    kernel, interfaces, given = FakeKernel(), tuple(interfaces), {link.name: link for link in links}
    for name in dict.fromkeys([*(dev for dev, _ in interfaces), *given]):
        kernel.add_link(given.get(name, name))
    for dev, address in interfaces:
        kernel.add_address(dev, address)
    there = kernel.snapshot(family=4)._replace(family=None)
    return there._replace(routes=(*routes, *there.routes))


def vm_with(*routes: Route, rules: tuple[Rule, ...] = (), links: tuple[Link, ...] = ()) -> Snapshot:
    """A plain VM with these things; rules stand in the order of their priorities."""
    vm = topologies.plain_vm().snapshot()
    every = tuple(sorted((*rules, *vm.rules), key=lambda rule: rule.priority))
    return vm.with_routes(routes)._replace(rules=every, links=(*vm.links, *links))


def checked(snapshot: Snapshot, *cidrs: str, **section: Any) -> CheckReport:
    """The check of these CIDRs, or of the usual one."""
    return check_snapshot(
        snapshot, HostRoutingConfig(route_overlap=expect(*(cidrs or ["172.16.0.0/16"]), **section))
    )


def marked_vm() -> FakeKernel:
    """A plain VM that sends packets with a mark by eth1: nobody can know which packets these are."""
    kernel = topologies.plain_vm()
    kernel.add_link(Link(name="eth1", index=0))
    kernel.add_rule(Rule(family=4, priority=32764, fwmark=51820, fwmask=0xFFFFFFFF, table=77))
    kernel.ip_route("add", Route.to("0.0.0.0/0", dev="eth1", table=77))
    return kernel


def refusing() -> FakeKernel:
    """An H200 node with a rule that none of our routes can mend."""
    kernel = topologies.h200()
    kernel.add_rule(
        Rule(family=4, priority=100, action="prohibit", dst=Prefix.parse("172.16.0.0/24"))
    )
    return kernel
