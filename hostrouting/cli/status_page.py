"""How a host is, as lines, from the top: the state, what to type, the units, what differs, and the
verdict.

What is said once is not repeated below: the cause stands in the first line and not among the
findings, and its remedy is left to the command for the state if there is one. A line that is about
another one is indented below it. `status` and `apply` share this.
"""

import shlex
from collections.abc import Iterator

from hostrouting.cli.check import check_lines
from hostrouting.cli.output import finding_lines, way_lines
from hostrouting.cli.plan import SEE_CONFLICTS, plan_lines
from hostrouting.command import AS_ROOT
from hostrouting.finding import Finding, Remedy
from hostrouting.gate.unit_gates import APPLY, RELOAD
from hostrouting.gate.unit_states import UnitState, refused_units
from hostrouting.headline import cause_of, headline_of
from hostrouting.host.layout import HostLayout
from hostrouting.status import MEANINGS, Asked, Status
from hostrouting.text import agreeing, command_of, counted, spoken

_TO_CORRECT = APPLY._replace(words=f"when {HostLayout.config_path} is corrected")
_NAMED_BELOW = Remedy("the commands below name the device")
_TO_CHECK = "to check it now (this stops it, and the gate decides whether it starts again)"
_ANSWERS: dict[Asked, str] = {
    "unknown": "systemd does not know {unit}: is the name right?",
    "guard": "{unit} is the guard, and no gate holds it back",
    "not-gated": "{unit} is not gated: it starts whatever the routes are; see: {log}",
    "gated-by-drop-in": "{unit} is still gated by its drop-in, although {path} does not gate it",
    "not-loaded": "{unit} is gated, and does not run: systemd has not loaded it",
}
"""What there is to say about a unit that was asked about."""


def status_lines(status: Status) -> Iterator[str]:
    """The whole page."""
    cause = cause_of(status)
    remedy: Remedy | None = None
    if cause is not None and not status.command:
        remedy = _without_repeated_remedy(cause, status).remedy
    verdict = [*_verdict_lines(status)]  # the last lines of the page

    yield _first_line(status)
    yield from _what_to_type(status, remedy)
    if status.unit is not None:
        yield from _asked_unit_lines(status.unit, status)
    yield from _unit_lines(status)
    yield from _mode_and_guard_lines(status)
    # A marker has the lines of the page of its check: what is the same now, or has refused a unit,
    # is not said twice.
    said = {"", "ok", *verdict}
    for state in status.units:
        said.update(state.reasons)
    if status.last_check not in said:
        yield f"  the last check, by the gate, the guard or apply: {status.last_check}"
    yield from plan_lines(status.plan, _findings_of_page(status, cause))
    yield from verdict


def _first_line(status: Status) -> str:
    """The headline, and where the conflicts are."""
    headline = headline_of(status)
    if status.state == "conflict":
        return f"{headline}: {SEE_CONFLICTS}"
    return headline


def _what_to_type(status: Status, remedy: Remedy | None) -> Iterator[str]:
    """The command for the state of the host; without one, the remedy for its cause."""
    if status.state == "nothing":
        yield "  to check its routes: hostrouting check CIDR"
    if status.command:
        purpose = MEANINGS[status.state].purpose
        yield f"{purpose[0].upper()}{purpose[1:]}, {AS_ROOT}:"
        yield f"  {status.command}"
    if status.to_start:
        for script in status.foreign_scripts:
            take_out = shlex.join(["mv", script, f"{script}.off"])  # the gate runs *.sh
            yield f"  {Remedy(f'if {script} fails again, to take it out of the gate', take_out)}"
    yield from way_lines(remedy)
    if status.state == "waiting" and remedy != _NAMED_BELOW and _may_be_wrong(status):
        yield f"  {_TO_CORRECT}"


def _may_be_wrong(status: Status) -> bool:
    """Whether routes wait because of what the configuration names, or for what cannot come, and the
    page has no repair. A default route comes by DHCP or from a router.
    """
    if status.report is not None and status.report.routes:
        return False
    for route, missing in status.plan.routes.waiting:
        if route.dev is not None or route.gateway is not None or not missing.can_come:
            return True
    return False


def _findings_of_page(status: Status, cause: Finding | None) -> list[Finding]:
    """What there is to tell, without the cause, which the headline says."""
    others = [finding for finding in status.findings if finding != cause]
    return [_without_repeated_remedy(finding, status) for finding in others]


