"""Hosts for tests, by name, each a snapshot as the kernel would list it, and the check of one."""

import re
from collections.abc import Iterable
from typing import Any

from hostrouting.check.check import check_snapshot
from hostrouting.check.results import CheckReport
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import (
    PROTOCOL_BOOT,
    PROTOCOL_RA,
    SCOPE_LINK,
    SCOPE_UNIVERSE,
    TABLE_MAIN,
    Route,
)
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import ARPHRD_INFINIBAND, Address, Link, Snapshot
from hostrouting.testing import FakeKernel, h200, plain_vm
from tests.support.ip_text import route_of, rule_of
from tests.support.sections import expect

BY_IPV6 = Route.to("::/0", dev="eth0", gateway="fe80::1", metric=1024)
ELSEWHERE = Route.to("0.0.0.0/0", dev="ib0", table=100)
"""The default route of IPv6, and one in a table to which a rule sends packets."""


def host(
    interfaces: Iterable[tuple[str, str]], routes: Iterable[Route] = (), links: Iterable[Link] = ()
) -> Snapshot:
    """A host without IPv6; a device that is not in `links` is an ordinary one."""
    kernel, interfaces, given = FakeKernel(), tuple(interfaces), {link.name: link for link in links}
    for name in dict.fromkeys([*(dev for dev, _ in interfaces), *given]):
        kernel.add_link(given.get(name, name))
    for dev, address in interfaces:
        kernel.add_address(dev, address)
    there = kernel.snapshot()
    return there._replace(
        rules=tuple(rule for rule in there.rules if rule.family == 4),
        routes=(*routes, *there.routes),
    )


def with_docker() -> FakeKernel:
    kernel = plain_vm()
    kernel.add_link(Link(name="docker0", index=0, kind="bridge"))
    kernel.add_address("docker0", "172.17.0.1/16")
    return kernel


def dual_stack_h200() -> FakeKernel:
    """An H200 node with fd16::/48 on its ib devices, and a default route by RA on eth0."""
    kernel = h200()
    kernel.add_address("eth0", "2001:db8::4/64")
    for number in range(8):
        kernel.add_address(f"ib{number}", f"fd16::{number + 10:x}/48")
    kernel.ip_route(
        "add", Route.to("::/0", dev="eth0", gateway="fe80::1", protocol=PROTOCOL_RA, metric=1024)
    )
    return kernel


def vpn_node() -> FakeKernel:
    """A plain VM that sends all packets through wg0, as wg-quick configures it."""
    kernel = plain_vm()
    kernel.add_link(Link(name="wg0", index=0, kind="wireguard", type=65534))
    kernel.add_address("wg0", "10.8.0.2/32")
    kernel.ip_route("add", Route.to("0.0.0.0/0", dev="wg0", table=51820, protocol=PROTOCOL_BOOT))
    kernel.add_rule(
        Rule(family=4, priority=32765, invert=True, fwmark=51820, fwmask=0xFFFFFFFF, table=51820)
    )
    kernel.add_rule(Rule(family=4, priority=32764, table=TABLE_MAIN, suppress_prefixlength=0))
    return kernel


def cni_node() -> FakeKernel:
    """A plain VM with cni0, which has 10.244.0.0/24, and routes to other nodes' pods."""
    kernel = plain_vm()
    kernel.add_link(Link(name="cni0", index=0, kind="bridge"))
    kernel.add_address("cni0", "10.244.0.1/24")
    for pod in range(2):
        kernel.add_link(Link(name=f"veth{pod}", index=0, kind="veth", master="cni0"))
    for node in (1, 2):
        kernel.ip_route(
            "add", Route.to(f"10.244.{node}.0/24", dev="eth0", gateway=f"10.0.0.{node + 4}")
        )
    return kernel


_TYPES = {"ib": ARPHRD_INFINIBAND, "ppp": 512}
_LINKS = [Link("ib0", 9, type=32), Link("wg1", 10, "wireguard", type=65534), Link("eth1", 11)]
_LINKS += [Link("cni0", 12, "bridge"), Link("cali1", 13, "veth")]


