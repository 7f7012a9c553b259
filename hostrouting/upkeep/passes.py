"""The pass: makes the routing of a host right, and says what is wrong with it.

Whoever changes the kernel for hostrouting makes passes: a task of an agent, the gate before a unit
starts, each service at boot, and the guard. A pass has three parts, in this order:

    static_routes   set the static routes: in an apply all or none, else all that can be set
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
from hostrouting.text import first_few

if TYPE_CHECKING:
    from hostrouting.check.results import CheckReport
    from hostrouting.config.settings import PassPart, RouteOverlapConfig
    from hostrouting.host.base import Files
    from hostrouting.host.host import Host
    from hostrouting.host.operation import Operation
    from hostrouting.kernel.base import RouteBackend, RouteRequest
    from hostrouting.kernel.reports import WaitClock
    from hostrouting.routes.keep import Purpose

MOST_FINDINGS_SHOWN = 20
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
    """Collects, in order, the changes that passes have made and that are in effect. A pass that an
    error ends leaves its changes here, too.
    """

    def __init__(self) -> None:
        self.changes: list[RouteRequest] = []
        """The static routes that were added or deleted."""
        self.operations: list[Operation] = []
        """What was done to the table for probes."""


class PassOutcome(NamedTuple):
    """What a pass, or a part of one, has found, and whether gated units must not start."""

    findings: tuple[Finding, ...] = ()
    refuses: bool = False
    """Whether a gated unit must not start."""
    waits: str = ""
    """What may still come, in words: with it, a later pass may find something else. Empty if
    nothing is awaited.
    """
    has_requested_changes: bool = False
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
        """Join this outcome with `other`, the outcome of a later part of the same pass."""
        return self._replace(
            findings=self.findings + other.findings,
            refuses=self.refuses or other.refuses,
            waits="; ".join(filter(None, (self.waits, other.waits))),
            has_requested_changes=self.has_requested_changes or other.has_requested_changes,
            report=other.report,  # only the check has one, and it is the last part
            error=self.error or other.error,  # the first error counts
        )


def await_pass(
    host: Host,
    make_pass: Callable[[RouteBackend], PassOutcome],
    *,
    clock: WaitClock,
    wait: float,
    say: Callable[[str], object],
) -> PassOutcome:
    """Make the routing of the host right, and wait for what is missing but may still come, such as
    a default route. Make a pass, and another one whenever Linux reports a change, until a pass
    awaits nothing more or `wait` seconds are over. Return the outcome of the last pass.

    `make_pass` takes the lock of the host, reads the configuration, and calls `run_pass`. `say`
    gets what is awaited, before the first wait and whenever it changes.
    """
    until = clock.now() + wait
    said = ""
    # If the kernel cannot be opened, there is no pass that would remove the markers, which tell
    # other programs the verdict of the last check.
    with markers_removed_on_failure(host.files):
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
            if outcome.has_requested_changes:
                reports.forget()  # else the pass would be made again because of its own requests
            # A second at most, because Linux does not report every change.
            reports.wait(min(_LOOK_AGAIN, seconds_left))


@contextmanager
def markers_removed_on_failure(files: Files) -> Iterator[None]:
    """Remove the markers if the block fails or is interrupted: the files under /run by which other
    programs know the verdict of the last check. No verdict is better than one about an earlier
    state.
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
    """Make the routing of the host right, and check it, once. The parts of a pass are: set the
    static routes, load the table that rewrites probes, and check where the expected CIDRs leave.
    Only those in `parts` are made.

    What is not configured any more is removed. There is one exception: with the `purpose` "upkeep"
    (all passes but those of tasks), an unconfigured table for probes stays, because nft would have
    to look for it before each start of a gated unit.

    `done` gets the changes that are in effect. `raise_if_cancelled` is called between changes of
    routes. If it raises, these changes are rolled back.
    """
    outcome = PassOutcome(config=config)
    with markers_removed_on_failure(host.files):
        if "static_routes" in parts:
            routes = _set_routes(backend, config, done.changes, purpose, raise_if_cancelled)
            outcome = outcome.followed_by(routes)
        if "probe_rewrite" in parts and (config.probe_rewrite.enabled or purpose != "upkeep"):
            outcome = outcome.followed_by(_load_probe_table(host, config, done.operations))
        if "route_overlap" in parts:
            outcome = outcome.followed_by(_check(host, backend, config))
        elif outcome.error is not None:
            # This pass does not check, so the markers, which tell other programs the last verdict,
            # are about the state before the error.
            remove_markers(host.files)
    return outcome


