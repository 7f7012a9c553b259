"""`explain`: how one packet is routed: each rule that is tried, the route that decides, what check
says.

The packet is a plain one that the host itself sends: from user 0, without a mark, by a socket that
is not bound. If other packets to the address are routed differently, the answer says which. The
exit code is 0 for any verdict.
"""

import argparse
from collections.abc import Iterator

from hostrouting.check.flaws import find_flaws, find_undelivered
from hostrouting.check.judge import Judge
from hostrouting.check.parts import find_parts
from hostrouting.check.results import FATES, FamilyReport, Grade, Opinion, default_route_sentence
from hostrouting.check.sentences import find_doubts
from hostrouting.cli.output import Answer, capped, say
from hostrouting.cli.source import as_whom, bad_input, find_config_or_warn, read_host
from hostrouting.codes import FINE
from hostrouting.fib.engine import NOT_JUDGED, Decision, Fib
from hostrouting.fib.not_judged import not_judged
from hostrouting.fib.trace import Tried, trace_rules
from hostrouting.host.host import Host
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


def run(arguments: argparse.Namespace, host: Host) -> Answer:
    address = _read_address(arguments.address)
    config, unusable = find_config_or_warn(arguments, host)
    for finding in unusable:
        say(finding.line)
    number = int(address)
    fib = Fib(read_host(host, arguments.snapshot), address.version)
    judge, rules = Judge(fib, config.route_overlap), [*trace_rules(fib, address)]
    (decision, others), [part] = fib.outcomes(number), find_parts(judge, number, number)
    expected, route = sorted(judge.uplinks.devs), decision.route
    steps = [
        {"rule": str(step.rule), "result": step.result, "route": step.route and str(step.route)}
        for step in rules
    ]
    document = {"schema": "hostrouting/explain/2", "address": str(address), **_plain(decision)}
    document |= {
        "opinion": part.opinion.name,
        "expectedDevs": expected,
        "rules": steps,
        "route": route and str(route),
    }
    document |= {"others": [{"rule": str(end.rule), **_plain(end.decision)} for end in others]}

    def lines() -> Iterator[str]:
        opinions = dict.fromkeys((part.opinion, *part.others))
        doubts = [
            (doubt, number, number)
            for doubt in opinions
            if doubt.grade is Grade.DOUBT and doubt.name != NOT_JUDGED
        ]
        unseen = [f"NOT-JUDGED: {name}" for name, prefix in not_judged(fib) if address in prefix]
        way = _way(decision)
        if not {*part.opinion.devs} <= {*decision.devs}:
            way = (
                f"may leave through {spoken(part.opinion.devs)}, whose default route has the same "
                f"metric as [{route}]"
            )
        lost, missing = (
            [*find_undelivered(judge)],
            (flaw for flaw in find_flaws(judge) if flaw.name == "missing-rule"),
        )
        yield _judged(
            f"{address} {way}",
            judge,
            part.opinion,
            doubts=bool(lost or doubts),
            unseen=bool(unseen),
        )
        for finding in (*lost, *missing, *find_doubts(fib.family, doubts)):
            yield finding.line.replace("as root", as_whom(arguments))
        width = max((len(str(tried.rule)) for tried in rules), default=0)
        yield from ("", *(f"  {tried.rule!s:<{width}}  {_result(tried)}" for tried in rules), "")
        if route is not None:
            yield from (f"  route  {route}", "")
        yield from capped(unseen)
        for end in others:
            if end.decision.kind == NOT_JUDGED:
                continue  # its rule is named above
            matches = "does not match" if end.meets_conditions is end.rule.invert else "matches"
            yield (
                f"OTHERS: a packet that {matches} rule {end.rule.priority} {_way(end.decision)} "
                f"[{end.rule}]"
            )
        if not others and not unseen:
            yield f"No rule routes other packets to {address} differently."

    return Answer(FINE, document, lines())


def _read_address(text: str) -> IP:
    """The address of one host; raises ConfigError for anything else."""
    example = "an example: 172.16.5.9"
    try:
        address = as_ip(text)
    except ValueError as error:
        zone = ("has a zone", "write the address without it")
        rule, remedy = zone if "%" in text else ("is not an address", example)
        raise bad_input("ADDRESS", rule, remedy, show(text)) from error
    plain = as_ipv4(Prefix.of(address))
    if plain is not None:
        raise bad_input("ADDRESS", "is IPv4, written as IPv6", f'write "{plain.ip}"', show(text))
    if (
        address.is_unspecified or address.is_multicast or text == "255.255.255.255"
    ):  # Linux routes these in other ways
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
    allowed = f"; allowed: {opinion.reason}" if opinion.name == "allowed" else ""
    return f"{'UNDECIDED' if doubts or unseen else 'OK'}: {way}{allowed}"


def _way(decision: Decision) -> str:
    if not decision.devs or decision.kind == "local":
        return FATES.get(decision.kind, "stays on this host")
    hops = (
        [hop for hop in decision.route.next_hops if hop.dev and not hop.dead]
        if decision.route
        else []
    )
    ways = (
        f"{hop.dev} via {hop.gateway}" if hop.gateway else f"{hop.dev} without a gateway"
        for hop in hops
    )
    as_kind = "" if decision.kind == "unicast" else f", as {decision.kind}"
    return f"leaves through {spoken([*dict.fromkeys(ways)], last='or')}{as_kind}"


def _result(tried: Tried) -> str:
    route, table = (
        "no route" if tried.route is None else tried.route.name,
        table_name(tried.rule.table),
    )
    return _RESULTS[tried.result].format(route=route, action=tried.rule.action, table=table)
