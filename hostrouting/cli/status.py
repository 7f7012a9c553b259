"""The facts that `status` shows: what hostrouting has installed, whether it is in force, the verdict now and the last.

Here: collecting the facts, each once, and the exit code that follows. Not here: how a host is checked
(`hostrouting.check.examine`), and sentences (`commands.status`).
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from hostrouting.boot.gate import Gate
from hostrouting.boot.gate_state import GateState, find_gate_state
from hostrouting.check.examine import examine
from hostrouting.check.report import marked_verdict
from hostrouting.cli.changes import Standings
from hostrouting.cli.check import Check
from hostrouting.cli.command import FAILED, FINE, UNDECIDED
from hostrouting.cli.source import installed_config, quiet_context, start_command
from hostrouting.config import HostRoutingConfig, ProbeCondition
from hostrouting.errors import BackendError, FileError, ManagerError
from hostrouting.fib import Fib
from hostrouting.model import IPV4, IPV6
from hostrouting.routes.plan import RoutePlan, plan_static_routes, reply_destinations, wanted_routes
from hostrouting.routes.uplink import default_route
from hostrouting.tasks import Configure
from phases.text import moment_as_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hostrouting.config import ProbeRewriteConfig, RouteOverlapConfig
    from hostrouting.host import UnitState
    from hostrouting.host.host import Host
    from hostrouting.host.layout import HostLayout
    from hostrouting.kernel.base import RouteBackend
    from hostrouting.model import Route, Snapshot
    from hostrouting.routes.plan import Step

__all__ = ["HostStatus", "LastCheck", "Now", "find_status"]

T = TypeVar("T")

_ROUTES, _CHECK = "static-routes", "check-route-overlap"
"""The names of the gate's steps."""

_REFUSING = {"overlap", "no-default-route"}
"""The verdicts that make the unit of a STRICT check fail."""
_VERDICTS = {"ok", "overlap", "undecided", "no-default-route"}


@attrs.frozen(kw_only=True)
class Now:
    """The verdict on the present state of a host."""

    check: Check
    named: bool
    """Whether the check used the configuration that was given; if not, the installed one."""
    installed: RouteOverlapConfig | None
    """The installed check, if there is one."""
    gated: bool
    """Whether machines wait for the installed check."""
    heals: bool
    """Whether the installed routes close the present escapes; they are added before the check when a machine starts."""

    @property
    def verdict(self) -> str:
        """The verdict of `check`."""
        return self.check.found.verdict

    @property
    def is_installed(self) -> bool:
        """Whether the settings of `check` are those of the installed check."""
        return self.check.config.route_overlap == self.installed

    @property
    def in_force(self) -> bool:
        """Whether machines wait for this verdict."""
        return self.gated and self.is_installed


@attrs.frozen
class LastCheck:
    """The result of the last check: its verdict, the number of its findings, its time, and its findings as in JSON.

    The check at boot writes markers only: then these are None, and only the verdict is compared.
    """

    verdict: str
    count: int
    at: str
    findings: tuple[dict[str, Any], ...] | None = None

    def is_out_of_date(self, now: Now | None) -> bool | None:
        """Whether the result would be different now; None if there is nothing to compare it with."""
        if now is None or not now.is_installed:
            return None
        findings = None if self.findings is None else list(self.findings)
        return self.verdict != now.verdict or findings not in (None, now.check.document()["findings"])


