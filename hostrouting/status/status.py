"""What a host answers about what is installed on it.

Each part of the host is asked on its own. A part that does not answer, and a config.json that
cannot be used, hide no other part.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar, get_args

import attrs

from hostrouting.boot.on_disk import gated_on_disk
from hostrouting.check.repair_line import repair_line
from hostrouting.codes import BAD_INPUT, CANNOT_DECIDE, FINE, PROBLEM, worst_code
from hostrouting.config.settings import HostRoutingConfig, gated_units
from hostrouting.errors import HostRoutingError, is_denied
from hostrouting.finding import Finding, Remedy, with_severity, worst_first
from hostrouting.gate.health import find_faults
from hostrouting.gate.unit_gates import APPLY
from hostrouting.gate.unit_states import State as StateOfUnit, UnitState, unit_states
from hostrouting.host.interpreter import TO_INSTALL
from hostrouting.host.layout import HostLayout
from hostrouting.install.host_check import check_host
from hostrouting.install.installed import read_installed
from hostrouting.node.fight import read_fight
from hostrouting.tasks.configure import Configure
from hostrouting.text import spoken

if TYPE_CHECKING:
    from hostrouting.check.results import CheckReport
    from hostrouting.host.base import Files
    from hostrouting.host.host import Host
    from hostrouting.install.host_check import HostCheck
    from hostrouting.install.plan import Plan

T = TypeVar("T")
HostState: TypeAlias = Literal["nothing", "in force", "differs", "waiting"]
"""The state of a host:

