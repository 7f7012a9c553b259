"""How a host is, as lines: the first line, what to type, the units, what differs, and the verdict.

`status` and `apply` share this.
"""

from collections.abc import Iterator

import attrs

from hostrouting.boot.unit_gates import AGAIN, RELOAD
from hostrouting.boot.unit_states import refused_units
from hostrouting.cli.check import (
    LOOK_FIRST,
    check_lines,
    gated_by,
    what_is_wrong,
)
from hostrouting.cli.output import finding_lines, way_lines
from hostrouting.cli.running import plan_lines
from hostrouting.codes import FINE
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.finding import AS_ROOT, Finding, Remedy
from hostrouting.host.layout import HostLayout
from hostrouting.install.plan import Plan
from hostrouting.status import MEANINGS, NO_MATCH, Asked, Status
from hostrouting.text import agreeing, command_of, counted, spoken

_PATH = HostLayout.config_path
_GUARD_PATH = HostLayout.unit_path(HostLayout.guard_unit)
_TO_RESTORE = Remedy(
    "the boot script still has the missing routes; to set them now (this stops no unit)",
    f"systemctl restart {HostLayout.routes_unit}",
)
_TO_CHECK = "to check it now (this stops it, and the gate decides whether it starts again)"
_ASKED: dict[Asked, str] = {
    "unknown": "systemd does not know {unit}: is the name right?",
    "guard": "{unit} is the guard, and no gate holds it back",
    "not-gated": "{unit} is not gated: it starts whatever the routes are; see: {log}",
    "gated-by-drop-in": "{unit} is still gated by its drop-in, "
    f"although {_PATH} does not gate it",
    "not-loaded": "{unit} is gated, and does not run: systemd has not loaded it",
}
"""What there is to say about a unit that was asked about."""


def status_lines(status: Status) -> Iterator[str]:
    """The headline with what to type, the units, what differs, and the verdict."""
    in_headline = _headline_finding(status)
    yield headline_of(status)
    if status.state == "nothing":
        yield "  to check its routes: hostrouting check CIDR"
    meaning = MEANINGS[status.state]
    if status.command:
        yield f"{meaning.purpose[0].upper()}{meaning.purpose[1:]}, {AS_ROOT}:"
        yield f"  {status.command}"
    yield from _protection_lines(status)
    if in_headline is not None and not status.command:
        yield from way_lines(in_headline.remedy)
    if status.unit is not None:
        yield from _of_one_unit(status.unit, status)
    yield from _unit_lines(status)
    yield from _mode_and_guard_lines(status)
    yield from _last_check_line(status)
    yield from plan_lines(_plan_of_page(status, in_headline))
    yield from _verdict_lines(status)
    if meaning.plan_first and (status.command or status.state == "broken"):
        yield LOOK_FIRST


def _plan_of_page(status: Status, in_headline: Finding | None) -> Plan:
    """What apply would do, without what the headline says and the routes that its command keeps."""
    plan = status.plan
    findings = [*_findings_with_one_remedy(status)]
    said = [in_headline]
    if status.state == "not-configured" and in_headline is not None:
        said += [finding for finding in findings if finding.name == in_headline.name]
        kept = plan.routes.without_deletion_of(in_headline.facts["unconfigured"])
        plan = attrs.evolve(plan, routes=kept)
    others = tuple(finding for finding in findings if finding not in said)
    return attrs.evolve(plan, findings=others)


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
    findings = [*_findings_with_one_remedy(status)]
    if status.check is not None:  # which says when routes go, and not what apply would delete
        findings = [*status.check.findings, *findings]
    for finding in findings:
        if finding.name == MEANINGS[status.state].cause:
            return finding
    return None


def headline_of(status: Status) -> str:
    """How this host compares with its configuration, what is worst first."""
    headline = MEANINGS[status.state].headline
    if status.state in {"different", "failing"}:
        return headline + ", and ".join(_differences(status))
    cause = _headline_finding(status)
    if status.state == "waiting" and cause is not None:
        return f"{headline}{gated_by(_config_of(status))} cannot start: {cause.sentence}"
    if cause is not None:
        return headline + cause.sentence
    if status.state == "installed" and status.code != FINE:
        wrong = what_is_wrong_now(status) or f"this host matches {_PATH}, but see below"
        return f"ATTENTION: {wrong}"
    return headline