def _without_repeated_remedy(finding: Finding, status: Status) -> Finding:
    """The finding as the page has it: without a remedy that another line of the page is about."""
    if finding.remedy is None:
        return finding
    # To apply again is at the top of the page, and has systemd read its files.
    if finding.remedy in {APPLY, RELOAD} and status.command == APPLY.command:
        return finding._replace(remedy=None)
    if finding.remedy in _choices_of_a_dev(status):
        return finding._replace(remedy=_NAMED_BELOW)
    return finding


def _choices_of_a_dev(status: Status) -> set[Remedy | None]:
    """The remedies that only say to name a device in the configuration. The findings about routes
    that wait for one have these remedies as they are. Empty unless the page has a command for each
    device, from the check.
    """
    check = status.check
    if check is None or all("candidates" not in finding.facts for finding in check.findings):
        return set()
    routes = (*status.plan.routes.waiting, *status.plan.routes.staying)
    return {route.missing.remedy for route in routes if route.missing.devs}


def _asked_unit_lines(unit: str, status: Status) -> Iterator[str]:
    """Why this unit does not start, which was asked about, and what to type."""
    if status.asked:
        log = command_of("journalctl -u", unit)
        yield _ANSWERS[status.asked].format(unit=unit, log=log, path=HostLayout.config_path)
    # Where one unit was asked about, `status.units` has that one; of a template, its instances.
    refused = refused_units(status.units)
    # Units that nothing holds back any more are in the command at the top.
    if refused and not status.to_start:
        when = "when the cause is gone"
        if status.command:
            when = "after the command above"
        elif status.report is not None and status.report.routes:
            when = "after the command below"
        remedy = Remedy(when, command_of("systemctl start", *refused))
        yield f"{spoken(refused)} {agreeing('was refused', len(refused))}; {remedy}"


def _unit_lines(status: Status) -> Iterator[str]:
    """Each unit with its state; of a refused one, what its start has logged as errors, and of one
    that failed by itself, where that is logged.
    """
    for state in status.units:
        line = f"  {state.line}"
        if state.unit in status.to_start and state.reasons:  # they may be past
            line += "; what its start logged then:"
        yield line
        if state.unchecked:
            remedy = Remedy(_TO_CHECK, command_of("systemctl restart", state.unit))
            yield f"    its start was not checked; {remedy}"
        yield from (f"    {reason}" for reason in state.reasons)
        if state.state == "failed" and not state.reasons:
            log = command_of("journalctl -u", state.unit)
            yield f"    the gate did not refuse it; see: {log}"
        if status.foreign_scripts:
            yield from _lines_about_foreign_scripts(state)


def _lines_about_foreign_scripts(state: UnitState) -> Iterator[str]:
    """Where to see what a script of somebody else does, or did."""
    if state.state == "is in the gate" and not state.reasons:
        yield f"    to see which script runs: {command_of('systemctl status -l', state.unit)}"
    if state.state == "was refused":  # what such a script prints is not logged as an error
        yield f"    see: {command_of('journalctl -u', state.unit)}"


def _mode_and_guard_lines(status: Status) -> Iterator[str]:
    """The mode, and the guard with what it has logged as errors."""
    guard = f"the guard {status.guard}"
    if status.unset_routes:  # then the guard runs
        guard += f", but has not set {counted(status.unset_routes, 'missing route')}"
    known: list[str] = []
    if status.mode:
        known.append(f"mode {status.mode}")
    if status.guard:
        known.append(guard)
    if known:
        yield f"  {'; '.join(known)}"
    yield from (f"    {error}" for error in status.guard_errors)
    if status.unset_routes and not status.guard_errors:
        again = Remedy("to start it again", f"systemctl restart {HostLayout.guard_unit}")
        yield f"    it has logged no error; {again}"
    if status.unset_routes or status.guard in {"has failed", "is being restarted"}:
        yield f"    see: journalctl -u {HostLayout.guard_unit}"


def _verdict_lines(status: Status) -> Iterator[str]:
    """The page of the check where there is nothing to apply; else only the verdict, because `apply`
    comes first then.
    """
    if status.check is None:
        return
    if status.state in {"installed", "waiting"}:
        yield from check_lines(status.check)
        return
    yield from map(str, status.check.report.families)
    yield from finding_lines(status.check.named("missing-rule", "unsafe"))
