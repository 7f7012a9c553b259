"""How a host compares with what is installed on it: the answer to "why does it not start, what is
installed, and what is to be typed?".

Each part of the host is asked on its own. A part that does not answer, and a config.json that
cannot be used, hide no other part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

import attrs

from hostrouting.boot.enforced import read_enforced
from hostrouting.boot.files import WRITER
from hostrouting.boot.health import find_faults
from hostrouting.boot.on_disk import gated_on_disk, writer_of
from hostrouting.boot.unit_gates import AGAIN, judge_gates
from hostrouting.boot.unit_names import plain_instance, template_of
from hostrouting.boot.unit_states import UnitState, refused_units, unit_states
from hostrouting.codes import BAD_INPUT, PROBLEM, code_of, worst_code
from hostrouting.config.settings import HostRoutingConfig, gated_units
from hostrouting.errors import HostRoutingError
from hostrouting.finding import Finding, Remedy, worst_first
from hostrouting.host.fileset import FileChanges
from hostrouting.host.layout import HostLayout
from hostrouting.install.host_check import HostCheck, check_host, find_typed, take_snapshot
from hostrouting.install.installed import read_installed
from hostrouting.install.plan import Plan
from hostrouting.install.typed_commands import repair_pipeline, with_gate_command
from hostrouting.routes.plan import RoutePlan, plan_static_routes
from hostrouting.tasks.configure import Configure

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from hostrouting.config.settings import Mode
    from hostrouting.host.host import Host
    from hostrouting.routes.plan import Step

T = TypeVar("T")

State: TypeAlias = Literal[
    "nothing", "broken", "unanswered", "conflict", "not-configured", "failing", "escaping",
    "different", "waiting", "installed",
]  # fmt: skip
"""How the host compares with the installed configuration.

Nothing is installed; config.json cannot be used; the host does not answer; apply would fail because
of a route that is not hostrouting's; apply would delete routes without which addresses escape;
apply would fail for another reason, such as an edit of config.json that takes protection away;
addresses would escape after apply; apply makes it the same; a route waits for something; nothing
differs.
"""
_WITHOUT_APPLY = ("broken", "conflict", "not-configured", "failing", "escaping")
"""The states in which it does harm, or is not possible, to apply the installed configuration."""
_EDITED = Remedy(
    f"to keep it, undo the edit of {HostLayout.config_path}",
    otherwise=Remedy("to give it up", f"{AGAIN.command} --allow-removal"),
)
Guard: TypeAlias = Literal[
    "", "is not enabled", "runs", "does not run", "has failed", "is masked", "is being restarted"
]


Asked: TypeAlias = Literal["", "unknown", "guard", "not-gated", "gated-by-drop-in", "not-loaded"]
"""What the unit is that was asked about, where its state does not say it: no unit that systemd
knows; the guard; not gated; gated by its drop-in, and not by config.json; an instance of a gated
template that systemd has not loaded.
"""


@attrs.frozen
class Status:
    """What the host has answered."""

    state: State = "nothing"
    config: HostRoutingConfig | None = None
    """What config.json says, if that is known."""
    enforced: HostRoutingConfig = attrs.field(factory=HostRoutingConfig)
    """What the installed scripts do, whatever config.json says since."""
    plan: Plan = attrs.field(factory=Plan)
    """What apply would do; where config.json cannot be used, how the routes of the installed script
    come back.
    """
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
    """What a guard that has failed has logged as errors."""
    last_check: str = ""
    """What the gate, the guard or apply has found last; empty if nothing was checked since the
    boot.
    """
    unanswered: tuple[HostRoutingError, ...] = ()
    """Why parts of the host did not answer."""

    @property
    def unset_routes(self) -> int:
        """How many routes are missing that a guard that runs should have set: the installed script
        has them, and none waits or conflicts.
        """
        routes = self.plan.routes
        if self.guard != "runs" or routes.waiting or routes.conflicts:
            return 0
        of_script = {route.key for route in self.enforced.static_routes.routes}
        return sum(step.route.key in of_script for step in self.missing_routes)

    @property
    def missing_routes(self) -> tuple[Step, ...]:
        """The steps of apply that add a route."""
        return tuple(step for step in self.plan.routes.changes if step.action == "add")

    @property
    def mode(self) -> Mode | Literal[""]:
        """The mode of the check; empty if nothing is checked, or that is not known."""
        for config in (self.enforced, self.config):
            if config is not None and config.route_overlap.cidrs:
                return config.route_overlap.mode
        return ""

    @property
    def command(self) -> str:
        """What to type as root, so that the host matches and nothing escapes; empty if that is not
        one command, or nothing is to be done.
        """
        if self.state == "conflict":
            has_repair = self.check is not None and bool(self.check.report.routes)
            return repair_pipeline() if has_repair else ""
        if self.state in {"not-configured", "escaping"}:
            return repair_pipeline()
        if self.state == "failing":
            return self._command_before_apply()
        if self.to_start:
            return f"systemctl start {' '.join(self.to_start)}"
        return AGAIN.command if self.state == "different" else ""

    def _command_before_apply(self) -> str:
        """What to type first where one command ends what apply would fail of, and then apply."""
        first, *others = self.plan.errors
        remedy = first.remedy
        if others or remedy is None or remedy.words or remedy.otherwise is not None:
            return ""
        last = AGAIN.command
        if self.plan.report is not None and self.plan.report.routes:
            last = repair_pipeline()
        return f"{remedy.command} && {last}"

    @property
    def to_start(self) -> tuple[str, ...]:
        """The units that were refused, although the gate has no reason any more."""
        if self.state != "installed" or any(fault.name == "gate-shut" for fault in self.faults):
            return ()
        if self.check is not None and self.check.is_wrong:
            return ()
        return refused_units(self.units)

    @property
    def code(self) -> int:
        """The exit code: the worst of what differs, of the verdict, and of what did not answer; but
        that of a config.json that cannot be used comes before all of them.
        """
        codes = [code_of(error) for error in self.unanswered]
        if BAD_INPUT in codes:
            return BAD_INPUT
        if self.to_start:
            codes.append(PROBLEM)
        findings = [*self.faults, *self.plan.findings]
        if self.check is not None:
            findings += [row for row in self.check.findings if row.name == "route-not-configured"]
        if not self.plan.is_empty or any(finding.severity != "note" for finding in findings):
            codes.append(PROBLEM)
        if self.check is not None:
            codes.append(self.check.code())
        return worst_code(*codes)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings but those of the check, the worst first. Where to apply the installed
        configuration again does harm, or fails, no remedy is to apply it.
        """
        findings: list[Finding] = []
        for error in self.unanswered:
            findings += error.findings
        may_apply = self.state not in _WITHOUT_APPLY
        for finding in (*self.faults, *self.plan.findings):
            if finding.remedy == AGAIN and not may_apply:
                findings.append(finding._replace(remedy=None))
            else:
                findings.append(finding)
        gating = AGAIN.command if may_apply else self.command
        return worst_first(with_gate_command(findings, gating))


