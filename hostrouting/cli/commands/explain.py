"""`explain`: how one packet is routed: each rule that is tried, the route that decides, what check
says.

The packet is a plain one that the host itself sends: from user 0, without a mark, by a socket that
is not bound. If other packets to the address are routed differently, the answer says which. Exit
code 0: an answer, whatever the verdict is.
"""

import argparse
from collections.abc import Iterator, Sequence

from hostrouting.check.doubts import what_to_type
from hostrouting.check.explanation import Explanation, explain_packet
from hostrouting.check.repair_line import RepairLine
from hostrouting.check.results import FATES
from hostrouting.cli.output import Answer, say
from hostrouting.cli.source import (
    as_whom,
    bad_input,
    find_config_or_warn,
    typed_file,
)
from hostrouting.codes import FINE
from hostrouting.command import Operator
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.fib.engine import NOT_JUDGED, Decision, Outcome
from hostrouting.fib.trace import Tried
from hostrouting.finding import Finding
from hostrouting.host.host import Host
from hostrouting.lines import finding_lines
from hostrouting.model.prefix import IP, Prefix, as_ip, as_ipv4
from hostrouting.model.route import Route, table_name
from hostrouting.model.snapshot import Snapshot
from hostrouting.text import show, spoken

ARGUMENTS = ("address", "--config", "--snapshot")

_RESULTS = {
    "skipped": "does not match this packet",
    "not-judged": "is not judged",
    "no-route": "no match in table {table}",
    "thrown": "finds {route.name}: continues with the next rule",
    "suppressed": "finds {route.name}, but suppresses it",
    "refuses": "decides: {rule.action}",
    "decides": "decides: {route.name}",
}
"""What a rule does with the packet, in words. Where a route is named, there is one."""


def run(arguments: argparse.Namespace, host: Host) -> Answer:
    address = _read_address(arguments.address)
    config, unusable = find_config_or_warn(arguments, host)
    if unusable:
        say(*finding_lines(unusable, as_whom(arguments)))
    if arguments.snapshot is None:
        with host.open_kernel() as kernel:
            explained = explain_packet(kernel.snapshot(), address, config, kernel)
    else:
        explained = explain_packet(Snapshot.load(arguments.snapshot), address, config)
    repair = RepairLine(_options(arguments, config, address))
    report = explained.report
    doubts = [what_to_type(doubt, report, repair) for doubt in report.doubts]
    return Answer(FINE, _document(explained), _lines(explained, doubts, as_whom(arguments)))


def _options(arguments: argparse.Namespace, config: HostRoutingConfig, address: IP) -> str:
    """What is typed in a command that names or allows a device: the same file, and if no CIDR is
    expected, the address, because a repair needs one.
    """
    cidr = "" if config.route_overlap.cidrs else f" {Prefix.of(address)}"
    return cidr + typed_file(arguments)


def _document(explained: Explanation) -> dict[str, object]:
    rules: list[dict[str, object]] = []
    for tried in explained.rules:
        route = _text_of(tried.route)
        rules.append({"rule": str(tried.rule), "result": tried.result, "route": route})
    others = [{"rule": str(other.rule), **_values_of(other.decision)} for other in explained.others]
    opinion = ""
    if explained.report.parts:
        opinion = explained.report.parts[0].opinion.name
    return {
        "schema": "hostrouting/explain/2",
        "address": str(explained.address),
        **_values_of(explained.decision),
        "opinion": opinion,
        "expectedDevs": [*explained.report.expected_devs],
        "rules": rules,
        "route": _text_of(explained.decision.route),
        "others": others,
    }


def _text_of(route: Route | None) -> str | None:
    return None if route is None else str(route)


def _lines(explained: Explanation, doubts: Sequence[Finding], who: Operator) -> Iterator[str]:
    """The verdict, the rules, the route, and how other packets are routed."""
    yield _first_line(explained)
    if explained.is_expected:
        yield from finding_lines(doubts, who)
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


def _first_line(explained: Explanation) -> str:
    """How the packet leaves, after the verdict of the check of this address alone."""
    report = explained.report
    way = f"{explained.address} {_way(explained.decision)}"
    if not explained.is_expected:
        return f"{way}; no expected CIDR has this address, so check does not judge it"
    if report.escapes:
        way = report.sentence
    elif report.verdict == "no-default-route":
        way += f"; {report.sentence}"
    elif report.parts and report.parts[0].allowance:
        way += f"; allowed: {report.parts[0].allowance}"
    return f"{report.verdict.upper()}: {way}"


def _other_line(other: Outcome) -> str:
    matches = "matches"
    meets_the_conditions = bool(other.met)
    if meets_the_conditions is other.rule.invert:  # `not` matches packets that do not meet them
        matches = "does not match"
    way = _way(other.decision)
    return f"OTHERS: a packet that {matches} rule {other.rule.priority} {way} [{other.rule}]"


def _read_address(text: str) -> IP:
    """The address of one host; raises ConfigError for anything else."""
    example = "an example: 172.16.5.9"
    try:
        address = as_ip(text)
    except ValueError as error:
        raise bad_input("ADDRESS", "is not an address", example, show(text)) from error
    plain = as_ipv4(Prefix.of(address))
    if plain is not None:
        raise bad_input("ADDRESS", "is IPv4, written as IPv6", f'write "{plain.ip}"', show(text))
    # Linux routes these in other ways. No property of an address says that it is the broadcast.
    if address.is_unspecified or address.is_multicast or text == "255.255.255.255":
        raise bad_input("ADDRESS", "is not the address of one host", example, show(text))
    return address


def _values_of(decision: Decision) -> dict[str, object]:
    return {"kind": decision.kind, "devs": [*decision.devs]}


def _way(decision: Decision) -> str:
    """By which devices packets leave, or what happens to them instead."""
    if not decision.devs or decision.kind == "local":
        return FATES.get(decision.kind, "stays on this host")
    return f"leaves through {spoken(decision.devs, last='or')}"


def _result(tried: Tried) -> str:
    table = table_name(tried.rule.table)
    return _RESULTS[tried.result].format(rule=tried.rule, route=tried.route, table=table)
