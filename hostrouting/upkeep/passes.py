"""The pass: makes the routing of a host right, once, and says what is wrong with it.

The gate makes a pass before a unit starts, each service at boot makes a part of one, and the guard
makes one after another. A pass has three parts, in this order:

    routes   set the static routes, all or none
    probes   load the table for probes, if it is not in force
    check    check the expected CIDRs, and leave the marker

All parts are made, also after one has failed, so that the marker is always about the host as it is
now. A pass does not wait. What may still come, such as a default route, is in its outcome: whoever
can wait makes another pass then. Whoever makes a pass has the lock of the host meanwhile. The tasks
of an agent (`tasks`) do the same with the same functions, and have their own ways to wait and to
report.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

from hostrouting.check.check import check_kernel, find_what_may_come
from hostrouting.check.marker import leave_marker, remove_markers
from hostrouting.check.sentences import check_findings
from hostrouting.errors import BackendError, HostError, HostRoutingError
from hostrouting.finding import Finding
from hostrouting.probe.load import load_table
from hostrouting.routes.keep import keep_routes

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.host.host import Host
    from hostrouting.kernel.base import RouteBackend, RouteRequest
    from hostrouting.probe.load import Difference

Part: TypeAlias = Literal["routes", "probes", "check"]
PARTS: tuple[Part, ...] = get_args(Part)


class PassOutcome(NamedTuple):
    """What a pass has found and done."""

    findings: tuple[Finding, ...] = ()
    refuses: bool = False
    """Whether a gated unit must not start."""
    waits: str = ""
    """What may still come, in words, so that a later pass may find something else."""
    verdicts: tuple[str, ...] = ()
    """The verdict of each family that is OK, in a sentence; of the others, the findings say it."""
    table_was: Difference = ""
    """What was wrong with the table for probes, which was loaded."""
    changes: tuple[RouteRequest, ...] = ()
    """The changes of static routes that are in effect, in order; also if a part has failed."""

    def followed_by(self, other: PassOutcome) -> PassOutcome:
        """What two parts have found and done, one after the other."""
        waits = [outcome.waits for outcome in (self, other) if outcome.waits]
        return PassOutcome(
            findings=self.findings + other.findings,
            refuses=self.refuses or other.refuses,
            waits="; ".join(waits),
            verdicts=self.verdicts + other.verdicts,
            table_was=self.table_was or other.table_was,
            changes=self.changes + other.changes,
        )


def run_pass(
    host: Host,
    backend: RouteBackend,
    config: HostRoutingConfig,
    *,
    parts: Collection[Part] = PARTS,
) -> PassOutcome:
    """Make these parts of a pass, as far as they are configured, and take away what an edit of the
    configuration has left: routes, and a marker.
    """
    configured = {*configured_parts(config)}
    outcome = PassOutcome()
    if "routes" in parts:
        outcome = _set_routes(backend, config, is_configured="routes" in configured)
    if "probes" in configured.intersection(parts):
        outcome = outcome.followed_by(_load_probes(host, config))
    if "check" in configured.intersection(parts):
        outcome = outcome.followed_by(_check(host, backend, config))
    elif "check" in parts:
        remove_markers(host.files)
    return outcome


def _as_warnings(error: HostRoutingError) -> tuple[Finding, ...]:
    return tuple(finding._replace(severity="warning") for finding in error.findings)


def configured_parts(config: HostRoutingConfig) -> Iterator[Part]:
    """The parts that have anything to do, in their order."""
    probes = config.probe_rewrite
    if config.static_routes.routes or (probes.enabled and probes.ensure_route):
        yield "routes"
    if probes.enabled:
        yield "probes"
    if config.route_overlap.cidrs:
        yield "check"


def _set_routes(
    backend: RouteBackend, config: HostRoutingConfig, *, is_configured: bool
) -> PassOutcome:
    """Set the routes. If one cannot be set, that holds units back in every mode; but not the route
    for replies to probes, which is only a warning, and not one that is no longer configured.
    """
    done: list[RouteRequest] = []
    try:
        plan = keep_routes(backend, config, done=done)
    except HostRoutingError as error:
        if not is_configured:
            return PassOutcome(_as_warnings(error), changes=tuple(done))
        waits = str(error) if error.can_retry else ""
        return PassOutcome(error.findings, refuses=True, waits=waits, changes=tuple(done))
    if plan.waiting:  # so nothing was changed
        waits = "; ".join(map(str, plan.route_waits))
        return PassOutcome(plan.failed_waits, refuses=True, waits=waits)
    return PassOutcome(plan.warnings, changes=tuple(done))


def _load_probes(host: Host, config: HostRoutingConfig) -> PassOutcome:
    """Load the table. A unit can do without probes, so a failure is a warning."""
    try:
        table_was = load_table(host.nftables, config.probe_rewrite)
    except HostError as error:
        failure = Finding("probe-rewrite", "warning", sentence=str(error), target="nft")
        return PassOutcome((failure,))
    return PassOutcome(table_was=table_was)


def _check(host: Host, backend: RouteBackend, config: HostRoutingConfig) -> PassOutcome:
    """Check, and leave the marker. In STRICT, units are held back if the verdict is that addresses
    escape or that there is no default route, or if Linux does not answer.
    """
    settings = config.route_overlap
    try:
        report = check_kernel(backend, config)
    except BackendError as error:
        remove_markers(host.files)
        waits = str(error) if error.can_retry else ""
        return PassOutcome(error.findings, refuses=settings.is_strict, waits=waits)
    findings = check_findings(report, mode=settings.mode)
    escapes = report.verdict not in {"ok", "undecided"}
    outcome = PassOutcome(
        findings,
        refuses=escapes and settings.is_strict,
        waits=find_what_may_come(report, config),
        verdicts=tuple(str(family) for family in report.families if family.verdict == "ok"),
    )
    try:
        leave_marker(host.files, report, findings)
    except HostError as error:
        outcome = outcome.followed_by(PassOutcome(_as_warnings(error)))
    return outcome
