"""The report of a check: its results as findings, in words and for programs.

Here: findings about escapes, other packets, repairs and corrections; and the names of the documents that a check
and a guard write, with their reader. Not here: any decision, writing a document (`tasks`), and what a guard puts into
its own.

Every message about a repair uses the same words, so that all of them ask for the same. A name ends with what is made: a
sentence stands alone, a clause, phrase or name is a part of one, and a document is JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from hostrouting.check.examine import Correction, Examination, FamilyExamination
from hostrouting.check.exceptions import Known, is_like
from hostrouting.check.packets import PodPackets, senders_phrase
from hostrouting.check.repair import TOO_MANY, Unsafe, UnsafeReason
from hostrouting.check.rules import is_of_main
from hostrouting.fib.decision import CHOSEN, Cases, Condition
from hostrouting.fib.packet import REACHABLE
from hostrouting.finding import ESCAPES, Finding, Severity
from hostrouting.model.prefix import LINK_LOCAL, extent, ip_at
from hostrouting.model.route import protocol_name, table_name
from hostrouting.model.rule import selector_of
from hostrouting.text import spoken

if TYPE_CHECKING:
    from hostrouting.check.overlap import Escape, Note
    from hostrouting.routes.uplink import DesiredRoute

__all__ = [
    "CHECK_SCHEMA",
    "GUARD_SCHEMA",
    "candidates_clause",
    "check_document",
    "check_findings",
    "contested_clause",
    "deletion_lines",
    "document_in",
    "entries_name",
    "escapes_in",
    "intended_clause",
    "marked_verdict",
    "owner_name",
    "packets_line",
    "remarks",
    "repair_document",
    "unexplained_owner",
    "unsafe_findings",
]

_PASTED = 20  # the number of routes that are printed as JSON; a line in the journal has a maximum length
_ALTERNATIVES = 3  # at most this many kinds of packets in one sentence
_CONDITIONS = 4  # at most this many conditions for one kind
_UNKNOWN = "an unknown device"
_CANDIDATES = 20  # the number of devices that are named as perhaps the expected one
_RANGES = 3  # the number of ranges that are named for one cause; the others are counted


def _no_default_route(found: FamilyExamination, severity: Severity, *, wait: float) -> Finding:
    """How long the check waited for a default route, what was there instead, and which device may be meant."""
    family = found.report.family
    lack = f"none appeared within {wait:g} s" if wait else "there is none"
    sentence = (
        f"the expected devices are those of the IPv{family} default route, and {lack}; last seen: {found.instead}"
    )
    remedy = f"add a default route, or name routeOverlap.expectedDevs: {candidates_clause(found)}"
    remedy = next((flaw.remedy for flaw in found.flaws if is_of_main(flaw)), remedy)
    facts = {"family": family, "instead": found.instead}
    return Finding("no-default-route", severity, sentence, f"IPv{family} default route", remedy, facts, can_retry=True)


def candidates_clause(found: FamilyExamination) -> str:
    """A clause for a host without a default route: the devices that may be the expected one.

    These are up, have an address, and are not InfiniBand. Devices in a network of the CIDRs come last.
    """
    report, snapshot = found.report, found.fib.snapshot
    first: list[str] = []
    last: list[str] = []
    fabric: list[str] = []
    for link in snapshot.links:
        own = [
            address
            for address in snapshot.addresses
            if address.dev == link.name and address.ip.version == report.family and address.ip not in LINK_LOCAL
        ]
        lenient = is_like(link.name, report.allowed_devs, link.kind)
        if not own or not link.up or lenient or link.name == "lo":
            continue
        inside = any(address.ip in cidr for address in own for cidr in report.cidrs)
        facts = [f"{own[0].ip}/{own[0].length}", *(["InfiniBand"] if link.infiniband else [])]
        facts += [f"in {spoken([str(cidr) for cidr in report.cidrs])}"] if inside else []
        (fabric if link.infiniband else last if inside else first).append(f"{link.name} ({', '.join(facts)})")
    if devs := [*first, *last]:
        return f"the device may be {spoken(devs, most=_CANDIDATES, last='or')}"
    other = f" other than {spoken(fabric, most=_CANDIDATES)}" if fabric else ""
    return f"no device{other} is up and has an IPv{report.family} address"


def escape_finding(escape: Escape, expected_devs: Iterable[str], severity: Severity) -> Finding:
    """A finding: where the packets for a range go, and where they should go."""
    where = escape_target(escape)
    what = f"expected CIDR {escape.cidr} ({where}){_of_pods(escape.senders)}"
    expected, holder = ", ".join(expected_devs), escape.decision.holder
    if escape.surprise and escape.decision.route is None:
        holder = "the kernel's own answer"
    if escape.kind == "overlap":
        via = ", ".join(escape.devs) or _UNKNOWN
        owner = f"; owner: {owner_name(escape)}" if escape.unexplained else ""
        sentence = f"{what} routes via {via} [{holder}], expected {expected}{owner}"
    elif escape.kind == "no-route":
        sentence = f"{what} has no IPv{escape.cidr.family} route; expected via {expected}"
    else:
        how = {"prohibit": "is refused", "blackhole": "is dropped by a blackhole"}.get(escape.kind, "is unreachable")
        sentence = f"{what} {how} [{holder}]; expected via {expected}"
    return Finding(escape.kind, severity, sentence, where, intended_clause([escape]), _escape_facts(escape))


def escape_target(escape: Escape) -> str:
    """The range that escapes: the target of its finding."""
    return extent(escape.cidr.family, escape.first, escape.last)


def _escape_facts(escape: Escape) -> dict[str, Any]:
    decision, family = escape.decision, escape.cidr.family
    route, dev = decision.route, next(iter(escape.devs), None)
    gateway = next((leg.gateway for leg in decision.legs if dev is not None and leg.dev == dev), None)
    return {
        "cidr": str(escape.cidr),
        **_ends(family, escape.first, escape.last),
        "prefixes": [str(prefix) for prefix in escape.prefixes],
        "devs": list(escape.devs),
        "via": {
            "dev": dev,
            "gateway": None if gateway is None else str(gateway),
            "route": None if route is None else str(route.prefix),
            "table": None if route is None else table_name(route.table),
            "protocol": None if route is None else protocol_name(route.protocol),
            "rule": None if decision.rule is None else decision.rule.priority,
        },
        **_packets(escape.senders),
    }


def _ends(family: int, first: int, last: int) -> dict[str, str]:
    return {"first": str(ip_at(family, first)), "last": str(ip_at(family, last))}


def _packets(senders: Iterable[PodPackets]) -> dict[str, Any]:
    """Which packets of pods the finding is about; empty for packets that the host itself sends."""
    packets = [
        {"sources": list(map(str, sender.sources)), "devs": list(sender.devs), "exist": sender.exist}
        for sender in senders
    ]
    return {"packets": packets} if packets else {}


def _of_pods(senders: Sequence[PodPackets]) -> str:
    """The same as a phrase between commas."""
    return f", for {senders_phrase(senders)}," if senders else ""


def intended_clause(escapes: Iterable[Escape]) -> str:
    """A clause: by which virtual devices these leave, and how to allow them; empty for none or too many.

    Network cards and InfiniBand are left out: they are rarely intended.
    """
    virtual = (escape for escape in escapes if all(escape.kinds))
    kinds = {dev: kind for escape in virtual for dev, kind in zip(escape.devs, escape.kinds, strict=False)}
    if not 0 < len(kinds) <= _CANDIDATES:
        return ""
    names, line = spoken([f"{dev} ({kind})" for dev, kind in kinds.items()]), ", ".join(f'"{dev}"' for dev in kinds)
    are = "are" if len(kinds) > 1 else "is"
    return f'if {names} {are} intended: "allowedDevs": ["...", {line}] ("..." stands for the defaults)'


def owner_name(escape: Escape) -> str:
    """The route protocol of an escape's route, with a remark if that protocol is implausible; empty without a route."""
    route = escape.decision.route
    if route is None:
        return ""
    name = protocol_name(route.protocol)
    return unexplained_owner(name, route.devs) if escape.unexplained else name