def vm_of(text: str) -> Snapshot:
    """A plain VM with these things, which semicolons separate: routes as in `route_of`, `rule …` as
    in `rule_of`, `address … dev …`, `link NAME KIND MASTER`; `ipv6` and `elsewhere` are the routes
    above. Of the VM, `-default`, `-addresses` and `-main` take away its default route, its
    addresses, and its rules for table main and table default. The links above are there if they are
    named.
    """
    routes: list[Route] = []
    rules: list[Rule] = []
    addresses: list[Address] = []
    links = {link.name: link for link in _LINKS if re.search(rf"\b{link.name}\b", text)}
    vm = plain_vm().snapshot()
    for item in filter(None, map(str.strip, text.split(";"))):
        word, _, rest = item.partition(" ")
        if word == "rule":
            rules.append(rule_of(rest))
        elif word == "address":
            ip, _, dev = rest.split()
            addresses.append(address(ip, dev))
        elif word == "link":
            name, kind, *master = rest.split()
            links[name] = Link(
                name,
                20 + len(links),
                "" if kind in {"nic", "ib"} else kind,
                type=_TYPES.get(kind, 1),
                master=master[0] if master else None,
            )
        elif word in {"ipv6", "elsewhere"}:
            routes.append(BY_IPV6 if word == "ipv6" else ELSEWHERE)
        elif word == "-default":
            kept = [route for route in vm.routes if route.prefix.length]
            vm = vm._replace(routes=tuple(kept))
        elif word == "-addresses":
            vm = vm._replace(addresses=())
        elif word == "-main":
            vm = vm._replace(rules=tuple(rule for rule in vm.rules if rule.priority == 0))
        else:
            routes.append(route_of(item))
    return vm.with_routes(routes)._replace(
        rules=tuple(sorted((*rules, *vm.rules), key=lambda rule: rule.priority)),
        links=(*vm.links, *links.values()),
        addresses=(*vm.addresses, *addresses),
    )


_KEYS = {"dev": "expected_devs", "allow": "allowed_devs", "services": "service_cidrs"}


def checked_as(host: Snapshot, asked: str) -> CheckReport:
    """The check of CIDRs, `dev=NAME,NAME`, `allow=…`, `services=…` and, last, `intended=a rule`."""
    words, _, intended = asked.partition("intended=")
    cidrs = [word for word in words.split() if "=" not in word]
    section: dict[str, Any] = {"intended_rules": [intended] if intended else []}
    for word in words.split():
        if "=" in word:
            key, _, values = word.partition("=")
            section[_KEYS[key]] = values.split(",")
    return checked(host, *cidrs, **section)


def address(text: str, dev: str) -> Address:
    """An address of a device, with the scope that Linux gives it."""
    ip, _, length = text.partition("/")
    scope = SCOPE_LINK if as_ip(ip).is_link_local else SCOPE_UNIVERSE
    return Address(as_ip(ip), int(length), dev, scope=scope)


def checked(snapshot: Snapshot, *cidrs: str, **section: Any) -> CheckReport:
    expected = expect(*(cidrs or ["172.16.0.0/16"]), **section)
    return check_snapshot(snapshot, HostRoutingConfig(route_overlap=expected))


def marked_vm() -> FakeKernel:
    kernel = plain_vm()
    kernel.add_link(Link(name="eth1", index=0))
    kernel.add_rule(Rule(family=4, priority=32764, fwmark=51820, fwmask=0xFFFFFFFF, table=77))
    kernel.ip_route("add", Route.to("0.0.0.0/0", dev="eth1", table=77))
    return kernel


def refusing() -> FakeKernel:
    """An H200 node with a rule that none of our routes can mend."""
    kernel = h200()
    kernel.add_rule(
        Rule(family=4, priority=100, action="prohibit", dst=Prefix.parse("172.16.0.0/24"))
    )
    return kernel
