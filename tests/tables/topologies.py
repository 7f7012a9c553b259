"""Hosts, each with a CIDR that is expected to leave by its uplink, and what every layer says about it.

Readers: the engine, the check and its repair, and the command, on the fake kernel and on Linux.
"""

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

import attrs

from hostrouting.check.overlap import Verdict
from hostrouting.config.cni import DEFAULT_ALLOWED_DEVS
from hostrouting.config.settings import HostRoutingConfig, RouteOverlapConfig
from hostrouting.config.values import Mode
from hostrouting.finding import ESCAPES
from hostrouting.model.prefix import IP, Prefix, as_ip
from hostrouting.model.route import OURS, PROTOCOL_KERNEL, REFUSING, NextHop, Route, RouteType
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import ARPHRD_INFINIBAND, Link
from hostrouting.testing import MemoryBackend, cni_node, ecmp_node, h200, plain_vm, vpn_node

CIDR = "172.16.0.0/16"


@attrs.frozen
class Topology:
    """One host, and the expected results for its CIDRs."""

    base: Callable[[], MemoryBackend]
    also: tuple[Route | Rule | tuple[str, str], ...] = ()
    """What this host has in addition to the base: routes, rules, and addresses, each after its device."""
    escapes: tuple[str, ...] = ()
    """What leaves otherwise, each as kind, range and device."""
    repair: tuple[str, ...] = ()
    """The destinations of the routes that repair it, and the reason for what none can repair."""
    devs: tuple[str, ...] = ("eth0",)
    """The devices by which the CIDRs are expected to leave."""
    cidrs: tuple[str, ...] = (CIDR,)
    unless_escapes: Verdict = "ok"
    expected: tuple[str, ...] = ()
    """The expected devices of the configuration."""
    allowed: tuple[str, ...] = DEFAULT_ALLOWED_DEVS

    @property
    def verdict(self) -> Verdict:
        """What the check says."""
        return "overlap" if self.escapes else self.unless_escapes

    @property
    def config(self) -> HostRoutingConfig:
        """The check of the CIDRs."""
        return HostRoutingConfig(route_overlap=RouteOverlapConfig(self.cidrs, Mode.STRICT, self.expected, self.allowed))

    def kernel(self) -> MemoryBackend:
        """A fake kernel that is this host."""
        kernel = self.base()
        known = {link.name for link in kernel.snapshot(family=4).links}
        for it in self.also:
            match it:
                case Rule():
                    kernel.add_rule(it)
                case Route():
                    _see(kernel, known, *it.devs)
                    kernel.ip_route("append", it)
                case dev, address:
                    _see(kernel, known, dev)
                    kernel.add_address(dev, address)
        return kernel

    def escape_of(self, kind: str, devs: tuple[str, ...]) -> str:
        """The expected finding for packets that are refused or leave by these devices; empty if that is allowed."""
        allowed = (*self.devs, *self.allowed)
        astray = [dev for dev in devs if not any(fnmatchcase(dev, it) for it in allowed)]
        if not self.devs:
            return ""
        return kind if kind in {*REFUSING, "no-route"} else " ".join(["overlap", *astray][: 2 * bool(astray)])

    def asked(self) -> dict[IP, str]:
        """The ends of the CIDRs and of the escapes: for each the kind and the device of its escape, if any."""
        cidrs = [Prefix.parse(cidr).to_network() for cidr in self.cidrs]
        asked = {end: "" for cidr in cidrs for end in (cidr[0], cidr[-1])}
        for kind, ends, *dev in map(str.split, self.escapes):
            asked |= {as_ip(end): " ".join([kind, *dev]) for end in ends.split("-")}
        return asked


def _see(kernel: MemoryBackend, known: set[str], *devs: str) -> None:
    for dev in devs:
        if dev not in known:
            kernel.add_link(Link(name=dev, index=0, type=ARPHRD_INFINIBAND if dev.startswith("ib") else 1))
            known.add(dev)


def escapes_of(document: dict[str, Any]) -> tuple[str, ...]:
    """The escapes in the JSON of a check, as a row of the table has them."""
    found = [(finding["name"], finding["facts"]) for finding in document["findings"] if finding["name"] in ESCAPES]
    return tuple(f"{name} {it['first']}-{it['last']} {it['via']['dev'] or ''}".strip() for name, it in found)


def devs_of(document: dict[str, Any]) -> list[str]:
    """The same for the expected devices."""
    return [dev for devs in document["expectedDevs"].values() for dev in devs]


def repair_of(document: dict[str, Any]) -> tuple[str, ...]:
    """The same for the repair."""
    unsafe = [finding["facts"] for finding in document["findings"] if finding["name"] == "unsafe"]
    reasons = (it["reason"] for it in unsafe for _ in it["ranges"])
    return (*(it["destination"] for it in document["repair"]), *reasons)


