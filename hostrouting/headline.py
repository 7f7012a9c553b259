"""A status in one sentence: the headline, which says what is worst, and what ends it.

`status`, `apply` and `plan` share this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostrouting.codes import FINE
from hostrouting.config.settings import HostRoutingConfig, gated_units
from hostrouting.finding import ESCAPES, Finding, Name
from hostrouting.gate.unit_states import refused_units
from hostrouting.host.layout import HostLayout
from hostrouting.status import MEANINGS, NO_MATCH, Status
from hostrouting.text import agreeing, counted, spoken

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hostrouting.check.results import CheckReport

_GUARD_PATH = HostLayout.unit_path(HostLayout.guard_unit)
_WRONG: dict[Name, str] = {
    "gate-open": "{gated} can start unchecked",
    "gate-shut": "{gated} cannot start",
    "route-stays": "{gated} cannot start after the next boot",
    "unit-not-gated": "a unit that runs pods is not gated",
    "route-not-configured": "addresses escape after the next boot",
    **dict.fromkeys(ESCAPES, "addresses escape"),
}
"""What is wrong, by the name of a finding."""


def headline_of(status: Status) -> str:
    """How this host compares with its configuration, what is worst first."""
    headline = MEANINGS[status.state].headline
    if status.state in {"different", "failing"}:
        return headline + ", and ".join(_differences(status))
    if status.state == "installed" and status.code != FINE:
        matches = f"this host matches {HostLayout.config_path}, but see below"
        return f"ATTENTION: {what_is_wrong_now(status) or matches}"
    cause = cause_of(status)
    if cause is None:
        return headline
    if status.state == "waiting":
        return f"{headline}{_gated_by(status.known_config)} cannot start: {cause.sentence}"
    return headline + cause.sentence


def _differences(status: Status) -> Iterator[str]:
    """What is wrong where the host does not match."""
    if status.state == "different":
        wrong = what_is_wrong(status.faults, status.known_config)
        if wrong:
            yield wrong
    parts = spoken([*_differing_parts(status)])
    if status.report is None or not status.report.escapes:
        yield parts or NO_MATCH
    elif parts:
        yield f"addresses escape: {parts}"
    else:
        yield "addresses escape"
    # The parts have said that the guard is masked, and the command below unmasks it.
    is_said = status.guard == "is masked" and status.command != ""
    if status.state == "failing" and not is_said:
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


def what_is_wrong_now(status: Status) -> str:
    """What is wrong although the host matches, and which units were refused because of it. Empty if
    the page has no sentence for it.
    """
    wrong = what_is_wrong(_all_findings(status), status.known_config, status.report)
    shutting = status.shutting[0].sentence if status.shutting else ""
    refused = refused_units(status.units)
    if not refused:
        return wrong or shutting
    sentence = f"{spoken(refused)} {agreeing('was refused', len(refused))}"
    if status.to_start:
        them = "it" if len(refused) == 1 else "them"
        held = f"nothing is known to hold {them} back now"
        if status.foreign_scripts:
            held = f"only {spoken(status.foreign_scripts)} may hold {them} back now"
        return wrong or f"{sentence}, and {held}"
    cause = shutting or wrong
    return f"{sentence}: {cause}" if cause else sentence


def cause_of(status: Status) -> Finding | None:
    """The finding whose sentence ends the headline."""
    if status.state == "failing":  # so the plan has errors
        return status.plan.errors[0]
    for finding in _all_findings(status):
        if finding.name == MEANINGS[status.state].cause:
            return finding
    return None


def _all_findings(status: Status) -> tuple[Finding, ...]:
    """The findings, first those of the check: it says when routes are deleted, and the others only
    that apply would delete them.
    """
    if status.check is None:
        return status.findings
    return (*status.check.findings, *status.findings)


def what_is_wrong(
    findings: Iterable[Finding], config: HostRoutingConfig, report: CheckReport | None = None
) -> str:
    """What is wrong by these findings and this check; empty if no sentence fits."""
    findings = tuple(findings)
    names = {finding.name for finding in findings}
    gated = _gated_by(config)
    subjects = _subjects_beside_each_other(findings, config)
    wrong: dict[str, None] = {}  # in order, each once
    if report is not None and report.verdict == "undecided":
        wrong["the verdict is undecided (units still start)"] = None
    for name, words in _WRONG.items():
        if name in names:
            wrong[words.format(gated=subjects.get(name, gated))] = None
    if report is not None:
        wrong |= dict.fromkeys(report.missing_defaults)
    return spoken([*wrong])


def _subjects_beside_each_other(
    findings: Iterable[Finding], config: HostRoutingConfig
) -> dict[Name, str]:
    """By the name of a finding: which units are meant, if some can start unchecked, and the others
    cannot start.
    """
    names = {finding.name for finding in findings}
    if not {"gate-open", "gate-shut"} <= names:
        return {}
    # What opens the gates of all units, and is no unit, does not stand beside "gate-shut": a gate
    # that holds nothing is not shut (`gate.health`).
    opened = {finding.target for finding in findings if finding.name == "gate-open"}
    others = [unit for unit in gated_units(config) if unit not in opened]
    shut = others[0] if len(others) == 1 else "the other units"
    return {"gate-open": spoken(sorted(opened)), "gate-shut": shut}


def _gated_by(config: HostRoutingConfig) -> str:
    """The unit that this configuration gates, for a sentence; several have no name."""
    units = gated_units(config)
    return units[0] if len(units) == 1 else "units"