def unexplained_owner(name: str, devs: Iterable[str]) -> str:
    """The route protocol, with the remark that no address makes the kernel add this route."""
    return f"{name} (but no address on {', '.join(devs)} makes the kernel add this route)"


# Notes: what the verdict does not hold for, and what explains it.

_KNOWN: dict[Known, str] = {
    "own-address": "replies leave by the device that has the address, so this is right",
    "bound": "the socket asks for this device, so this is right",
    "forwarded": "this host only forwards them; they are judged if their sources are in podCidrs",
    "tunnel": "they are the tunnel's own packets, so this is right",
    "intended": "routeOverlap.intendedRules declares this",
}


def _other_packets(note: Note, *, alone: bool) -> Finding:
    """Which packets the verdict does not hold for, and where they go.

    It is not `alone` if findings about pods may be about these packets, too.
    """
    where = f"expected CIDR {note.cidr} ({extent(note.cidr.family, note.first, note.last)})"
    where += _of_pods(note.senders).removesuffix(",")
    sentence = f"{where}: {packets_line(note.cases)} {_fate(note)}"
    if note.known:
        sentence += f"; {': '.join([_KNOWN[note.known], *note.reasons])}"
    elif alone:
        sentence += "; the verdict does not hold for these packets"
    facts = {
        "cidr": str(note.cidr),
        **_ends(note.cidr.family, note.first, note.last),
        "known": note.known,
        **_packets(note.senders),
    }
    remedy = _declaration(note) if note.is_open else ""
    return Finding("other-packets", "warning" if note.is_open else "note", sentence, str(note.cidr), remedy, facts)


