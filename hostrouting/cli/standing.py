"""What of ours is on a host, whether it is in force, and the verdict on it: facts, each question asked once.

Here: what is found out, and the exit code that it means. Not here: sentences and tables (`status`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import attrs

from hostrouting.cli.reply import FAILED, FINE, UNDECIDED
from hostrouting.cli.source import installed_config, start_command
from hostrouting.cli.verdicts import find_last_check, judge
from hostrouting.errors import BackendError, FileError, ManagerError
from hostrouting.fib import Fib
from hostrouting.gate import Gate
from hostrouting.model import IPV4, route_keys
from hostrouting.openings import GateState, find_gate_state
from hostrouting.plan import RoutePlan, plan_routes
from hostrouting.tasks import Configure, wanted_routes
from hostrouting.uplink import default_route

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hostrouting.cli.verdicts import LastCheck, Now
    from hostrouting.config import HostRoutingConfig
    from hostrouting.host import Host
    from hostrouting.layout import HostLayout
    from hostrouting.model import Route
    from hostrouting.plan import Step
    from hostrouting.system import UnitState

__all__ = ["Standing", "find_standing"]

T = TypeVar("T")

_ROUTES, _CHECK = "static-routes", "check-route-overlap"
"""The steps of the gate."""

_REFUSING = {"overlap", "no-default-route"}
"""The verdicts with which the unit of a STRICT check fails."""


@attrs.frozen(kw_only=True)
class Standing:
    """What was found. `troubles` are the questions that could not be answered, each in a sentence."""

    routes: tuple[Route, ...]
    wanted: int
    missing: tuple[str, ...]
    contested: tuple[Step, ...]
    """Those of the missing ones that cannot be had, for somebody else has a route there."""
    start: str
    """The command by which those that can be had are installed."""
    default: Route | None
    files: tuple[str, ...]
    gate: GateState
    """Whether machines are held back."""
    lasting: bool
    """Whether the script that brings the routes back is there."""
    checking: bool
    """Whether machines wait for a check."""
    holding: bool
    """Whether machines wait for these routes."""
    units: tuple[tuple[str, UnitState], ...]
    layout: HostLayout
    """Which of the units makes the check."""
    manager: bool
    now: Now | None
    """None where there is nothing to judge by, or it could not be judged."""
    last: LastCheck | None
    """None where there was no check since the host booted."""
    troubles: tuple[str, ...]

    @property
    def installed(self) -> bool:
        """Whether anything of ours is here."""
        return bool(self.routes or self.files)

    @property
    def fleeting(self) -> bool:
        """Whether the routes are gone after the next boot."""
        return bool(self.routes) and not self.lasting

    @property
    def failed(self) -> tuple[str, ...]:
        """The units whose last run failed, without those whose failure says nothing of the host as it is now."""
        return tuple(unit for unit, state in self.units if not state.ok and not self._is_past(unit, state))

    def _is_past(self, unit: str, state: UnitState) -> bool:
        """Whether a unit failed for a reason that was judged anew: the routes that are there, the verdict now."""
        has_refused = (state.result, state.status) == ("exit-code", 1)
        if unit == self.layout.gate_unit:
            return has_refused and self._explains_a_refusal
        if unit == self.layout.routes_unit:
            return not self.missing and any(it.ok and it.invocation for name, it in self.units if name != unit)
        judged = self.now is not None and self.now.is_installed
        return judged and has_refused and self.last is not None and self.last.verdict in _REFUSING

    @property
    def _explains_a_refusal(self) -> bool:
        """Whether what is known says why the gate refused a machine: the routes, the verdict now, or the one then."""
        verdicts = {it.verdict for it in (self.now, self.last) if it is not None}
        return bool(self.missing or self.contested or self.gate.bars or verdicts & _REFUSING)

    @property
    def heals(self) -> bool:
        """Whether what escapes now is closed when a machine starts, by installed routes that come before the check."""
        return self.now is not None and self.now.in_force and self.now.heals and not self.failed and not self.gate.bars

    @property
    def is_adrift(self) -> bool:
        """Whether the last check found something wrong, and nothing tells whether that is so now."""
        return self.now is None and self.last is not None and self.last.verdict != "ok"

    @property
    def code(self) -> int:
        """What a program exits with for it. What the last check said does not count, only what is so now."""
        verdict = "" if self.now is None else self.now.verdict
        is_wrong = self.failed or self.missing or self.gate.bars or self.gate.openings or self.fleeting
        if is_wrong or verdict == "overlap":
            return FAILED
        unknown = self.troubles or self.is_adrift or verdict in {"undecided", "no-default-route"}
        return UNDECIDED if unknown else FINE


def find_standing(host: Host, config: HostRoutingConfig, *, named: bool) -> Standing:
    """Everything that can be found out; one question that fails does not keep the others from being asked."""
    troubles: list[str] = []
    routes: tuple[Route, ...] = ()
    default: Route | None = None
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
        told = f"{layout.check_script_path} is not as we wrote it; write it anew with: hostrouting apply"
        troubles.append(f"the installed check: {told}")
    wanted = config if named else installed or config
    holding = _ROUTES in asked and installed is not None and wanted_routes(wanted) == wanted_routes(installed)
    try:
        if host.backend is not None:
            with host.backend() as backend:
                try:
                    now = judge(backend, config, installed, gated=checking)
                    fib = Fib(backend.snapshot(family=IPV4)) if now is None else now.checked.fib
                except BackendError as error:
                    if not isinstance(error.fib, Fib):
                        raise
                    fib = error.fib
                    troubles.append(f"the verdict now: {error}")
            snapshot = fib.snapshot
            # Of 100,000 routes only ours are looked at.
            ours = [at for at, key in enumerate(route_keys(snapshot.routes)) if key[4] == wanted.protocol]
            routes = tuple(snapshot.routes[at] for at in ours)
            default = default_route(fib)
            plan = plan_routes(wanted_routes(wanted), snapshot, protocol=wanted.protocol)
    except BackendError as error:
        troubles.append(f"the route table: {error}")
    return Standing(
        routes=routes,
        wanted=len(wanted_routes(wanted)),
        missing=tuple(_missing(plan)),
        contested=plan.conflicts,
        start=start_command(host),
        default=default,
        files=_files_of(host, config, troubles),
        gate=gate,
        lasting=files.is_there(layout.routes_script_path),
        checking=checking,
        holding=holding,
        units=_asked(troubles, "the units", lambda: _units_of(host)) or (),
        layout=layout,
        manager=host.manager is not None and host.manager.is_running(),
        now=now,
        last=_asked(troubles, "the last check", lambda: find_last_check(host)),
        troubles=tuple(troubles),
    )


def _asked(troubles: list[str], what: str, question: Callable[[], T]) -> T | None:
    """The answer, or a trouble more, unless the same one is there."""
    try:
        return question()
    except (FileError, ManagerError) as error:
        if not any(trouble.endswith(f": {error}") for trouble in troubles):
            troubles.append(f"{what}: {error}")
        return None


def _units_of(host: Host) -> tuple[tuple[str, UnitState], ...]:
    """The state of each unit of ours, in the order in which they run."""
    manager, layout = host.manager, host.layout
    if manager is None or not manager.is_running():
        return ()
    states = [(unit, manager.state(unit)) for unit in (layout.routes_unit, layout.gate_unit, layout.check_unit)]
    return tuple((unit, state) for unit, state in states if state.load != "not-found")


def _files_of(host: Host, config: HostRoutingConfig, troubles: list[str]) -> tuple[str, ...]:
    """The files of ours, without those under /run."""
    found: set[str] = set()
    for look in (Gate(host).present, *(task.paths for task in Configure(config, host=host).subtasks)):
        found.update(_asked(troubles, "the files", look) or ())
    state = host.layout.at(host.layout.state_directory)
    return tuple(sorted(path for path in found if not path.startswith(f"{state}/")))


def _missing(plan: RoutePlan) -> Iterator[str]:
    """The routes that are wanted and not there, or not as they are wanted."""
    yield from (str(step.route) for step in (*plan.changes, *plan.conflicts) if step.action != "delete")
    yield from map(str, plan.pending)
