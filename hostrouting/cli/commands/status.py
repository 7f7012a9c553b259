"""`status`: what of ours is on this host, whether it is in force, and what the check says now. Changes nothing.

What the last check said stands beside what is so now, with whether it still holds.
"""

from __future__ import annotations

from hostrouting.cli.command import Command, Reply, config_option
from hostrouting.cli.page import SHOWN, Painted, capped, counted, line, table
from hostrouting.cli.schemas import CHECK, GATE, STANDINGS

TYPE_CHECKING = False  # `typing` costs as much as parsing does
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator
    from typing import Any

    from hostrouting.cli.host_status import HostStatus, Now
    from hostrouting.cli.page import Line, Tone
    from hostrouting.host import Host
    from hostrouting.system import UnitState

__all__ = ["COMMAND"]

_TONES: dict[str, Tone] = {"ok": "good", "overlap": "bad"}
_LET_IN = "no machine is refused for this."
_FOLLOWS = {
    ("STRICT", "overlap"): "a machine that is started now is refused; one that runs keeps running.",
    (
        "STRICT",
        "no-default-route",
    ): "machines wait for a default route and do not start without one; one that runs keeps running.",
    ("WARN", "overlap"): _LET_IN,
    ("WARN", "no-default-route"): _LET_IN,
}
"""What a mode makes of a verdict."""