@attrs.frozen(kw_only=True)
class HostStatus:
    """The facts. `troubles` are those that could not be determined, each as a sentence."""

    routes: tuple[Route, ...]
    wanted: int
    missing: tuple[str, ...]
    contested: tuple[Step, ...]
    """The missing routes that cannot be added because routes that are not ours hold their keys."""
    start: str
    """The command that installs the others."""
    default: Route | None
    ipv6_default: Route | None
    files: tuple[str, ...]
    gate: GateState
    """Whether machines are checked before they start."""
    lasting: bool
    """Whether the script that adds the routes at boot exists."""
    checking: bool
    """Whether machines wait for a check."""
    holding: bool
    """Whether machines wait for these routes."""
    units: tuple[tuple[str, UnitState], ...]
    layout: HostLayout
    """The names of the units."""
    manager: bool
    now: Now | None
    """None if nothing is expected, or if the check was not possible."""
    last: LastCheck | None
    """None if there was no check since the host booted."""
    troubles: tuple[str, ...]
    differs: tuple[str, ...] = ()
    """The parts in which the configuration that was given differs from the installed one; empty if none was given."""
    standings: Standings = attrs.field(factory=Standings)
    """The state of the other tasks."""

    @property
    def installed(self) -> bool:
        """Whether the host has any of our routes or files."""
        return bool(self.routes or self.files)

    @property
    def fleeting(self) -> bool:
        """Whether the routes will be missing after the next boot."""
        return bool(self.routes) and not self.lasting

    @property
    def failed(self) -> tuple[str, ...]:
        """The units whose last run failed, without those whose failure no longer applies."""
        return tuple(unit for unit, state in self.units if not state.ok and not self._is_past(unit, state))

    def _is_past(self, unit: str, state: UnitState) -> bool:
        """Whether a unit failed for a reason that other facts cover by now: the present routes, or the verdict now."""
        has_refused = (state.result, state.status) == ("exit-code", 1)
        if unit == self.layout.gate_unit:
            return has_refused and self._explains_a_refusal
        if unit == self.layout.routes_unit:
            return not self.missing and any(
                unit_state.ok and unit_state.invocation for name, unit_state in self.units if name != unit
            )
        if unit != self.layout.check_unit:
            return bool(self.standings.found) and self.standings.are_right
        judged = self.now is not None and self.now.is_installed
        return judged and has_refused and self.last is not None and self.last.verdict in _REFUSING

    @property
    def _explains_a_refusal(self) -> bool:
        """Whether the facts explain why the gate refused a machine: the routes, the verdict now or the last one."""
        verdicts = {found.verdict for found in (self.now, self.last) if found is not None}
        refusals = self.missing or self.contested or self.gate.bars or self.standings.faults
        return bool(refusals or verdicts & _REFUSING)

    @property
    def heals(self) -> bool:
        """Whether the next start of a machine closes the present escapes, by adding the installed routes first."""
        return self.now is not None and self.now.in_force and self.now.heals and not self.failed and not self.gate.bars

    @property
    def is_adrift(self) -> bool:
        """Whether the last check was not ok, and there is no check now to confirm or correct it."""
        return self.now is None and self.last is not None and self.last.verdict != "ok"

    @property
    def code(self) -> int:
        """The exit code. It depends on the present state only, not on the result of the last check."""
        verdict = "" if self.now is None else self.now.verdict
        is_wrong = self.failed or self.missing or self.gate.bars or self.gate.openings or self.fleeting
        is_wrong = is_wrong or self.differs or not self.standings.are_right
        if is_wrong or verdict == "overlap":
            return FAILED
        unknown = self.troubles or self.is_adrift or verdict in {"undecided", "no-default-route"}
        return UNDECIDED if unknown else FINE