def _set_routes(
    backend: RouteBackend,
    config: HostRoutingConfig,
    done: list[RouteRequest],
    purpose: Purpose,
    raise_if_cancelled: Callable[[], object],
) -> PassOutcome:
    """Set the configured static routes, and delete those that are not configured any more. A
    failure keeps gated units from starting, even in the mode WARN.

    If no static route is configured, a failure is only a warning: what failed is then the route for
    replies to probes, or the deletion of an old route.
    """
    try:
        plan = keep_routes(
            backend, config, done=done, purpose=purpose, raise_if_cancelled=raise_if_cancelled
        )
    except HostRoutingError as error:
        if config.static_routes.routes:
            outcome = _failed_outcome(error, refuses=True)
        else:
            outcome = PassOutcome(with_severity("warning", error.findings), error=error)
        # With this flag, callers ignore the next reports, because these are of our own requests.
        # Linux also reports requests that it refuses (ApplyError): without the flag, each report
        # would start a pass that is refused again. After any other error, the flag is not needed:
        # the reports start one more pass, which finds nothing to change.
        return outcome._replace(has_requested_changes=isinstance(error, ApplyError))
    return PassOutcome(plan.warnings, has_requested_changes=bool(plan.changes))


def _failed_outcome(error: HostRoutingError, *, refuses: bool) -> PassOutcome:
    """Make the outcome of a part of a pass that this error has ended; `refuses` says whether it
    keeps gated units from starting. If a retry may succeed, the outcome asks for another pass: the
    text of the error is what the outcome `waits` for.
    """
    waits = str(error) if error.can_retry else ""
    return PassOutcome(error.findings, refuses, waits, error=error)


def _load_probe_table(host: Host, config: HostRoutingConfig, done: list[Operation]) -> PassOutcome:
    """Load the nftables table that rewrites probes. A failure is only a warning, because a unit can
    run without probes.
    """
    try:
        load_table(host.nftables, config.probe_rewrite, done=done)
    except HostError as error:
        failure = Finding("probe-rewrite", "warning", sentence=str(error), target="nft")
        return PassOutcome((failure,), error=error)
    return PassOutcome()


def _check(host: Host, backend: RouteBackend, config: HostRoutingConfig) -> PassOutcome:
    """Check whether the expected CIDRs leave through the expected devices, and write the verdict
    for other programs into a file under /run, the marker. In STRICT, gated units must not start if
    addresses leave elsewhere (escape), if there is no default route, or if Linux does not answer.
    With the setting `"undecided": "refuse"`, they must not start with an undecided verdict, either.

    The outcome `waits` for what may still come, such as a default route.
    """
    settings = config.route_overlap
    if not settings.cidrs:
        remove_markers(host.files)  # of an earlier configuration, which had CIDRs
        return PassOutcome()
    try:
        report = check_kernel(backend, config)
    except BackendError as error:
        remove_markers(host.files)
        return _failed_outcome(error, refuses=settings.is_strict)
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
    """Return the findings of a check, with the severity that they have with these settings. With
    `"undecided": "refuse"`, an undecided verdict keeps gated units from starting. So what makes it
    undecided (`report.doubts`) becomes an error.
    """
    findings = check_findings(report, mode=settings.mode)
    if not settings.refuses("undecided"):
        return findings
    return tuple(
        each._replace(severity="error") if each in report.doubts else each for each in findings
    )


def _overlap_error(report: CheckReport, findings: Sequence[Finding]) -> RouteOverlapError:
    """Make the error with which a check in STRICT fails. It names the findings that are errors, and
    those that say what repairs an error (`_REPAIR`), even if they are notes. Other notes and
    warnings are left out.
    """
    important = [each for each in findings if each.severity == "error" or each.name in _REPAIR]
    lines = first_few([finding.line for finding in important], MOST_FINDINGS_SHOWN)
    document = check_document(report, mode="STRICT", findings=findings)
    return RouteOverlapError("; ".join(lines), findings=important, report=report, check=document)
