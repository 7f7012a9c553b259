"""`explain`: how one packet is routed: each rule that is tried, the route that decides, what check
says.

The packet is a plain one that the host itself sends: from user 0, without a mark, by a socket that
is not bound. If other packets to the address are routed differently, the answer says which.
"""

import argparse
from collections.abc import Iterator
from typing import NamedTuple

from hostrouting.check.flaws import find_flaws, find_undelivered
from hostrouting.check.judge import Judge, of_family
from hostrouting.check.parts import find_connections, find_parts
from hostrouting.check.results import (
    FATES,
    FamilyReport,
    Grade,
    Opinion,
    Part,
    default_route_sentence,
    phrase_of,
)
from hostrouting.check.sentences import find_doubts
from hostrouting.cli.output import Answer, capped, finding_lines, say
from hostrouting.cli.source import as_whom, bad_input, find_config_or_warn, typed_file
from hostrouting.codes import FINE
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.fib.engine import NOT_JUDGED, Decision, Fib, Outcome, PacketKind
from hostrouting.fib.not_judged import not_judged
from hostrouting.fib.trace import Tried, trace_rules
from hostrouting.finding import Finding
from hostrouting.host.host import Host
from hostrouting.install.host_check import managed_here, take_snapshot
from hostrouting.install.typed_commands import with_typed_options
from hostrouting.model.prefix import IP, Prefix, as_ip, as_ipv4
from hostrouting.model.route import table_name
from hostrouting.text import show, spoken

ARGUMENTS = ("address", "--config", "--snapshot")

_RESULTS = {
    "skipped": "does not match this packet",
    "not-judged": "is not judged",
    "no-route": "no match in table {table}",
    "thrown": "finds {route}: continues with the next rule",
    "suppressed": "finds {route}, but suppresses it",
    "refuses": "decides: {action}",
    "decides": "decides: {route}",
}


class _Explained(NamedTuple):
    """What Linux does with a packet to one address, and what the check says of it."""

    address: IP
    judge: Judge
    rules: list[Tried]
    """The rules that are tried, in their order."""
    decision: Decision
    others: tuple[Outcome, ...]
    """Where packets end that a rule tells from the plain one."""
    part: Part
    """The address as a part of what the check judges."""
    connections: dict[PacketKind, list[Part]]
    """The same for connections, if they fare worse."""

    @classmethod
    def of(cls, address: IP, fib: Fib, config: HostRoutingConfig) -> "_Explained":
        """Judge the address on its own."""
        judge, number = Judge(fib, config.route_overlap), int(address)
        [part] = find_parts(judge, number, number)
        decision, others = fib.outcomes(number)
        rules = list(trace_rules(fib, address))
        connections = find_connections(judge, [part])
        return cls(address, judge, rules, decision, others, part, connections)

    @property
    def unseen(self) -> list[str]:
        """Why something about this address is not judged."""
        places = not_judged(self.judge.fib)
        return [f"NOT-JUDGED: {name}" for name, prefix in places if self.address in prefix]

    @property
    def doubts(self) -> list[Opinion]:
        """What is in doubt, beside what is not judged."""
        opinions = dict.fromkeys((self.part.opinion, *self.part.others))
        for [connected] in self.connections.values():
            opinions[connected.opinion] = None
        return [
            opinion
            for opinion in opinions
            if opinion.grade is Grade.DOUBT and opinion.name != NOT_JUDGED
        ]


def run(arguments: argparse.Namespace, host: Host) -> Answer:
    address = _read_address(arguments.address)
    config, unusable = find_config_or_warn(arguments, host)
    if unusable:
        say("\n".join(finding_lines(unusable)))
    fib = Fib(take_snapshot(host, arguments.snapshot), address.version)
    explained = _Explained.of(address, fib, config)
    doubts = _doubts_of(explained, config, arguments, host)
    return Answer(FINE, _document(explained), _lines(explained, doubts, as_whom(arguments)))


def _doubts_of(
    explained: _Explained, config: HostRoutingConfig, arguments: argparse.Namespace, host: Host
) -> tuple[Finding, ...]:
    """What is in doubt about the address; what is to be typed has the CIDRs of the configuration,
    or its file.
    """
    number = int(explained.address)
    family = explained.judge.fib.family
    doubts = [(doubt, number, number) for doubt in explained.doubts]
    cidrs = of_family(config.route_overlap.cidrs, family)
    findings = find_doubts(explained.judge.fib.snapshot, family, doubts, cidrs)
    options = typed_file(arguments)
    if not doubts or not options:
        return tuple(findings)
    if not config.route_overlap.cidrs:
        options = f" CIDR{options}"
    managed = None
    if arguments.snapshot is None:
        managed = managed_here(host, config, explained.judge.fib.snapshot)
    return with_typed_options(findings, options, managed)


def _document(explained: _Explained) -> dict[str, object]:
    route = explained.decision.route
    rules = [
        {"rule": str(tried.rule), "result": tried.result, "route": tried.route and str(tried.route)}
        for tried in explained.rules
    ]
    others = [{"rule": str(other.rule), **_plain(other.decision)} for other in explained.others]
    return {
        "schema": "hostrouting/explain/2",
        "address": str(explained.address),
        **_plain(explained.decision),
        "opinion": explained.part.opinion.name,
        "expectedDevs": sorted(explained.judge.uplinks.devs),
        "rules": rules,
        "route": route and str(route),
        "others": others,
    }


