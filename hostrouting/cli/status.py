"""`status`: what of ours is on this host, whether it is in force, and what the last check said. Changes nothing."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.cli.changes import counted
from hostrouting.cli.page import SHOWN, Line, Painted, Tone, capped, line, table
from hostrouting.cli.reply import FAILED, FINE, UNDECIDED, Reply
from hostrouting.cli.source import config_of, installed_config, quiet_context
from hostrouting.errors import BackendError, FileError, ManagerError
from hostrouting.fib import Fib
from hostrouting.layout import HostLayout
from hostrouting.model import IPV4, route_keys
from hostrouting.plan import plan_routes
from hostrouting.tasks import Remove, wanted_routes
from hostrouting.uplink import default_route

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from hostrouting.config import HostRoutingConfig
    from hostrouting.host import Host
    from hostrouting.model import Route, Snapshot
    from hostrouting.system import UnitState

__all__ = ["SCHEMA", "run"]

SCHEMA = "hostrouting/status/1"
_VERDICTS = {"ok", "overlap", "undecided", "no-default-route"}
_TONES: dict[str, Tone] = {"ok": "good", "overlap": "bad"}


@attrs.frozen
class _Standing:
    """What was found. `troubles` are the questions that could not be answered, each in a sentence."""

    routes: tuple[Route, ...]
    wanted: int
    missing: tuple[str, ...]
    default: Route | None
    files: tuple[str, ...]
    units: tuple[tuple[str, UnitState], ...]
    manager: bool
    verdict: str
    findings: int
    checked_at: str
    troubles: tuple[str, ...]

    @property
    def installed(self) -> bool:
        return bool(self.routes or self.files)

    @property
    def code(self) -> int:
        failed = any(not state.ok for _, state in self.units)
        if failed or self.missing or self.verdict == "overlap":
            return FAILED
        return UNDECIDED if self.troubles or self.verdict in {"undecided", "no-default-route"} else FINE


def run(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:
    """See the module."""
    it = _look(host(), config_of(arguments), named=arguments.config is not None)
    return Reply(it.code, lambda: _document(it), lambda _style: _page(it, arguments.config))


def _look(host: Host, config: HostRoutingConfig, *, named: bool) -> _Standing:
    """Everything that can be found out; one question that fails does not keep the others from being asked."""
    troubles: list[str] = []
    routes: tuple[Route, ...] = ()
    default: Route | None = None
    missing: tuple[str, ...] = ()
    wanted = config
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
            missing = tuple(_missing(wanted, snapshot))
    except BackendError as error:
        troubles.append(f"the route table: {error}")
    files = tuple(sorted(Remove(config, host=attrs.evolve(host, backend=None)).plan(quiet_context()).files))
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
    markers = {host.layout.ok_path, host.layout.detected_path, host.layout.report_path}
    lasting = tuple(path for path in files if path not in markers)
    count = len(wanted_routes(wanted))
    return _Standing(
        routes, count, missing, default, lasting, tuple(units), running, verdict, findings, checked_at, tuple(troubles)
    )


def _missing(config: HostRoutingConfig, snapshot: Snapshot) -> Iterator[str]:
    """The routes that are wanted and not there, or not as they are wanted."""
    plan = plan_routes(wanted_routes(config), snapshot, protocol=config.protocol)
    yield from (str(step.route) for step in plan.steps if step.action in {"add", "replace", "conflict"})
    yield from map(str, plan.pending)


def _last_check(host: Host) -> tuple[str, int, str]:
    """The verdict of the last check, how many findings it had, and when it was; empty where there was none."""
    path = host.layout.report_path
    if (text := host.files.read(path)) is None:
        return "", 0, ""
    document = _parsed(text)
    if (verdict := document.get("verdict")) not in _VERDICTS:
        raise FileError(f"{path} is no report of a check; write it anew with: hostrouting apply", path=path)
    return str(verdict), len(document.get("findings", ())), _when(host.files.modified(path))


def _parsed(text: str) -> dict[str, Any]:
    with suppress(ValueError):
        document = json.loads(text)
        if isinstance(document, dict):
            return document
    return {}


def _when(seconds: float | None) -> str:
    from datetime import UTC, datetime  # noqa: PLC0415  only where there was a check

    if seconds is None:
        return ""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _page(it: _Standing, config: str | None) -> Iterator[Line]:
    yield _answer(it, config)
    yield line()
    rows: list[tuple[str, str | Painted]] = []
    if it.default is not None or not it.troubles:
        rows.append(("default route", Painted("there is none", "bad") if it.default is None else str(it.default)))
    rows.append(("last check", _told(it)))
    rows += [(unit, _state(state)) for unit, state in it.units]
    if not it.manager:
        rows.append(("systemd", Painted("does not run here: what is installed takes effect at the next boot", "soft")))
    width = max(len(name) for name, _ in rows)
    for name, fact in rows:
        yield line("  ", Painted(f"{name:<{width}}  ", "soft"), fact)
    if it.missing:
        yield line()
        yield from capped(table(("missing",), [(text,) for text in it.missing[:SHOWN]]), len(it.missing))
    if it.routes:
        yield line()
        yield from capped(table(("routes of ours",), [(str(route),) for route in it.routes[:SHOWN]]), len(it.routes))
    if it.files:
        yield line()
        yield from capped(table(("files of ours",), [(path,) for path in it.files[:SHOWN]]), len(it.files))
    if it.troubles:
        yield line()
        yield line("Not everything could be found out:")
        yield from (line("  ", Painted(trouble, "warn")) for trouble in it.troubles)


def _answer(it: _Standing, config: str | None) -> Line:
    check = f"hostrouting check --config {config}" if config else "hostrouting check"
    ours = [counted(len(it.routes), "route")] if it.routes else []
    ours += [counted(len(it.files), "file")] if it.files else []
    here = f"{' and '.join(ours)} of ours {'are' if len(it.routes) + len(it.files) > 1 else 'is'} here"
    failed = [unit for unit, state in it.units if not state.ok]
    if failed:
        return line(Painted("FAILED:", "bad"), f" {' and '.join(failed)}; see journalctl -u {failed[0]}")
    if it.missing:
        count = f" {len(it.missing):,} of {counted(it.wanted, 'route')}"
        start = f"start them, as root: systemctl start {HostLayout.routes_unit}"
        return line(
            Painted("MISSING:", "bad"), f"{count}; {f'see: hostrouting plan --config {config}' if config else start}"
        )
    if it.verdict == "overlap":
        return line(Painted("OVERLAP:", "bad"), f" the last check found one; see: {check}")
    if it.verdict == "no-default-route":
        return line(Painted("NO-DEFAULT-ROUTE:", "warn"), " the last check found none; see: ip route show default")
    if it.verdict == "undecided":
        return line(Painted("UNDECIDED:", "warn"), f" the last check could not answer for all packets; see: {check}")
    if it.troubles:
        return line(Painted("UNKNOWN:", "warn"), " not everything could be found out")
    if not it.installed:
        return line(Painted("NOTHING:", "soft"), " nothing of ours is on this host")
    return line(Painted("INSTALLED:", "good"), f" {here}{', and the last check passed' if it.verdict == 'ok' else ''}")


def _told(it: _Standing) -> Painted:
    if not it.verdict:
        return Painted("none since this host booted", "soft")
    count = f" ({counted(it.findings, 'finding')})" if it.findings else ""
    return Painted(
        f"{it.verdict}{count}{f', {it.checked_at}' if it.checked_at else ''}", _TONES.get(it.verdict, "warn")
    )


def _state(state: UnitState) -> Painted:
    if state.ok:
        return Painted(f"{state.active}, its last run ended well" if state.invocation else state.active, "good")
    return Painted(f"{state.active}, its last run ended with {state.result} (exit status {state.status})", "bad")


def _document(it: _Standing) -> dict[str, Any]:
    """The status as the JSON value `hostrouting/status/1`."""
    return {
        "schema": SCHEMA,
        "installed": it.installed,
        "routes": [str(route) for route in it.routes],
        "missing": list(it.missing),
        "defaultRoute": None if it.default is None else str(it.default),
        "files": list(it.files),
        "units": [
            {"unit": unit, "load": x.load, "active": x.active, "result": x.result, "status": x.status}
            for unit, x in it.units
        ],
        "manager": it.manager,
        "lastCheck": {"verdict": it.verdict, "findings": it.findings, "at": it.checked_at} if it.verdict else None,
        "troubles": list(it.troubles),
    }
