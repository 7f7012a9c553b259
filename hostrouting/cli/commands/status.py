"""`status`: whether this host matches the installed configuration: files, routes, units, and the
verdict now.

The mode, the gated units and the guard follow the first line, and what the journal has about a
start that was refused. With a unit, only that one. A part of the host that does not answer, and a
config.json that cannot be used, hide no other part.

Exit code 2: config.json cannot be used, whatever else is wrong. 1: something differs, a unit can
start unchecked or cannot start, or an address escapes now. 3: the verdict is undecided, or a part
of the host does not answer. With --metrics, which prints the text format of Prometheus, it is 0:
the metrics say it.
"""

import argparse
from collections.abc import Iterator

import attrs

from hostrouting.boot.health import AGAIN, RELOAD
from hostrouting.boot.unit_states import refused_units
from hostrouting.cli.check import LOOK_FIRST, check_lines, refused_sentence, what_is_wrong
from hostrouting.cli.metrics import metric_lines
from hostrouting.cli.output import Answer, finding_lines, way_lines
from hostrouting.cli.running import plan_lines
from hostrouting.cli.source import bad_input
from hostrouting.codes import FINE
from hostrouting.finding import Finding, Remedy
from hostrouting.host.host import Host
from hostrouting.host.layout import HostLayout
from hostrouting.install.typed_commands import TO_KEEP
from hostrouting.status import State, Status, find_status
from hostrouting.text import spoken

ARGUMENTS = ("unit", "--metrics")

_PATH = HostLayout.config_path
_NO_MATCH = f"this host does not match {_PATH}"
_DIFFERENT = f"DIFFERENT: {_NO_MATCH}"
_AND_ESCAPES = f"DIFFERENT: addresses escape, and {_NO_MATCH}"
_HEADLINES: dict[State, str] = {
    "nothing": "NOTHING: hostrouting has nothing installed on this host; to check its routes: "
    "hostrouting check CIDR",
    "broken": "BROKEN: ",
    "unanswered": f"NO ANSWER: whether this host matches {_PATH} is not known; see below",
    "conflict": f"CONFLICT: {_NO_MATCH}, and apply would fail; the lines that begin with ! say why",
    "not-configured": "DIFFERENT: ",
    "failing": f"{_DIFFERENT}, and apply would fail: ",
    "escaping": f"{_DIFFERENT}, and addresses would escape after apply",
    "different": _DIFFERENT,
    "waiting": f"NOT READY: a route that {_PATH} asks for cannot be set yet, so gated units "
    "cannot start; ROUTE-WAITS says why",
    "installed": f"INSTALLED: this host matches {_PATH}",
}
_TO_RESTORE = Remedy(
    "the installed script still has the missing routes; to set them now",
    f"systemctl restart {HostLayout.routes_unit}",
)
_TO_CHECK = "to check it now (this stops it, and the gate decides whether it starts again)"
_ENDS: dict[State, str] = {"broken": "file", "not-configured": "route-not-configured"}
"""The finding that ends the headline, by its name."""
_TO: dict[State, str] = {
    "conflict": "to go around it",
    "escaping": "to repair that, too",
    "not-configured": TO_KEEP,
}
"""What the command of the headline is for, where that has to be said."""


def run(arguments: argparse.Namespace, host: Host) -> Answer:
    if arguments.metrics and arguments.json:
        raise bad_input("--metrics", "cannot be used with --json", "leave one of them out")
    unit = arguments.unit
    if unit is not None and "." not in unit:  # as systemctl reads it
        unit = f"{unit}.service"
    status = find_status(host, unit)
    if arguments.metrics:
        return Answer(FINE, {}, metric_lines(status))
    report = None if status.check is None else status.check.report
    return Answer(status.code, _document(status), _lines(status, unit), report)


def _document(status: Status) -> dict[str, object]:
    return {
        "schema": "hostrouting/status/6",
        "installed": status.state != "nothing",
        "state": status.state,
        "headline": _headline(status),
        "command": status.command or None,
        **status.plan.to_mapping(),
        "check": status.check and status.check.document(),
        "mode": status.mode or None,
        "units": [state.to_mapping() for state in status.units],
        "guard": status.guard or None,
        "lastCheck": status.last_check or None,
        "findings": [finding.to_mapping() for finding in status.findings],
    }


def _lines(status: Status, unit: str | None) -> Iterator[str]:
    """The headline with what to type, the units, what differs, and the verdict."""
    in_headline = _headline_finding(status)
    yield _headline(status)
    yield from _protection_lines(status)
    if in_headline is not None and not status.command:
        yield from way_lines(in_headline.remedy)
    if unit is not None:
        yield from _of_one_unit(unit, status)
    yield from _unit_lines(status)
    others = [finding for finding in _findings_with_one_remedy(status) if finding != in_headline]
    yield from plan_lines(attrs.evolve(status.plan, findings=tuple(others)))
    yield from _verdict_lines(status)
    if status.state == "broken" or (status.state in _TO and status.command):
        yield LOOK_FIRST


