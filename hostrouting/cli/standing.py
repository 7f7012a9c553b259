"""What of ours is on a host, whether it is in force, and what the last check said: facts, each question asked once.

Here: what is found out, and the exit code that it means. Not here: sentences and tables (`status`).
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.cli.reply import FAILED, FINE, UNDECIDED
from hostrouting.cli.source import installed_config, start_command
from hostrouting.errors import BackendError, FileError, ManagerError
from hostrouting.fib import Fib
from hostrouting.model import IPV4, route_keys
from hostrouting.plan import RoutePlan, plan_routes
from hostrouting.tasks import Configure, wanted_routes
from hostrouting.uplink import default_route

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hostrouting.config import HostRoutingConfig
    from hostrouting.host import Host
    from hostrouting.model import Route
    from hostrouting.plan import Step
    from hostrouting.system import UnitState

__all__ = ["Standing", "find_standing"]

_VERDICTS = {"ok", "overlap", "undecided", "no-default-route"}


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
    """Whether a check is installed."""
    units: tuple[tuple[str, UnitState], ...]
    manager: bool
    verdict: str
    findings: int
    checked_at: str
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
    def code(self) -> int:
        """What a program exits with for it."""
        failed = any(not state.ok for _, state in self.units)
        if failed or self.missing or self.unfinished or self.fleeting or self.verdict == "overlap":
            return FAILED
        return UNDECIDED if self.troubles or self.verdict in {"undecided", "no-default-route"} else FINE


def find_standing(host: Host, config: HostRoutingConfig, *, named: bool) -> Standing:
    """Everything that can be found out; one question that fails does not keep the others from being asked."""
    troubles: list[str] = []
    routes: tuple[Route, ...] = ()
    default: Route | None = None
    plan = RoutePlan()
    wanted, layout, files = config, host.layout, host.files
    try:
        wanted = config if named else installed_config(host) or config
    except FileError as error:
        troubles.append(f"the installed script: {error}")
    try:
        if host.backend is not None:
            with host.backend() as backend:
                snapshot = backend.snapshot(family=IPV4)
            # Of 100,000 routes only ours are looked at.
            ours = [at for at, key in enumerate(route_keys(snapshot.routes)) if key[4] == wanted.protocol]
            routes = tuple(snapshot.routes[at] for at in ours)
            default = default_route(Fib(snapshot))
            plan = plan_routes(wanted_routes(wanted), snapshot, protocol=wanted.protocol)
    except BackendError as error:
        troubles.append(f"the route table: {error}")
    verdict, findings, checked_at = "", 0, ""
    try:
        verdict, findings, checked_at = _last_check(host)
    except FileError as error:
        troubles.append(f"the last check: {error}")
    units: list[tuple[str, UnitState]] = []
    running = host.manager is not None and host.manager.is_running()
    try:
        if host.manager is not None and running:
            states = [(unit, host.manager.state(unit)) for unit in (host.layout.routes_unit, host.layout.check_unit)]
            units = [(unit, state) for unit, state in states if state.load != "not-found"]
    except ManagerError as error:
        troubles.append(f"the units: {error}")
    present: list[str] = []
    for task in Configure(config, host=attrs.evolve(host, backend=None)).subtasks:
        try:
            present += task.plan_removal().files
        except FileError as error:
            troubles.append(f"the files: {error}")
    return Standing(
        routes=routes,
        wanted=len(wanted_routes(wanted)),
        missing=tuple(_missing(plan)),
        contested=plan.conflicts,
        start=start_command(host),
        default=default,
        files=tuple(sorted(path for path in present if not path.startswith(layout.at(layout.state_directory)))),
        unfinished=tuple(_unfinished(host)),
        shut=files.is_there(layout.routes_drop_in_path) and not files.is_there(layout.routes_script_path),
        lasting=files.is_there(layout.routes_script_path),
        checking=files.is_there(layout.check_drop_in_path),
        units=tuple(units),
        manager=running,
        verdict=verdict,
        findings=findings,
        checked_at=checked_at,
        troubles=tuple(troubles),
    )


def _missing(plan: RoutePlan) -> Iterator[str]:
    """The routes that are wanted and not there, or not as they are wanted."""
    yield from (str(step.route) for step in (*plan.changes, *plan.conflicts) if step.action != "delete")
    yield from map(str, plan.pending)


def _unfinished(host: Host) -> Iterator[str]:
    """What no run leaves that came to its end."""
    layout, files = host.layout, host.files
    for note in (layout.routes_pending_path, layout.check_pending_path):
        if files.is_there(note):
            yield f"{note} is there: systemd has yet to read or run what was written"
    gates = {
        layout.routes_drop_in_path: layout.routes_script_path,
        layout.check_drop_in_path: layout.check_script_path,
    }
    for gate, script in gates.items():
        if files.is_there(gate) and not files.is_there(script):
            yield f"{script} is missing, and {gate} has machines wait for it"


def _last_check(host: Host) -> tuple[str, int, str]:
    """The verdict of the last check, how many findings it had, and when it was; empty where there was none."""
    path = host.layout.report_path
    if (text := host.files.read(path)) is None:
        return "", 0, ""
    if host.files.is_frozen(path):
        reason = "is on a read-only file system, and may be of an earlier check; remount that writable"
        raise FileError(f"{path} {reason}", path=path)
    document = _parsed(text)
    verdict, findings = document.get("verdict"), document.get("findings", [])
    if not (isinstance(verdict, str) and verdict in _VERDICTS and isinstance(findings, list)):
        raise FileError(f"{path} is no report of a check; write it anew with: hostrouting apply", path=path)
    return verdict, len(findings), _when(host.files.modified(path))


def _parsed(text: str) -> dict[str, Any]:
    with suppress(ValueError, RecursionError):
        document = json.loads(text)
        if isinstance(document, dict):
            return document
    return {}


def _when(seconds: float | None) -> str:
    from datetime import UTC, datetime  # noqa: PLC0415  only where there was a check

    if seconds is None:
        return ""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
