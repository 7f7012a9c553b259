"""What of ours is on a host, whether it is in force, and the verdict on it: facts, each question asked once.

Here: what is found out, and the exit code that it means. Not here: sentences and tables (`status`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from hostrouting.cli.reply import FAILED, FINE, UNDECIDED
from hostrouting.cli.source import installed_config, quiet_context, start_command
from hostrouting.cli.verdicts import find_last_check, judge
from hostrouting.cli.witness import Observed
from hostrouting.errors import BackendError, FileError, ManagerError
from hostrouting.fib import Fib
from hostrouting.gate import Gate
from hostrouting.layout import HostLayout
from hostrouting.model import route_keys
from hostrouting.plan import RoutePlan, plan_routes
from hostrouting.render import parse_gate_steps, render_gate_steps
from hostrouting.tasks import Configure, Remove, wanted_routes
from hostrouting.uplink import default_route

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hostrouting.cli.verdicts import LastCheck, Now
    from hostrouting.config import HostRoutingConfig
    from hostrouting.host import Host
    from hostrouting.model import Route
    from hostrouting.plan import Step
    from hostrouting.system import UnitState

__all__ = ["Standing", "find_standing"]

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
    unfinished: tuple[str, ...]
    """What a run has left that did not come to its end; each a sentence."""
    shut: bool
    """Whether no machine starts for that."""
    lasting: bool
    """Whether the script that brings the routes back is there."""
    checking: bool
    """Whether machines wait for a check."""
    holding: bool
    """Whether machines wait for these routes."""
    units: tuple[tuple[str, UnitState], ...]
    check_unit: str
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
        """The units that have failed, but for the gate's, which failed for what was so when a machine last started.

        Nor the check's where that says no more than its last verdict, which holds no more, or is the one now.
        """
        failed = [(unit, state) for unit, state in self.units if not state.ok and unit != HostLayout.gate_unit]
        return tuple(unit for unit, state in failed if not self._is_verdict(unit, state))

    def _is_verdict(self, unit: str, state: UnitState) -> bool:
        judged = self.now is not None and self.now.is_installed
        refused = self.last is not None and self.last.verdict in _REFUSING
        return judged and refused and unit == self.check_unit and (state.result, state.status) == ("exit-code", 1)

    @property
    def heals(self) -> bool:
        """Whether what escapes now is closed when a machine starts, by installed routes that come before the check."""
        return self.now is not None and self.now.in_force and self.now.heals and not self.failed and not self.unfinished

    @property
    def is_adrift(self) -> bool:
        """Whether the last check found something wrong, and nothing tells whether that is so now."""
        return self.now is None and self.last is not None and self.last.verdict != "ok"

    @property
    def code(self) -> int:
        """What a program exits with for it. What the last check said does not count, only what is so now."""
        verdict = "" if self.now is None else self.now.verdict
        if self.failed or self.missing or self.unfinished or self.fleeting or verdict == "overlap":
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
    last: LastCheck | None = None
    installed: HostRoutingConfig | None = None
    layout, files = host.layout, host.files
    asked = {step.name for step in Gate(host).steps} if files.is_there(layout.gate_drop_in_path) else set()
    checking = _CHECK in asked
    unfinished = [*_unfinished(host)]
    try:
        installed = installed_config(host)
        lost = installed is None or not installed.route_overlap.expected_cidrs
        if lost and checking and files.is_there(layout.check_script_path):
            told = f"{layout.check_script_path} is not as we wrote it; write it anew with: hostrouting apply"
            troubles.append(f"the installed check: {told}")
    except FileError as error:
        troubles.append(f"the installed script: {error}")
    wanted = config if named else installed or config
    holding = _ROUTES in asked and installed is not None and wanted_routes(wanted) == wanted_routes(installed)
    try:
        if host.backend is not None:
            with Observed(host.backend()) as backend:
                try:
                    now = judge(backend, config, installed, gated=checking)
                except BackendError as error:
                    if backend.taken is None:
                        raise
                    troubles.append(f"the verdict now: {error}")
                snapshot = backend.last
            # Of 100,000 routes only ours are looked at.
            ours = [at for at, key in enumerate(route_keys(snapshot.routes)) if key[4] == wanted.protocol]
            routes = tuple(snapshot.routes[at] for at in ours)
            default = default_route(Fib(snapshot) if now is None else now.checked.fib)
            plan = plan_routes(wanted_routes(wanted), snapshot, protocol=wanted.protocol)
    except BackendError as error:
        troubles.append(f"the route table: {error}")
    try:
        last = find_last_check(host)
    except FileError as error:
        troubles.append(f"the last check: {error}")
    running = host.manager is not None and host.manager.is_running()
    units: tuple[tuple[str, UnitState], ...] = ()
    try:
        units = _known_units(host) if running else ()
        unfinished += _unread(host, wanted)
    except ManagerError as error:
        troubles.append(f"the units: {error}")
    present = Remove(config, host=attrs.evolve(host, backend=None)).plan(quiet_context()).files.removes
    return Standing(
        routes=routes,
        wanted=len(wanted_routes(wanted)),
        missing=tuple(_missing(plan)),
        contested=plan.conflicts,
        start=start_command(host),
        default=default,
        files=tuple(sorted(path for path in present if not path.startswith(layout.at(layout.state_directory)))),
        unfinished=tuple(text for _, text in unfinished),
        shut=any(shuts for shuts, _ in unfinished),
        lasting=files.is_there(layout.routes_script_path),
        checking=checking,
        holding=holding,
        units=units,
        check_unit=layout.check_unit,
        manager=running,
        now=now,
        last=last,
        troubles=tuple(troubles),
    )


def _known_units(host: Host) -> tuple[tuple[str, UnitState], ...]:
    """Our units that systemd knows, each with how it is."""
    names = (host.layout.routes_unit, host.layout.check_unit, host.layout.gate_unit)
    states = [(unit, host.manager.state(unit)) for unit in names] if host.manager is not None else []
    return tuple((unit, state) for unit, state in states if state.load != "not-found")


def _unread(host: Host, config: HostRoutingConfig) -> Iterator[tuple[bool, str]]:
    """What systemd has yet to read, in the form of what is unfinished."""
    gate = Gate(host)
    if gate.present() and gate.is_unread(task.part for task in Configure(config, host=host).subtasks):
        yield False, "systemd has yet to read the units and drop-ins that are there"


def _missing(plan: RoutePlan) -> Iterator[str]:
    """The routes that are wanted and not there, or not as they are wanted."""
    yield from (str(step.route) for step in (*plan.changes, *plan.conflicts) if step.action != "delete")
    yield from map(str, plan.pending)


def _unfinished(host: Host) -> Iterator[tuple[bool, str]]:
    """What no run leaves that came to its end, each with whether it keeps machines from starting."""
    layout, files = host.layout, host.files
    asked = files.is_there(layout.gate_drop_in_path)
    for path in (layout.gate_unit_path, layout.gate_script_path, layout.gate_steps_path):
        if asked and not files.is_there(path):
            yield True, f"{path} is missing, and every machine asks it before it starts"
    try:
        steps = parse_gate_steps(files.read(layout.gate_steps_path) or render_gate_steps(()))
    except ValueError as error:
        yield asked, f"{layout.gate_steps_path}: {error}"
        return
    for step in steps:
        script = layout.at(f"{layout.config_directory}/{step.name}.sh")
        if step.kind == "changing":
            yield asked, f"{layout.gate_steps_path} says that {step.name} is changing"
        elif not files.is_there(script):
            required = step.kind == "requires"
            verb = "requires" if required else "runs"
            yield asked and required, f"{script} is missing, and every machine {verb} it before it starts"
