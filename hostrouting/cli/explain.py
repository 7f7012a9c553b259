"""The route of one packet: the trace, the state of the devices, and whether replies are dropped.

Here: facts, found by pure functions, and the same as plain values. Not here: the sentences and tables that show them
(`commands.explain`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.check.cni import PodBlocks
from hostrouting.check.report import drop_clause
from hostrouting.fib import PLAIN, Fib, Flow
from hostrouting.fib.arrival import RP_FILTER_REASONS, Drop, drop_reason, find_drop, reverse_flow
from hostrouting.fib.decision import goes_out, is_own
from hostrouting.fib.trace import trace_route
from hostrouting.model import IPV4, IPV6, TABLE_LOCAL, Prefix, protocol_name, table_name
from hostrouting.routes.connected import is_unexplained
from hostrouting.routes.uplink import outbound_devs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hostrouting.fib import Variant
    from hostrouting.fib.trace import Passed, Trace, Tried
    from hostrouting.model import IP, Address, Link, Snapshot

__all__ = ["Explanation", "explain", "explain_document"]

# The block around the address that is drawn: its minimum and maximum prefix length, and the length if there is no route
# or one with a shorter prefix than the minimum.
_LENGTHS = {IPV4: (8, 24, 16), IPV6: (32, 64, 64)}


@attrs.frozen
class Explanation:
    """The route of one packet, and the facts that it depends on.

    `links` are the existing devices that it may leave by. `source` is the address of this host for which the kernel
    added the route. `outbound` are the expected devices: those of the default route unless others were `named`.
    `drop` is why the packet is dropped as it arrives. `replies` are the devices that drop packets from this address to
    this host, each with the reason. `variants` are the packets that are treated differently.
    """

    trace: Trace
    links: tuple[Link, ...]
    source: Address | None
    outbound: tuple[str, ...]
    named: bool
    drop: Drop | None
    replies: tuple[Drop, ...]
    variants: tuple[Variant, ...]
    unexplained: bool
    """Whether the route has proto kernel although no address of its device explains it."""
    own_block: bool
    """Whether it is refused because its destination is in one of this host's own pod blocks."""
    around: Prefix
    """The block to draw around the address: the deciding route's, or a smaller or larger one if that is clearer."""

    @property
    def goes_out(self) -> bool:
        """Whether it leaves by a device."""
        return goes_out(self.trace.kind, self.trace.route)

    @property
    def as_expected(self) -> bool | None:
        """Whether it leaves by the expected devices, or correctly stays here; None if no devices are expected."""
        if self.own_block or is_own(self.trace.kind, self.trace.route):
            return True
        if not self.outbound:
            return None
        return self.goes_out and bool(self.trace.devs) and set(self.trace.devs) <= set(self.outbound)


def explain(
    snapshot: Snapshot,
    destination: IP,
    flow: Flow,
    *,
    expected: tuple[str, ...] = (),
    allowed: tuple[str, ...] = (),
) -> Explanation:
    """Explain the route of a packet; `flow` is what is known about it.

    `expected` are the expected devices, `allowed` the patterns of the allowed devices.
    """
    fib = Fib(snapshot)
    trace = trace_route(snapshot, destination, flow)
    family = destination.version
    variants = fib.lookup(destination, flow).variants
    return Explanation(
        trace,
        links=tuple(link for dev in trace.devs if (link := snapshot.link(dev)) is not None),
        source=_source(snapshot, trace),
        outbound=expected or outbound_devs(fib, family=family),
        named=bool(expected),
        drop=find_drop(fib, destination, flow),
        replies=tuple(_replies(fib, destination)) if goes_out(trace.kind, trace.route) else (),
        variants=variants,
        unexplained=trace.route is not None and is_unexplained(trace.route, snapshot),
        own_block=trace.route is not None and PodBlocks(fib, (Prefix(family, 0, 0),), allowed).holds(trace.route),
        around=_around(trace, family),
    )


def _source(snapshot: Snapshot, trace: Trace) -> Address | None:
    """The address for which the kernel added a connected route."""
    route = trace.route
    if route is None or route.table == TABLE_LOCAL or any(leg.gateway for leg in route.legs):
        return None
    return next(
        (
            address
            for address in snapshot.addresses
            if address.dev in route.devs
            and route.prefix in {address.network, Prefix.around(address.ip.version, int(address.ip), address.length)}
        ),
        None,
    )


def _replies(fib: Fib, destination: IP) -> Iterator[Drop]:
    """The devices with an address that drop packets from `destination` to that address, each with the reason."""
    snapshot = fib.snapshot
    own = {address.dev: address.ip for address in reversed(snapshot.addresses) if address.ip.version == IPV4}
    for link in snapshot.links if destination.version == IPV4 else ():
        if link.up and link.rp_filter and link.name in own and link.name != "lo":
            back = fib.lookup(destination, reverse_flow(PLAIN, own[link.name]))
            reason = drop_reason(fib, link, back)
            if reason in RP_FILTER_REASONS:
                yield Drop(link.name, reason, destination, back)


def _around(trace: Trace, family: int) -> Prefix:
    widest, narrowest, usual = _LENGTHS[family]
    length = 0 if trace.route is None else trace.route.prefix.length
    return Prefix.around(family, int(trace.address), usual if length < widest else min(length, narrowest))


def explain_document(explanation: Explanation) -> dict[str, Any]:
    """The explanation as the JSON value `hostrouting/explain/1`, without the kernel's own answer."""
    trace = explanation.trace
    return {
        "schema": "hostrouting/explain/1",
        "address": str(trace.address),
        "kind": trace.kind,
        "devs": list(trace.devs),
        "expected": explanation.as_expected,
        "expectedDevs": list(explanation.outbound),
        "rules": [_tried(tried) for tried in trace.tried],
        "rule": None if trace.rule is None else trace.rule.priority,
        "table": None if trace.route is None else table_name(trace.route.table),
        "route": None if trace.route is None else str(trace.route),
        "protocol": None if trace.route is None else protocol_name(trace.route.protocol),
        "legs": _legs(trace),
        "links": [
            {
                "dev": link.name,
                "up": link.up,
                "carrier": link.carrier,
                "infiniband": link.infiniband,
                "rpFilter": link.rp_filter,
            }
            for link in explanation.links
        ],
        "passed": [_passed(passed) for passed in trace.passed],
        "dropped": None
        if explanation.drop is None
        else {"reason": explanation.drop.reason, "text": drop_clause(explanation.drop)},
        "dropsReplies": [drop.dev for drop in explanation.replies],
        "others": [
            {
                "when": [[str(condition) for condition in case] for case in variant.cases],
                "kind": variant.decision.kind,
                "devs": list(variant.decision.devs),
            }
            for variant in explanation.variants
        ],
    }


def _tried(tried: Tried) -> dict[str, Any]:
    return {
        "priority": tried.rule.priority,
        "rule": str(tried.rule),
        "result": tried.result,
        "route": None if tried.route is None else str(tried.route),
    }


def _passed(passed: Passed) -> dict[str, Any]:
    return {"route": str(passed.route), "devs": list(passed.route.devs), "reason": passed.reason}


def _legs(trace: Trace) -> list[dict[str, Any]]:
    return [
        {"dev": leg.dev, "gateway": None if leg.gateway is None else str(leg.gateway), "weight": leg.weight}
        for leg in trace.legs
    ]
