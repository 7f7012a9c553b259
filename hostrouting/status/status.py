"""What a host answers about what is installed on it.

Each part of the host is asked on its own. A part that does not answer hides no other part. Without
a usable config.json, nobody knows which routes and which verdict the host should have.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar, get_args

import attrs

from hostrouting.boot.on_disk import gated_on_disk
from hostrouting.check.repair_line import repair_line
from hostrouting.check.sentences import DOUBTS
from hostrouting.codes import BAD_INPUT, CANNOT_DECIDE, FINE, PROBLEM
from hostrouting.config.settings import HostRoutingConfig, gated_units
from hostrouting.errors import HostRoutingError, is_denied
from hostrouting.finding import Finding, Remedy, with_severity, worst_first
from hostrouting.gate.health import find_faults
from hostrouting.gate.unit_names import unused_instance
from hostrouting.gate.unit_states import State as StateOfUnit, UnitState, unit_states
from hostrouting.host.layout import HostLayout
from hostrouting.install.host_check import check_host
from hostrouting.install.installed import read_installed
from hostrouting.node.fight import read_fight
from hostrouting.release import our_command
from hostrouting.routes.plan import plan_static_routes
from hostrouting.tasks.configure import Configure
from hostrouting.text import counted

if TYPE_CHECKING:
    from hostrouting.check.results import CheckReport
    from hostrouting.host.base import Files
    from hostrouting.host.host import Host
    from hostrouting.install.host_check import HostCheck
    from hostrouting.install.plan import Plan

T = TypeVar("T")
APPLY = our_command(f"apply --config {HostLayout.config_path}")
"""The command that makes the host as the installed configuration asks."""
HostState: TypeAlias = Literal["nothing", "in force", "differs", "undecided", "waiting"]
"""The state of a host:

- nothing: nothing is installed.
- in force: what is installed is in force, and nothing is wrong.
- differs: an operator has to do something.
- undecided: the check cannot know whether addresses escape.
- waiting: something may still come or answer.
"""
_CODES: dict[StateOfUnit | HostState, int] = {
    "differs": PROBLEM,
    "undecided": CANNOT_DECIDE,
    "stuck": PROBLEM,
    "masked": PROBLEM,
    "fails": PROBLEM,
    "skipped": PROBLEM,
    "unknown": BAD_INPUT,
    "waiting": CANNOT_DECIDE,
    "queued": CANNOT_DECIDE,
    "no answer": CANNOT_DECIDE,
}
"""The exit codes of the states of a host and of units. The others are fine."""


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
        """The state of the host. If an operator has to act, it "differs". Otherwise, all that is
        wrong may end by itself: it is "undecided" if the worst finding is a doubt of the check, and
        else "waiting".
        """
        if self.config == HostRoutingConfig():
            return "nothing"
        wrong = self.wrong
        if not wrong:
            return "in force"
        if not all(finding.can_retry for finding in wrong):
            return "differs"
        return "undecided" if wrong[0].name in DOUBTS else "waiting"

    @property
    def code(self) -> int:
        """The exit code of `hostrouting status`: it is about the unit that was asked about, or else
        about the host. `is_broken` says that config.json cannot be used.
        """
        if self.asked:  # the first is the worst, and so is its code
            return _CODES.get(self.asked[0].state, FINE)
        if self.is_broken:
            return BAD_INPUT
        return _CODES.get(self.state, FINE)

    @property
    def mode(self) -> str:
        """The mode of the check, STRICT or WARN; empty if config.json names nothing to check, or is
        not known.
        """
        if self.config is not None and self.config.route_overlap.cidrs:
            return self.config.route_overlap.mode
        return ""


def find_status(host: Host, unit: str = "") -> HostStatus:
    """Find out whether what is installed on the host is in force, for `hostrouting status`; nothing
    is changed. If a part of the host does not answer, the status has the reason, and what the other
    parts say. `unit` is the unit, or the template, that the operator asks about; empty for none.
    """
    answers = _Answers()  # asks the parts, and keeps their errors
    config: HostRoutingConfig | None = None  # stays None if config.json cannot be read or used
    file_faults: tuple[Finding, ...] = ()  # what is wrong with config.json
    try:
        config = read_installed(host)  # an empty configuration if nothing is installed
    except HostRoutingError as error:
        if is_denied(error):  # this user may not read config.json, which may be all right
            answers.note_no_answer(error)
        else:
            file_faults = error.findings
    # A unit is gated if config.json names it, or while it has our drop-in, which makes systemd call
    # the gate before a start.
    with_drop_in = gated_on_disk(host.files)
    gated = {*with_drop_in, *gated_units(config or HostRoutingConfig())}
    asked: Sequence[UnitState] = ()
    if unit:  # it has a line on the page, even if systemd says nothing about it
        asked = answers.ask(lambda: _find_units(host, [unit], gated)) or [
            UnitState(unit, "no answer")
        ]
    guard = HostLayout.guard_unit
    units = answers.ask(lambda: _find_units(host, [*sorted(gated), guard], gated)) or ()
    # The guard, a service that keeps routes right, is optional: if systemd does not know it, it is
    # left out.
    units = [unit for unit in units if (unit.unit, unit.state) != (guard, "unknown")]
    status = HostStatus(config, is_broken=bool(file_faults), units=tuple(units), asked=tuple(asked))
    if config == HostRoutingConfig():  # nothing is installed, so nothing can be wrong
        return status
    if config is None:  # nobody knows which routes are wanted: look only at the gate and the units
        faults = answers.ask(lambda: find_faults(host, with_drop_in, file_faults)) or ()
        findings = worst_first([*faults, *_findings_of_units(units), *answers.findings])
        return attrs.evolve(status, findings=findings)
    return _with_routing(status, config, host, answers)


def _with_routing(
    status: HostStatus, config: HostRoutingConfig, host: Host, answers: _Answers
) -> HostStatus:
    """Complete the status of a host whose config.json can be used: add what apply would do, the
    check, all findings, and the command to type. `answers` asks the parts of the host, and has the
    errors of those that did not answer.
    """
    findings = [*(answers.ask(lambda: find_faults(host, gated_units(config))) or ())]
    # A finding about config.json says that others may have written it. Then no command is proposed
    # that would apply it.
    is_config_suspect = any(finding.target == HostLayout.config_path for finding in findings)
    check = answers.ask(lambda: check_host(config, host)) if config.route_overlap.cidrs else None
    plan = answers.ask(lambda: Configure(config, host=host).plan())
    check_findings = [] if check is None else [*_findings_of_check(check, plan)]
    # What only an operator knows: which of several default routes is meant; or, if apply would move
    # a working route of ours to another device, which device is right. Until config.json names the
    # device, these findings are errors, and no command is proposed.
    choices_of_operator = [
        finding
        for finding in check_findings
        if finding.name == "default-routes" and finding.severity != "note"
    ]
    findings += with_severity("error", choices_of_operator)
    # Findings of one severity stay in the order in which they are added. So an escape comes before
    # the findings added below, which may explain it.
    findings += check_findings
    if plan and plan.routes.changes and not choices_of_operator:
        choices_of_operator = answers.ask(lambda: _find_moves(config, host, plan)) or []
        findings += with_severity("error", choices_of_operator)
    # A fight: another program takes away, again and again, what our guard puts back. The guard says
    # so in a file. The file stays if the guard is killed, so it counts only while the guard runs.
    fight = answers.ask(lambda: read_fight(host.files))
    running = {unit.unit for unit in status.units if unit.state == "runs"}
    if fight and fight.target in running:
        findings.append(fight)
    findings += _findings_of_units(status.units)
    if plan:
        # Not by `answers`: this lists the drop-ins, as `host_status` has done before without error.
        findings += _findings_of_plan(plan, host.files)
    findings += answers.findings
    command = "" if choices_of_operator or is_config_suspect else _what_to_type(plan, check)
    if plan and command:
        unwritable = _find_unwritable(host.files, plan, command)
        if unwritable:
            findings.append(unwritable)
            command = ""
    # If a sentence is in several findings, only the worst of these is kept. For example, a choice
    # of the operator may be among `check_findings`, too, as a warning.
    by_sentence: dict[str, Finding] = {}
    for finding in worst_first(findings):
        by_sentence.setdefault(finding.sentence, finding)
    return attrs.evolve(
        status, plan=plan, check=check, findings=tuple(by_sentence.values()), command=command
    )


def _find_moves(config: HostRoutingConfig, host: Host, plan: Plan) -> list[Finding]:
    """The warnings about working routes of ours that apply would move to another device. The gate
    and the guard may not move a route: their plan warns that it stays. The plan of apply, `plan`,
    does not have this warning.
    """
    without_moves = plan_static_routes(config, host.take_snapshot(), may_move=False)
    return [warning for warning in without_moves.warnings if warning not in plan.routes.warnings]


def _findings_of_check(check: HostCheck, plan: Plan | None) -> Iterator[Finding]:
    """Yield what the check has found, without its notes. But while all is right, several default
    routes are harmless, and the finding about them is yielded as a note. All is right if no address
    escapes or is in doubt, and apply would change no route: so it would move none to another NIC.
    """
    is_right = check.report.verdict == "ok" and not (plan and plan.routes.changes)
    for finding in check.findings:
        if finding.name == "default-routes" and is_right:
            yield finding._replace(severity="note")
        elif finding.severity != "note":
            # A doubt may end by itself, as what can be retried may. `HostStatus.state` needs that.
            may_end = finding.can_retry or finding in check.doubts
            yield finding._replace(can_retry=may_end)


def _findings_of_plan(plan: Plan, files: Files) -> Iterator[Finding]:
    """Yield what the plan of an apply says about the host: its findings, an error for each thing
    that a route waits for, and a warning if apply would change anything.
    """
    on_disk = gated_on_disk(files)
    for finding in plan.findings:
        # While our drop-in is on disk, the unit is gated, although config.json does not name it.
        if finding.name != "unit-not-gated" or finding.target not in on_disk:
            yield finding
    yield from with_severity("error", plan.routes.wait_warnings)
    # Either config.json or the host may have changed, so the sentence names both. For a downgrade,
    # `plan.findings` has a finding "route-differs" already.
    if plan.work and not plan.is_downgrade:
        sentence = (
            f"{HostLayout.config_path} is not applied yet, or no longer in force: apply would make "
            f"{counted(len(plan.work), 'change')}, first: {plan.work[0]}"
        )
        # Only a warning, because an address that escapes is worse.
        yield Finding("route-differs", "warning", sentence, HostLayout.config_path)


def _what_to_type(plan: Plan | None, check: HostCheck | None) -> str:
    """Return the command that makes the host right: apply, or a repair if addresses would escape
    even after apply. Empty if there is nothing to do, if neither makes everything right, or if
    apply would replace a newer release.
    """
    # While a route waits, apply fails.
    if plan is None or plan.routes.waiting or plan.is_downgrade:
        return ""
    report = plan.report  # the check of the host as apply would leave it
    # If our routes conflict with another program's, apply fails, and its plan has no report. Then
    # a repair may help the host as it is now.
    if report is None and check is not None:
        report = check.report
    if report and report.routes:  # the routes that a repair would add
        return repair_line() if _is_repaired_by_routes(report, plan) else ""
    # No command for an apply that would change nothing, or would fail.
    return "" if plan.is_empty or plan.failures else APPLY


def _is_repaired_by_routes(report: CheckReport, plan: Plan) -> bool:
    """Whether the routes of a repair make everything right: then no address escapes, no default
    route is missing, and `plan`, of apply, has no errors. Conflicts of our routes with another
    program's do not count: a repair ends them, because it replaces our routes.
    """
    if report.missing_defaults or any(family.repair.unrepairable for family in report.families):
        return False
    return all(finding.name == "route-conflict" for finding in plan.errors)


def _find_unwritable(files: Files, plan: Plan, command: str) -> Finding | None:
    """An error if the proposed command has to write files, but their file system is read-only. A
    repair always writes config.json.
    """
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


def _findings_of_units(units: Iterable[UnitState]) -> Iterator[Finding]:
    """Yield a finding for each unit in trouble: a warning if the unit waits, or if its gate has
    refused it; an error if systemd does not start the unit, because it is masked or has failed for
    good ("stuck"). A unit that fails for another reason, and that systemd starts again, is not in
    trouble: a kubelet may fail until it joins a cluster.
    """
    for unit in units:
        # `reasons` are why the gate refused the unit. Only a unit that has failed has some.
        if unit.state in {"stuck", "masked", "waiting", "queued"} or unit.reasons:
            may_end = unit.state not in {"stuck", "masked"}  # by itself
            yield Finding(
                "unit", "warning" if may_end else "error", unit.sentence, unit.unit, unit.remedy,
                can_retry=may_end,
            )  # fmt: skip


class _Answers:
    """Asks the parts of a host, and keeps in `findings` why some of them did not answer."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []

    def ask(self, question: Callable[[], T]) -> T | None:
        """Call a function that asks a part of the host, and return its result. If it raises an
        error, keep the reasons in `findings`, and return None.
        """
        try:
            return question()
        except HostRoutingError as error:
            self.note_no_answer(error)
            return None

    def note_no_answer(self, error: HostRoutingError) -> None:
        """Keep the reasons why a part of the host did not answer. They are only warnings, because
        what is known to be wrong is worse, and the part may answer later (`can_retry`).
        """
        self.findings += [
            finding._replace(severity="warning", can_retry=True) for finding in error.findings
        ]


def _find_units(host: Host, names: Sequence[str], gated: Collection[str]) -> list[UnitState]:
    """The states of these units, the worst first; empty where systemd does not run. `gated` are all
    units that have a gate. Any other unit that systemd knows, except the guard, is "not gated".
    """
    manager = host.running_manager
    if manager is None:
        return []
    units = unit_states(manager, names, gated)
    # The operator has asked about a template without a loaded instance, or a pattern that matches
    # no unit. systemd shows nothing of a template, so ask about an instance that nobody uses.
    if not units:
        shown = unit_states(manager, [unused_instance(names[0])], gated)
        return [UnitState(names[0], shown[0].state if shown else "unknown")]
    order = get_args(StateOfUnit)  # the worst first
    return sorted(units, key=lambda unit: order.index(unit.state))
