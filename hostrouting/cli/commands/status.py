"""`status`: whether this host matches the installed configuration: files, routes, units, and the
verdict now.

The mode, the gated units and the guard follow the first line, and what the journal has about a
start that was refused. With a unit, only that one.

Exit code 1: something differs, a unit can start unchecked or cannot start, or an address escapes
now. 3: the verdict is undecided, or a part of the host does not answer; the other parts are shown.
"""

import argparse
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

import attrs

from hostrouting.boot.files import WRITER, writer_of
from hostrouting.boot.health import AGAIN, find_faults
from hostrouting.boot.unit_states import UnitState, is_active, unit_states
from hostrouting.cli.check import (
    Check,
    find_typed,
    make_check,
    repair_pipeline,
    with_gate_command,
)
from hostrouting.cli.output import Answer, finding_lines
from hostrouting.cli.running import plan_lines
from hostrouting.cli.source import read_host
from hostrouting.codes import FINE, PROBLEM, code_of, worst_code
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import HostRoutingError
from hostrouting.finding import Finding, worst_first
from hostrouting.host.fileset import FileChanges
from hostrouting.host.host import Host
from hostrouting.host.layout import HostLayout
from hostrouting.host.systemd import Manager
from hostrouting.install.installed import read_installed
from hostrouting.install.plan import Plan
from hostrouting.tasks.configure import Configure

T = TypeVar("T")

_APPLY = f"hostrouting apply --config {HostLayout.config_path}"
_NOTHING = "NOTHING: hostrouting has nothing installed on this host"
_TO_CHECK = "to check its routes: hostrouting check CIDR"


class _Headline(NamedTuple):
    """How this host compares with its installed configuration, and what makes them the same."""

    sentence: str = ""
    """Ends where "as root" and the command follow; empty if other lines say all of it."""
    command: str = ""
    may_apply: bool = True
    """Whether it does no harm, and is possible, to apply the installed configuration again."""
    finding: Finding | None = None
    """The finding whose sentence is part of this one."""

    @property
    def line(self) -> str:
        return f"{self.sentence} as root: {self.command}" if self.command else self.sentence


ARGUMENTS = ("unit",)


class _Units(NamedTuple):
    """How the gated units are, and the guard."""

    mode: str = ""
    """Empty if nothing is checked."""
    states: tuple[UnitState, ...] = ()
    guard: str = ""

    @classmethod
    def of(cls, manager: Manager, config: HostRoutingConfig, only: str | None) -> "_Units":
        """As systemd says; with `only`, no other unit."""
        check = config.route_overlap
        states = [state for state in unit_states(manager, config) if only in {None, state.unit}]
        guard = "is not enabled"
        if config.guard.enabled:
            guard = "runs" if is_active(manager, HostLayout.guard_unit) else "does not run"
        return cls(check.mode if check.cidrs else "", tuple(states), guard)

    def lines(self) -> Iterator[str]:
        """Each unit with its state; of a refused one, what its start has logged as errors."""
        for state in self.states:
            yield f"  {state.line}"
            yield from (f"    {reason}" for reason in state.reasons)
        if self.guard:
            mode = f"mode {self.mode}; " if self.mode else ""
            yield f"  {mode}the guard {self.guard}"

    def document(self) -> dict[str, object]:
        """The same as plain values."""
        return {
            "mode": self.mode or None,
            "units": [state.to_mapping() for state in self.states],
            "guard": self.guard or None,
        }


class _Seen:
    """What this host has answered. A part that does not answer hides no other part."""

    def __init__(self, host: Host, unit: str | None) -> None:
        """Ask each part of the host."""
        self.plan = Plan()
        self.check: Check | None = None
        self.units = _Units()
        self.unanswered: list[HostRoutingError] = []
        none: tuple[Finding, ...] = ()
        self.faults = none
        config = read_installed(host)
        self.config = None if config == HostRoutingConfig() else config
        if self.config is None:
            if host.backend is not None:
                self.faults = self._ask(lambda: find_typed(read_host(host)), none)
            return
        self.plan = self._ask(Configure(config, host=host).plan, self.plan)
        if writer_of(host.files) != WRITER:
            # No edits: another release writes other texts.
            self.plan = attrs.evolve(self.plan, files=FileChanges())
        self.faults = self._ask(lambda: find_faults(host, config), none)
        manager = host.running_manager
        if manager is not None:
            self.units = self._ask(lambda: _Units.of(manager, config, unit), self.units)
        if config.route_overlap.cidrs:
            self.check = self._ask(lambda: make_check(config, host), None)

    def _ask(self, question: Callable[[], T], otherwise: T) -> T:
        try:
            return question()
        except HostRoutingError as error:
            self.unanswered.append(error)
            return otherwise

    @property
    def code(self) -> int:
        """The worst of what differs, of the verdict, and of what did not answer."""
        findings = (*self.faults, *self.plan.findings)
        is_wrong = any(finding.severity != "note" for finding in findings)
        codes = [code_of(error) for error in self.unanswered]
        if is_wrong or not self.plan.is_empty:
            codes.append(PROBLEM)
        if self.check is not None:
            codes.append(self.check.code())
        return worst_code(*codes)

    def findings(self, headline: _Headline) -> tuple[Finding, ...]:
        """The worst first. Where applying the installed configuration again does harm, or fails,
        no remedy is to apply it.
        """
        findings = (*self.faults, *self.plan.findings)
        again = headline.command
        if not headline.may_apply:
            findings = tuple(map(_without_apply, findings))
        elif not again:
            again = _APPLY
        for error in reversed(self.unanswered):
            findings = (*error.findings, *findings)
        return worst_first(with_gate_command(findings, again))

    def verdict_lines(self) -> Iterator[str]:
        """The page of the check; only the verdict where the host differs, because `apply` comes
        first then.
        """
        if self.check is None:
            return
        if self.plan.is_empty or self.plan.routes.pending:
            yield from self.check.lines()
            return
        yield from map(str, self.check.report.families)
        grave = [row for row in self.check.findings if row.name in {"missing-rule", "unsafe"}]
        yield from finding_lines(grave)


