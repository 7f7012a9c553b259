"""`status`: the parts that hostrouting has installed, the verdict now and the last one, and the findings.

Here: collecting the facts, each once, the exit code that follows, and the sentences. Not here: how a host is checked
(`hostrouting.check.examine`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from hostrouting.boot.gate import Gate
from hostrouting.boot.gate_state import GateState, find_gate_state
from hostrouting.check.examine import examine
from hostrouting.check.report import marked_verdict
from hostrouting.check.rules import is_of_main
from hostrouting.cli.check import Check
from hostrouting.cli.command import FAILED, FINE, UNDECIDED, Command, Reply, config_option
from hostrouting.cli.output import SHOWN, Line, Painted, Tone, capped, line, named_lines, table
from hostrouting.cli.source import config_of, installed_config, start_command
from hostrouting.cli.standings import Standings, word_of
from hostrouting.config.settings import HostRoutingConfig, RouteOverlapConfig
from hostrouting.config.values import Mode
from hostrouting.errors import BackendError, ConfigError, FileError, ManagerError
from hostrouting.fib.engine import Fib
from hostrouting.finding import Finding, of_severity, worst_first
from hostrouting.model.prefix import IPV4, IPV6
from hostrouting.model.route import OURS
from hostrouting.routes.plan import RoutePlan, plan_static_routes
from hostrouting.routes.uplink import default_route, reply_destinations, wanted_routes
from hostrouting.tasks.configure import make_tasks
from hostrouting.text import counted, spoken
from phases.text import moment_as_text

if TYPE_CHECKING:
    import argparse

    from hostrouting.host.host import Host
    from hostrouting.host.systemd import UnitState
    from hostrouting.kernel.base import RouteBackend
    from hostrouting.model.route import Route

T = TypeVar("T")

_ROUTES, _CHECK = "static-routes", "check-route-overlap"
"""The names of the gate's steps."""

_REFUSING = {"overlap", "no-default-route"}
"""The verdicts that make the unit of a STRICT check fail."""