def _answer(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:
    from hostrouting.cli.host_status import find_status
    from hostrouting.cli.source import config_of

    it = find_status(host(), config_of(arguments), named=arguments.config is not None)
    return Reply(it.code, lambda: _document(it), lambda _style: _page(it, arguments.config))


def _page(it: HostStatus, config: str | None) -> Iterator[Line]:
    from hostrouting.cli.gates import gate_lines

    yield from _answer_lines(it, config)
    yield line()
    rows: list[tuple[str, str | Painted]] = []
    if it.default is not None or not it.troubles:
        rows.append(("default route", Painted("there is none", "bad") if it.default is None else str(it.default)))
    rows += _judged(it, config)
    rows.append(("last check", _told(it)))
    rows += [(unit, _state(state)) for unit, state in it.units]
    if not it.manager:
        rows.append(("systemd", Painted("does not run here: what is installed takes effect at the next boot", "soft")))
    width = max(len(name) for name, _ in rows)
    for name, fact in rows:
        yield line("  ", Painted(f"{name:<{width}}  ", "soft"), fact)
    yield from it.standings.lines()
    yield from gate_lines(it.gate)
    if it.missing:
        yield line()
        yield from capped(table(("missing",), [(text,) for text in it.missing[:SHOWN]]), len(it.missing))
    if it.contested:
        yield line()
        yield line("Cannot be had:")
        told = (line("  ", Painted(f"{step.route.prefix}: {step.why}", "bad")) for step in it.contested[:SHOWN])
        yield from capped(told, len(it.contested))
    if it.routes:
        yield line()
        yield from capped(table(("routes of ours",), [(str(route),) for route in it.routes[:SHOWN]]), len(it.routes))
    if it.files:
        yield line()
        yield from capped(table(("files of ours",), [(path,) for path in it.files[:SHOWN]]), len(it.files))
    if it.troubles:
        yield line()
        yield line("Not everything could be found out:")
        yield from (line("  ", Painted(trouble, "warn")) for trouble in it.troubles)


def _answer_lines(it: HostStatus, config: str | None) -> Iterator[Line]:
    """What is wrong, first of all with the way of the packets; else what is not known; else that all is well."""
    told = [*_escapes(it, config), *_wrong(it, config), *_astray(it)]
    yield from told or [_unknown(it) or _well(it, config)]


def _escapes(it: HostStatus, config: str | None) -> Iterator[Line]:
    """What the check says now unless it passes, what follows, and what to do."""
    now = it.now
    if now is None or now.verdict == "ok":
        return
    yield now.check.answer_line()
    if now.verdict != "undecided":
        yield line("  ", _follows(now, config, heals=it.heals))
    yield line("  ", _ways(now, config, heals=it.heals))


def _follows(now: Now, config: str | None, *, heals: bool) -> str:
    if heals:
        return "The static routes that are installed close it: a machine that is started now gets them first."
    if now.in_force:
        mode = now.check.config.route_overlap.mode
        return f"The mode is {mode}: {_FOLLOWS[mode, now.verdict]}"
    if now.is_installed:
        return "The drop-in by which machines wait for this check is missing; bring it back with: hostrouting apply"
    return f"{config} is not what is installed here: no machine waits for this."


def _ways(now: Now, config: str | None, *, heals: bool) -> str:
    """The commands that lead on."""
    if now.verdict == "no-default-route":
        return "See: ip route show default"
    by = f" --config {config}" if now.named else ""
    if now.check.found.repair.routes and not heals:
        repair = f"hostrouting repair{by}"
        return f"Close it with what is printed by: {repair}; see all of it with: hostrouting check{by}"
    return f"See: hostrouting check{by}"


def _wrong(it: HostStatus, config: str | None) -> Iterator[Line]:
    """What of ours is not as it should be."""
    if it.gate.openings:
        yield line(Painted("OPEN:", "bad"), f" {_more(it.gate.openings)}")
    if it.gate.bars:
        yield line(Painted("SHUT:", "bad"), f" {_more(it.gate.bars)}")
    elif it.failed == (it.layout.gate_unit,):
        why = "the gate refused the last machine that asked, and nothing found now explains it"
        yield line(Painted("FAILED:", "bad"), f" {why}; see journalctl -u {it.layout.gate_unit}")
    elif it.failed:
        yield line(Painted("FAILED:", "bad"), f" {' and '.join(it.failed)}; see journalctl -u {it.failed[0]}")
    elif it.contested:
        count = f" {len(it.contested):,} of {counted(it.wanted, 'route')}"
        follows = ", and no machine starts until that is mended" if it.holding else ""
        yield line(Painted("CONFLICT:", "bad"), f"{count} cannot be had, for somebody else has a route there{follows}")
    elif it.missing:
        count = f" {len(it.missing):,} of {counted(it.wanted, 'route')}"
        start = f"start them, as root: {it.start}"
        yield line(
            Painted("MISSING:", "bad"), f"{count}; {f'see: hostrouting plan --config {config}' if config else start}"
        )


def _astray(it: HostStatus) -> Iterator[Line]:
    """What other tasks do, and what is not in force or does not work; in full it is told below."""
    for standing in it.standings.found:
        if not standing.is_right:
            word = "NOT IN FORCE:" if standing.faults else "NOT WORKING:"
            yield line(Painted(word, "bad"), f" {standing.subject}; {_more((*standing.faults, *standing.hindrances))}")


def _more(sentences: tuple[str, ...]) -> str:
    """The first sentence, and how many there are below."""
    return sentences[0] + (f" (and {len(sentences) - 1} more, below)" if len(sentences) > 1 else "")


def _unknown(it: HostStatus) -> Line | None:
    if it.troubles:
        return line(Painted("UNKNOWN:", "warn"), " not everything could be found out")
    if it.is_adrift and it.last is not None:
        told = f" the last check ended with {it.last.verdict}, and no check is installed to judge by now"
        return line(Painted("UNKNOWN:", "warn"), told)
    return None


def _well(it: HostStatus, config: str | None) -> Line:
    ours = [counted(len(it.routes), "route")] if it.routes else []
    ours += [counted(len(it.files), "file")] if it.files else []
    here = f"{' and '.join(ours)} of ours {'are' if len(it.routes) + len(it.files) > 1 else 'is'} here"
    if not it.installed:
        return line(Painted("NOTHING:", "soft"), " nothing of ours is on this host")
    if it.fleeting:
        told = "is here, and nothing brings it" if len(it.routes) == 1 else "are here, and nothing brings them"
        routes = f"{counted(len(it.routes), 'route')} of ours {told} back; hostrouting apply does"
        return line(Painted("UNTIL THE NEXT BOOT:", "warn"), f" {routes}")
    passed = ""
    if it.now is not None:
        passed = f", and {'' if it.now.is_installed else f'by {config} '}nothing escapes now"
    return line(Painted("INSTALLED:", "good"), f" {here}{passed}")


def _judged(it: HostStatus, config: str | None) -> Iterator[tuple[str, Painted]]:
    """The verdict now, and by which check it was found."""
    from hostrouting.cli.check import check_name

    now = it.now
    if now is None:
        if it.checking:
            yield ("now", Painted("not known", "warn"))
        return
    yield ("now", _verdict(now.verdict, len(now.check.found.report.findings)))
    by = "the check installed here" if not now.named else f"{config}{', as it is installed' * now.is_installed}"
    yield ("judged by", Painted(f"{by}: {check_name(now.check.config.route_overlap)}", ""))
    if now.installed is not None and not now.is_installed:
        other = f"another, {check_name(now.installed)}; judge by it with: hostrouting status"
        yield ("installed check", Painted(other, "warn"))


def _verdict(verdict: str, findings: int) -> Painted:
    count = f" ({counted(findings, 'finding')})" if findings else ""
    return Painted(f"{verdict}{count}", _TONES.get(verdict, "warn"))


def _told(it: HostStatus) -> Painted:
    """What the last check said, when, and whether that still holds."""
    if it.last is None:
        return Painted("none on record since this host booted", "soft")
    said = _verdict(it.last.verdict, len(it.last.findings))
    text = f"{said.text}, {it.last.at}" if it.last.at else said.text
    if it.last.is_out_of_date(it.now):
        # Where the kernel does not do as its tables say, these need not have changed.
        same = it.now is not None and it.now.check.found.surprises
        why = ": the answer now is another" if same else ": since then the routes or rules have changed"
        return Painted(f"{text}; out of date{why}", "warn")
    other = it.now is not None and it.now.installed is not None and not it.now.is_installed
    return Painted(f"{text}, by the check installed here" if other else text, said.tone)


def _state(state: UnitState) -> Painted:
    if state.ok:
        return Painted(f"{state.active}, its last run ended well" if state.invocation else state.active, "good")
    return Painted(f"{state.active}, its last run ended with {state.result} (exit status {state.status})", "bad")


def _document(it: HostStatus) -> dict[str, Any]:
    from hostrouting.cli.gates import gate_document

    return {
        "schema": COMMAND.schema,
        "installed": it.installed,
        "routes": [str(route) for route in it.routes],
        "missing": list(it.missing),
        "contested": [str(step.route) for step in it.contested],
        "gate": gate_document(it.gate),
        "defaultRoute": None if it.default is None else str(it.default),
        "files": list(it.files),
        "units": [
            {"unit": unit, "load": x.load, "active": x.active, "result": x.result, "status": x.status}
            for unit, x in it.units
        ],
        "manager": it.manager,
        "now": None if it.now is None else _now_document(it.now),
        "lastCheck": None
        if it.last is None
        else {
            "verdict": it.last.verdict,
            "findings": len(it.last.findings),
            "at": it.last.at,
            "outOfDate": it.last.is_out_of_date(it.now),
        },
        "standings": it.standings.documents(),
        "troubles": list(it.troubles),
    }


def _now_document(now: Now) -> dict[str, Any]:
    """The document of the check, and by which check it was made."""
    settings, check = now.check.config.route_overlap, now.check.document()
    del check["schema"]
    return {
        "by": "config" if now.named else "installed",
        "inForce": now.in_force,
        "expectedCidrs": [str(cidr) for cidr in settings.expected_cidrs],
        **check,
    }


COMMAND = Command(
    "status",
    "what of ours is on this host, and what its check says now",
    answer=_answer,
    options=config_option,
    more="""\
The host is judged as it is now: by the configuration where one that expects CIDRs is given, else by the check that is
installed. What the last check said stands beside that, with whether it still holds; no exit code comes from it.

Exit code 1 says that there is an overlap now, that a unit of ours has failed, that a run did not come to its end, that
nothing brings our routes back at the next boot, or that routes are missing: of the configuration, or without one of
those that the installed script has. 3 says that not all could be found out, or that it is undecided.
""",
    failing="something of ours is not as it should be, or there is an overlap now",
    keys={
        "installed": "whether anything of ours is on this host",
        "routes[]": "our routes, in the words of ip route",
        "missing[]": "routes that the configuration, or else the installed script, has and the host has not",
        "contested[]": "those of them that cannot be had, for somebody else has a route there",
        **GATE,
        "defaultRoute": "the default route",
        "files[]": "our files",
        "units[].unit": "a unit of ours",
        "units[].load": "in systemd's words",
        "units[].active": "in systemd's words",
        "units[].result": "in systemd's words",
        "units[].status": "the exit status of its last run",
        "manager": "whether a systemd runs here",
        "now.by": "config or installed: what the host was judged by now; now is null where it was not judged",
        "now.inForce": "whether machines wait for a check that judges like this",
        "now.expectedCidrs[]": "what it was judged for",
        **{f"now.{key}": says for key, says in CHECK.items()},
        "lastCheck.verdict": "what the last check said; lastCheck is null where none is on record since boot",
        "lastCheck.findings": "how many findings it had",
        "lastCheck.at": "when it was",
        "lastCheck.outOfDate": "whether now has another answer; null where it cannot be compared",
        **STANDINGS,
        "troubles[]": "what could not be found out; each a sentence",
    },
)
