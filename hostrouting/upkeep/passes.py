"""The pass: makes the routing of a host right, and says what is wrong with it.

Whoever changes the kernel for hostrouting makes passes: a task of an agent, the gate before a unit
starts, each service at boot, and the guard. A pass has three parts, in this order:

    static_routes   set the static routes, all or none
    probe_rewrite   load the table for probes, if it is not in force
    route_overlap   check the expected CIDRs, and leave the marker

All parts are made, also after one has failed, so that the marker is always about the host as it is
now. `run_pass` makes one pass, for which its caller has the lock of the host. `await_pass` makes
passes until nothing is awaited any more, such as a default route: each under the lock, and with the
configuration that is installed then; it waits without the lock.

Where a pass is interrupted, or reaches no verdict, the markers go, because none is better than an
old one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.check.check import check_kernel, find_what_may_come
from hostrouting.check.document import check_document
from hostrouting.check.marker import leave_marker, remove_markers
from hostrouting.check.sentences import check_findings
from hostrouting.config.settings import PARTS, HostRoutingConfig
from hostrouting.errors import (
    ApplyError,
    BackendError,
    HostError,
    HostRoutingError,
    RouteOverlapError,
)
from hostrouting.finding import Finding, Name, with_severity
from hostrouting.kernel.reports import Reports
from hostrouting.probe.load import load_table
from hostrouting.routes.keep import keep_routes
from hostrouting.text import first_of

if TYPE_CHECKING:
    from hostrouting.check.results import CheckReport
    from hostrouting.config.settings import PassPart, RouteOverlapConfig
    from hostrouting.host.base import Files
    from hostrouting.host.host import Host
    from hostrouting.host.operation import Operation
    from hostrouting.kernel.base import RouteBackend, RouteRequest
    from hostrouting.kernel.reports import WaitClock
    from hostrouting.routes.keep import Purpose

LOGGED = 20
"""At most so many findings of a pass are logged, or said in an error. `hostrouting check` shows
all.
"""
_REPAIR: tuple[Name, ...] = ("action", "unsafe")
"""The names of the findings that say what repairs an error."""
_LOOK_AGAIN = 1.0
"""Seconds until the next pass while something is awaited. Without it, some changes would not be
seen, because Linux does not report all of them.
"""


class Done:
    """The changes that passes have made and that are in effect, in order. It grows while they work,
    so that they are known if an error ends them, too.
    """

    def __init__(self) -> None:
        self.changes: list[RouteRequest] = []
        """The static routes that were added or deleted."""
        self.operations: list[Operation] = []
        """What was done to the table for probes."""


class PassOutcome(NamedTuple):
    """What a pass has found."""

    findings: tuple[Finding, ...] = ()
    refuses: bool = False
    """Whether a gated unit must not start."""
    waits: str = ""
    """What may still come, in words: with it, a later pass may find something else. Empty if
    nothing is awaited.
    """
    has_asked: bool = False
    """Whether the pass has asked Linux to change routes. Linux reports such requests, even if it
    has refused them, so these reports are not about somebody else's change.
    """
    report: CheckReport | None = None
    """The report of the check, if there was one."""
    error: HostRoutingError | None = None
    """The error of the first part that has failed; its findings are among the others."""
    config: HostRoutingConfig = HostRoutingConfig()
    """The configuration with which the pass was made."""

    @property
    def to_log(self) -> list[Finding]:
        """The findings for a log: a note only explains a verdict, unless it is the repair."""
        return [each for each in self.findings if each.severity != "note" or each.name == "action"]

    def followed_by(self, other: PassOutcome) -> PassOutcome:
        """Join the outcomes of two parts of a pass: `other` is that of the later one."""
        return self._replace(
            findings=self.findings + other.findings,
            refuses=self.refuses or other.refuses,
            waits="; ".join(filter(None, (self.waits, other.waits))),
            has_asked=self.has_asked or other.has_asked,
            report=other.report,  # only the check has one, and it is the last part
            error=self.error or other.error,
        )


def await_pass(
    host: Host,
    make_pass: Callable[[RouteBackend], PassOutcome],
    *,
    clock: WaitClock,
    wait: float,
    say: Callable[[str], object],
) -> PassOutcome:
    """Make a pass, and another one after each change of the kernel, until nothing is awaited any
    more, or `wait` seconds are over. Return the outcome of the last one. `say` gets what is
    awaited, before the first wait and each time that this has changed.

    `make_pass` takes the lock of the host, reads the configuration that is in force, and calls
    `run_pass`.
    """
    until = clock.now() + wait
    said = ""
    with markers_removed_on_failure(host.files):  # without a kernel, no pass would remove them
        kernel = host.open_kernel()
    with kernel as backend, Reports(backend, clock) as reports:
        while True:
            outcome = make_pass(backend)
            seconds_left = until - clock.now()
            if not outcome.waits or seconds_left <= 0:
                return outcome
            if outcome.waits != said:
                said = outcome.waits
                say(f"waiting for up to {round(seconds_left, 1):g} s: {said}")
            if outcome.has_asked:
                reports.forget()  # else the pass would be made again because of its own requests
            reports.wait(min(_LOOK_AGAIN, seconds_left))


@contextmanager
def markers_removed_on_failure(files: Files) -> Iterator[None]:
    """Remove the markers of the last verdict if the block fails or is interrupted, because they are
    about an earlier state.
    """
    try:
        yield
    except BaseException:
        remove_markers(files)
        raise


def run_pass(
    host: Host,
    backend: RouteBackend,
    config: HostRoutingConfig,
    *,
    done: Done,
    parts: Collection[PassPart] = PARTS,
    purpose: Purpose = "upkeep",
    raise_if_cancelled: Callable[[], object] = lambda: None,
) -> PassOutcome:
    """Make these parts of a pass. What is not configured any more is removed: routes, the marker
    and, in an apply or undo, the table for probes. In upkeep, to look for that table would take too
    long: nft would have to run before each start of a unit.

    `done` gets the changes that are in effect. `raise_if_cancelled` is called between changes of
    routes. If it raises, they are rolled back first.
    """
    outcome = PassOutcome(config=config)
    with markers_removed_on_failure(host.files):
        if "static_routes" in parts:
            routes = _set_routes(backend, config, done.changes, purpose, raise_if_cancelled)
            outcome = outcome.followed_by(routes)
        if "probe_rewrite" in parts and (config.probe_rewrite.enabled or purpose != "upkeep"):
            outcome = outcome.followed_by(_load_probes(host, config, done.operations))
        if "route_overlap" in parts:
            outcome = outcome.followed_by(_check(host, backend, config))
        elif outcome.error is not None:
            # The markers are about an earlier state, and this pass does not check the present one.
            remove_markers(host.files)
    return outcome


def _set_routes(
    backend: RouteBackend,
    config: HostRoutingConfig,
    done: list[RouteRequest],
    purpose: Purpose,
    raise_if_cancelled: Callable[[], object],
) -> PassOutcome:
    """Set the routes. If static routes are configured, a failure holds units back in every mode.
    Otherwise it is a warning: only the route for replies to probes, or a route that is not
    configured any more, is concerned.
    """
    try:
        plan = keep_routes(
            backend, config, done=done, purpose=purpose, raise_if_cancelled=raise_if_cancelled
        )
    except HostRoutingError as error:
        if config.static_routes.routes:
            outcome = _failed(error, refuses=True)
        else:
            outcome = PassOutcome(with_severity("warning", error.findings), error=error)
        # Errors of other kinds are raised before any request to Linux. An undo may raise one later,
        # but only a wait and the guard read `has_asked`, and an undo has neither.
        return outcome._replace(has_asked=isinstance(error, ApplyError))
    return PassOutcome(plan.warnings, has_asked=bool(plan.changes))


def _failed(error: HostRoutingError, *, refuses: bool) -> PassOutcome:
    """Return the outcome of a part that has failed. If it can be tried again, a later pass may
    succeed.
    """
    waits = str(error) if error.can_retry else ""
    return PassOutcome(error.findings, refuses, waits, error=error)


def _load_probes(host: Host, config: HostRoutingConfig, done: list[Operation]) -> PassOutcome:
    """Load the table for probes. A failure is a warning, because a unit can run without probes."""
    try:
        load_table(host.nftables, config.probe_rewrite, done=done)
    except HostError as error:
        failure = Finding("probe-rewrite", "warning", sentence=str(error), target="nft")
        return PassOutcome((failure,), error=error)
    return PassOutcome()


def _check(host: Host, backend: RouteBackend, config: HostRoutingConfig) -> PassOutcome:
    """Check the expected CIDRs, and leave the marker. In STRICT, units are held back if addresses
    escape, if there is no default route, or if Linux does not answer; with `"undecided": "refuse"`,
    also if the verdict is undecided.
    """
    settings = config.route_overlap
    if not settings.cidrs:
        remove_markers(host.files)  # they are about CIDRs that are not configured any more
        return PassOutcome()
    try:
        report = check_kernel(backend, config)
    except BackendError as error:
        remove_markers(host.files)
        return _failed(error, refuses=settings.is_strict)
    findings = findings_of(report, settings)
    outcome = PassOutcome(findings, waits=find_what_may_come(report, config), report=report)
    if settings.refuses(report.verdict):
        outcome = outcome._replace(refuses=True, error=_overlap_error(report, findings))
    try:
        leave_marker(host.files, report, findings)
    except HostError as error:  # only a warning: the gate does not read the marker
        outcome = outcome._replace(findings=findings + with_severity("warning", error.findings))
    return outcome


def findings_of(report: CheckReport, settings: RouteOverlapConfig) -> tuple[Finding, ...]:
    """Return the findings of a check. With `"undecided": "refuse"`, units are held back for what
    makes the verdict undecided (`report.doubts`), so each such finding is an error.
    """
    findings = check_findings(report, mode=settings.mode)
    if not settings.refuses("undecided"):
        return findings
    return tuple(
        each._replace(severity="error") if each in report.doubts else each for each in findings
    )


def _overlap_error(report: CheckReport, findings: Sequence[Finding]) -> RouteOverlapError:
    """Make the error of a check in STRICT: what is wrong, and the findings that say what repairs it
    (`_REPAIR`), whatever their severity. Notes that only explain the verdict are left out.
    """
    important = [each for each in findings if each.severity == "error" or each.name in _REPAIR]
    lines = first_of([finding.line for finding in important], LOGGED)
    document = check_document(report, mode="STRICT", findings=findings)
    return RouteOverlapError("; ".join(lines), findings=important, report=report, check=document)