def _lines(explained: _Explained, doubts: tuple[Finding, ...], who: str) -> Iterator[str]:
    """The verdict, the rules, the route, and how other packets are routed."""
    yield from _verdict_lines(explained, doubts, who)
    yield ""
    width = max((len(str(tried.rule)) for tried in explained.rules), default=0)
    for tried in explained.rules:
        yield f"  {tried.rule!s:<{width}}  {_result(tried)}"
    yield ""
    route = explained.decision.route
    if route is not None:
        yield f"  route  {route}"
        yield ""
    yield from capped(explained.unseen)
    for other in explained.others:
        yield _other_line(other)
    if not explained.others and not explained.unseen:
        yield f"No rule routes other packets to {explained.address} differently."


def _verdict_lines(explained: _Explained, doubts: tuple[Finding, ...], who: str) -> Iterator[str]:
    """The verdict on this address alone, and what is wrong or in doubt."""
    judge = explained.judge
    lost = [*find_undelivered(judge)]
    missing = [flaw for flaw in find_flaws(judge) if flaw.name == "missing-rule"]
    way = f"{explained.address} {_way_of(explained)}"
    opinion = explained.part.opinion
    for packet, [connected] in explained.connections.items():
        way = f"{explained.address}, for {phrase_of(packet)}, {_way(connected.decision)}"
        opinion = connected.opinion
    cidrs = [Prefix.of(cidr) for cidr in judge.config.cidrs]
    if cidrs and not any(explained.address in cidr for cidr in cidrs):
        yield f"{way}; no expected CIDR has this address, so check does not judge it"
        return
    yield _judged(
        way,
        judge,
        opinion,
        doubts=bool(lost or doubts),
        unseen=bool(explained.unseen),
    )
    for finding in (*lost, *missing, *doubts):
        yield finding.line_for(who)


def _way_of(explained: _Explained) -> str:
    """How the packet leaves; of several equal default routes, Linux may use any."""
    opinion, decision = explained.part.opinion, explained.decision
    if {*opinion.devs} <= {*decision.devs}:
        return _way(decision)
    same = f"whose default route has the same metric as [{decision.route}]"
    return f"may leave through {spoken(opinion.devs)}, {same}"


def _other_line(other: Outcome) -> str:
    matches = "matches"
    if bool(other.met) is other.rule.invert:
        matches = "does not match"
    way = _way(other.decision)
    return f"OTHERS: a packet that {matches} rule {other.rule.priority} {way} [{other.rule}]"


def _read_address(text: str) -> IP:
    """The address of one host; raises ConfigError for anything else."""
    example = "an example: 172.16.5.9"
    try:
        address = as_ip(text)
    except ValueError as error:
        rule, remedy = "is not an address", example
        if "%" in text:
            rule, remedy = "has a zone", "write the address without it"
        raise bad_input("ADDRESS", rule, remedy, show(text)) from error
    plain = as_ipv4(Prefix.of(address))
    if plain is not None:
        raise bad_input("ADDRESS", "is IPv4, written as IPv6", f'write "{plain.ip}"', show(text))
    # Linux routes these in other ways.
    if address.is_unspecified or address.is_multicast or text == "255.255.255.255":
        raise bad_input("ADDRESS", "is not the address of one host", example, show(text))
    return address


def _plain(decision: Decision) -> dict[str, object]:
    return {"kind": decision.kind, "devs": list(decision.devs)}


def _judged(way: str, judge: Judge, opinion: Opinion, *, doubts: bool, unseen: bool) -> str:
    """The sentence about the way, after the verdict of a check of this address alone."""
    if opinion.grade is Grade.ESCAPE and judge.uplinks.devs:
        return f"OVERLAP: {way}; expected: {spoken(sorted(judge.uplinks.devs), last='or')}"
    if opinion.grade is Grade.ESCAPE and not unseen:
        report = FamilyReport(judge.fib.family, judge.fib.snapshot)
        return f"NO-DEFAULT-ROUTE: {way}; {default_route_sentence(report)}"
    if opinion.name == "allowed":
        way += f"; allowed: {opinion.reason}"
    return f"UNDECIDED: {way}" if doubts or unseen else f"OK: {way}"


def _way(decision: Decision) -> str:
    if decision.route is None or not decision.devs or decision.kind == "local":
        return FATES.get(decision.kind, "stays on this host")
    ways: dict[str, None] = {}
    for hop in decision.route.next_hops:
        if hop.dev and not hop.dead:
            how = f"via {hop.gateway}" if hop.gateway else "without a gateway"
            ways[f"{hop.dev} {how}"] = None
    sentence = f"leaves through {spoken([*ways], last='or')}"
    if decision.kind != "unicast":
        sentence += f", as {decision.kind}"
    return sentence


def _result(tried: Tried) -> str:
    route = "no route" if tried.route is None else tried.route.name
    table = table_name(tried.rule.table)
    return _RESULTS[tried.result].format(route=route, action=tried.rule.action, table=table)