def _declaration(note: Note) -> str:
    """A clause: how to declare in the configuration that the packets of this note go elsewhere on purpose.

    Empty if the configuration cannot name the packets: it refuses the selectors that only Linux knows.
    """
    import json  # noqa: PLC0415  only an undecided verdict needs it

    rules = [condition.rule for condition in note.cases[0] if condition.rule.selection]
    others = [(rule, name, value) for rule in rules for name, value in rule.others]
    for rule, name, dev in others:
        if name.endswith("-altname"):
            return f"name the device of rule {rule.priority} by the name that ip link shows first, not by {dev}"
    if others:
        return ""
    entries = [{"rule": selection, "reason": "WHY"} for selection in dict.fromkeys(rule.selection for rule in rules)]
    return f"if this is intended, add to routeOverlap.intendedRules: {json.dumps(entries)}" if entries else ""


def _fate(note: Note) -> str:
    """A clause: where the packets of a note go."""
    decision, holder = note.decision, note.decision.holder
    if note.more_routes:
        holder += f" and {note.more_routes} more {'route' if note.more_routes == 1 else 'routes'}"
    if decision.goes_out:
        devs = ", ".join(decision.devs) or _UNKNOWN
        return f"{'leave by' if note.escapes else 'leave as expected, by'} {devs} [{holder}]"
    fate = {"no-route": "find no route", "blackhole": "vanish in a blackhole"}.get(decision.kind, "are refused")
    return f"{fate if note.escapes else 'stay on this host'} [{holder}]"


def packets_line(cases: Cases) -> str:
    """A phrase to put before a verb: the first few kinds of packets, and how many more kinds there are."""
    said = [_case(case) for case in cases[:_ALTERNATIVES]]
    more = len(cases) - len(said)
    kinds = ", or ".join(said)
    return f"packets {kinds}, or of {more} more {'kind' if more == 1 else 'kinds'}," if more else f"packets {kinds}"


def _case(case: tuple[Condition, ...]) -> str:
    said = [_condition(condition) for condition in case[:_CONDITIONS]]
    more = len(case) - len(said)
    conditions = " and ".join(said)
    return f"{conditions} and {more} more {'condition' if more == 1 else 'conditions'}" if more else conditions


def _condition(condition: Condition) -> str:
    name, value = condition.selectors[0]
    if name == REACHABLE:  # the state of the host, and not a selector of a rule
        return f"sent while {value} is {'' if condition.holds else 'not '}reachable"
    if name == CHOSEN:
        return f"for which Linux {'chooses' if condition.holds else 'does not choose'} the next hop {value}"
    told = [selector_of(name).packets(value) for name, value in condition.selectors]
    if condition.holds:
        words = ", ".join(phrase for phrase, _ in told)
    elif len(told) > 1:
        words = f"except those {' and '.join(phrase for phrase, _ in told)}"
    else:
        [(_, words)] = told
    return f"{words} (rule {condition.rule.priority})"


# The repair: what to change in a configuration, what no route can repair, and what a repair costs.

