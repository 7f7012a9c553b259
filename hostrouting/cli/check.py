"""`check`: does every address of the expected CIDRs leave by an expected device? Answer, evidence, remedy, limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hostrouting.cli.changes import counted
from hostrouting.cli.examined import Examined, examined
from hostrouting.cli.gates import gate_lines, looked_at_gate
from hostrouting.cli.page import SHOWN, Line, Painted, Piece, Style, Tone, capped, line, spoken, table
from hostrouting.cli.picture import draw_map, stretches_of
from hostrouting.cli.remedy import remedy_lines
from hostrouting.cli.reply import FAILED, FINE, UNDECIDED, Reply
from hostrouting.model import protocol_name, table_name
from hostrouting.openings import GateState
from hostrouting.packets import packets_line
from hostrouting.wording import note_line, prefix_name, range_name

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from hostrouting.config import RouteOverlapConfig
    from hostrouting.host import Host
    from hostrouting.overlap import Finding

__all__ = ["answer_line", "check_name", "evidence_lines", "limit_lines", "run"]

_BLOCKS = 3  # of one range are shown as blocks; more are shown as its ends
_MAPS = 3
_CODES = {"ok": FINE, "overlap": FAILED, "undecided": UNDECIDED, "no-default-route": UNDECIDED}
_TONES: dict[str, Tone] = {"ok": "good", "overlap": "bad"}


def run(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:
    """See the module."""
    it = examined(arguments, host)
    gate = GateState() if arguments.snapshot else looked_at_gate(host())

    def document() -> dict[str, Any]:
        found = it.document()
        return {**found, "notes": [*found["notes"], *gate.openings]}

    return Reply(_CODES[it.found.verdict], document, lambda style: _page(it, gate, arguments, style))


def _page(it: Examined, gate: GateState, arguments: argparse.Namespace, style: Style) -> Iterator[Line]:
    yield answer_line(it)
    yield from evidence_lines(it, style)
    yield from remedy_lines(
        it, config=arguments.config or "", cidrs=arguments.cidrs, devs=arguments.devs, again=_again(arguments)
    )
    yield from limit_lines(it, advice=_advice(arguments))
    if it.found.verdict == "no-default-route":
        where = f" --snapshot {arguments.snapshot}" if arguments.snapshot else ""
        yield line(f"Which way it takes now is told by: hostrouting explain {it.found.report.cidrs[0].ip}{where}")
    yield from _why_expected(it)
    yield from _asked(it, arguments)
    yield from gate_lines(gate)


def _why_expected(it: Examined) -> Iterator[Line]:
    """Why these devices are the expected ones, where nobody has named them: the default route may be astray itself."""
    devs = it.found.report.expected_devs
    if not devs or it.config.route_overlap.expected_devs:
        return
    links = [it.fib.snapshot.link(dev) for dev in devs]
    astray = any(link is not None and link.infiniband for link in links)
    rest = "where that is wrong, name the right one: --dev DEV" + ("; InfiniBand seldom is" if astray else "")
    verb = "are" if len(devs) > 1 else "is"
    told = f"{spoken(devs)} {verb} expected, since the IPv4 default route leads there; {rest}."
    yield line(Painted(told, "warn" if astray else "soft"))


def _asked(it: Examined, arguments: argparse.Namespace) -> Iterator[Line]:
    """Whether this was what the host's own check is for."""
    if it.installed is None or not (check := it.installed.route_overlap).expected_cidrs:
        return
    asked = it.config.route_overlap
    named = arguments.cidrs or arguments.devs
    if named and not _has(asked, check):
        yield line("The check installed on this host was not asked; that is: hostrouting check")
    elif not named:
        yield line(f"Asked is what the check installed on this host is for: {check_name(check)}.")


def _has(asked: RouteOverlapConfig, check: RouteOverlapConfig) -> bool:
    """Whether the one asks all that the other does."""
    same = (asked.expected_devs, asked.allowed_devs) == (check.expected_devs, check.allowed_devs)
    return same and set(check.expected_cidrs) <= set(asked.expected_cidrs)


def check_name(check: RouteOverlapConfig) -> str:
    """What a check is for, and its mode."""
    devs = f" by {spoken(check.expected_devs, last='or')}" if check.expected_devs else ""
    return f"{spoken(tuple(map(str, check.expected_cidrs)))}{devs} in {check.mode}"


def answer_line(it: Examined) -> Line:
    """The verdict in one sentence."""
    report, verdict = it.found.report, it.found.verdict
    cidrs, devs = spoken([str(cidr) for cidr in report.cidrs]), spoken(report.expected_devs, last="or")
    word = Painted(f"{verdict.upper()}:", _TONES.get(verdict, "warn"))
    if verdict == "no-default-route":
        instead = f"; there is {it.found.instead}" if it.found.instead.startswith("a ") else ""
        return line(word, " there is no IPv4 default route, so nothing is known to be expected of ", cidrs, instead)
    if verdict == "overlap":
        return line(word, " ", _who_goes_where(it), f", not by {devs}")
    if verdict == "undecided":
        return line(word, f" a plain packet to {cidrs} leaves by {devs}; ", _others(it))
    lenient = spoken(it.allowed_devs)
    beside = f" or by {lenient} (allowed)" if lenient else ""
    return line(word, f" every address of {cidrs} leaves by {devs}{beside}, or stays on this host as it should")