- nothing: nothing is installed.
- in force: what is installed is in force, and nothing is wrong.
- differs: an operator has to do something.
- waiting: something may still come or answer.
"""
_CODES: dict[StateOfUnit, int] = {
    "stuck": PROBLEM,
    "masked": PROBLEM,
    "fails": PROBLEM,
    "skipped": PROBLEM,
    "unknown": BAD_INPUT,
    "waiting": CANNOT_DECIDE,
    "queued": CANNOT_DECIDE,
    "no answer": CANNOT_DECIDE,
}
"""The exit codes of the states of units. The others are fine."""


@attrs.frozen
class HostStatus:
    """What the parts of a host have answered. A part that did not answer has its default."""

    config: HostRoutingConfig | None = None
    """What config.json says."""
    is_broken: bool = False
    """Whether config.json is missing or cannot be used, also by root."""
    plan: Plan | None = None
    """What apply would do with config.json."""
    check: HostCheck | None = None
    units: tuple[UnitState, ...] = ()
    """The gated units and the guard, if it is installed; the worst first."""
    asked: tuple[UnitState, ...] = ()
    """The unit that was asked about, or the instances of a template, the worst first."""
    findings: tuple[Finding, ...] = ()
    """What is wrong, the worst first, and then notes."""
    command: str = ""
    """What to type as root, so that the host is as config.json asks, and nothing escapes; empty if
    there is nothing to do, or the findings say what comes first.
    """

    @property
    def wrong(self) -> list[Finding]:
        """The findings that are not notes."""
        return [finding for finding in self.findings if finding.severity != "note"]

    @property
    def state(self) -> HostState:
        """The state of the host; "waiting" if all that is wrong may end without an operator."""
        if self.config == HostRoutingConfig():
            return "nothing"
        codes = {CANNOT_DECIDE if finding.can_retry else PROBLEM for finding in self.wrong}
        if PROBLEM in codes:
            return "differs"
        return "waiting" if codes else "in force"

    @property
    def code(self) -> int:
        """The exit code: that of the unit that was asked about, or else of the host."""
        if self.asked:
            return worst_code(*(_CODES.get(unit.state, FINE) for unit in self.asked))
        if self.is_broken:
            return BAD_INPUT
        return {"differs": PROBLEM, "waiting": CANNOT_DECIDE}.get(self.state, FINE)

    @property
    def mode(self) -> str:
        """The mode of the check; empty if nothing is checked, or that is not known."""
        if self.config is None or not self.config.route_overlap.cidrs:
            return ""
        return self.config.route_overlap.mode


def find_status(host: Host, unit: str = "") -> HostStatus:
    """Ask each part of the host, and this unit. Nothing is changed."""
    answers = _Answers()
    config: HostRoutingConfig | None = None
    file_faults: tuple[Finding, ...] = ()
    try:
        config = read_installed(host)  # an empty configuration if nothing is installed
    except HostRoutingError as error:
        if is_denied(error):  # nothing need be wrong with the file
            answers.lack(error)
        else:
            file_faults = error.findings
    # A drop-in that config.json does not name any more still gates its unit.
    on_disk = gated_on_disk(host.files)
    gated = {*on_disk, *gated_units(config or HostRoutingConfig())}
    asked: Sequence[UnitState] = ()
    if unit:
        asked = answers.ask(lambda: _find_units(host, [unit], gated)) or [
            UnitState(unit, "no answer")
        ]
    guard = HostLayout.guard_unit
    units = answers.ask(lambda: _find_units(host, [*sorted(gated), guard], gated)) or ()
    # The guard is optional, so systemd need not know it.
    units = [unit for unit in units if (unit.unit, unit.state) != (guard, "unknown")]
    status = HostStatus(config, bool(file_faults), units=tuple(units), asked=tuple(asked))
    if config == HostRoutingConfig():  # nothing is installed
        return status
    if config is None:
        faults = answers.ask(lambda: find_faults(host, on_disk, file_faults)) or ()
        # Without a usable config.json, an apply of that file would fail.
        findings = [_without(APPLY, finding) for finding in faults]
        findings += [*_trouble_with(units), *answers.findings]
        return attrs.evolve(status, findings=worst_first(findings))
    return _with_routing(status, config, host, answers)


def _with_routing(
    status: HostStatus, config: HostRoutingConfig, host: Host, answers: _Answers
) -> HostStatus:
    """The status with the plan and the check of this configuration, all findings, and what to
    type.
    """
    findings = [*(answers.ask(lambda: find_faults(host, gated_units(config))) or ())]
    # Others may have written what apply would carry out.
    is_suspect = any(finding.target == HostLayout.config_path for finding in findings)
    check: HostCheck | None = None
    checked: list[Finding] = []
    if config.route_overlap.cidrs:
        check = answers.ask(lambda: check_host(config, host))
    if check is not None:
        for finding in check.findings:
            if finding.severity != "note":
                # A doubt, too, makes the host "waiting", and not "differs".
                may_end = finding.can_retry or finding in check.doubts
                checked.append(finding._replace(can_retry=may_end))
    # Only an operator knows which default route is meant. Until its device is named, nothing can be
    # repaired.
    unnamed = [finding for finding in checked if finding.name == "default-routes"]
    findings += with_severity("error", unnamed)
    findings += checked  # what escapes comes before what may explain it
    findings += _trouble_with(status.units)
    plan = answers.ask(lambda: Configure(config, host=host).plan())
    if plan is not None:
        findings += _findings_of(plan, host.files)
    fight = answers.ask(lambda: read_fight(host.files))
    running = {unit.unit for unit in status.units if unit.state == "runs"}
    if fight is not None and fight.target in running:  # a guard that was killed leaves its file
        findings.append(fight)
    findings += answers.findings
    command = "" if unnamed or is_suspect else _what_to_type(plan, check)
    if plan is not None and command:
        unwritable = _find_unwritable(host.files, plan, command)
        if unwritable is not None:
            findings.append(unwritable)
            command = ""
    # Nobody has to install another Python if the command is apply, which also looks for one. If the
    # command is not apply, no finding proposes apply either.
    of_no_use = TO_INSTALL if command == APPLY.command else APPLY
    findings = [_without(of_no_use, finding) for finding in findings]
    # Two parts may have said the same: the worse one counts.
    by_sentence: dict[str, Finding] = {}
    for finding in worst_first(findings):
        by_sentence.setdefault(finding.sentence, finding)
    return attrs.evolve(
        status, plan=plan, check=check, findings=tuple(by_sentence.values()), command=command
    )


def _findings_of(plan: Plan, files: Files) -> Iterator[Finding]:
    """Yield the findings of the plan, what its routes would wait for, and a finding if anything
    would be changed.
    """
    on_disk = gated_on_disk(files)
    for finding in plan.findings:
        # A unit with a drop-in of ours is still gated, although config.json does not name it.
        if finding.name != "unit-not-gated" or finding.target not in on_disk:
            yield finding
    yield from plan.routes.failed_waits
    yield from _differences(plan)


def _without(remedy: Remedy, finding: Finding) -> Finding:
    return finding._replace(remedy=None) if finding.remedy == remedy else finding


def _what_to_type(plan: Plan | None, check: HostCheck | None) -> str:
    """Return the command of `HostStatus`: apply, or a repair if addresses would escape after apply.
    Empty if nothing is to be done, or if no command makes everything right: `apply` fails while a
    route waits, and a repair if its routes are not all that is needed.
    """
    if plan is None or plan.routes.waiting:
        return ""
    report = plan.report
    if report is None and check is not None:  # with a conflict, a plan has no report
        report = check.report
    if report is not None and report.routes:  # those of a repair
        return repair_line() if _is_repaired_by_routes(report, plan) else ""
    return "" if plan.is_empty or plan.failures else APPLY.command


def _is_repaired_by_routes(report: CheckReport, plan: Plan) -> bool:
    """Whether the routes of the repair make everything right: they repair all that escapes, no
    default route is missing, and nothing fails but conflicts of routes. Our routes that conflict
    with another program's are those that the repair replaces.
    """
    if report.missing_defaults or any(family.repair.unrepairable for family in report.families):
        return False
    return all(finding.name == "route-conflict" for finding in plan.errors)


def _find_unwritable(files: Files, plan: Plan, command: str) -> Finding | None:
    """A finding if this command has to write files, and cannot. A repair writes config.json."""
    folder = HostLayout.config_directory
    has_to_write = plan.files or command == repair_line()
    if not has_to_write or files.is_writable(folder):
        return None
    return Finding(
        "file",
        "error",
        f"{folder} is on a read-only file system, so apply would fail",
        folder,
        Remedy("mount it writable (dmesg may say why it is not)"),
    )


def _trouble_with(units: Iterable[UnitState]) -> Iterator[Finding]:
    """Yield a warning for each unit that waits, is stuck or is masked. A unit that fails and is
    started again, or is skipped, has none: a kubelet may do so until it joins a cluster.
    """
    for unit in units:
        if unit.state in {"stuck", "masked", "waiting", "queued"}:
            yield Finding(
                "unit", "warning", unit.sentence, unit.unit, unit.remedy,
                can_retry=_CODES[unit.state] == CANNOT_DECIDE,  # so the state ends by itself
            )  # fmt: skip


class _Answers:
    """Asks the parts of a host, and keeps the reasons why some did not answer."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []

    def ask(self, ask: Callable[[], T]) -> T | None:
        """What a part of the host answers; None if it does not."""
        try:
            return ask()
        except HostRoutingError as error:
            self.lack(error)
            return None

    def lack(self, error: HostRoutingError) -> None:
        """A part did not answer: a warning, because what is known to be wrong is worse."""
        for finding in error.findings:
            self.findings.append(finding._replace(severity="warning", can_retry=True))


def _find_units(host: Host, names: Sequence[str], gated: Collection[str]) -> list[UnitState]:
    """These units, the worst first; none are known where systemd does not run."""
    manager = host.running_manager
    if manager is None:
        return []
    units = unit_states(manager, names, gated)
    if len(names) == 1 and not units:  # a template of which nothing is loaded
        return [UnitState(names[0], "stopped")]
    order = get_args(StateOfUnit)  # the worst first
    return sorted(units, key=lambda unit: order.index(unit.state))


def _differences(plan: Plan) -> Iterator[Finding]:
    """Yield a warning if apply would change anything, with the first two changes: the page has
    each. Either the host or config.json may have changed, so the sentence says both.
    """
    changes = [f"{step.route.prefix} ({step.reason})" for step in plan.routes.changes]
    changes += [*plan.files.written_paths, *plan.files.removes]
    changes += [f"{each.verb} {each.object}" for each in (*plan.operations, *plan.systemd)]
    if not changes:
        return
    path = HostLayout.config_path
    sentence = f"{path} is not applied yet, or no longer in force: {spoken(changes, most=2)}"
    # Not an error, because an address that escapes is worse.
    yield Finding("route-differs", "warning", sentence, path)
