"""What a run would do on a host (`plan_run`), and whether it must fail before its first change
(`require_possible`). Nothing is changed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from typing import TYPE_CHECKING

from hostrouting.check.sentences import not_configured
from hostrouting.errors import ConfigError, Fault, RequirementError
from hostrouting.finding import Finding, Remedy
from hostrouting.install.difference import find_file_changes, find_systemd_changes
from hostrouting.install.host_check import take_snapshot
from hostrouting.install.installed import read_installed
from hostrouting.install.losses import find_losses
from hostrouting.install.obstacles import find_ungated
from hostrouting.install.plan import ALLOWED_BY, LET_THEM_GO, Plan
from hostrouting.install.requirements import find_requirements
from hostrouting.install.session_risk import find_session_at_risk
from hostrouting.install.typed_commands import repair_pipeline
from hostrouting.model.prefix import Prefix
from hostrouting.text import spoken

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hostrouting.host.host import Host
    from hostrouting.install.task import SectionTask
    from hostrouting.install.wanted import Wanted
    from hostrouting.model.snapshot import Snapshot


def plan_run(
    host: Host,
    wanted: Wanted,
    parts: Sequence[SectionTask],
    *,
    allow_removal: bool,
    is_dry_run: bool,
) -> Plan:
    """What a run with these parts would change, and what stands against that; for a dry run also
    the check of the host as it would be, if a part makes it at the end of the run. A run on an
    image has no parts.

    If removal is not allowed, the protection that would be lost is an error, and so are, in STRICT,
    the routes that must not be deleted. Then a config.json that cannot be read raises its error:
    nobody knows what it protects.
    """
    read_snapshot = cache(partial(take_snapshot, host))  # once, if anybody needs it
    plan = _plan_changes(host, wanted, parts, read_snapshot)
    if not allow_removal:
        plan = plan.with_losses(_find_losses(host, wanted))
    if is_dry_run and any(part.checks_the_result for part in parts):
        plan = plan.with_check(wanted.config, read_snapshot())
    if not plan.deleted_routes:
        return plan
    if wanted.config.route_overlap.is_strict and not allow_removal:
        return plan.with_findings(_find_forbidden_deletions(wanted, plan, read_snapshot()))
    return plan.with_findings(plan.find_needed_routes(wanted.config, read_snapshot()))


def _plan_changes(
    host: Host,
    wanted: Wanted,
    parts: Sequence[SectionTask],
    read_snapshot: Callable[[], Snapshot],
) -> Plan:
    """What would change in the files, in systemd and in the kernel, and what the host lacks for
    it.
    """
    config = wanted.config
    files = find_file_changes(host, config)
    systemd = find_systemd_changes(host.running_manager, config, wanted.former, files)
    findings = (*find_requirements(host, config, files), *find_ungated(config, host))
    plan = Plan(files, systemd, findings=findings)
    for part in parts:
        plan = plan.with_work(part.planned(wanted, read_snapshot))
    if not plan.routes.changes:
        return plan
    prefixes = [step.route.prefix for step in plan.routes.changes]
    snapshot = read_snapshot()
    after = plan.routes.apply_to(snapshot)
    return plan.with_findings(find_session_at_risk(host, prefixes, snapshot, after))


def _find_losses(host: Host, wanted: Wanted) -> tuple[Fault, ...]:
    """What this configuration takes away of the installed one."""
    installed = wanted.former
    if installed is None:
        # It could not be read. This raises why, unless another run has just replaced the file: the
        # plan that is made again under the lock has that one.
        installed = read_installed(host)
    return tuple(find_losses(installed, wanted.config))


def _find_forbidden_deletions(wanted: Wanted, plan: Plan, snapshot: Snapshot) -> Iterator[Finding]:
    """Errors about the routes that the run must not delete: addresses escape without them, or may
    escape.
    """
    if plan.routes.waiting:
        yield from _find_undecided_routes(wanted, plan)
        return
    for finding in plan.find_needed_routes(wanted.config, snapshot):
        yield finding._replace(severity="error", remedy=_how_to_keep(finding, wanted))


def _how_to_keep(finding: Finding, wanted: Wanted) -> Remedy:
    """What to do about routes that must not be deleted. A repair begins with what is installed; on
    a new host, the finding names the routes that the new configuration lacks.
    """
    if not wanted.is_on_new_host:
        return Remedy("to keep them", repair_pipeline(), otherwise=LET_THEM_GO)
    if finding.remedy is None:
        return LET_THEM_GO
    return finding.remedy._replace(otherwise=LET_THEM_GO)


def _find_undecided_routes(wanted: Wanted, plan: Plan) -> Iterator[Finding]:
    """The routes to expected addresses that the run would delete for good while another route
    waits: whether addresses escape without them cannot be said, because until then the expected
    devices may be unknown. Not those that the installed configuration has: their loss is an error
    of its own (`find_losses`).
    """
    cidrs = [Prefix.of(cidr) for cidr in wanted.config.route_overlap.cidrs]
    installed = wanted.former_keys
    unconfigured: list[str] = []
    for step in plan.routes.deletions.steps:
        prefix = step.route.prefix
        is_expected = any(map(prefix.overlaps, cidrs))
        if is_expected and step.route.key not in installed:
            unconfigured.append(str(prefix))
    if not unconfigured:
        return
    sentence = (
        f"{spoken(unconfigured)} would lose a route that is not in the configuration, and whether "
        "addresses escape without it cannot be said while another route waits"
    )
    remedy = Remedy("run this again when no route waits", otherwise=LET_THEM_GO)
    undecided = not_configured(sentence, unconfigured, remedy)
    yield undecided._replace(severity="error", can_retry=True)


def require_possible(host: Host, wanted: Wanted, plan: Plan) -> None:
    """Raise the error of a run that must fail before its first change: for what the host lacks, for
    protection or routes that would be lost, for a new conflict of routes, and for missing rights,
    in this order: whoever lacks rights reads first what root would read.

    A conflict does not raise here on a new host, if the installed configuration has it already, or
    in an undo: the run fails at its end, and the gate holds units back until the conflict is
    solved. The same goes for a route that cannot come, in an undo. What the check would find
    afterwards is not among the errors of a plan: the run judges that at its end.
    """
    lacking: list[Finding] = []
    needed: list[Finding] = []
    for finding in plan.errors:
        if finding.name == "route-not-configured":  # of `_find_forbidden_deletions`
            needed.append(finding)
        elif finding.name == "route-waits" and wanted.is_undo:
            continue
        # The plan has losses and conflicts as values, too: those are judged below.
        elif finding.name not in {"removal", "route-conflict"}:
            lacking.append(finding)
    if lacking:
        raise RequirementError(findings=lacking)
    if plan.losses:
        headline = f"this would remove protection (to allow it: {ALLOWED_BY}):"
        raise ConfigError(plan.losses, headline=headline)
    if needed:
        raise RequirementError(findings=needed)
    conflicts = plan.routes.conflicts
    has_new_conflict = any(step.route.key not in wanted.former_keys for step in conflicts)
    if has_new_conflict and not (wanted.is_on_new_host or wanted.is_undo):
        plan.routes.require_possible()  # names the others, too: they have to be solved as well
    if host.backend is not None and plan.changes_kernel:
        host.rights().require_network()