def _others(it: Examined) -> str:
    """What is said of the packets that are not plain: the first sentence, and how many more there are."""
    notes = it.found.report.notes
    if not notes:
        return "but the kernel itself answers otherwise"
    note, decision = notes[0], notes[0].decision
    devs = spoken(decision.devs) or "a device that is not known"
    fate = f"leave by {devs}" if decision.kind == "unicast" else f"end as {decision.kind}"
    more = f", and {counted(len(notes) - 1, 'more range')} elsewhere" if len(notes) > 1 else ""
    return f"{packets_line(note.cases)} {fate}{more}"


def _who_goes_where(it: Examined) -> str:
    findings = it.found.report.findings
    ways = list(dict.fromkeys(f"by {_devs(it)}" for it in findings if it.kind == "overlap"))
    nowhere = list(dict.fromkeys(it.kind.replace("-", " ") for it in findings if it.kind != "overlap"))
    ways += [f"nowhere ({spoken(nowhere)})"] if nowhere else []
    cidrs = list(dict.fromkeys(finding.cidr for finding in findings))
    whole = all(finding.first == finding.cidr.first and finding.last == finding.cidr.last for finding in findings)
    part = "" if whole else "a part of " if len(findings) == 1 else f"{len(findings):,} ranges of "
    verb = "go" if len(cidrs) > 1 or len(findings) > 1 else "goes"
    return f"{part}{spoken([str(cidr) for cidr in cidrs])} {verb} {spoken(ways)}"


def _devs(finding: Finding) -> str:
    return spoken(finding.devs) or "a device that is not known"


def evidence_lines(it: Examined, style: Style, *, now: str = "now") -> Iterator[Line]:
    """The findings as a table, and the CIDRs as maps."""
    report = it.found.report
    if report.findings:
        yield line()
        heads = ["escapes", "goes by", "route", "table", "owner", "rule"]
        rows = [list(_row(finding)) for finding in report.findings[:SHOWN]]
        if len(report.cidrs) > 1:
            heads = ["cidr", *heads]
            rows = [[str(finding.cidr), *row] for finding, row in zip(report.findings, rows, strict=False)]
        yield from capped(table(heads, rows), len(report.findings))
    yield from _maps(it, style, now)


def _row(finding: Finding) -> Sequence[Piece]:
    route, rule = finding.decision.route, finding.decision.rule
    where = (
        ("", "", "")
        if route is None
        else (prefix_name(route.prefix), table_name(route.table), protocol_name(route.protocol))
    )
    return (
        _range(finding),
        Painted(", ".join(finding.devs) or finding.kind, "bad"),
        *where,
        "" if rule is None else str(rule.priority),
    )


def _range(finding: Finding) -> str:
    """The range as blocks; as its ends where it takes too many."""
    blocks = finding.prefixes
    if len(blocks) <= _BLOCKS:
        return " ".join(map(str, blocks))
    return range_name(finding.cidr.family, finding.first, finding.last)


def _maps(it: Examined, style: Style, now: str) -> Iterator[Line]:
    report = it.found.report
    chosen = list(dict.fromkeys(finding.cidr for finding in report.findings)) or list(report.cidrs)
    if not report.expected_devs:
        return
    hosts = [(now, it.fib)] + ([("repaired", after)] if (after := it.repaired) else [])
    for cidr in chosen[:_MAPS]:
        yield line()
        rows = [
            (name, stretches_of(fib, cidr, expected=report.expected_devs, allowed=report.allowed))
            for name, fib in hosts
        ]
        yield from draw_map(cidr, rows, style)
    if len(chosen) > _MAPS:
        yield line(Painted(f"… and {counted(len(chosen) - _MAPS, 'more CIDR')}, not drawn", "soft"))


def _advice(arguments: argparse.Namespace) -> str:
    """What to do without a default route. Whoever has waited need not be told to; of a snapshot the same is said."""
    wait = "" if arguments.wait else ", or wait on the host for a default route (--wait 30)"
    return f"Name the device that is expected (--dev DEV){wait}."


def _again(arguments: argparse.Namespace) -> str:
    """How to ask for the repair alone."""
    words = ["hostrouting", "repair", *arguments.cidrs]
    words += [word for dev in arguments.devs for word in ("--dev", dev)]
    words += ["--config", arguments.config] if arguments.config else []
    words += ["--snapshot", arguments.snapshot] if arguments.snapshot else []
    return " ".join(words)


def limit_lines(it: Examined, *, advice: str) -> Iterator[Line]:
    """What the answer holds for; without a default route the advice alone."""
    if it.found.verdict == "no-default-route":
        yield line()
        yield line(advice)
        return
    notes = [*map(note_line, it.found.report.notes), *it.found.surprises]
    yield line()
    if not notes:
        yield line(Painted("Holds for all IPv4 packets: no rule would have some of them judged otherwise.", "soft"))
    else:
        yield line("Does not hold for all packets:")
        yield from capped((line("  ", Painted(note, "warn")) for note in notes[:SHOWN]), len(notes))
    yield line(
        Painted("It is about routing tables and rules; firewalls, IPsec and eBPF programs are not seen.", "soft")
    )
