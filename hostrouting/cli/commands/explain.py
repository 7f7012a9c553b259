"""`explain`: how one packet is routed: each rule that is tried, the route that decides, what check
says.

The packet is a plain one that the host itself sends: from user 0, without a mark, by a socket that
is not bound. If other packets to the address are routed differently, the answer says which.
"""

import argparse
from collections.abc import Iterator
from typing import NamedTuple

from hostrouting.check.check import check_family
from hostrouting.check.judge import Judge
from hostrouting.check.results import FATES, FamilyReport
from hostrouting.cli.output import Answer, finding_lines, say
from hostrouting.cli.source import as_whom, bad_input, find_config_or_warn, typed_file
from hostrouting.codes import FINE
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.fib.engine import NOT_JUDGED, Decision, Fib, Outcome
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
    report: FamilyReport
    """The check of this address alone."""
    is_expected: bool
    """Whether the address is in an expected CIDR; true if none is configured."""
    rules: list[Tried]
    """The rules that are tried, in their order."""
    decision: Decision
    others: tuple[Outcome, ...]
    """Where packets end that a rule tells from the plain one."""


def run(arguments: argparse.Namespace, host: Host) -> Answer:
    address = _read_address(arguments.address)
    config, unusable = find_config_or_warn(arguments, host)
    if unusable:
        say("\n".join(finding_lines(unusable)))
    fib = Fib(take_snapshot(host, arguments.snapshot), address.version)
    report = check_family(Judge(fib, config.route_overlap), [Prefix.of(address)])
    doubts = _with_options(report.doubts, config, arguments, host, fib)
    cidrs = [Prefix.of(cidr) for cidr in config.route_overlap.cidrs]
    is_expected = not cidrs or any(address in cidr for cidr in cidrs)
    rules = [*trace_rules(fib, address)]
    decision, others = fib.outcomes(int(address))
    explained = _Explained(
        address, report._replace(doubts=doubts), is_expected, rules, decision, others
    )
    return Answer(FINE, _document(explained), _lines(explained, as_whom(arguments)))


def _with_options(
    doubts: tuple[Finding, ...],
    config: HostRoutingConfig,
    arguments: argparse.Namespace,
    host: Host,
    fib: Fib,
) -> tuple[Finding, ...]:
    """The doubts; what is to be typed has the CIDRs of the configuration, or its file."""
    options = typed_file(arguments)
    if not doubts or not options:
        return doubts
    if not config.route_overlap.cidrs:
        options = f" CIDR{options}"
    managed = None
    if arguments.snapshot is None:
        managed = managed_here(host, config, fib.snapshot)
    return with_typed_options(doubts, options, managed)


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
        "opinion": explained.report.parts[0].opinion.name if explained.report.parts else "",
        "expectedDevs": [*explained.report.expected_devs],
        "rules": rules,
        "route": route and str(route),
        "others": others,
    }


def _lines(explained: _Explained, who: str) -> Iterator[str]:
    """The verdict, the rules, the route, and how other packets are routed."""
    doubts = explained.report.doubts
    yield _first_line(explained)
    if explained.is_expected:
        missing = [flaw for flaw in explained.report.flaws if flaw.name == "missing-rule"]
        yield from finding_lines([*missing, *doubts], who)
    yield ""
    width = max((len(str(tried.rule)) for tried in explained.rules), default=0)
    for tried in explained.rules:
        yield f"  {tried.rule!s:<{width}}  {_result(tried)}"
    yield ""
    route = explained.decision.route
    if route is not None:
        yield f"  route  {route}"
        yield ""
    for other in explained.others:
        yield _other_line(other)
    if not explained.others and all(doubt.name != NOT_JUDGED for doubt in doubts):
        yield f"No rule routes other packets to {explained.address} differently."


def _first_line(explained: _Explained) -> str:
    """How the packet leaves, after the verdict of the check of this address alone."""
    report = explained.report
    way = f"{explained.address} {_way(explained.decision)}"
    if not explained.is_expected:
        return f"{way}; no expected CIDR has this address, so check does not judge it"
    if report.escapes:
        expected = spoken(report.expected_devs, last="or")
        return f"OVERLAP: {report.escapes[0]}; expected: {expected}"
    if report.verdict == "no-default-route":
        return f"NO-DEFAULT-ROUTE: {way}; {report.sentence}"
    allowances = [part.allowance for part in report.parts if part.allowance]
    if allowances:
        way += f"; allowed: {allowances[0]}"
    return f"{report.verdict.upper()}: {way}"


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