def find_status(host: Host, config: HostRoutingConfig, *, named: bool) -> HostStatus:
    """Collect all facts; one that cannot be determined is added to `troubles`, and the others are still collected."""
    troubles: list[str] = []
    routes: tuple[Route, ...] = ()
    default: Route | None = None
    ipv6_default: Route | None = None
    plan = RoutePlan()
    now: Now | None = None
    layout, files = host.layout, host.files
    gate = _asked(troubles, "the gate", lambda: find_gate_state(host)) or GateState()
    steps = _asked(troubles, "the gate's steps", lambda: Gate(host).steps) or ()
    asked = {step.name for step in steps} if gate.is_up else set()
    checking = _CHECK in asked
    installed = _asked(troubles, "the installed script", lambda: installed_config(host))
    lost = installed is None or not installed.route_overlap.expected_cidrs
    if lost and checking and files.is_there(layout.check_script_path):
        told = f"the installed check: {layout.check_script_path} is not as hostrouting wrote it"
        troubles.append(f"{told}; write it again with: hostrouting apply --config FILE")
    wanted = config if named else installed or config
    holding = _ROUTES in asked and installed is not None and wanted_routes(wanted) == wanted_routes(installed)
    try:
        if host.backend is not None:
            with host.backend() as backend:
                try:
                    now = _judge(backend, config, installed, gated=checking)
                    fib = Fib(backend.snapshot()) if now is None else now.check.fib
                except BackendError as error:
                    if not isinstance(error.fib, Fib):
                        raise
                    fib = error.fib
                    troubles.append(f"the present state cannot be checked: {error}")
            snapshot = fib.snapshot
            replies = reply_destinations(wanted)
            routes = tuple(
                route for route in snapshot.routes.only(protocol=wanted.protocol) if route.prefix not in replies
            )
            default, ipv6_default = (default_route(fib, family=family) for family in (IPV4, IPV6))
            plan = plan_static_routes(wanted, snapshot)
    except BackendError as error:
        troubles.append(f"the route table: {error}")
    standings = Standings.on(host, wanted)
    return HostStatus(
        routes=routes,
        wanted=len(wanted_routes(wanted)),
        missing=tuple(_missing(plan)),
        contested=plan.conflicts,
        start=start_command(host),
        default=default,
        ipv6_default=ipv6_default,
        files=_files_of(host, config, troubles),
        gate=gate,
        lasting=files.is_there(layout.routes_script_path),
        checking=checking,
        holding=holding,
        units=_asked(troubles, "the units", lambda: _units_of(host)) or (),
        layout=layout,
        manager=host.manager is not None and host.manager.is_running(),
        now=now,
        last=_asked(troubles, "the last check", lambda: _find_last_check(host)),
        differs=tuple(_differences(config, installed or HostRoutingConfig())) if named else (),
        standings=standings,
        troubles=(*troubles, *standings.troubles),
    )


def _judge(
    backend: RouteBackend, config: HostRoutingConfig, installed: HostRoutingConfig | None, *, gated: bool
) -> Now | None:
    """Check the host by the given configuration, or by the installed one if the given one has no expected CIDRs.

    None if neither has expected CIDRs. `gated`: whether machines wait for the installed check.
    """
    settings = None if installed is None else installed.route_overlap
    named = bool(config.route_overlap.expected_cidrs)
    by = config if named else installed
    if by is None or not by.route_overlap.expected_cidrs:
        return None
    found = examine(quiet_context(), backend, by, wait=0.0)
    return Now(
        check=Check(found, by),
        named=named,
        installed=settings if settings is not None and settings.expected_cidrs else None,
        gated=gated,
        heals=installed is not None and found.verdict == "overlap" and _heals(found.fib.snapshot, installed, by),
    )


def _differences(wanted: HostRoutingConfig, installed: HostRoutingConfig) -> Iterator[str]:
    """The parts of a configuration that are not installed as it has them."""
    if wanted_routes(wanted) != wanted_routes(installed):
        yield "staticRoutes"
    settings = [config.route_overlap if config.route_overlap.expected_cidrs else None for config in (wanted, installed)]
    if settings[0] != settings[1]:
        yield "routeOverlap"
    if not _is_rewrite(wanted.probe_rewrite, installed.probe_rewrite):
        yield "probeRewrite"
    guard, program = wanted.guard, wanted.guard.program or installed.guard.program
    if guard.enabled != installed.guard.enabled or (guard.enabled and program != installed.guard.program):
        yield "guard"
    if wanted.protocol != installed.protocol:
        yield "protocol"


