"""Whether Linux takes a packet that arrives on a device, or drops it before it is forwarded or delivered.

Here: that decision, for one packet, and for one route back. Not here: packet filters and eBPF programs, which also drop
packets; and for which packets this is asked (`check.pods`).

Linux looks up two routes for such a packet. The first is that of the packet itself: it is for this host, or it leaves
by a device. The second is the route back, from its destination to its source, as a packet that arrives on the device by
which the first one leaves (on `lo` if it is for this host). For IPv4, a packet is dropped for the first reason here
that holds:

- Its source is not the address of one host: multicast, 255.255.255.255, or 0.0.0.0, which only DHCP uses.
- Its source or destination is in 127.0.0.0/8, and `route_localnet` is off.
- It is not for this host, and the device does not forward.
- The route back shows that its source is an address of this host, and `accept_local` is off; or that it is a broadcast
  address.
- The route back does not leave by the device that the packet arrived on (any next hop of the route counts), and
  rp_filter is 1; or rp_filter is 2, and there is no route back, or the device has no IPv4 address.

The route back is looked up for user 0, and with mark 0 unless `src_valid_mark` is on. So a rule by mark or user can
lead a packet out by a device that drops the reply. The protocol and ports of a packet are 0 there, unless there is a
rule by protocol or port that is not only for the host's own packets (`iif lo`). IPv6 has no such filter in its routing;
there, forwarding matters, and whether the source can be the address of one host. (Linux: `ip_route_input_slow`,
`fib_validate_source`, `fib_rule_requires_fldissect`, `ip6_rcv`, `ip6_forward`.)

If a device is a port of a bridge, bond or team, no IP packet arrives on it: they arrive on the bridge.
"""

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address
from typing import Literal, NamedTuple, TypeAlias

import attrs

from hostrouting.fib.decision import Decision
from hostrouting.fib.engine import Fib
from hostrouting.fib.packet import Flow
from hostrouting.model.prefix import IP, IPV4, IPV6, LOOPBACK, MULTICAST, width_of
from hostrouting.model.route import REFUSING
from hostrouting.model.snapshot import RP_FILTER_STRICT, Link, Snapshot

# bad-source: not the address of one host. loopback: from or to 127.0.0.0/8, or to ::1. forwarding: it is off there.
# own-source: it comes from an address of this host. strict: rp_filter is 1, and the route back leaves by another
# device, or there is none. loose: rp_filter is 2, and there is no route back. no-address: rp_filter is 2, the route
# back leaves by another device, and the device has no IPv4 address.
DropReason: TypeAlias = Literal["bad-source", "loopback", "forwarding", "own-source", "strict", "loose", "no-address"]

RP_FILTER_REASONS: tuple[DropReason, ...] = ("strict", "loose", "no-address")
"""The reasons of the reverse path filter."""

_UNSPECIFIED, _LIMITED_BROADCAST = IPv4Address(0), IPv4Address("255.255.255.255")
_JOINING = frozenset({"bridge", "bond", "team"})  # packets of a port arrive on these devices


class Drop(NamedTuple):
    """Why Linux drops a packet that arrives on a device; `back` decides about the route back, if that matters."""

    dev: str
    reason: DropReason
    source: IP
    back: Decision | None = None
    out: str = ""
    """The device by which it leaves if it is dropped; empty if it is dropped in any case."""

    def __str__(self) -> str:
        """A clause: why it is dropped."""
        match self.reason:
            case "bad-source":
                return f"{self.source} is not the address of one host, so no packet may come from it"
            case "loopback" if self.source.version == IPV4:
                return f"addresses in {LOOPBACK} stay inside a host (net.ipv4.conf.{self.dev}.route_localnet is 0)"
            case "loopback":
                return "::1 stays inside a host"
            case "forwarding":
                return forwarding_clause(self.source.version, (self.dev,))
            case "own-source":
                return f"{self.source} is an address of this host (net.ipv4.conf.{self.dev}.accept_local is 0)"
            case _:
                return filter_clause(self.reason, f"the route back to {self.source}", self.back)


def forwarding_clause(family: int, devs: Sequence[str]) -> str:
    """A clause: which setting forbids this host to forward packets; without devices, for those created later."""
    if family != IPV4:
        return "this host does not forward IPv6 packets (net.ipv6.conf.all.forwarding is 0)"
    if not devs:
        return "this host does not forward packets yet (net.ipv4.conf.default.forwarding is 0)"
    if len(devs) > 1:
        return "these devices do not forward packets (net.ipv4.conf.DEVICE.forwarding is 0)"
    return f"{devs[0]} does not forward packets (net.ipv4.conf.{devs[0]}.forwarding is 0)"


def filter_clause(reason: DropReason, back: str, decision: Decision | None, *, whose: str = "its") -> str:
    """A clause about the reverse path filter: its setting, and the route back."""
    filters = f"{whose} rp_filter is {1 if reason == 'strict' else 2}"
    filters += ", it has no IPv4 address" if reason == "no-address" else ""
    route = None if decision is None else decision.route
    if decision is None or route is None:
        return f"{filters}, and {back} does not exist"
    if route.type in REFUSING:
        return f"{filters}, and {back} is [{decision.holder}], which sends nothing"
    return f"{filters}, and {back} leaves by {', '.join(route.devs)}"


