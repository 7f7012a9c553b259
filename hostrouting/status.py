"""How a host compares with what is installed on it: the answer to "why does it not start, what is
installed, and what is to be typed?".

Each part of the host is asked on its own. A part that does not answer, and a config.json that
cannot be used, hide no other part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import attrs

from hostrouting.boot.files import WRITER
from hostrouting.boot.on_disk import gated_on_disk, writer_of
from hostrouting.codes import BAD_INPUT, PROBLEM, code_of, worst_code
from hostrouting.config.settings import HostRoutingConfig, gated_units
from hostrouting.errors import HostRoutingError, is_denied
from hostrouting.finding import Finding, Name, worst_first
from hostrouting.gate.health import (
    find_faults,
    find_faults_without_config,
    note_of_writer,
)
from hostrouting.gate.trusted import foreign_scripts
from hostrouting.gate.unit_gates import APPLY
from hostrouting.gate.unit_names import plain_instance, template_of
from hostrouting.gate.unit_states import UnitState, refused_units, unit_states
from hostrouting.host.fileset import FileChanges
from hostrouting.host.layout import HostLayout
from hostrouting.install.host_check import HostCheck, check_host
from hostrouting.install.installed import configured_keys, read_installed
from hostrouting.install.plan import Plan
from hostrouting.install.typed_commands import repair_pipeline, with_gate_command
from hostrouting.tasks.configure import Configure
from hostrouting.text import command_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hostrouting.check.results import CheckReport
    from hostrouting.config.settings import Mode
    from hostrouting.host.host import Host
    from hostrouting.routes.steps import Step

State: TypeAlias = Literal[
    "nothing", "broken", "unanswered", "conflict", "failing", "escaping",
    "different", "waiting", "installed",
]  # fmt: skip
"""How the host compares with the installed configuration; MEANINGS says what each means."""


class Meaning(NamedTuple):
    """What a state means for an operator."""

    headline: str
    """The first line of the page, or how it begins."""
    cause: Name | None = None
    """The finding whose sentence ends the headline."""
    purpose: str = ""
    """What the command of the status is for."""
    may_apply: bool = True
    """Whether it is possible, and does no harm, to apply the installed configuration."""
    plan_first: bool = False
    """Whether the page says how to see first what the repair would change."""


_PATH = HostLayout.config_path
NO_MATCH = f"this host does not match {_PATH}"
IN_THE_WAY = "a route that is not hostrouting's is in the way, so apply would fail"
_TO_MATCH = "to make it match"
MEANINGS: dict[State, Meaning] = {
    "nothing": Meaning("NOTHING: hostrouting has nothing installed on this host"),
    # config.json cannot be used.
    "broken": Meaning("BROKEN: ", "file", may_apply=False, plan_first=True),
    "unanswered": Meaning(f"NO ANSWER: whether this host matches {_PATH} is not known; see below"),
    "conflict": Meaning(
        f"CONFLICT: {IN_THE_WAY}", purpose="to go around it", may_apply=False, plan_first=True
    ),
    # apply would fail for another reason, such as a unit that is masked.
    "failing": Meaning("DIFFERENT: ", purpose=_TO_MATCH, may_apply=False),
    "escaping": Meaning(
        f"DIFFERENT: {NO_MATCH}, and addresses would escape after apply",
        purpose="to repair that, too",
        may_apply=False,
        plan_first=True,
    ),
    # apply makes it match, and nothing escapes then.
    "different": Meaning("DIFFERENT: ", purpose=_TO_MATCH),
    "waiting": Meaning("NOT READY: ", "route-waits"),
    "installed": Meaning(
        f"INSTALLED: this host matches {_PATH}", purpose="to start what was refused"
    ),
}
Guard: TypeAlias = Literal[
    "", "is not enabled", "runs", "does not run", "has failed", "is masked", "is being restarted"
]
"""How the guard is, as what follows its name."""
Asked: TypeAlias = Literal["", "unknown", "guard", "not-gated", "gated-by-drop-in", "not-loaded"]
"""What the unit is that was asked about, where its state does not say it: no unit that systemd
knows; the guard; not gated; gated by its drop-in, and not by config.json; an instance of a gated
template that systemd has not loaded.
"""


@attrs.frozen
class Status:
    """What the host has answered. A field without an answer has its default."""

    state: State = "nothing"
    unit: str | None = None
    """The unit that was asked about; None for all."""
    config: HostRoutingConfig | None = None
    """What config.json says, if that is known."""
    foreign_scripts: tuple[str, ...] = ()
    """The scripts in gate.d, which are other programs'."""
    plan: Plan = attrs.field(factory=Plan)
    """What apply would do with config.json."""
    check: HostCheck | None = None
    faults: tuple[Finding, ...] = ()
    """What is wrong with the gate."""
    units: tuple[UnitState, ...] = ()
    """The gated units, or the one that was asked about."""
    asked: Asked = ""
    """What there is to say about the unit that was asked about, whatever its state."""
    guard: Guard = ""
    """Empty if systemd does not run here, or nothing is installed."""
    guard_errors: tuple[str, ...] = ()
    """What a guard that has failed, or should have set routes, has logged as errors."""
    last_check: str = ""
    """What the gate, the guard or apply has found last; empty if nothing was checked since the
    boot.
    """
    unanswered: tuple[HostRoutingError, ...] = ()
    """Why parts of the host did not answer."""

    @property
    def known_config(self) -> HostRoutingConfig:
        """What config.json says; nothing is configured where that is not known."""
        return self.config or HostRoutingConfig()

    @property
    def report(self) -> CheckReport | None:
        """The verdicts of the check."""
        return None if self.check is None else self.check.report

    @property
    def unset_routes(self) -> int:
        """How many static routes are missing that a guard that runs should have set: none waits or
        conflicts.
        """
        routes = self.plan.routes
        if self.guard != "runs" or routes.waiting or routes.conflicts:
            return 0
        configured = configured_keys(self.config)
        return len([step for step in self.missing_routes if step.route.key in configured])

    @property
    def missing_routes(self) -> tuple[Step, ...]:
        """The steps of apply that add a route."""
        return tuple(step for step in self.plan.routes.changes if step.action == "add")

    @property
    def mode(self) -> Mode | Literal[""]:
        """The mode of the check; empty if nothing is checked, or that is not known."""
        check = self.known_config.route_overlap
        return check.mode if check.cidrs else ""

    @property
    def command(self) -> str:
        """What to type as root, so that the host matches and nothing escapes; empty if that is not
        one command, or nothing is to be done.
        """
        if self.state == "conflict":
            has_repair = self.report is not None and self.report.routes
            return repair_pipeline() if has_repair else ""
        if self.state == "escaping":
            return repair_pipeline()
        if self.state == "failing":
            return self._command_before_apply()
        if self.to_start:
            return command_of("systemctl start", *self.to_start)
        return APPLY.command if self.state == "different" else ""

    def _command_before_apply(self) -> str:
        """What to type first where commands end all that apply would fail of, and then apply."""
        commands: dict[str, None] = {}  # in order, each once
        for error in self.plan.errors:
            remedy = error.remedy
            if remedy is None or remedy.words or remedy.otherwise is not None:
                return ""
            commands[remedy.command] = None
        last = APPLY.command
        if self.plan.report is not None and self.plan.report.routes:
            last = repair_pipeline()
        return " && ".join([*commands, last])

    @property
    def to_start(self) -> tuple[str, ...]:
        """The units that were refused, although nothing is known any more that holds them back."""
        if self.state != "installed" or self.shutting:
            return ()
        # In WARN, the gate lets them start even then.
        if self.check is not None and self.check.is_wrong and self.mode == "STRICT":
            return ()
        return refused_units(self.units)

    @property
    def may_apply(self) -> bool:
        """Whether it is possible, and does no harm, to apply the installed configuration."""
        return MEANINGS[self.state].may_apply

    @property
    def shutting(self) -> tuple[Finding, ...]:
        """Why the gate refuses each start, whatever the routes are."""
        return tuple(fault for fault in self.faults if fault.name == "gate-shut")

    @property
    def code(self) -> int:
        """The exit code: the worst of what differs, of the verdict, and of what did not answer; but
        that of a config.json that cannot be used comes before all of them.
        """
        if self.state == "broken":
            return BAD_INPUT
        codes = [code_of(error) for error in self.unanswered]
        findings = [*self.faults, *self.plan.findings]
        if self.check is not None:
            codes.append(self.check.code())
            findings += self.check.named("route-not-configured")
        has_problem = any(finding.severity != "note" for finding in findings)
        if has_problem or self.to_start or not self.plan.is_empty:
            codes.append(PROBLEM)
        return worst_code(*codes)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings except those of the check, the worst first. Where to apply the installed
        configuration again does harm, or fails, no remedy is to apply it.
        """
        findings: list[Finding] = []
        for error in self.unanswered:
            findings += error.findings
        # What shuts the gate makes apply fail, too: the plan has it again, as a fault of a file.
        known = [fault._replace(name="file") for fault in self.faults if fault.name == "gate-shut"]
        for finding in (*self.faults, *self.plan.findings):
            if finding in known:
                continue
            if finding.remedy == APPLY and not self.may_apply:
                findings.append(finding._replace(remedy=None))
            else:
                findings.append(finding)
        gating = APPLY.command if self.may_apply else self.command
        return worst_first(with_gate_command(findings, gating))


def find_status(host: Host, unit: str | None = None) -> Status:
    """Ask each part of the host; with `unit`, about no other gated unit. Nothing is changed.

    A question may use the answers to those before it, or what the status has without them: all use
    the configuration, the guard the plan, and the answer about one unit the states of units.
    """
    # Without an answer to the first question, config.json is broken.
    status = _ask(host, Status("broken", unit=unit), _with_config)
    if status.state == "nothing":
        return status
    if any(map(is_denied, status.unanswered)):  # for root, nothing may be wrong with the file
        status = attrs.evolve(status, state="unanswered")
    return _ask(
        host,
        status,
        _with_foreign_scripts,
        _with_plan,
        _with_faults,
        _with_check,
        _with_guard,
        _with_units,
        _with_answer_about_unit,
        _with_last_check,
        _with_unwritable_results,
    )


def _ask(host: Host, status: Status, *questions: Callable[[Host, Status], Status]) -> Status:
    """The status with the answer to each question. A part of the host that does not answer leaves
    what the status has already, which is the default of most fields.
    """
    for question in questions:
        try:
            status = question(host, status)
        except HostRoutingError as error:
            status = attrs.evolve(status, unanswered=(*status.unanswered, error))
    return status


def _with_config(host: Host, status: Status) -> Status:
    """The status with what config.json says, and not yet whether the host matches that."""
    config = read_installed(host)
    if config == HostRoutingConfig():
        return attrs.evolve(status, state="nothing")
    return attrs.evolve(status, state="unanswered", config=config)


def _with_foreign_scripts(host: Host, status: Status) -> Status:
    return attrs.evolve(status, foreign_scripts=foreign_scripts(host.files))


def _with_plan(host: Host, status: Status) -> Status:
    """The status with what apply would do, and how the host compares with its configuration."""
    if status.config is None:
        return status
    plan = _plan_of(host, status.config)
    return attrs.evolve(status, state=_state_of(plan), plan=plan)


def _plan_of(host: Host, config: HostRoutingConfig) -> Plan:
    """What apply would do; a unit that a drop-in still gates is not called ungated."""
    plan = Configure(config, host=host, allow_removal=False).plan()
    on_disk = gated_on_disk(host.files)
    obstacles = [
        finding
        for finding in plan.obstacles
        if finding.name != "unit-not-gated" or finding.target not in on_disk
    ]
    files = plan.files
    if writer_of(host.files) != WRITER:
        files = FileChanges()  # another release writes other texts
    return attrs.evolve(plan, files=files, obstacles=tuple(obstacles))


def _state_of(plan: Plan) -> State:
    """How the host compares with its configuration, of which this is the plan."""
    if plan.routes.conflicts:
        return "conflict"
    if plan.routes.waiting:
        return "waiting"
    if plan.is_empty:
        return "installed"
    if plan.errors:
        return "failing"
    if plan.report is None or not plan.report.routes:
        return "different"
    return "escaping"


def _with_faults(host: Host, status: Status) -> Status:
    if status.config is None:
        faults = find_faults_without_config(host, _units_to_gate(host, status))
        writer = writer_of(host.files)
        if writer not in {"", WRITER}:  # perhaps its config.json is no longer understood
            faults = (*faults, note_of_writer(writer))
    else:
        faults = find_faults(host, status.config)
    return attrs.evolve(status, faults=faults)


def _with_check(host: Host, status: Status) -> Status:
    if not status.known_config.route_overlap.cidrs:
        return status
    return attrs.evolve(status, check=check_host(status.known_config, host))


def _with_guard(host: Host, status: Status) -> Status:
    """The status with how the guard is, and what it has logged if it has failed, or should have set
    routes.
    """
    manager = host.running_manager
    if manager is None:
        return status
    if host.files.look(HostLayout.unit_path(HostLayout.guard_unit)) is None:
        return attrs.evolve(status, guard="is not enabled")
    names = ("ActiveState", "SubState", "LoadState", "ExecMainStartTimestamp")
    [properties] = manager.show(names, HostLayout.guard_unit)
    status = attrs.evolve(status, guard=_guard_of(properties))
    if not status.unset_routes and status.guard not in {"is being restarted", "has failed"}:
        return status
    errors = manager.errors_of(HostLayout.guard_unit, properties["ExecMainStartTimestamp"])
    return attrs.evolve(status, guard_errors=errors)


def _guard_of(properties: Mapping[str, str]) -> Guard:
    """How the guard is, by what systemd says of it."""
    if properties["ActiveState"] == "active":
        return "runs"
    if properties["LoadState"] == "masked":
        return "is masked"
    if properties["SubState"] in {"auto-restart", "auto-restart-queued"}:
        return "is being restarted"
    if properties["ActiveState"] == "failed":
        return "has failed"
    return "does not run"


def _with_units(host: Host, status: Status) -> Status:
    """The status with the gated units, or with the one that was asked about."""
    manager = host.running_manager
    if manager is None:
        return status
    only = status.unit
    in_gate = _units_in_gate(host, status)
    states = unit_states(host.files, manager, in_gate)
    units = [each for each in states if only in {None, each.unit, template_of(each.unit)}]
    if any(unit.state == "is in the gate" for unit in units):
        holders = host.files.lock_holders(HostLayout.lock_path)
        units = [unit.waiting_for(holders) for unit in units]
    return attrs.evolve(status, units=tuple(units))


def _with_answer_about_unit(host: Host, status: Status) -> Status:
    """The status with what the unit is that was asked about, if config.json does not gate it."""
    if status.unit is None or status.unit in _units_to_gate(host, status):
        return status
    return attrs.evolve(status, asked=_what_unit_is(host, status.unit, status))


def _what_unit_is(host: Host, unit: str, status: Status) -> Asked:
    """What this unit is, which config.json does not gate."""
    manager = host.running_manager
    if manager is None:
        return ""
    if unit == HostLayout.guard_unit:
        return "guard"
    in_gate = _units_in_gate(host, status)
    if unit in in_gate:
        return "gated-by-drop-in"
    if template_of(unit) in in_gate:
        return "" if status.units else "not-loaded"
    [properties] = manager.show(("LoadState",), plain_instance(unit))
    return "unknown" if properties["LoadState"] == "not-found" else "not-gated"


def _units_to_gate(host: Host, status: Status) -> tuple[str, ...]:
    """The units that config.json gates; if it cannot be used, those that have a drop-in."""
    if status.config is None:
        return gated_on_disk(host.files)
    return gated_units(status.config)


def _units_in_gate(host: Host, status: Status) -> tuple[str, ...]:
    """The units that have to pass the gate: also those that only a drop-in still gates."""
    return tuple(dict.fromkeys((*_units_to_gate(host, status), *gated_on_disk(host.files))))


def _with_last_check(host: Host, status: Status) -> Status:
    """The status with the first line of the marker, which says most of it."""
    for path in HostLayout.markers:
        text = host.files.read(path)
        if text:
            return attrs.evolve(status, last_check=text.partition("\n")[0])
    return status


def _with_unwritable_results(host: Host, status: Status) -> Status:
    """The status with why the next check cannot say what it finds, such as a full /run."""
    if host.backend is None:  # an image gets a /run of its own when it boots
        return status
    if not status.known_config.route_overlap.cidrs or not host.rights().is_root:
        return status
    folder = HostLayout.state_directory
    reason = host.files.why_unwritable(folder)
    if not reason:
        return status
    sentence = f"no result of a check can be written to {folder}: {reason}"
    finding = Finding("file", "warning", sentence, folder)
    return attrs.evolve(status, faults=(*status.faults, finding))