def _is_rewrite(wanted: ProbeRewriteConfig, installed: ProbeRewriteConfig) -> bool:
    """Whether the installed script is that of these settings. It has the answer of `imds`, and not who was asked."""
    if not (wanted.enabled and installed.enabled):
        return wanted.enabled == installed.enabled
    is_answer = wanted.condition is ProbeCondition.IMDS and installed.condition is not ProbeCondition.LOCAL_IPV6
    condition = installed.condition if is_answer else wanted.condition
    return attrs.evolve(wanted, imds=installed.imds, condition=condition) == installed


def _heals(snapshot: Snapshot, installed: HostRoutingConfig, by: HostRoutingConfig) -> bool:
    plan = plan_static_routes(installed, snapshot)
    if not plan.changes or plan.conflicts or plan.pending:
        return False
    return Check.of(plan.apply_to(snapshot), by).found.verdict != "overlap"


def _asked(troubles: list[str], what: str, question: Callable[[], T]) -> T | None:
    """The answer; or None, after adding the error to `troubles` unless it is already there."""
    try:
        return question()
    except (FileError, ManagerError) as error:
        if not any(trouble.endswith(f": {error}") for trouble in troubles):
            troubles.append(f"{what}: {error}")
        return None


def _units_of(host: Host) -> tuple[tuple[str, UnitState], ...]:
    """The state of each of our units, in the order in which they run."""
    manager, layout = host.manager, host.layout
    if manager is None or not manager.is_running():
        return ()
    first, *others = (task.part.unit for task in Configure(HostRoutingConfig(), host=host).subtasks)
    states = [(unit, manager.state(unit)) for unit in (first, layout.gate_unit, *others)]
    return tuple((unit, state) for unit, state in states if state.load != "not-found")


def _files_of(host: Host, config: HostRoutingConfig, troubles: list[str]) -> tuple[str, ...]:
    """Our files, without those under /run."""
    found: set[str] = set()
    for look in (Gate(host).present, *(task.paths for task in Configure(config, host=host).subtasks)):
        found.update(_asked(troubles, "the files", look) or ())
    state = host.layout.at(host.layout.state_directory)
    return tuple(sorted(path for path in found if not path.startswith(f"{state}/")))


def _missing(plan: RoutePlan) -> Iterator[str]:
    """The wanted routes that do not exist, or are different."""
    yield from (str(step.route) for step in (*plan.changes, *plan.conflicts) if step.action != "delete")
    yield from map(str, plan.pending)


def _find_last_check(host: Host) -> LastCheck | None:
    """The result that the last check wrote; None if there was none. Raises FileError if the file is not a report."""
    layout = host.layout
    written = {path: host.files.read(path) for path in (layout.report_path, layout.detected_path, layout.ok_path)}
    found = next(((path, text) for path, text in written.items() if text is not None), None)
    if found is None:
        return None
    path, text = found
    if host.files.is_frozen(path):
        reason = "is on a read-only file system, so it may be from an earlier check; remount the file system writable"
        raise FileError(f"{path} {reason}", path=path)
    at = _when(host.files.modified(path))
    if path != layout.report_path:
        return LastCheck(marked_verdict(text), text.count(": expected CIDR "), at)
    document = _parsed(text)
    verdict, findings = document.get("verdict"), document.get("findings", [])
    if not isinstance(verdict, str) or verdict not in _VERDICTS or not isinstance(findings, list):
        raise FileError(
            f"{path} is not a report of a check; write it again with: hostrouting apply --config FILE", path=path
        )
    return LastCheck(verdict, len(findings), at, tuple(findings))


def _parsed(text: str) -> dict[str, Any]:
    with suppress(ValueError, RecursionError):
        document = json.loads(text)
        if isinstance(document, dict):
            return document
    return {}


def _when(seconds: float | None) -> str:
    from datetime import datetime, timezone  # noqa: PLC0415  imported only if there was a check

    if seconds is None:
        return ""
    return moment_as_text(datetime.fromtimestamp(seconds, timezone.utc))