_REASONS: dict[UnsafeReason | Literal["no-rule"], str] = {
    "earlier-rule": "is decided by {holder} before table main is looked up; no route in table main can change that",
    "no-rule": "is not looked up in table main by any policy rule, so a route there cannot help: see 'ip rule'",
    "longest-prefix": "is matched by {holder}: no prefix can be longer, and routes of others are never replaced",
    "no-way": "cannot be repaired: this needs {missing}",
    "too-many": f"would need more than {TOO_MANY} routes, because of {{holder}}",
    "reserved": "is reserved, and matched by {holder}: no static route there is allowed",
    "surprise": "is routed by {holder} according to the kernel, but not according to its tables; no route is known that"
    " would change that",
    "refused": "cannot be repaired: Linux refuses a route {missing}, because the gateway is matched by {against}",
    "clash": "is matched by {holder}; routes that repair this would divert other packets, which go the right way now",
    "still-open": "would still escape after the repair, because of {holder}; this is a bug, please report it",
}


def _action_finding(found: Examination, correction: Correction | None) -> Iterator[Finding]:
    """What to change in the configuration, with its `correction` if that is known; none if no route can help."""
    if not found.escapes or not found.routes:
        return
    needed = Correction(found.routes) if correction is None else correction
    routes, parts = repair_document(needed.add), list[str]()
    if not needed.is_needed:
        parts.append("the configuration has the routes that repair it, but this host does not; apply the configuration")
    elif len(routes) > _PASTED:
        parts.append(f"add {len(routes)} routes to staticRoutes.routes; to print them: hostrouting repair")
    elif routes:
        import json  # noqa: PLC0415  only a finding needs it

        parts.append(f"add to staticRoutes.routes: {json.dumps(routes)}")
    entries = deletion_lines(needed.replaced, needed.contested, "staticRoutes.routes")
    parts += [text[0].lower() + text[1:-1] for text in entries]
    facts = {"routes": repair_document(found.routes)}
    yield Finding("action", "note", "; ".join(parts), "staticRoutes.routes", facts=facts)


def deletion_lines(replaced: Sequence[DesiredRoute], contested: Sequence[DesiredRoute], config: str) -> Iterator[str]:
    """Sentences: which entries to delete from a configuration, and why; `config` names it."""
    if replaced:
        takes = "the new one takes its" if len(replaced) == 1 else "the new ones take their"
        yield f"In {config}, delete the present {entries_name(replaced)}: {takes} place."
    if contested:
        yield f"In {config}, delete the {entries_name(contested)}: {contested_clause(contested)}."


def contested_clause(contested: Sequence[DesiredRoute]) -> str:
    """A clause: why these entries of a configuration cannot be installed."""
    if len(contested) == 1:
        return "another program's route has this destination and metric, and hostrouting leaves that route as it is"
    return "other programs' routes have these destinations and metrics, and hostrouting leaves those as they are"


def entries_name(wishes: Sequence[DesiredRoute]) -> str:
    """A phrase for entries of a configuration: each destination, with its metric unless that is 0."""
    names = [f"{wish.destination}{f' metric {wish.metric}' if wish.metric else ''}" for wish in wishes]
    return f"{'entry' if len(names) == 1 else 'entries'} for {spoken(names, most=_PASTED)}"


def unsafe_findings(unsafe: Iterable[Unsafe], severity: Severity = "warning") -> Iterator[Finding]:
    """Why ranges cannot be repaired: one finding for each combination of reason, rule and table."""
    causes: dict[object, list[Unsafe]] = {}
    for lost in unsafe:
        rule, route = lost.decision.rule, lost.decision.route
        which = None if route is None else (route.table, route.type, route.protocol)
        causes.setdefault((lost.reason, lost.missing, rule, which, lost.senders), []).append(lost)
    for alike in causes.values():
        where, told = _cause(alike)
        ranges = [_ends(lost.family, lost.first, lost.last) for lost in alike]
        facts = {"reason": alike[0].reason, "ranges": ranges, **_packets(alike[0].senders)}
        yield Finding("unsafe", severity, told, where, facts=facts)


def _reason(unsafe: Unsafe, holder: str) -> str:
    unled = unsafe.reason == "earlier-rule" and unsafe.decision.rule is None
    return _REASONS["no-rule" if unled else unsafe.reason].format(
        holder=holder, missing=unsafe.missing, against="" if unsafe.against is None else unsafe.against.holder
    )