def arrives_on(links: Mapping[str, Link], dev: str) -> str | None:
    """The device on which IP sees packets that arrive on this one; None for a VRF or if unknown."""
    top = links.get(dev)
    while top is not None and top.master is not None:
        top = links.get(top.master)
        if top is None or top.kind not in _JOINING:
            return None
    return None if top is None else top.name


def is_forwarding_off(snapshot: Snapshot, link: Link | None, family: int) -> bool:
    """Whether it is known that the host does not forward packets that arrive on this device."""
    if family == IPV6:
        return snapshot.ipv6_forwarding is False and not (link is not None and link.ipv6_force_forwarding)
    return link is not None and link.forwarding is False


def find_drop(fib: Fib, destination: IP, flow: Flow) -> Drop | None:
    """Why Linux drops this packet from `flow.source` that arrives on `flow.iif`; None if it does not.

    None also if no route takes the packet, on a device that forwards: then that is the reason.
    """
    link, source = fib.links.get(flow.iif or ""), flow.source
    if link is None or source is None or link.name == "lo" or destination in MULTICAST[destination.version]:
        return None  # multicast is looked up in another way
    if (source, destination) == (_UNSPECIFIED, _LIMITED_BROADCAST):
        return None  # a client asks for an address
    if reason := _against_addresses(link, source, destination):
        return Drop(link.name, reason, source)
    way = fib.lookup(destination, flow)
    is_refused = way.kind == "no-route" or way.kind in REFUSING
    # Without forwarding, Linux answers like that whatever refuses an IPv4 packet.
    if (way.goes_out or (is_refused and destination.version == IPV4)) and is_forwarding_off(
        fib.snapshot, link, destination.version
    ):
        return Drop(link.name, "forwarding", source)
    if is_refused:
        return None
    if destination.version == IPV6:
        return Drop(link.name, "bad-source", source) if way.goes_out and not int(source) else None
    asked = destination if way.kind in {"local", "unicast"} else _UNSPECIFIED
    outs, found = way.devs if way.goes_out else ("lo",), []
    for out in outs:
        back = fib.lookup(source, reverse_flow(fib, flow, asked, out=out, keeps_mark=link.src_valid_mark))
        reason = drop_reason(fib, link, back, out=out)
        if reason is not None:
            found.append(Drop(link.name, reason, source, back, out))
    if not found:
        return None
    return found[0]._replace(out="") if len(found) == len(outs) else found[0]


def _against_addresses(link: Link, source: IP, destination: IP) -> DropReason | None:
    """Why Linux drops a packet with these addresses, whatever its route."""
    if source.version == IPV6:
        bad = source.is_multicast or source.is_loopback
        return "bad-source" if bad else "loopback" if destination.is_loopback else None
    if source in MULTICAST[IPV4] or source in {_UNSPECIFIED, _LIMITED_BROADCAST}:
        return "bad-source"
    inside = source in LOOPBACK or destination in LOOPBACK
    return "loopback" if inside and not link.route_localnet else None


def reverse_flow(fib: Fib, flow: Flow, destination: IP | None, *, out: str = "lo", keeps_mark: bool = False) -> Flow:
    """The packet for the route back: its lookup is for a packet to this destination that leaves by `out`."""
    reads = fib.reads_ports
    return attrs.evolve(
        flow,
        source=destination,
        iif=out,
        oif="",
        mark=flow.mark if keeps_mark else 0,
        uid=0,
        ipproto=flow.ipproto if reads else 0,
        sport=flow.dport if reads else 0,
        dport=flow.sport if reads else 0,
    )


def drop_reason(fib: Fib, link: Link, back: Decision, *, out: str = "lo") -> DropReason | None:
    """Why `link` drops IPv4 packets that leave by `out` and have this route back; None if it does not."""
    route, filters = back.route, link.rp_filter
    leads = route is not None and back.kind not in REFUSING
    is_own = leads and back.kind == "local" and not link.accept_local
    # Without a filter, Linux looks for its own addresses only, unless rules or local routes were changed, or the packet
    # leaves by the device on which it arrived (if that has send_redirects, which is on by default).
    if not filters and out != link.name and (link.accept_local or not fib.looks_back):
        return "own-source" if is_own and route is not None and route.prefix.length == width_of(IPV4) else None
    if is_own:
        return "own-source"
    if leads and back.kind not in {"unicast", "local"}:
        return "bad-source"
    if not filters or (leads and route is not None and link.name in route.devs):
        return None
    if filters == RP_FILTER_STRICT:
        return "strict"
    if not leads:
        return "loose"
    has_address = any(address.dev == link.name and address.ip.version == IPV4 for address in fib.snapshot.addresses)
    return None if has_address else "no-address"