def _differences(status: Status) -> Iterator[str]:
    """What is wrong where the host does not match."""
    is_failing = status.state == "failing"
    wrong = what_is_wrong(status.faults, None, _config_of(status))
    if wrong and not is_failing:
        yield wrong
    parts = spoken([*_differing_parts(status)])
    if status.check is None or not status.check.report.escapes:
        yield parts or NO_MATCH
    elif parts:
        yield f"addresses escape: {parts}"
    else:
        yield "addresses escape"
    is_told = status.guard == "is masked" and status.command
    if is_failing and not is_told:
        yield f"apply would fail: {status.plan.errors[0].sentence}"


def _differing_parts(status: Status) -> Iterator[str]:
    """Which parts of the host are not as they were installed."""
    missing = len(status.missing_routes)
    if missing:
        yield f"{counted(missing, 'route')} {agreeing('is missing', missing)}"
    if status.guard not in {"", "runs", "is not enabled"}:
        yield f"the guard {status.guard}"
    files = [*status.plan.files.written_paths, *status.plan.files.removes]
    if status.guard == "is masked" and _GUARD_PATH in files:
        files.remove(_GUARD_PATH)  # the mask is a link there
    if files:
        what = files[0] if len(files) == 1 else f"{len(files)} files"
        yield f"{what} {agreeing('is not as installed', len(files))}"
    elif status.plan.for_systemd("reload"):
        yield "systemd has not read its files"


def _config_of(status: Status) -> HostRoutingConfig:
    """What config.json says, or else what the installed scripts do."""
    return status.config or status.enforced


def what_is_wrong_now(status: Status) -> str:
    """What is wrong although the host matches, and which units were refused because of it. Empty if
    the page has no sentence for it.
    """
    wrong = what_is_wrong(status.findings, status.check, _config_of(status))
    refused = refused_units(status.units)
    if not refused:
        return wrong
    sentence = f"{spoken(refused)} {agreeing('was refused', len(refused))}"
    if status.to_start:
        them = "it" if len(refused) == 1 else "them"
        return wrong or f"{sentence}, and nothing holds {them} back now"
    return f"{sentence}: {wrong}" if wrong else sentence


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
    if status.asked:
        log = command_of("journalctl -u", unit)
        yield _ASKED[status.asked].format(unit=unit, log=log)
    if not status.to_start and refused_units(status.units):
        when = "when the cause is gone"
        if status.command:
            when = "after the command above"
        elif status.check is not None and status.check.report.routes:
            when = "after the command below"
        remedy = Remedy(when, command_of("systemctl start", unit))
        yield f"{unit} was refused; {remedy}"


def _unit_lines(status: Status) -> Iterator[str]:
    """Each unit with its state; of a refused one, what its start has logged as errors."""
    for state in status.units:
        yield f"  {state.line}"
        if state.unchecked:
            remedy = Remedy(_TO_CHECK, command_of("systemctl restart", state.unit))
            yield f"    its start was not checked; {remedy}"
        yield from (f"    {reason}" for reason in state.reasons)


def _mode_and_guard_lines(status: Status) -> Iterator[str]:
    """The mode, and the guard with what it has logged as errors."""
    known: list[str] = []
    if status.mode:
        known.append(f"mode {status.mode}")
    if status.guard:
        known.append(f"the guard {status.guard}")
    if status.unset_routes:
        known[-1] += f", but has not set {counted(status.unset_routes, 'missing route')}"
    if known:
        yield f"  {'; '.join(known)}"
    yield from (f"    {error}" for error in status.guard_errors)
    if status.unset_routes and not status.guard_errors:
        again = Remedy("to start it again", f"systemctl restart {HostLayout.guard_unit}")
        yield f"    it has logged no error; {again}"
    if status.unset_routes or status.guard in {"has failed", "is being restarted"}:
        yield f"    see: journalctl -u {HostLayout.guard_unit}"


def _last_check_line(status: Status) -> Iterator[str]:
    """What the last check at boot has found, unless the page says the same below."""
    if status.last_check in {"", "ok"}:
        return
    if status.last_check not in _verdict_lines(status):
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
    yield from finding_lines(status.check.named("missing-rule", "unsafe"))
