"""`status`: what of ours is on this host, whether it is in force, and what the last check said. Changes nothing."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.cli.changes import counted
from hostrouting.cli.page import SHOWN, Line, Painted, Tone, capped, line, table
from hostrouting.cli.reply import FAILED, FINE, UNDECIDED, Reply
from hostrouting.cli.source import config_of, quiet_context
from hostrouting.errors import BackendError, FileError, ManagerError
from hostrouting.fib import Fib
from hostrouting.model import IPV4, route_keys
from hostrouting.tasks import Remove
from hostrouting.uplink import default_route

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from hostrouting.config import HostRoutingConfig
    from hostrouting.host import Host
    from hostrouting.model import Route
    from hostrouting.system import UnitState

__all__ = ["SCHEMA", "run"]

SCHEMA = "hostrouting/status/1"
_TONES: dict[str, Tone] = {"ok": "good", "overlap": "bad"}


@attrs.frozen
class _Standing:
    """What was found. `troubles` are the questions that could not be answered, each in a sentence."""

    routes: tuple[Route, ...]
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
        if failed or self.verdict in {"overlap", "no-default-route"}:
            return FAILED
        return UNDECIDED if self.troubles else FINE


def run(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:
    """See the module."""
    it = _look(host(), config_of(arguments))
    return Reply(it.code, lambda: _document(it), lambda _style: _page(it))


def _look(host: Host, config: HostRoutingConfig) -> _Standing:
    """Everything that can be found out; one question that fails does not keep the others from being asked."""
    troubles: list[str] = []
    routes: tuple[Route, ...] = ()
    default: Route | None = None
    try:
        if host.backend is not None:
            with host.backend() as backend:
                snapshot = backend.snapshot(family=IPV4)
            # Of 100,000 routes only ours are looked at.
            ours = [at for at, key in enumerate(route_keys(snapshot.routes)) if key[4] == config.protocol]
            routes = tuple(snapshot.routes[at] for at in ours)
            default = default_route(Fib(snapshot))
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
    return _Standing(routes, default, lasting, tuple(units), running, verdict, findings, checked_at, tuple(troubles))


def _last_check(host: Host) -> tuple[str, int, str]:
    """The verdict of the last check, how many findings it had, and when it was; empty where there was none."""
    layout = host.layout
    for path in (layout.ok_path, layout.detected_path):
        if (text := host.files.read(path)) is not None:
            document = _parsed(host.files.read(layout.report_path) or "")
            bare = "no-default-route" if text.strip() == "no-default-route" else "overlap"
            verdict = "ok" if path == layout.ok_path else bare
            lines = sum(not row.startswith(("ACTION:", "NOTE:", "UNSAFE:")) for row in text.splitlines())
            return verdict, len(document.get("findings", ())) or (lines if verdict == "overlap" else 0), _when(path)
    if (report := host.files.read(layout.report_path)) is not None:
        return str(_parsed(report).get("verdict", "undecided")), 0, _when(layout.report_path)
    return "", 0, ""


def _parsed(text: str) -> dict[str, Any]:
    with suppress(ValueError):
        document = json.loads(text)
        if isinstance(document, dict):
            return document
    return {}


def _when(path: str) -> str:
    from datetime import UTC, datetime  # noqa: PLC0415  only where there was a check

    with suppress(OSError):
        return datetime.fromtimestamp(os.stat(path).st_mtime, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return ""


def _page(it: _Standing) -> Iterator[Line]:
    yield _answer(it)
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


def _answer(it: _Standing) -> Line:
    ours = [counted(len(it.routes), "route")] if it.routes else []
    ours += [counted(len(it.files), "file")] if it.files else []
    here = f"{' and '.join(ours)} of ours {'are' if len(it.routes) + len(it.files) > 1 else 'is'} here"
    failed = [unit for unit, state in it.units if not state.ok]
    if failed:
        return line(Painted("FAILED:", "bad"), f" {' and '.join(failed)}; see journalctl -u {failed[0]}")
    if it.verdict == "overlap":
        return line(Painted("OVERLAP:", "bad"), " the last check found one; see: hostrouting check --config FILE")
    if it.verdict == "no-default-route":
        return line(Painted("NO-DEFAULT-ROUTE:", "warn"), " the last check found none; see: ip route show default")
    if not it.installed and it.troubles:
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