def find_status(host: Host, unit: str | None = None) -> Status:
    """Ask each part of the host; with `unit`, about no other gated unit. Nothing is changed."""
    unanswered: list[HostRoutingError] = []

    def ask(question: Callable[[], T], otherwise: T) -> T:
        try:
            return question()
        except HostRoutingError as error:
            unanswered.append(error)
            return otherwise

    no_faults: tuple[Finding, ...] = ()
    config: HostRoutingConfig | None = ask(lambda: read_installed(host), None)
    if config == HostRoutingConfig():
        faults = ask(lambda: _typed_routes(host), no_faults)
        return Status(faults=faults, unanswered=tuple(unanswered))

    enforced = ask(lambda: read_enforced(host.files), HostRoutingConfig())
    plan: Plan | None = None
    if config is None:
        state: State = "broken"
        gated = gated_on_disk(host.files)
        plan = ask(lambda: _restoring(host, enforced), None)
        faults = ask(lambda: judge_gates(host, gated).findings, no_faults)
    else:
        plan = ask(lambda: _plan_of(host, config), None)
        state = _state_of(plan)
        gated = gated_units(config)
        faults = ask(lambda: find_faults(host, config), no_faults)
    check = ask(lambda: _check_of(host, config or enforced), None)
    no_guard: tuple[Guard, tuple[str, ...]] = ("", ())
    guard, guard_errors = ask(lambda: _guard_of(host), no_guard)
    no_units: tuple[UnitState, ...] = ()
    in_gate = tuple(dict.fromkeys((*gated, *gated_on_disk(host.files))))
    units = ask(lambda: _units_of(host, in_gate, only=unit), no_units)
    no_answer: Asked = ""
    asked = no_answer
    if unit is not None and unit not in gated:
        asked = ask(lambda: _asked_of(host, unit, in_gate, units), no_answer)
    return Status(
        state=state,
        config=config,
        enforced=enforced,
        plan=plan or Plan(),
        check=check,
        faults=faults,
        units=units,
        asked=asked,
        guard=guard,
        guard_errors=guard_errors,
        last_check=ask(lambda: _last_check(host), ""),
        unanswered=tuple(unanswered),
    )


