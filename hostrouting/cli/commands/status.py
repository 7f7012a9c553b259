"""`status`: what hostrouting has installed, whether it is in force, and the verdict now. Changes nothing.

The result of the last check is shown as well, and whether it is out of date. The facts come from `cli.status`.
"""

from __future__ import annotations

from hostrouting.cli.command import Command, Reply, config_option
from hostrouting.cli.output import SHOWN, Painted, capped, counted, line, spoken, table
from hostrouting.cli.schemas import CHECK, GATE, STANDINGS

TYPE_CHECKING = False  # `typing` costs as much as parsing does
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator
    from typing import Any

    from hostrouting.cli.output import Line, Tone
    from hostrouting.cli.status import HostStatus, Now
    from hostrouting.host import UnitState
    from hostrouting.host.host import Host

__all__ = ["COMMAND"]

_TONES: dict[str, Tone] = {"ok": "good", "overlap": "bad"}
_LET_IN = "machines start anyway."
_FOLLOWS = {
    ("STRICT", "overlap"): "no machine starts now; a running machine keeps running.",
    (
        "STRICT",
        "no-default-route",
    ): "machines wait for a default route and do not start without one; a running machine keeps running.",
    ("WARN", "overlap"): _LET_IN,
    ("WARN", "no-default-route"): _LET_IN,
}
"""What follows from a verdict in each mode."""


