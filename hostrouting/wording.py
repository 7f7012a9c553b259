"""What was found, in an operator's words and as the JSON of a check.

Here: sentences and documents made of findings, notes and repairs. Not here: any decision.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import attrs

from hostrouting.fib import Decision
from hostrouting.foresight import Foreseen
from hostrouting.leftover import deletion_command
from hostrouting.model import TABLE_MAIN, Prefix, Route, ip_at, protocol_name, table_name, width_of
from hostrouting.overlap import Finding, Kept, Note, OverlapReport
from hostrouting.packet_words import packets_line
from hostrouting.repair import TOO_MANY, Diversion, Repair, Unsafe, UnsafeReason
from hostrouting.uplink import DesiredRoute

__all__ = [
    "CHECK_SCHEMA",
    "check_document",
    "diversion_line",
    "finding_line",
    "foreseen_line",
    "kept_line",
    "no_default_line",
    "note_line",
    "notes_lines",
    "prefix_name",
    "range_name",
    "repair_document",
    "repair_line",
    "stays_line",
    "unsafe_line",
    "unsafe_lines",
]

CHECK_SCHEMA = "hostrouting/check/1"

_REASONS: dict[UnsafeReason | Literal["no-rule"], str] = {
    "earlier-rule": "is decided before the table main is asked, by {holder}; no route in main can change that",
    "no-rule": "is led to the table main by no policy rule, so that no route there can help: see 'ip rule'",
    "longest-prefix": "is held by {holder}, and no longer prefix is free; that route is not ours to replace",
    "no-way": "cannot be led back: that takes {missing}",
    "too-many": f"would take more than {TOO_MANY} routes, because of {{holder}}",
    "reserved": "is held by {holder}, and no static route may lead there",
    "still-open": "is still open after the repair, by {holder}; this is a bug, please report it",
}


_UNKNOWN = "a device that is not known"
_RANGES = 3  # are named of one cause; of more it is said how many
_PASTED = 20  # routes, out of a log; in the journal a line has an end


def no_default_line(instead: str, *, wait: float) -> str:
    """That nothing is known to be expected, how long it was waited for, and what there was instead."""
    return (
        f"NO-DEFAULT-ROUTE: the expected devices are those of the IPv4 default route, and {wait:g} s did not bring one;"
        f" last seen: {instead}"
    )


def finding_line(finding: Finding, expected_devs: Iterable[str]) -> str:
    """One finding in one line, as it goes into logs and into the marker file."""
    what = f"expected CIDR {finding.cidr} ({range_name(finding.cidr.family, finding.first, finding.last)})"
    expected = ", ".join(expected_devs)
    if finding.kind == "overlap":
        via = ", ".join(finding.devs) or _UNKNOWN
        return f"OVERLAP: {what} routes via {via} [{_holder(finding.decision)}], expected {expected}"
    if finding.kind == "no-route":
        return f"NO-ROUTE: {what} has no IPv{finding.cidr.family} route; expected via {expected}"
    how = "is refused" if finding.kind == "prohibit" else f"is {finding.kind}"
    how = "vanishes in a blackhole" if finding.kind == "blackhole" else how
    return f"{finding.kind.upper()}: {what} {how} [{_holder(finding.decision)}]; expected via {expected}"


def foreseen_line(foreseen: Foreseen) -> str:
    """That a route does not last, why, and what to write in its place, in one sentence."""
    wanted, first = foreseen.wanted, foreseen.addresses[0]
    route = " ".join([str(wanted.prefix), *map(str, wanted.legs if len(wanted.legs) == 1 else ())])
    more = len(foreseen.addresses) - 1
    others = "1 more device is" if more == 1 else f"{more:,} more devices are"
    return (
        f"{route} does not last: {first.dev} has the address {first.ip}/{first.length}"
        f"{f' (and {others} on the same network)' if more else ''}, and so the kernel's own route to {wanted.prefix}"
        " belongs there; where that one comes first, as it can at the next boot, the route cannot be had, and no"
        f" machine starts; {_way_round(foreseen)}"
    )


def stays_line(route: Route) -> str:
    """That a route stays when ours go, and how it is deleted, in one sentence."""
    return (
        f"[{route}] stays: it is what the configuration asked for, but hostrouting did not install it;"
        f" where nothing else needs it, delete it with: {deletion_command(route)}"
    )


def _way_round(foreseen: Foreseen) -> str:
    prefix, instead = foreseen.wanted.prefix, foreseen.instead
    names = " and ".join(str(it.destination) for it in instead)
    if not instead and prefix.length == width_of(prefix.family):
        return "no longer prefix is there to win, and no better metric: one of the two has to go"
    if not instead:
        left, right = prefix.halves()
        return f"in its place write longer prefixes, where they are free ({left} and {right} are not both)"
    win = "wins" if len(instead) == 1 else "win"
    if instead[0].destination == prefix:
        names = f"one with metric {instead[0].metric}"
    if not foreseen.lacking:
        return f"take it out: {names} {'is' if win == 'wins' else 'are'} wanted as well, and {win} without touching it"
    return f"in its place write {names}, which {win} without touching it"


def repair_line(report: OverlapReport, repair: Repair) -> str:
    """What to do about the findings, in one line that ends in JSON to paste, or says where that is if it is long.

    Empty where no route can do anything.
    """
    if not report.findings or not repair.routes:
        return ""
    if len(repair.routes) > _PASTED:
        where = "the repair in route-overlap.json, printed by: hostrouting repair"
        return f"ACTION: add {len(repair.routes)} routes to staticRoutes.routes: {where}"
    import json  # noqa: PLC0415  only a finding needs it

    routes = json.dumps(repair_document(repair.routes))
    return f"ACTION: add to staticRoutes.routes: {routes}"


def note_line(note: Note) -> str:
    """What the verdict does not hold for, in one sentence."""
    where = f"expected CIDR {note.cidr} ({range_name(note.cidr.family, note.first, note.last)})"
    return f"{where}: {packets_line(note.cases)} {_fate(note)}; the verdict is about all others"


def kept_line(kept: Kept) -> str:
    """That a range never leaves the host, in one sentence."""
    where = f"expected CIDR {kept.cidr} ({range_name(kept.cidr.family, kept.first, kept.last)})"
    return f"{where} is this host's own [{_holder(kept.decision)}]: packets for it never leave"


def unsafe_line(unsafe: Unsafe) -> str:
    """Why a range cannot be repaired, and who holds it, in one sentence."""
    return f"{range_name(unsafe.family, unsafe.first, unsafe.last)} {_reason(unsafe, _holder(unsafe.decision))}"


def _reason(unsafe: Unsafe, holder: str) -> str:
    unled = unsafe.reason == "earlier-rule" and unsafe.decision.rule is None
    return _REASONS["no-rule" if unled else unsafe.reason].format(holder=holder, missing=unsafe.missing)


def unsafe_lines(unsafe: Iterable[Unsafe]) -> Iterator[str]:
    """The same of many ranges, a sentence for each cause: the reason, the rule and the table."""
    causes: dict[object, list[Unsafe]] = {}
    for it in unsafe:
        rule, route = it.decision.rule, it.decision.route
        which = None if route is None else (route.table, route.type, route.protocol)
        causes.setdefault((it.reason, it.missing, rule, which), []).append(it)
    for them in causes.values():
        yield unsafe_line(them[0]) if len(them) == 1 else _cause_line(them)


def _cause_line(them: list[Unsafe]) -> str:
    """Why several ranges cannot be repaired, for one cause."""
    first = them[0]
    spans: list[Unsafe] = []
    for it in them:
        if spans and spans[-1].last + 1 == it.first:
            spans[-1] = attrs.evolve(spans[-1], last=it.last)
        else:
            spans.append(it)
    names = [range_name(it.family, it.first, it.last) for it in spans]
    more, holders = len(names) - _RANGES, len({it.decision.route for it in them})
    where = ", ".join(names[:_RANGES]) + (f" and {more} more {'range' if more == 1 else 'ranges'}" if more > 0 else "")
    holder = _holder(first.decision)
    if holders > 1:
        holder += f" and {holders - 1} more {'route' if holders == 2 else 'routes'}"
    reason = _reason(first, holder)
    return f"{where} {reason.replace('is ', 'are ', 1) if len(spans) > 1 and reason.startswith('is ') else reason}"


def diversion_line(diversion: Diversion, *, of: str = "") -> str:
    """What the repair takes from other devices, in one sentence; `of` names the networks where they are several."""
    devs = ", ".join(diversion.devs)
    what = f"the repair diverts addresses of {of or diversion.prefix} from {devs}: "
    if diversion.connected:
        return f"{what}neighbours there, in the repaired range, become unreachable over IP"
    return f"{what}packets for the repaired range no longer go there"


def repair_document(routes: Iterable[DesiredRoute]) -> list[dict[str, Any]]:
    """The routes as they belong under staticRoutes.routes in the configuration."""
    return [
        {
            "destination": str(route.destination),
            "gateway": str(route.gateway) if route.gateway else "",
            "dev": route.dev or "",
            "metric": route.metric,
        }
        for route in routes
    ]


def check_document(report: OverlapReport, repair: Repair, *, mode: str) -> dict[str, Any]:
    """The check as the JSON value `hostrouting/check/1`."""
    return {
        "schema": CHECK_SCHEMA,
        "verdict": report.verdict,
        "mode": mode,
        "expectedDevs": list(report.expected_devs),
        "findings": [_finding(finding) for finding in report.findings],
        "repair": repair_document(repair.routes),
        "unsafe": [
            {
                "first": str(ip_at(unsafe.family, unsafe.first)),
                "last": str(ip_at(unsafe.family, unsafe.last)),
                "reason": unsafe.reason,
                "text": unsafe_line(unsafe),
            }
            for unsafe in repair.unsafe
        ],
        "notes": notes_lines(report, repair),
    }


def notes_lines(report: OverlapReport, repair: Repair) -> list[str]:
    """All that the verdict does not say by itself: what the repair costs, and what it does not hold for."""
    return [
        *map(diversion_line, repair.diverted),
        *map(kept_line, report.kept),
        *map(note_line, report.notes),
    ]


def _finding(finding: Finding) -> dict[str, Any]:
    decision, family = finding.decision, finding.cidr.family
    route, dev = decision.route, next(iter(finding.devs), None)
    gateway = next((leg.gateway for leg in decision.legs if dev is not None and leg.dev == dev), None)
    return {
        "cidr": str(finding.cidr),
        "first": str(ip_at(family, finding.first)),
        "last": str(ip_at(family, finding.last)),
        "prefixes": [str(prefix) for prefix in finding.prefixes],
        "kind": finding.kind,
        "via": {
            "dev": dev,
            "gateway": None if gateway is None else str(gateway),
            "route": None if route is None else str(route.prefix),
            "table": None if route is None else table_name(route.table),
            "protocol": None if route is None else protocol_name(route.protocol),
            "rule": None if decision.rule is None else decision.rule.priority,
        },
    }


def range_name(family: int, first: int, last: int) -> str:
    """A range of addresses by its ends."""
    if first == last:
        return str(ip_at(family, first))
    return f"{ip_at(family, first)}–{ip_at(family, last)}"  # noqa: RUF001  a dash between addresses is no minus


def _holder(decision: Decision) -> str:
    """Whoever decides: a route and who installed it, or a rule."""
    route, rule = decision.route, decision.rule
    if route is None:
        return f"rule {rule}" if rule else "no rule"
    kind = "" if route.type == "unicast" else f"{route.type} "
    away = route.table != TABLE_MAIN and rule is not None
    table = f" table {table_name(route.table)}, rule {rule.priority}" if away and rule else ""
    # A device without a carrier still wins, and nothing that it sends arrives.
    lost = " linkdown" if decision.legs and all(leg.linkdown for leg in decision.legs) else ""
    return f"{kind}{prefix_name(route.prefix)} proto {protocol_name(route.protocol)}{table}{lost}"


def prefix_name(prefix: Prefix) -> str:
    """A route's prefix as `ip route` has it."""
    return "default" if prefix.length == 0 else str(prefix)


def _fate(note: Note) -> str:
    """What becomes of the packets of a note."""
    decision, holder = note.decision, _holder(note.decision)
    if note.more_routes:
        holder += f" and {note.more_routes} more {'route' if note.more_routes == 1 else 'routes'}"
    if decision.kind == "unicast":
        devs = ", ".join(decision.devs) or _UNKNOWN
        return f"{'leave by' if note.escapes else 'leave as expected, by'} {devs} [{holder}]"
    fate = {"no-route": "find no route", "blackhole": "vanish in a blackhole"}.get(decision.kind, "are refused")
    return f"{fate if note.escapes else 'stay on this host'} [{holder}]"