def _typed_routes(host: Host) -> tuple[Finding, ...]:
    """That routes of ours were typed; an image has no routes."""
    if host.backend is None:
        return ()
    return tuple(find_typed(take_snapshot(host)))


def _check_of(host: Host, config: HostRoutingConfig) -> HostCheck | None:
    if not config.route_overlap.cidrs:
        return None
    return check_host(config, host)


def _units_of(host: Host, gated: Iterable[str], *, only: str | None) -> tuple[UnitState, ...]:
    """The gated units; with `only`, this one."""
    manager = host.running_manager
    if manager is None:
        return ()
    states = unit_states(manager, gated)
    return tuple(state for state in states if only in {None, state.unit, template_of(state.unit)})


def _asked_of(
    host: Host, unit: str, in_gate: Collection[str], units: Collection[UnitState]
) -> Asked:
    """What this unit is, which config.json does not gate."""
    manager = host.running_manager
    if manager is None:
        return ""
    if unit == HostLayout.guard_unit:
        return "guard"
    if unit in in_gate:
        return "gated-by-drop-in"
    if template_of(unit) in in_gate:
        return "" if units else "not-loaded"
    [properties] = manager.show(("LoadState",), plain_instance(unit))
    return "unknown" if properties["LoadState"] == "not-found" else "not-gated"


def _plan_of(host: Host, config: HostRoutingConfig) -> Plan:
    plan = Configure(config, host=host, allow_removal=False).plan()
    findings: list[Finding] = []
    on_disk = gated_on_disk(host.files)
    for finding in plan.findings:
        if finding.name == "removal":
            findings.append(finding._replace(remedy=_EDITED))
        elif finding.name != "unit-not-gated" or finding.target not in on_disk:
            findings.append(finding)
    plan = attrs.evolve(plan, findings=tuple(findings))
    if writer_of(host.files) == WRITER:
        return plan
    return attrs.evolve(plan, files=FileChanges())  # another release writes other texts


def _restoring(host: Host, enforced: HostRoutingConfig) -> Plan:
    """The routes of the installed script that are missing; nothing if it would also delete some, or
    would fail.
    """
    if host.backend is None:
        return Plan()
    routes = plan_static_routes(enforced, take_snapshot(host))
    if routes.waiting or any(step.action not in {"add", "keep"} for step in routes.steps):
        return Plan()
    return Plan(routes=RoutePlan(routes.changes))


def _state_of(plan: Plan | None) -> State:
    """How the host compares with its configuration, if that can be used."""
    if plan is None:
        return "unanswered"
    if plan.routes.conflicts:
        return "conflict"
    if plan.routes.waiting:
        return "waiting"
    if plan.is_empty:
        return "installed"
    names = {finding.name for finding in plan.findings}
    if "route-not-configured" in names and "removal" not in names:
        return "not-configured"
    if plan.errors:
        return "failing"
    if plan.report is None or not plan.report.routes:
        return "different"
    return "escaping"


def _last_check(host: Host) -> str:
    """The first line of the marker, which says most of it."""
    for path in HostLayout.markers:
        text = host.files.read(path)
        if text:
            return text.partition("\n")[0]
    return ""


def _guard_of(host: Host) -> tuple[Guard, tuple[str, ...]]:
    """How the guard is, and what it has logged if it has failed."""
    manager = host.running_manager
    if manager is None:
        return "", ()
    if host.files.look(HostLayout.guard_path) is None:
        return "is not enabled", ()
    names = ("ActiveState", "SubState", "LoadState", "ExecMainStartTimestamp")
    [properties] = manager.show(names, HostLayout.guard_unit)
    began = properties["ExecMainStartTimestamp"]
    if properties["ActiveState"] == "active":
        return "runs", ()
    if properties["LoadState"] == "masked":
        return "is masked", ()
    if properties["SubState"] in {"auto-restart", "auto-restart-queued"}:
        return "is being restarted", manager.errors_of(HostLayout.guard_unit, began)
    if properties["ActiveState"] == "failed":
        return "has failed", manager.errors_of(HostLayout.guard_unit, began)
    return "does not run", ()
