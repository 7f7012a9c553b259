"""Converts values to `ip` commands, and creates devices in a namespace."""

from collections.abc import Iterable

from hostrouting.model.route import PROTOCOL_KERNEL, Route
from hostrouting.model.rule import Rule, default_rules
from hostrouting.testing import FakeKernel
from tests.support.namespace import Namespace
from tests.support.routing import DEVICES
from tests.support.waiting import wait_for

ENCAPS = {
    "encap ip6": "encap ip6 id 7 dst fd00:99::9",
    "encap seg6": "encap seg6 mode encap segs fd00:99::9",
}
"""By what is read of a route: the words that add it."""


def rule_command(rule: Rule) -> str:
    """The command that adds the rule, in the library's words, so that Linux reads these."""
    if rule.action != "to_table":  # Linux suppresses nothing then, and `ip` does not list it
        rule = rule._replace(suppress_prefixlength=None, suppress_ifgroup=None)
    return f"rule add pref {rule}".replace(":", "", 1)


def route_command(route: Route, onlink: str = " onlink") -> str:
    """The command that appends the route; every gateway is on-link."""
    words = f"route append {route.type} {route.prefix} table {route.table} metric {route.metric}"
    if route.tos:
        words += f" tos {route.tos:#x}"
    words += f" proto {route.protocol}"
    if route.prefsrc:
        words += f" src {route.prefsrc}"
    encaps = "".join(f"{ENCAPS[word]} " for word in route.unread)
    for hop in route.next_hops:
        way = f"via {hop.gateway} dev {hop.dev}{onlink}" if hop.gateway else f"dev {hop.dev}"
        if len(route.next_hops) == 1:
            words += f" {encaps}{way}"
        else:
            words += f" nexthop {encaps}{way} weight {hop.weight}"
    if route.mtu:
        words += f" mtu {route.mtu}"
    if route.advmss:
        words += f" advmss {route.advmss}"
    return words


def ports(*names: str) -> list[str]:
    """The commands for devices that are up, each one end of a veth without link-local address."""
    commands: list[str] = []
    for name in names:
        peer = f"peer-{name}"[:15]  # Linux takes no longer name
        commands.append(f"link add {name} type veth peer name {peer}")
        # The other end comes first: so the device has its carrier as soon as it is up.
        commands += [*up(peer), *up(name)]
    return commands


def up(dev: str) -> list[str]:
    """The commands that set a device up which gets no link-local address of Linux: its route would
    come in the middle of a test. Of a single command, Linux carries out the `up` first.
    """
    return [f"link set {dev} addrgenmode none", f"link set {dev} up"]


def commands_of(kernel: FakeKernel) -> list[str]:
    """The commands that make a host like this one, with veths and without IPv6."""
    host = kernel.snapshot()
    return [
        "link set lo up",
        *ports(*(link.name for link in host.links if link.name != "lo")),
        *(
            f"address add {address.ip}/{address.length} dev {address.dev}"
            for address in host.addresses
            if address.dev != "lo" and address.ip.version == 4
        ),
        *(
            route_command(route, onlink="")
            for route in host.routes
            if route.protocol != PROTOCOL_KERNEL and route.prefix.family == 4
        ),
        *(
            rule_command(rule)
            for rule in host.rules
            if rule.family == 4 and rule not in default_rules(4)
        ),
    ]


def furnish(namespace: Namespace, devs: Iterable[str] = DEVICES, lost: Iterable[str] = ()) -> None:
    """Create the devices, eth0 with addresses and eth1 in a group, and end the carriers in `lost`.
    Routes by ib0 are ignored while it has no carrier.
    """
    addresses = ["address add 10.0.0.4/24 dev eth0", "address add fd00:99::4/64 dev eth0 nodad"]
    namespace.batch(["link set lo up", *ports(*devs), "link set eth1 group 7", *addresses])
    if "ib0" in devs:
        for family in ("ipv4", "ipv6"):
            namespace.sysctl(f"{family}/conf/ib0/ignore_routes_with_linkdown", 1)
    lost = [*lost]
    if lost:
        namespace.batch(f"link set peer-{name} down" for name in lost)
        shown = [f"link show {name}" for name in lost]
        # The kernel updates its routes a little later.
        wait_for(
            f"{lost} to lose their carriers",
            lambda: " state UP " not in namespace.ip("-o", "-batch", "-", lines=shown).stdout,
        )
