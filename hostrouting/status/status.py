"""What a host answers about what is installed on it.

Each part of the host is asked on its own. A part that does not answer, and a config.json that
cannot be used, hide no other part.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Literal, NoReturn, TypeAlias, TypeVar, get_args

import attrs

from hostrouting.boot.on_disk import gated_on_disk
from hostrouting.check.repair_line import repair_line
from hostrouting.codes import BAD_INPUT, CANNOT_DECIDE, FINE, PROBLEM, worst_code
from hostrouting.config.settings import HostRoutingConfig, gated_units
from hostrouting.errors import HostRoutingError, is_denied
from hostrouting.finding import WRONG, Finding, worst_first
from hostrouting.gate.health import find_faults
from hostrouting.gate.unit_gates import APPLY
from hostrouting.gate.unit_states import State as StateOfUnit, UnitState, unit_states
from hostrouting.host.layout import HostLayout
from hostrouting.install.host_check import check_host
from hostrouting.install.installed import read_installed
from hostrouting.tasks.configure import Configure
from hostrouting.text import first_of

if TYPE_CHECKING:
    from hostrouting.host.host import Host
    from hostrouting.install.host_check import HostCheck
    from hostrouting.install.plan import Plan

T = TypeVar("T")
State: TypeAlias = Literal["nothing", "in force", "differs", "waiting"]
"""How a host is:

- nothing: nothing is installed.
- in force: what is installed is in force, and nothing is wrong.
- differs: an operator has to do something.
- waiting: something may still come or answer.
"""
_CODES: dict[StateOfUnit, int] = {
    "fails": PROBLEM,
    "masked": PROBLEM,
    "unknown": BAD_INPUT,
    "waiting": CANNOT_DECIDE,
    "no answer": CANNOT_DECIDE,
}
"""The exit codes of the states of units. The others are fine."""
_WORST_FIRST: tuple[StateOfUnit, ...] = get_args(StateOfUnit)


@attrs.frozen
class Status:
    """What the parts of a host have answered. A part that did not answer has its default."""

    config: HostRoutingConfig | None = None
    """What config.json says."""
    is_broken: bool = False
    """Whether config.json is missing or cannot be used, also by root."""
    plan: Plan | None = None
    """What apply would do with config.json."""
    check: HostCheck | None = None
    units: tuple[UnitState, ...] = ()
    """The gated units, the worst first; or the one that was asked about."""
    guard: UnitState | None = None
    asked: str = ""
    """The unit that was asked about; empty for all."""
    findings: tuple[Finding, ...] = ()
    """What is wrong, the worst first, and then notes."""

    @property
    def wrong(self) -> list[Finding]:
        """The findings that are not notes."""
        return [finding for finding in self.findings if finding.severity != "note"]

    @property
    def state(self) -> State:
        """How the host is."""
        if self.config == HostRoutingConfig():
            return "nothing"
        codes = {CANNOT_DECIDE if finding.can_retry else PROBLEM for finding in self.wrong}
        if PROBLEM in codes:
            return "differs"
        # A unit that fails is not counted: so does a kubelet that has not joined a cluster.
        if codes or any(unit.state == "waiting" for unit in self.units):
            return "waiting"
        return "in force"

    @property
    def code(self) -> int:
        """The exit code: that of the unit that was asked about, or else of the host."""
        if self.asked:
            return worst_code(*(_CODES.get(unit.state, FINE) for unit in self.units))
        if self.is_broken:
            return BAD_INPUT
        return {"differs": PROBLEM, "waiting": CANNOT_DECIDE}.get(self.state, FINE)

    @property
    def command(self) -> str:
        """What to type as root, so that the host is as config.json asks, and nothing escapes; empty
        if there is nothing to do, or the findings say what comes first.
        """
        plan = self.plan
        if plan is None or plan.routes.waiting:
            return ""
        if any(finding.name == "default-routes" for finding in self.findings):
            return ""  # a device has to be named first
        if any(finding.severity == "error" for finding in plan.obstacles):
            return ""  # every apply would fail
        report = plan.report
        if report is None and self.check is not None:
            report = self.check.report
        if report is not None and report.routes:
            return repair_line()
        return "" if plan.is_empty or plan.errors else APPLY.command

    @property
    def mode(self) -> str:
        """The mode of the check; empty if nothing is checked, or that is not known."""
        if self.config is None or not self.config.route_overlap.cidrs:
            return ""
        return self.config.route_overlap.mode

    def __bool__(self) -> NoReturn:
        raise TypeError("a status is always true; write `status.state`")


def find_status(host: Host, unit: str = "") -> Status:
    """Ask each part of the host; with `unit`, about no other gated unit. Nothing is changed."""
    answers = _Answers()
    config: HostRoutingConfig | None = None
    broken: tuple[Finding, ...] = ()
    try:
        config = read_installed(host)
    except HostRoutingError as error:
        if is_denied(error):  # nothing need be wrong with the file
            answers.lack(error)
        else:
            broken = error.findings
    on_disk = gated_on_disk(host.files)
    gated = {*on_disk, *gated_units(config or HostRoutingConfig())}
    units = answers.ask(lambda: _find_units(host, unit, gated)) or []
    if unit and not units:
        units = [UnitState(unit, "no answer")]
    status = Status(config, bool(broken), units=tuple(units), asked=unit)
    if config == HostRoutingConfig():
        return status
    guards = answers.ask(lambda: _find_units(host, HostLayout.guard_unit, ()))
    guard = guards[0] if guards else None
    if config is None:
        faults = answers.ask(lambda: find_faults(host, on_disk, broken))
        findings = worst_first([*answers.findings, *(faults or ())])
        return attrs.evolve(status, guard=guard, findings=findings)
    return _with_routing(attrs.evolve(status, guard=guard), config, host, answers)


def _with_routing(
    status: Status, config: HostRoutingConfig, host: Host, answers: _Answers
) -> Status:
    """The status with the plan and the check of this configuration, and all findings."""
    findings = [*(answers.ask(lambda: find_faults(host, gated_units(config))) or ())]
    plan = answers.ask(lambda: Configure(config, host=host).plan())
    if plan is not None:
        on_disk = gated_on_disk(host.files)  # a unit that a drop-in still gates is not ungated
        findings += [
            each
            for each in plan.findings
            if each.name != "unit-not-gated" or each.target not in on_disk
        ]
        findings += plan.routes.failed_waits
        findings += _differences(plan)
    check: HostCheck | None = None
    if config.route_overlap.cidrs:
        check = answers.ask(lambda: check_host(config, host))
    if check is not None:
        findings += check.named(*WRONG, "default-routes", "route-waits")
        findings += [doubt._replace(can_retry=True) for doubt in check.doubts]
    by_sentence: dict[str, Finding] = {}
    for finding in worst_first([*findings, *answers.findings]):
        by_sentence.setdefault(finding.sentence, finding)
    return attrs.evolve(status, plan=plan, check=check, findings=tuple(by_sentence.values()))


class _Answers:
    """Asks the parts of a host, and has why some did not answer."""

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


def _find_units(host: Host, asked: str, gated: Collection[str]) -> list[UnitState]:
    """The gated units, the worst first; or the unit that was asked about. None are known where
    systemd does not run.
    """
    manager = host.running_manager
    if manager is None:
        return []
    units = unit_states(manager, [asked] if asked else sorted(gated), gated)
    if asked and not units:  # a template
        return [UnitState(asked, "stopped")]
    return sorted(units, key=lambda unit: _WORST_FIRST.index(unit.state))


def _differences(plan: Plan) -> Iterator[Finding]:
    """What is on the host and not in config.json, or the other way round. Perhaps config.json was
    edited, so nothing is called wrong.
    """
    work = [step.line for step in plan.routes.changes]
    work += [f"write {path}" for path in plan.files.written_paths]
    work += [f"remove {path}" for path in plan.files.removes]
    work += map(str, (*plan.systemd, *plan.operations))
    if work:
        path = HostLayout.config_path
        sentence = f"this host is not as {path} asks; apply would {', '.join(first_of(work))}"
        yield Finding("route-differs", "error", sentence, path)
