"""`explain`: how one packet is routed: each rule that is tried, the route that decides, its owner, what check says.

The packet is a plain one that the host itself sends: from user 0, without a mark, by a socket that is not bound. If
other packets to the address are routed differently, the answer says which.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from hostrouting.check.judge import DOUBT, ESCAPE, Judge
from hostrouting.check.report import owner_of
from hostrouting.cli.failure import FINE
from hostrouting.cli.output import Answer, capped
from hostrouting.cli.source import (
    GetHost,
    add_config,
    add_devs,
    add_snapshot,
    open_kernel,
    read_config,
    read_saved,
    with_devs,
)
from hostrouting.errors import ConfigError, Fault
from hostrouting.fib.engine import Decision, Fib
from hostrouting.fib.not_judged import not_judged
from hostrouting.fib.trace import Tried, trace_rules
from hostrouting.model.route import protocol_name, table_name
from hostrouting.text import spoken

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.model.prefix import IP
    from hostrouting.model.snapshot import Snapshot

_RESULTS = {
    "skipped": "does not match this packet",
    "not-judged": "is not judged",
    "no-route": "no match in table {table}",
    "thrown": "finds {route}: continues with the next rule",
    "suppressed": "finds {route}, but suppresses it",
    "refuses": "decides: {action}",
    "decides": "decides: {route}",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """See the module."""
    parser.add_argument("address", metavar="ADDRESS", help="where the packet goes, such as 172.16.5.9")
    add_devs(parser)
    add_config(parser)
    add_snapshot(parser)


def run(arguments: argparse.Namespace, host: GetHost) -> Answer:
    """See the module."""
    address, config, differing = _address(arguments.address), read_config(arguments.config), ""
    if arguments.snapshot is not None:
        explanation = Explanation(read_saved(arguments.snapshot), address, with_devs(config, arguments.devs))
    else:
        with open_kernel(host) as kernel:
            explanation = Explanation(kernel.snapshot(), address, with_devs(config, arguments.devs))
            [answer] = kernel.lookup([address])
        if answer.route is not None and {*answer.route.devs} != {*explanation.decision.devs}:
            differing = f"the kernel itself answers [{answer.route}], which is not what its tables say"
    return Answer(FINE, lambda: explanation.document(differing), lambda: explanation.lines(differing))


def _address(text: str) -> IP:
    try:
        return ip_address(text.partition("%")[0])  # a zone has no part in routing
    except ValueError as error:
        remedy = "write one address, such as 172.16.5.9"
        raise ConfigError([Fault("ADDRESS", repr(text), "is not an address", remedy)]) from error


class Explanation:
    """The route of one plain packet, and what the check says of it."""

    def __init__(self, snapshot: Snapshot, address: IP, config: HostRoutingConfig) -> None:
        """Look it up, rule by rule."""
        fib = Fib(snapshot, address.version)
        judge = Judge(fib, config.route_overlap)
        self.address, self.rules = address, tuple(trace_rules(fib, address))
        self.decision, self.others = fib.ends(int(address))
        self.opinion, self.expected = judge.opinion(self.decision), sorted(judge.uplinks.devs)
        self.not_judged = [thing.name for thing in not_judged(fib) if address in thing.prefix]

    def document(self, differing: str) -> dict[str, Any]:
        """The JSON value `hostrouting/explain/1`."""
        decision, route = self.decision, self.decision.route
        return {
            "schema": "hostrouting/explain/1",
            "address": str(self.address),
            "kind": decision.kind,
            "devs": list(decision.devs),
            "opinion": self.opinion.name,
            "expectedDevs": self.expected,
            "rules": [
                {"rule": str(tried.rule), "result": tried.result, "route": tried.route and str(tried.route)}
                for tried in self.rules
            ],
            "table": route and table_name(route.table),
            "route": route and str(route),
            "protocol": route and protocol_name(route.protocol),
            "others": [
                {"rule": str(end.rule), "kind": end.decision.kind, "devs": list(end.decision.devs)}
                for end in self.others
            ],
            "kernelDiffers": differing,
        }

    def lines(self, differing: str) -> Iterator[str]:
        """The answer, each rule with what came of it, the route, and for which packets that holds."""
        yield f"{self.address} {_way(self.decision)}; {self._judged()}"
        yield from [f"KERNEL-DIFFERS: {differing}"] if differing else []
        width = max((len(str(tried.rule)) for tried in self.rules), default=0)
        yield from ("", *(f"  {tried.rule!s:<{width}}  {_result(tried)}" for tried in self.rules), "")
        if (route := self.decision.route) is not None:
            yield from (f"  route  {route}", f"  owner  {owner_of(route)}", "")
        yield from capped([f"NOT-JUDGED: {name}" for name in self.not_judged])
        for end in self.others:
            matching = "matches" if end.meets else "does not match"
            yield f"OTHERS: a packet that {matching} {end.rule} {_way(end.decision)}"
        if not self.others and not self.not_judged:
            yield "This holds for every packet that this host sends to it."

    def _judged(self) -> str:
        """What the check says of it."""
        if self.opinion.grade == DOUBT:
            return f"{self.opinion.reason}: it is not known whether that is meant"
        beside = f"expected: {spoken(self.expected, last='or') or 'no device'}"
        return (
            beside
            if self.opinion.grade == ESCAPE
            else ": ".join(filter(None, (self.opinion.name, self.opinion.reason)))
        )


def _way(decision: Decision) -> str:
    if not decision.devs or decision.kind != "unicast":
        return f"ends here: {decision.kind.replace('-', ' ')}"
    legs = () if decision.route is None else decision.route.legs
    gateways = spoken([*dict.fromkeys(str(leg.gateway) for leg in legs if leg.gateway)], last="or")
    through = f" via {gateways}" if gateways else ", directly to the neighbour"
    return f"leaves by {spoken(decision.devs, last='or')}{through}"


def _result(tried: Tried) -> str:
    route, table = "no route" if tried.route is None else tried.route.name, table_name(tried.rule.table)
    return _RESULTS[tried.result].format(route=route, action=tried.rule.action, table=table)