def _no_default() -> MemoryBackend:
    kernel = plain_vm()
    kernel.ip_route("delete", Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", protocol=16, metric=100))
    return kernel


def _out(prefix: str) -> Route:
    return Route.to(prefix, dev="eth0", gateway="10.0.0.1")


def _by(dev: str, prefix: str, table: int = 254, *, kind: RouteType = "unicast", metric: int = 0) -> Route:
    return Route.to(prefix, dev=dev, table=table, type=kind, metric=metric, protocol=4)


def _rule(priority: int = 100, table: int = 77, **fields: Any) -> Rule:
    return Rule(family=4, priority=priority, table=table, **fields)


def _halves(prefix: str) -> tuple[str, ...]:
    return tuple(map(str, Prefix.parse(prefix).halves()))


_WHOLE = "172.16.0.0-172.16.255.255"
_IB0 = f"overlap {_WHOLE} ib0"
_BLOCK, _RANGE = "172.16.4.0/24", "172.16.4.0-172.16.4.255"
_PART, _REPAIR = (f"overlap {_RANGE} ib0",), _halves(_BLOCK)
_HALVES = _halves(CIDR)
_TAILSCALE_MARK: dict[str, Any] = {"fwmark": 0x80000, "fwmask": 0xFF0000}
_TAILSCALE = (
    _rule(5210, 254, **_TAILSCALE_MARK),
    _rule(5230, 253, **_TAILSCALE_MARK),
    _rule(5250, 0, **_TAILSCALE_MARK, action="unreachable"),
    _rule(5270, 52),
    _by("tailscale0", "100.64.0.9/32", 52),
)
_WG_QUICK = (
    _rule(32764, 254, suppress_prefixlength=0),
    _rule(32765, 51820, fwmark=51820, fwmask=0xFFFFFFFF, invert=True),
)
_BY_MARK = _rule(fwmark=1, fwmask=1)
_SELECTING = [
    *(_BY_MARK, _rule(uids=(1000, 2000)), _rule(dports=(53, 53)), _rule(sports=(53, 53)), _rule(ipproto=6)),
    *(_rule(tos=0x10), _rule(iif="eth0"), _rule(oif="eth0"), _rule(src=Prefix.parse("10.9.0.0/16"))),
]
_ONE_OF_TWO = Route(Prefix.parse(_BLOCK), (NextHop("eth1", gateway=as_ip("10.1.0.1")), NextHop("ib0")))
_SENT: tuple[RouteType, ...] = ("broadcast", "multicast", "anycast")
_REFUSALS: tuple[RouteType, ...] = ("unreachable", "blackhole", "prohibit")
_OWN = ("10.0.0.0/24", "224.0.0.0/4", "127.0.0.0/8", "255.255.255.255/32")

TOPOLOGIES: dict[str, Topology] = {
    "a plain VM": Topology(plain_vm),
    "a plain VM's own addresses": Topology(plain_vm, cidrs=_OWN),
    "an H200 node": Topology(h200, (), (_IB0,), _HALVES),
    "an H200 node, more than the fabric": Topology(
        h200, (), (_IB0, *_PART), _HALVES, cidrs=("172.16.0.0/12", _BLOCK, "10.0.0.0/8")
    ),
    "an H200 node with a hole": Topology(
        h200, (_out("172.16.0.0/22"), _out(_BLOCK)), ("overlap 172.16.5.0-172.16.255.255 ib0",), _HALVES
    ),
    "an H200 node with a hole in the middle": Topology(
        h200, (_out(_BLOCK),), ("overlap 172.16.0.0-172.16.3.255 ib0", "overlap 172.16.5.0-172.16.255.255 ib0"), _HALVES
    ),
    "an H200 node with pods in the fabric": Topology(
        h200,
        (_by("cni0", _BLOCK),),
        ("overlap 172.16.0.0-172.16.3.255 ib0", "overlap 172.16.5.0-172.16.255.255 ib0"),
        _HALVES,
        allowed=("cni?",),
    ),
    "an H200 node with a route to one address": Topology(
        h200,
        (_by("ib0", "172.16.0.9/32"),),
        tuple(f"overlap 172.16.{ends} ib0" for ends in ("0.0-172.16.0.8", "0.9-172.16.0.9", "0.10-172.16.255.255")),
        (*_HALVES, "longest-prefix"),
    ),
    "an H200 node, repaired": Topology(h200, tuple(map(_out, _HALVES))),
    "own addresses beside an escape": Topology(
        plain_vm, (_by("ib0", _BLOCK), ("eth0", "172.16.5.0/32"), ("eth0", "172.16.3.255/32")), _PART, _REPAIR
    ),
    "own addresses within an escape": Topology(
        plain_vm, (_by("ib0", _BLOCK), ("eth0", "172.16.4.0/32"), ("eth0", "172.16.4.255/32")), _PART, _REPAIR
    ),
    **{
        f"a route of type {kind}": Topology(
            plain_vm, (Route.to(_BLOCK, type=kind, protocol=4),), (f"{kind} {_RANGE}",), _REPAIR
        )
        for kind in _REFUSALS
    },
    "no default route": Topology(_no_default, devs=(), unless_escapes="no-default-route"),
    "no default route, eth0 expected": Topology(
        _no_default, (), (f"no-route {_WHOLE}",), ("no-way",), expected=("eth0",)
    ),
    "two uplinks": Topology(ecmp_node, devs=("eth0", "eth1")),
    "a route by one of two uplinks and ib0": Topology(
        ecmp_node, (("ib0", "192.168.0.1/24"), _ONE_OF_TWO), _PART, _REPAIR, ("eth0", "eth1")
    ),
    "two default routes": Topology(
        plain_vm, (("wlan0", "192.168.0.4/24"), Route.to("0.0.0.0/0", dev="wlan0", gateway="192.168.0.1", metric=600))
    ),
    **{f"{kind} to a network": Topology(plain_vm, (_by("ib0", _BLOCK, kind=kind),), _PART, _REPAIR) for kind in _SENT},
    **{f"{kind} by the uplink": Topology(plain_vm, (_by("eth0", _BLOCK, kind=kind),)) for kind in _SENT},
    # Inside the multicast range, or for a single address that Linux found, such a route only concerns the host's networks.
    **{
        f"{kind} to an address": Topology(
            plain_vm,
            (
                _by("ib0", "224.0.0.0/4", kind=kind),
                Route.to("172.16.8.9/32", dev="ib0", type=kind, protocol=PROTOCOL_KERNEL),
            ),
            cidrs=(CIDR, "224.0.0.0/4"),
        )
        for kind in _SENT
    },
    **{
        f"{kind} to an address, by another program": Topology(
            plain_vm,
            (_by("ib0", "172.16.8.9/32", kind=kind),),
            ("overlap 172.16.8.9-172.16.8.9 ib0",),
            ("longest-prefix",),
        )
        for kind in _SENT
    },
    "a device that is not allowed": Topology(
        plain_vm, (_by("cni0", _BLOCK),), (f"overlap {_RANGE} cni0",), _REPAIR, allowed=("veth*",)
    ),
    "a device that is allowed": Topology(plain_vm, (_by("cni0", _BLOCK),), allowed=("veth*", "cni?")),
    "pods": Topology(cni_node, cidrs=("10.244.0.0/16",), allowed=("cni0",)),
    "halves of a VPN": Topology(
        plain_vm, (_by("wg0", "0.0.0.0/1"), _by("wg0", "128.0.0.0/1")), (f"overlap {_WHOLE} wg0",), (CIDR,)
    ),
    "the rules of wg-quick": Topology(vpn_node, devs=("wg0",)),
    "the rules of wg-quick, eth0 expected": Topology(
        vpn_node, (), (f"overlap {_WHOLE} wg0",), (CIDR,), expected=("eth0",)
    ),
    "the rules of wg-quick without its route": Topology(plain_vm, _WG_QUICK),
    # Rules on the same mark match together, so they leave no doubt about a packet.
    "the rules of Tailscale": Topology(plain_vm, _TAILSCALE),
    "the rules of Tailscale, its own network": Topology(
        plain_vm, _TAILSCALE, ("overlap 100.64.0.9-100.64.0.9 tailscale0",), ("earlier-rule",), cidrs=("100.64.0.0/16",)
    ),
    "a rule for a destination": Topology(
        plain_vm, (_by("ib0", "0.0.0.0/0", 77), _rule(dst=Prefix.parse(_BLOCK))), _PART, ("earlier-rule",)
    ),
    "an earlier rule": Topology(plain_vm, (_by("ib0", _BLOCK, 77), _rule()), _PART, ("earlier-rule",)),
    **{
        f"a rule by {' '.join(map(str, *rule.selectors()))}": Topology(
            plain_vm, (_by("ib0", _BLOCK, 77), rule), unless_escapes="ok" if rule.src or rule.iif else "undecided"
        )
        for rule in _SELECTING
    },
    "a rule by mark, another CIDR": Topology(plain_vm, (_by("ib0", _BLOCK, 77), _BY_MARK), cidrs=("172.17.0.0/16",)),
    "a rule by mark that repairs": Topology(
        plain_vm, (_by("ib0", CIDR), _by("eth0", "0.0.0.0/0", 77), _BY_MARK), (_IB0,), _HALVES
    ),
    "a route of a higher metric": Topology(plain_vm, (_by("ib0", CIDR, metric=600),), (_IB0,), (CIDR,)),
    "a route of ours by another device": Topology(
        plain_vm, (Route.to(CIDR, dev="ib0", protocol=OURS),), (_IB0,), (CIDR,)
    ),
    "neighbouring CIDRs": Topology(
        plain_vm,
        (_by("ib0", "172.16.0.0/12"),),
        ("overlap 172.18.0.0-172.18.255.255 ib0", "overlap 172.19.0.0-172.19.255.255 ib0"),
        ("172.18.0.0/15",),
        cidrs=("172.18.0.0/16", "172.19.0.0/16"),
    ),
}