def _protection_lines(status: Status) -> Iterator[str]:
    """Where config.json cannot be used: how lost routes come back, and whether the gate works."""
    if status.state != "broken":
        return
    if status.plan.routes.changes:
        yield f"  {_TO_RESTORE}"
    gate = status.enforced.gate
    if gate is not None and all(
        fault.name not in {"gate-open", "gate-shut"} for fault in status.faults
    ):
        yield f"  the gate still checks {spoken(gate.units)}: it does not read this file"


def _headline_finding(status: Status) -> Finding | None:
    """The finding whose sentence ends the headline."""
    if status.state == "failing":
        return status.plan.errors[0]
    for finding in status.findings:
        if finding.name == _ENDS.get(status.state):
            return finding
    return None


def _headline(status: Status) -> str:
    """How this host compares with its configuration, and what to type."""
    headline = _HEADLINES[status.state]
    cause = _headline_finding(status)
    if status.state in {"different", "failing"} and _escapes(status):
        headline = headline.replace(_DIFFERENT, _AND_ESCAPES)
    if cause is not None:
        headline += cause.sentence
    if status.command:
        headline += f"; {Remedy(_TO.get(status.state, ''), status.command)}"
    if status.state == "installed" and status.code != FINE:
        wrong = what_is_wrong(status.findings, status.check)
        if not wrong and status.to_start:
            wrong = refused_sentence(status.to_start)
        return f"ATTENTION: {wrong or 'see below'}, although this host matches {_PATH}"
    return headline


def _escapes(status: Status) -> bool:
    """Whether addresses escape now."""
    return status.check is not None and bool(status.check.report.escapes)


def _findings_with_one_remedy(status: Status) -> Iterator[Finding]:
    """The findings without a remedy that is another command of the page."""
    done_by_headline: set[Remedy] = set()
    if status.command == AGAIN.command:
        done_by_headline = {AGAIN, RELOAD}
    choices = _choices_of_a_dev(status)
    for finding in status.findings:
        if finding.remedy in done_by_headline:
            yield finding._replace(remedy=None)
        elif finding.remedy in choices:
            yield finding._replace(remedy=Remedy("the commands below name the device"))
        else:
            yield finding


def _choices_of_a_dev(status: Status) -> set[Remedy]:
    """The remedies to write a device into the configuration, if the check has a command for each
    device.
    """
    check = status.check
    if check is None or all("candidates" not in finding.facts for finding in check.findings):
        return set()
    choices: set[Remedy] = set()
    for route in (*status.plan.routes.waiting, *status.plan.routes.staying):
        if route.missing.remedy is not None:
            choices.add(route.missing.remedy)
    return choices


def _of_one_unit(unit: str, status: Status) -> Iterator[str]:
    """Why this unit does not start, and what to type."""
    if not status.units:
        yield f"{unit} is not gated, or systemd does not know it; see: journalctl -u {unit}"
    elif not status.to_start and refused_units(status.units):
        when = "when the cause is gone"
        if status.command:
            when = "after the command in the first line"
        elif status.check is not None and status.check.report.routes:
            when = "after the command below"
        remedy = Remedy(when, f"systemctl start {unit}")
        yield f"{unit} was refused; {remedy}"


def _unit_lines(status: Status) -> Iterator[str]:
    """Each unit with its state; of a refused one, what its start has logged as errors."""
    for state in status.units:
        yield f"  {state.line}"
        if state.unchecked:
            remedy = Remedy(_TO_CHECK, f"systemctl restart {state.unit}")
            yield f"    its start was not checked; {remedy}"
        yield from (f"    {reason}" for reason in state.reasons)
    known: list[str] = []
    if status.mode:
        known.append(f"mode {status.mode}")
    if status.guard:
        known.append(f"the guard {status.guard}")
    if known:
        yield f"  {'; '.join(known)}"
    yield from (f"    {error}" for error in status.guard_errors)
    if status.guard in {"has failed", "is being restarted"}:
        yield f"    see: journalctl -u {HostLayout.guard_unit}"
    if status.last_check not in {"", "ok"}:
        yield f"  the last check, by the gate, the guard or apply: {status.last_check}"


def _verdict_lines(status: Status) -> Iterator[str]:
    """The page of the check; only the verdict where the host differs, because `apply` comes first
    then.
    """
    if status.check is None:
        return
    if status.state in {"installed", "waiting"}:
        yield from check_lines(status.check)
        return
    yield from map(str, status.check.report.families)
    grave = [row for row in status.check.findings if row.name in {"missing-rule", "unsafe"}]
    yield from finding_lines(grave)