def run(arguments: argparse.Namespace, host: Host) -> Answer:
    seen = _Seen(host, arguments.unit)
    headline = _headline(seen)
    findings = seen.findings(headline)
    lines: list[str] = []
    if headline.sentence:
        lines.append(headline.line)
    if arguments.unit is not None:
        lines += _of_one_unit(arguments.unit, seen.units)
    lines += seen.units.lines()
    lines += plan_lines(attrs.evolve(seen.plan, findings=_shown(findings, headline)))
    lines += seen.verdict_lines()
    document = {
        "schema": "hostrouting/status/6",
        "installed": seen.config is not None,
        **seen.plan.to_mapping(),
        "check": seen.check and seen.check.document(),
        **seen.units.document(),
        "findings": [finding.to_mapping() for finding in findings],
    }
    return Answer(seen.code, document, lines, seen.check and seen.check.report)


def _of_one_unit(unit: str, units: _Units) -> Iterator[str]:
    """Why this unit does not start, and what to type."""
    if not any(state.unit == unit for state in units.states):
        yield f"{unit} is not gated, or systemd does not know it; see: journalctl -u {unit}"
    elif any(state.state == "was refused" for state in units.states):
        yield f"{unit} was refused; when the cause is gone, as root: systemctl start {unit}"


def _headline(seen: _Seen) -> _Headline:
    path, plan, routes = HostLayout.config_path, seen.plan, seen.plan.routes
    if seen.config is None:
        return _Headline(f"{_NOTHING}; {_TO_CHECK}")
    if routes.conflicts:
        reason = "and apply would fail; the lines that begin with ! say why"
        return _Headline(f"CONFLICT: this host does not match {path}, {reason}", may_apply=False)
    if routes.pending:
        waiting = f"a route that {path} asks for cannot be set yet"
        return _Headline(f"NOT READY: {waiting}; ROUTE-WAITS says why")
    if not plan.is_empty:
        return _of_differences(plan)
    if seen.code == FINE:
        return _Headline(f"INSTALLED: this host matches {path}")
    return _Headline()


def _of_differences(plan: Plan) -> _Headline:
    """What to type: apply, unless addresses would escape then, and a repair prevents that."""
    differs = f"DIFFERENT: this host does not match {HostLayout.config_path}"
    if plan.report is None or not plan.report.routes:
        return _Headline(f"{differs};", _APPLY)
    for finding in plan.findings:
        if finding.name == "route-not-configured":
            pronoun = "it" if len(finding.facts["unconfigured"]) == 1 else "them"
            sentence = f"DIFFERENT: {finding.sentence}; to keep {pronoun},"
            return _Headline(sentence, repair_pipeline(), may_apply=False, finding=finding)
    sentence = f"{differs}, and addresses would escape after apply; to repair that, too,"
    return _Headline(sentence, repair_pipeline(), may_apply=False)


def _shown(findings: Iterable[Finding], headline: _Headline) -> tuple[Finding, ...]:
    """The findings without what the headline says already."""
    shown: list[Finding] = []
    for finding in findings:
        if finding == headline.finding:
            continue
        if finding.remedy == AGAIN and headline.command == _APPLY:
            shown.append(finding._replace(remedy=""))
        else:
            shown.append(finding)
    return tuple(shown)


def _without_apply(finding: Finding) -> Finding:
    """The finding, without a remedy that applies the installed configuration again."""
    return finding._replace(remedy="") if finding.remedy == AGAIN else finding