def _cause(alike: list[Unsafe]) -> tuple[str, str]:
    """The ranges that cannot be repaired for one cause, and a sentence that says why."""
    first = alike[0]
    spans: list[Unsafe] = []
    for lost in alike:
        if spans and spans[-1].last + 1 == lost.first:
            spans[-1] = spans[-1]._replace(last=lost.last)
        else:
            spans.append(lost)
    where = spoken([extent(span.family, span.first, span.last) for span in spans], most=_RANGES)
    holders = len({lost.decision.route for lost in alike})
    holder = first.decision.holder
    if holders > 1:
        holder += f" and {holders - 1} more {'route' if holders == 2 else 'routes'}"
    reason = _reason(first, holder)
    if len(spans) > 1 and reason.startswith("is "):
        reason = reason.replace("is ", "are ", 1)
    return where, f"{where}{_of_pods(first.senders)} {reason}"


# Documents, written and read again.

CHECK_SCHEMA = "hostrouting/check/3"
"""The result of a check: the verdict, and the findings."""
GUARD_SCHEMA = "hostrouting/guard/2"
"""What a guard knows after a look."""


def document_in(text: str | None, schema: str) -> dict[str, Any]:
    """The JSON document in this text; empty without a document of this schema."""
    import json  # noqa: PLC0415  most commands read none of them

    with suppress(ValueError, RecursionError):
        found = json.loads(text or "{}")
        if isinstance(found, dict) and found.get("schema") == schema:
            return found
    return {}


def escapes_in(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The escapes in the document of a check. Other findings also change with time, as when a route is to expire."""
    found = document.get("findings")
    known = found if isinstance(found, list) else []
    return [finding for finding in known if isinstance(finding, dict) and finding.get("name") in ESCAPES]


def marked_verdict(marker: str) -> str:
    """The verdict in a marker of a check (route-overlap.ok or route-overlap.detected); empty if it has none."""
    first = marker.partition("\n")[0]
    return first if first in {"", "ok", "undecided", "no-default-route"} else "overlap"


def check_document(
    found: Examination, *, mode: str, findings: Iterable[Finding] | None = None, correction: Correction | None = None
) -> dict[str, Any]:
    """The check as the JSON value `hostrouting/check/3`, with its findings if they are known."""
    findings = check_findings(found, mode=mode, correction=correction) if findings is None else findings
    return {
        "schema": CHECK_SCHEMA,
        "verdict": found.verdict,
        "verdicts": {f"ipv{family.report.family}": family.verdict for family in found.families},
        "mode": mode,
        "expectedDevs": {f"ipv{family.report.family}": list(family.report.expected_devs) for family in found.families},
        "findings": [finding.to_mapping() for finding in findings],
        "repair": repair_document(found.routes),
    }


def check_findings(
    found: Examination, *, mode: str, wait: float = 0, correction: Correction | None = None
) -> tuple[Finding, ...]:
    """All findings of a check: the escapes, their repair, its cost, and what limits the verdict.

    `wait` is how long a default route was waited for, and `correction` that of the configuration if it is known.
    """
    severity: Severity = "error" if mode == "STRICT" else "warning"
    escapes: list[Finding] = []
    notes: list[Finding] = []
    for family in found.families:
        if family.verdict == "no-default-route":
            escapes.append(_no_default_route(family, severity, wait=wait))
        escapes += (escape_finding(escape, family.report.expected_devs, severity) for escape in family.escapes)
        notes += remarks(family)
    action = _action_finding(found, correction)
    unsafe = unsafe_findings(found.unsafe, severity)
    return tuple(dict.fromkeys([*escapes, *action, *unsafe, *found.costs, *notes]))


def remarks(found: FamilyExamination) -> Iterator[Finding]:
    """What limits or explains the verdict on a family."""
    report = found.report
    yield from found.flaws
    yield from report.remarks
    yield from (_other_packets(note, alone=not found.pods) for note in found.notes)
    yield from found.surprises
    yield from _skipped_keys(found.fib.snapshot.skipped)


def _skipped_keys(skipped: Sequence[str]) -> Iterator[Finding]:
    if skipped:
        said = f"this version of hostrouting does not know a part of the snapshot, and skips it: {spoken(skipped)}"
        yield Finding("skipped-keys", "note", said, remedy="to judge it whole, use the version of the node")


def repair_document(routes: Iterable[DesiredRoute]) -> list[dict[str, Any]]:
    """The routes as written under staticRoutes.routes in the configuration."""
    return [route.to_mapping() for route in routes]