class HostStatus:
    """The facts, each collected once; the others are still collected if one of them cannot be determined."""

    def __init__(self, host: Host, config: HostRoutingConfig, *, file: str | None) -> None:
        """Collect the facts. `file` is the configuration that was given, if any."""
        files, layout = host.files, host.layout
        self.file, self.layout = file, layout
        self.manager = host.manager is not None and host.manager.is_running()
        self.troubles: list[Finding] = []  # what could not be determined
        self.gate = self._known("the gate", lambda: find_gate_state(host)) or GateState()
        for holder in files.holders(layout.lock_path):
            sentence = f"{holder} is working on this host now; what status shows may change"
            self.troubles.append(Finding("lock", "note", sentence, layout.lock_path))
        steps = self._known("the gate's steps", lambda: Gate(host).steps) or ()
        asked = {step.name for step in steps} if self.gate.is_up else set()
        self.checking = _CHECK in asked  # whether gated units wait for a check
        installed = self._known("the installed script", lambda: installed_config(host))
        expects = installed is not None and bool(installed.route_overlap.expected_cidrs)
        if not expects and self.checking and files.is_there(layout.check_script_path):
            sentence = f"the installed check is not known: {layout.check_script_path} is not as hostrouting wrote it"
            remedy = "write it again with: hostrouting apply --config FILE"
            self.troubles.append(Finding("not-known", "warning", sentence, layout.check_script_path, remedy))
        wanted = config if file is not None else installed or config
        self.wanted = wanted_routes(wanted)
        # Whether gated units wait for these routes.
        self.holding = _ROUTES in asked and installed is not None and self.wanted == wanted_routes(installed)
        self.start = start_command(host)  # installs the routes that can be added now
        self.lasting = files.is_there(layout.routes_script_path)  # the script that adds the routes at boot
        # A configuration without expected CIDRs cannot judge; then the installed check does.
        self.by_config = bool(config.route_overlap.expected_cidrs)
        by = config if self.by_config else installed if expects else None
        self.is_installed_check = (
            by is not None and by.route_overlap == (installed or HostRoutingConfig()).route_overlap
        )
        self.check: Check | None = None  # none without expected CIDRs, or if it was not possible
        self.plan = RoutePlan()  # from the present routes to the wanted ones
        self.routes: tuple[Route, ...] = ()
        self.default: Route | None = None
        self.ipv6_default: Route | None = None
        try:
            if host.backend is not None:
                with host.backend() as backend:
                    fib = self._examined(backend, by)
                replies = reply_destinations(wanted)
                ours = fib.snapshot.routes.only(protocol=OURS)
                self.routes = tuple(route for route in ours if route.prefix not in replies)
                self.default, self.ipv6_default = (default_route(fib, family=family) for family in (IPV4, IPV6))
                self.plan = plan_static_routes(wanted, fib.snapshot)
        except BackendError as error:
            self.troubles.append(Finding("not-known", "warning", f"the route table: {error}"))
        standings = Standings.on(host, wanted)
        self.standings = standings._replace(troubles=())
        self.files = self._files_of(host, config)
        self.units = self._known("the units", lambda: _units_of(host)) or ()
        self.last = self._known("the last check", lambda: _find_last_check(host))
        # The parts in which the configuration that was given differs from the installed one.
        self.differs = () if file is None else tuple(_differences(config, installed or HostRoutingConfig()))
        self.troubles += standings.troubles

    def _known(self, what: str, question: Callable[[], T]) -> T | None:
        """The answer; None if there is an error, which becomes a trouble, once."""
        try:
            return question()
        except (ConfigError, FileError, ManagerError) as error:
            if not any(trouble.sentence.endswith(f": {error}") for trouble in self.troubles):
                self.troubles.append(Finding("not-known", "warning", f"{what}: {error}"))
            return None

    def _examined(self, backend: RouteBackend, by: HostRoutingConfig | None) -> Fib:
        """Check the host by this configuration, if there is one. Returns the tables that were read."""
        if by is None:
            return Fib(backend.snapshot())
        try:
            self.check = Check(examine(None, backend, by, whole=True), by)
        except BackendError as error:
            if not isinstance(error.fib, Fib):
                raise
            sentence = f"the present state cannot be checked: {error}"
            self.troubles.append(Finding("not-known", "warning", sentence))
            return error.fib
        return self.check.fib

    def _files_of(self, host: Host, config: HostRoutingConfig) -> tuple[str, ...]:
        """Our files, without those under /run."""
        found: set[str] = set()
        for look in (Gate(host).present, *(task.paths for task in make_tasks(config, host))):
            found.update(self._known("the files", look) or ())
        passing = host.layout.at("/run/")
        return tuple(sorted(path for path in found if not path.startswith(passing)))

    @property
    def verdict(self) -> str:
        """The verdict on the present state; empty without a check."""
        return "" if self.check is None else self.check.found.verdict

    @property
    def in_force(self) -> bool:
        """Whether gated units wait for this verdict."""
        return self.checking and self.check is not None and self.is_installed_check

    @property
    def missing(self) -> tuple[str, ...]:
        """The wanted routes that do not exist, differ, or still lack a gateway or device."""
        steps = (*self.plan.changes, *self.plan.conflicts)
        return (*(str(step.route) for step in steps if step.action != "delete"), *map(str, self.plan.pending))

    @property
    def installed(self) -> bool:
        """Whether the host has any of our routes or files."""
        return bool(self.routes or self.files)

    @property
    def failed(self) -> tuple[str, ...]:
        """The units whose last run failed, unless the reason has gone since."""
        return tuple(unit for unit, state in self.units if not state.ok and not self._is_past(unit, state))

    def _is_past(self, unit: str, state: UnitState) -> bool:
        """Whether the reason for a unit's failure has gone, judged by the present routes and the present verdict."""
        # `systemctl reset-failed` makes the result a success, and leaves the exit status.
        has_refused = state.result in {"exit-code", "success"} and state.status == 1
        if unit == self.layout.gate_unit:
            return has_refused and self._explains_a_refusal
        if unit == self.layout.routes_unit:
            return not self.missing and any(
                unit_state.ok and unit_state.invocation for name, unit_state in self.units if name != unit
            )
        if unit != self.layout.check_unit:
            return bool(self.standings.found) and self.standings.are_right
        judged = self.check is not None and self.is_installed_check
        return judged and has_refused and self.last is not None and self.last["verdict"] in _REFUSING

    @property
    def _explains_a_refusal(self) -> bool:
        """Whether the routes, the present verdict or the last one explain why the gate refused a gated unit."""
        refusals = self.missing or self.gate.bars or self.standings.faults
        return bool(refusals or {self.verdict, (self.last or {}).get("verdict")} & _REFUSING)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong and what is not known; the verdict and the findings of other tasks come separately."""
        found = [*self.gate.findings, *self._of_units(), *self._of_routes(), *self.troubles]
        if self.differs:
            parts = f"another configuration is installed here; it differs in {spoken(self.differs, most=SHOWN)}"
            remedy = f"to see what apply would change: hostrouting plan --config {self.file}"
            sentence = parts if self.installed else "nothing is installed here"
            found.append(Finding("not-installed", "error", sentence, remedy=remedy))
        if self.check is None and self.last is not None and self.last["verdict"] != "ok":
            sentence = f"the verdict of the last check was {self.last['verdict']}, but now no check is installed"
            found.append(Finding("not-known", "warning", sentence))
        return worst_first(found)

    def _of_units(self) -> Iterator[Finding]:
        for unit in self.failed:
            sentence = f"the last run of {unit} failed"
            if self.failed == (self.layout.gate_unit,):
                sentence = "the last start of a gated unit was refused, and nothing explains that now"
            yield Finding("unit", "error", sentence, unit, f"see: journalctl -u {unit}")

    def _of_routes(self) -> Iterator[Finding]:
        follows = f", and {spoken(self.gate.units)} cannot start without it" if self.holding else ""
        for finding in self.plan.findings():
            if finding.name in {"route-conflict", "route-waits"}:
                yield attrs.evolve(finding, severity="error", sentence=f"{finding.sentence}{follows}")
        missing = self.missing[: len(self.missing) - len(self.plan.conflicts) - len(self.plan.pending)]
        if missing:
            sentence = f"{len(missing):,} of {counted(len(self.wanted), 'route')}: {spoken(missing)}"
            remedy = f"see: hostrouting plan --config {self.file}" if self.file else f"as root: {self.start}"
            yield Finding("route-missing", "error", sentence, missing[0], remedy)
        if self.routes and not self.lasting:
            sentence = "no script adds the routes of hostrouting at the next boot"
            remedy = f"as root: hostrouting apply --config {self.file or 'FILE'}"
            yield Finding("route-will-not-last", "error", sentence, remedy=remedy)

    @property
    def code(self) -> int:
        """The exit code. It depends on the present state only, not on the result of the last check."""
        is_wrong = any(finding.severity == "error" or finding.name == "gate-open" for finding in self.findings)
        if is_wrong or not self.standings.are_right or self.verdict == "overlap":
            return FAILED
        is_unknown = any(of_severity(self.findings, "warning")) or self.verdict in {"undecided", "no-default-route"}
        return UNDECIDED if is_unknown else FINE


def _differences(wanted: HostRoutingConfig, installed: HostRoutingConfig) -> Iterator[str]:
    """The parts of the configuration that differ from what is installed."""
    if wanted_routes(wanted) != wanted_routes(installed):
        yield "staticRoutes"
    settings = [config.route_overlap if config.route_overlap.expected_cidrs else None for config in (wanted, installed)]
    if settings[0] != settings[1]:
        yield "routeOverlap"
    rewrites = [config.probe_rewrite if config.probe_rewrite.enabled else None for config in (wanted, installed)]
    if rewrites[0] != rewrites[1]:
        yield "probeRewrite"
    guard, program = wanted.guard, wanted.guard.program or installed.guard.program
    if guard.enabled != installed.guard.enabled or (guard.enabled and program != installed.guard.program):
        yield "guard"
    for key in ("gate", "manageForeign"):
        if wanted.to_mapping().get(key) != installed.to_mapping().get(key):
            yield key


def _units_of(host: Host) -> tuple[tuple[str, UnitState], ...]:
    """The state of each of our units, in the order in which they run."""
    manager, layout = host.manager, host.layout
    if manager is None or not manager.is_running():
        return ()
    tasks = make_tasks(HostRoutingConfig(), host)
    first, *others = (unit for task in tasks if (unit := task.part.unit))
    states = [(unit, manager.state(unit)) for unit in (first, layout.gate_unit, *others)]
    return tuple((unit, state) for unit, state in states if state.load != "not-found")


def _find_last_check(host: Host) -> dict[str, str] | None:
    """The verdict in the marker of the last check, and when it was written; None if there was none since the boot."""
    for path in (host.layout.detected_path, host.layout.ok_path):
        if (text := host.files.read(path)) is not None:
            if host.files.is_frozen(path):
                reason = "is on a read-only file system, so it may be from an earlier check; remount that writable"
                raise FileError(f"{path} {reason}", path=path)
            seconds = host.files.modified(path)
            at = "" if seconds is None else moment_as_text(datetime.fromtimestamp(seconds, timezone.utc))
            return {"verdict": marked_verdict(text), "at": at}
    return None


_WAITING = "runs at each start of a gated unit"
_TONES: dict[str, Tone] = {"ok": "good", "overlap": "bad"}


def _answer(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:

    status = HostStatus(host(), config_of(arguments), file=arguments.config)
    return Reply(status.code, lambda: _document(status), lambda: _page(status))


def _page(status: HostStatus) -> Iterator[Line]:

    yield from _answer_lines(status)
    yield line()
    rows: list[tuple[str, str | Painted]] = []
    if status.default is not None or not status.troubles:
        rows.append(("default route", Painted("none", "bad") if status.default is None else str(status.default)))
    if status.ipv6_default is not None:
        rows.append(("IPv6 default route", str(status.ipv6_default)))
    rows += _judged(status)
    rows.append(("last check", _last_check(status.last)))
    for unit, state in status.units:
        is_gate = unit == status.layout.gate_unit
        rows.append((unit, _state(state, before_a_run=_WAITING if is_gate else state.active)))
    rows += [(unit.name, Painted(str(unit), "good" if unit.is_checked else "bad")) for unit in status.gate.gated]
    if not status.manager:
        rows.append(("systemd", Painted(_without_systemd(status), "soft")))
    width = max(len(name) for name, _ in rows)
    for name, fact in rows:
        yield line("  ", Painted(f"{name:<{width}}  ", "soft"), fact)
    yield from status.standings.lines()
    yield from _column("routes of hostrouting", status.routes)
    yield from _column("files of hostrouting", status.files)


def _column(head: str, things: Sequence[object]) -> Iterator[Line]:
    if things:
        yield line()
        yield from capped(table((head,), [(str(thing),) for thing in things[:SHOWN]]), len(things))


def _answer_lines(status: HostStatus) -> Iterator[Line]:
    """What is wrong, escapes first; or one line that says that all is well."""
    lines = [*_escapes(status), *_astray(status)]
    findings = [finding for finding in status.findings if finding.severity != "note"]
    yield from lines if lines or findings else [_well(status)]
    yield from named_lines(status.findings)


def _escapes(status: HostStatus) -> Iterator[Line]:
    """The verdict now unless it is ok, what follows from it, and what to do."""
    check = status.check
    if check is None or status.verdict == "ok":
        return
    yield from check.answer_lines()
    adds = any(step.action != "delete" for step in status.plan.changes)
    # The command that adds missing installed routes, if the gate can add them, too.
    start = status.start if adds and not (status.plan.conflicts or status.plan.pending or status.file) else ""
    if status.verdict != "undecided" and status.in_force:
        yield line("  ", _follows(check, status.gate, is_added=bool(start)))
    yield line("  ", _ways(check, status.file if status.by_config else None, start=start))


def _follows(check: Check, gate: GateState, *, is_added: bool) -> str:
    """The effect of the verdict on the units that wait for it; `is_added`: the gate can add missing routes."""
    units = spoken(gate.units)
    if check.config.route_overlap.mode is Mode.WARN:
        return f"The mode is WARN: the check does not keep {units} from starting."
    if gate.openings:
        return "The mode is STRICT, but the gate is open, see below."
    if is_added:
        return f"The mode is STRICT: before {units} starts, the gate adds the missing routes, and then checks."
    return f"The mode is STRICT: {units} cannot start while this lasts; what runs keeps running."


def _ways(check: Check, file: str | None, *, start: str) -> str:
    """The commands to run next; `start` is the one that adds missing installed routes."""
    lost = next((found for found in check.found.families if found.verdict == "no-default-route"), None)
    if lost is not None and check.found.verdict == "no-default-route":
        ip = "ip -6" if lost.report.family == IPV6 else "ip"
        return f"See: {ip} {'rule' if any(map(is_of_main, lost.flaws)) else 'route show default'}"
    by = f" --config {file}" if file else ""
    if start:
        return f"To add the installed routes that are missing now, as root: {start}; for details: hostrouting check"
    if check.found.routes:
        return f"To print the repair: hostrouting repair{by}; for details: hostrouting check{by}"
    return f"See: hostrouting check{by}"


def _astray(status: HostStatus) -> Iterator[Line]:
    """Other tasks that are not in force or do not work; the reasons are below."""
    for standing in status.standings.found:
        if not standing.is_right:
            yield line(word_of(standing), f" {standing.subject}, for the reasons below")


def _well(status: HostStatus) -> Line:
    ours = [counted(len(status.routes), "route")] if status.routes else []
    ours += [counted(len(status.files), "file")] if status.files else []
    here = f"{' and '.join(ours)} of hostrouting {'are' if len(status.routes) + len(status.files) > 1 else 'is'} here"
    if not status.installed:
        sentence = " hostrouting has nothing installed on this host; to look for an overlap: hostrouting check CIDR"
        return line(Painted("NOTHING:", "soft"), sentence)
    passed = ""
    if status.check is not None:
        passed = f", and {'' if status.is_installed_check else f'by {status.file} '}nothing escapes now"
    return line(Painted("INSTALLED:", "good"), f" {here}{passed}")


def _without_systemd(status: HostStatus) -> str:
    """A sentence that systemd does not run, and which parts of hostrouting are in force without it."""
    if not status.files:
        return "not running here"
    if not status.routes:
        return "not running here: the units and the gate are in force from the next boot on"
    return "not running here: the routes are in force now, the units and the gate from the next boot on"


def _judged(status: HostStatus) -> Iterator[tuple[str, Painted]]:
    """The verdict now, and which check found it."""
    if status.check is None:
        if status.checking:
            yield ("now", Painted("not known", "warn"))
        return
    escapes = len(status.check.found.escapes)
    count = f" ({counted(escapes, 'finding')})" if escapes else ""
    yield ("now", Painted(f"{status.verdict}{count}", _TONES.get(status.verdict, "warn")))
    by = f"{status.file}{', as it is installed' * status.is_installed_check}"
    by = by if status.by_config else "the check installed here"
    yield ("checked by", Painted(f"{by}: {_check_name(status.check.config.route_overlap)}", ""))


def _check_name(check: RouteOverlapConfig) -> str:
    """A phrase that names a check: its CIDRs, devices and mode."""
    devs = f" by {spoken(check.expected_devs, last='or')}" if check.expected_devs else ""
    return f"{spoken(tuple(map(str, check.expected_cidrs)))}{devs} in {check.mode}"


def _last_check(last: dict[str, str] | None) -> Painted:
    if last is None:
        return Painted("none since this host booted", "soft")
    return Painted(", ".join(filter(None, last.values())), _TONES.get(last["verdict"], "warn"))


def _state(state: UnitState, *, before_a_run: str) -> Painted:
    if state.active == "active":
        return Painted(state.active, "good")
    if state.ok:
        return Painted(f"{state.active}, its last run succeeded" if state.invocation else before_a_run, "good")
    how = "" if state.result == "success" else f" with {state.result}"  # a success as in `_is_past`
    return Painted(f"{state.active}, its last run failed{how} (exit status {state.status})", "bad")


def _document(status: HostStatus) -> dict[str, Any]:

    return {
        "schema": COMMAND.schema,
        "installed": status.installed,
        "differs": list(status.differs),
        "routes": [str(route) for route in status.routes],
        "missing": list(status.missing),
        "defaultRoute": None if status.default is None else str(status.default),
        "ipv6DefaultRoute": None if status.ipv6_default is None else str(status.ipv6_default),
        "files": list(status.files),
        "units": [
            {"unit": unit, "load": state.load, "active": state.active, "result": state.result, "status": state.status}
            for unit, state in status.units
        ],
        "gated": [
            {"unit": unit.name, "load": unit.load, "active": list(unit.active), "checked": unit.is_checked}
            for unit in status.gate.gated
        ],
        "manager": status.manager,
        "now": None if status.check is None else _now_document(status, status.check),
        "lastCheck": status.last,
        "standings": status.standings.documents(),
        "findings": [finding.to_mapping() for finding in status.findings],
    }


def _now_document(status: HostStatus, check: Check) -> dict[str, Any]:
    """The document of the check, and which configuration it used."""
    found = check.document()
    del found["schema"]
    return {
        "by": "config" if status.by_config else "installed",
        "inForce": status.in_force,
        "expectedCidrs": [str(cidr) for cidr in check.config.route_overlap.expected_cidrs],
        **found,
    }


COMMAND = Command(
    name="status",
    answer=_answer,
    version=3,
    options=config_option,
    more="""\
The present state of the host is checked: by the given configuration if it has expected CIDRs, else by the installed
check. The verdict of the last check is shown as well; it does not affect the exit code.

Exit code 1 means that there is an overlap now, that the gate is open or shut, or that something of hostrouting is
missing, masked, failed or unfinished, does not come back at the next boot, or is not that of the given configuration.
3 means that not everything could be determined, or that the verdict is undecided.
""",
    examples="""\
# is everything that hostrouting installed in force?
hostrouting status
# is this configuration installed and in force?
hostrouting status --config agent.json
""",
    failing="something that hostrouting installed is wrong, or there is an overlap now",
)