def _answer(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:
    from hostrouting.cli.source import config_of
    from hostrouting.cli.status import find_status

    status = find_status(host(), config_of(arguments), named=arguments.config is not None)
    return Reply(status.code, lambda: _document(status), lambda _style: _page(status, arguments.config))


def _page(status: HostStatus, config: str | None) -> Iterator[Line]:
    from hostrouting.cli.changes import gate_lines

    yield from _answer_lines(status, config)
    yield line()
    rows: list[tuple[str, str | Painted]] = []
    if status.default is not None or not status.troubles:
        rows.append(("default route", Painted("none", "bad") if status.default is None else str(status.default)))
    if status.ipv6_default is not None:
        rows.append(("IPv6 default route", str(status.ipv6_default)))
    rows += _judged(status, config)
    rows.append(("last check", _told(status)))
    rows += [(unit, _state(state)) for unit, state in status.units]
    if not status.manager:
        rows.append(("systemd", Painted(_without_systemd(status), "soft")))
    width = max(len(name) for name, _ in rows)
    for name, fact in rows:
        yield line("  ", Painted(f"{name:<{width}}  ", "soft"), fact)
    yield from status.standings.lines()
    yield from gate_lines(status.gate)
    if status.missing:
        yield line()
        yield from capped(table(("missing",), [(text,) for text in status.missing[:SHOWN]]), len(status.missing))
    if status.contested:
        yield line()
        yield line("Cannot be added:")
        told = (line("  ", Painted(f"{step.route.prefix}: {step.why}", "bad")) for step in status.contested[:SHOWN])
        yield from capped(told, len(status.contested))
    if status.routes:
        yield line()
        yield from capped(
            table(("routes of hostrouting",), [(str(route),) for route in status.routes[:SHOWN]]), len(status.routes)
        )
    if status.files:
        yield line()
        yield from capped(
            table(("files of hostrouting",), [(path,) for path in status.files[:SHOWN]]), len(status.files)
        )
    if status.troubles:
        yield line()
        yield line("Not known:")
        yield from (line("  ", Painted(trouble, "warn")) for trouble in status.troubles)


def _answer_lines(status: HostStatus, config: str | None) -> Iterator[Line]:
    """What is wrong, escapes first; if nothing is wrong, what is not known; otherwise that all is well."""
    told = [*_escapes(status, config), *_wrong(status, config), *_other(status, config), *_astray(status)]
    yield from told or [_unknown(status) or _well(status, config)]


def _escapes(status: HostStatus, config: str | None) -> Iterator[Line]:
    """The verdict now unless it is ok, what follows from it, and what to do."""
    now = status.now
    if now is None or now.verdict == "ok":
        return
    yield from now.check.answer_lines()
    if now.verdict != "undecided":
        yield line("  ", _follows(now, config, heals=status.heals))
    yield line("  ", _ways(now, config, heals=status.heals))


def _follows(now: Now, config: str | None, *, heals: bool) -> str:
    if heals:
        return "The installed static routes repair it: they are added before a machine starts."
    if now.in_force:
        mode = now.check.config.route_overlap.mode
        return f"The mode is {mode}: {_FOLLOWS[mode, now.verdict]}"
    if now.is_installed:
        restore = f"hostrouting apply --config {config or 'FILE'}"
        return f"The drop-in that makes machines wait for this check is missing; restore it with: {restore}"
    return f"{config} is not what is installed here: no machine waits for this check."


def _ways(now: Now, config: str | None, *, heals: bool) -> str:
    """The commands to run next."""
    if now.verdict == "no-default-route":
        from hostrouting.model import IPV6

        lost = next(found.report.family for found in now.check.found.families if found.verdict == now.verdict)
        return f"See: ip {'-6 ' * (lost == IPV6)}route show default"
    by = f" --config {config}" if now.named else ""
    if now.check.found.routes and not heals:
        repair = f"hostrouting repair{by}"
        return f"To print the repair: {repair}; for details: hostrouting check{by}"
    return f"See: hostrouting check{by}"


def _wrong(status: HostStatus, config: str | None) -> Iterator[Line]:
    """What is wrong with what hostrouting has installed."""
    if status.gate.openings:
        yield line(Painted("OPEN:", "bad"), f" {_more(status.gate.openings)}")
    if status.gate.bars:
        yield line(Painted("SHUT:", "bad"), f" {_more(status.gate.bars)}")
    elif status.failed == (status.layout.gate_unit,):
        why = "the last machine that tried to start was refused, and no present fact explains it"
        yield line(Painted("FAILED:", "bad"), f" {why}; see journalctl -u {status.layout.gate_unit}")
    elif status.failed:
        yield line(Painted("FAILED:", "bad"), f" {' and '.join(status.failed)}; see journalctl -u {status.failed[0]}")
    elif status.contested:
        count = f" {len(status.contested):,} of {counted(status.wanted, 'route')}"
        follows = ", and no machine starts until this is fixed" if status.holding else ""
        yield line(
            Painted("CONFLICT:", "bad"),
            f"{count} cannot be added: routes of other programs have the same destination and metric{follows}",
        )
    elif status.missing:
        count = f" {len(status.missing):,} of {counted(status.wanted, 'route')}"
        start = f"add them, as root, with: {status.start}"
        yield line(
            Painted("MISSING:", "bad"), f"{count}; {f'see: hostrouting plan --config {config}' if config else start}"
        )


def _other(status: HostStatus, config: str | None) -> Iterator[Line]:
    """That another configuration than the given one is installed, or none."""
    if status.differs:
        parts = f"another configuration is installed here; it differs in {spoken(status.differs, most=SHOWN)}"
        told = f"{parts if status.installed else 'nothing is installed here'}; to see what apply would change"
        yield line(Painted("NOT INSTALLED:", "bad"), f" {told}: hostrouting plan --config {config}")


def _astray(status: HostStatus) -> Iterator[Line]:
    """Other tasks that are not in force or do not work; the details follow below."""
    for standing in status.standings.found:
        if not standing.is_right:
            word = "NOT IN FORCE:" if standing.faults else "NOT WORKING:"
            yield line(Painted(word, "bad"), f" {standing.subject}; {_more((*standing.faults, *standing.hindrances))}")


def _more(sentences: tuple[str, ...]) -> str:
    """The first sentence, and the number of others, which follow below."""
    return sentences[0] + (f" (and {len(sentences) - 1} more, below)" if len(sentences) > 1 else "")


def _unknown(status: HostStatus) -> Line | None:
    if status.troubles:
        return line(Painted("UNKNOWN:", "warn"), " the state of this host is not fully known")
    if status.is_adrift and status.last is not None:
        told = f" the verdict of the last check was {status.last.verdict}, but now no check is installed"
        return line(Painted("UNKNOWN:", "warn"), told)
    return None


def _well(status: HostStatus, config: str | None) -> Line:
    ours = [counted(len(status.routes), "route")] if status.routes else []
    ours += [counted(len(status.files), "file")] if status.files else []
    here = f"{' and '.join(ours)} of hostrouting {'are' if len(status.routes) + len(status.files) > 1 else 'is'} here"
    if not status.installed:
        return line(Painted("NOTHING:", "soft"), " hostrouting has nothing installed on this host")
    if status.fleeting:
        told = "exists, but no script adds it" if len(status.routes) == 1 else "exist, but no script adds them"
        routes = f"{counted(len(status.routes), 'route')} of hostrouting {told} at boot"
        routes += f"; to install one, as root: hostrouting apply --config {config or 'FILE'}"
        return line(Painted("UNTIL THE NEXT BOOT:", "warn"), f" {routes}")
    passed = ""
    if status.now is not None:
        passed = f", and {'' if status.now.is_installed else f'by {config} '}nothing escapes now"
    return line(Painted("INSTALLED:", "good"), f" {here}{passed}")


def _without_systemd(status: HostStatus) -> str:
    """That systemd does not run, and what of hostrouting is in force all the same."""
    if not status.files:
        return "not running here"
    if not status.routes:
        return "not running here: the units and the gate are in force from the next boot on"
    return "not running here: the routes are in force now, the units and the gate from the next boot on"


def _judged(status: HostStatus, config: str | None) -> Iterator[tuple[str, Painted]]:
    """The verdict now, and which check found it."""
    from hostrouting.cli.check import check_name

    now = status.now
    if now is None:
        if status.checking:
            yield ("now", Painted("not known", "warn"))
        return
    yield ("now", _verdict(now.verdict, len(now.check.found.findings)))
    by = "the check installed here" if not now.named else f"{config}{', as it is installed' * now.is_installed}"
    yield ("checked by", Painted(f"{by}: {check_name(now.check.config.route_overlap)}", ""))
    if now.installed is not None and not now.is_installed:
        other = f"a different one, {check_name(now.installed)}; to use it: hostrouting status"
        yield ("installed check", Painted(other, "warn"))


def _verdict(verdict: str, findings: int) -> Painted:
    count = f" ({counted(findings, 'finding')})" if findings else ""
    return Painted(f"{verdict}{count}", _TONES.get(verdict, "warn"))


def _told(status: HostStatus) -> Painted:
    """The verdict of the last check, its time, and whether it is out of date."""
    if status.last is None:
        return Painted("none since this host booted", "soft")
    said = _verdict(status.last.verdict, status.last.count)
    text = f"{said.text}, {status.last.at}" if status.last.at else said.text
    if status.last.is_out_of_date(status.now):
        # If the kernel's answers differ from its tables, the tables may be the same as before.
        same = status.now is not None and status.now.check.found.surprises
        why = ": the verdict is different now" if same else ": since then the routes or rules have changed"
        return Painted(f"{text}; out of date{why}", "warn")
    other = status.now is not None and status.now.installed is not None and not status.now.is_installed
    return Painted(f"{text}, by the check installed here" if other else text, said.tone)


def _state(state: UnitState) -> Painted:
    if state.active == "active":
        return Painted(state.active, "good")
    if state.ok:
        return Painted(f"{state.active}, its last run succeeded" if state.invocation else state.active, "good")
    return Painted(f"{state.active}, its last run failed with {state.result} (exit status {state.status})", "bad")


def _document(status: HostStatus) -> dict[str, Any]:
    from hostrouting.cli.changes import gate_document

    return {
        "schema": COMMAND.schema,
        "installed": status.installed,
        "differs": list(status.differs),
        "routes": [str(route) for route in status.routes],
        "missing": list(status.missing),
        "contested": [str(step.route) for step in status.contested],
        "gate": gate_document(status.gate),
        "defaultRoute": None if status.default is None else str(status.default),
        "ipv6DefaultRoute": None if status.ipv6_default is None else str(status.ipv6_default),
        "files": list(status.files),
        "units": [
            {"unit": unit, "load": state.load, "active": state.active, "result": state.result, "status": state.status}
            for unit, state in status.units
        ],
        "manager": status.manager,
        "now": None if status.now is None else _now_document(status.now),
        "lastCheck": None
        if status.last is None
        else {
            "verdict": status.last.verdict,
            "findings": status.last.count,
            "at": status.last.at,
            "outOfDate": status.last.is_out_of_date(status.now),
        },
        "standings": status.standings.documents(),
        "troubles": list(status.troubles),
    }


def _now_document(now: Now) -> dict[str, Any]:
    """The document of the check, and which configuration it used."""
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
    "show what hostrouting has installed, and the verdict now",
    answer=_answer,
    options=config_option,
    more="""\
The present state of the host is checked: by the given configuration if it has expected CIDRs, else by the installed
check. The result of the last check is shown as well, and whether it is out of date; it does not affect the exit code.

Exit code 1 means that there is an overlap now, that one of hostrouting's units has failed, that a run was
interrupted, that no script adds its routes at the next boot, that the given configuration is not the installed one, or
that routes are missing: those of the configuration, or, without one, those of the installed script. 3 means
that not everything could be determined, or that the verdict is undecided.
""",
    examples="""\
# is everything that hostrouting installed in force?
hostrouting status
# is this configuration installed and in force?
hostrouting status --config agent.json
""",
    failing="something that hostrouting installed is wrong, or there is an overlap now",
    keys={
        "installed": "whether hostrouting has anything installed on this host",
        "differs[]": "the parts of --config that are not installed as they are there, such as routeOverlap",
        "routes[]": "hostrouting's routes, as ip route prints them",
        "missing[]": "routes in the configuration, or else in the installed script, that the host does not have",
        "contested[]": "those that cannot be added: another program's route has the same destination and metric",
        **GATE,
        "defaultRoute": "the IPv4 default route",
        "ipv6DefaultRoute": "the IPv6 default route",
        "files[]": "hostrouting's files",
        "units[].unit": "one of hostrouting's units",
        "units[].load": "its LoadState in systemd",
        "units[].active": "its ActiveState in systemd",
        "units[].result": "its Result in systemd",
        "units[].status": "the exit status of its last run",
        "manager": "whether systemd is running here",
        "now.by": "config or installed: the configuration that the check used; now is null if there was no check",
        "now.inForce": "whether machines wait for a check with these settings",
        "now.expectedCidrs[]": "the CIDRs that were checked",
        **{f"now.{key}": says for key, says in CHECK.items()},
        "lastCheck.verdict": "the verdict of the last check; lastCheck is null if there was none since boot",
        "lastCheck.findings": "the number of its findings",
        "lastCheck.at": "its time",
        "lastCheck.outOfDate": "whether the result is different now; null if it cannot be compared",
        **STANDINGS,
        "troubles[]": "what could not be determined; each a sentence",
    },
)
