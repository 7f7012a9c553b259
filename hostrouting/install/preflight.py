"""What an installation would do on a host (`plan_install`), and whether it must fail before its
first change (`require_possible`). Nothing is changed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

import attrs

from hostrouting.errors import ConfigError, RequirementError
from hostrouting.finding import Finding, Remedy
from hostrouting.install.difference import find_file_changes, find_systemd_changes
from hostrouting.install.installed import read_installed
from hostrouting.install.losses import find_losses, find_lost_addresses
from hostrouting.install.plan import ALLOWED_BY, Plan
from hostrouting.install.requirements import find_requirements
from hostrouting.install.ungated import find_ungated
from hostrouting.model.prefix import Prefix
from hostrouting.text import spoken

if TYPE_CHECKING:
    from hostrouting.host.host import Host
    from hostrouting.install.installed import Wanted
    from hostrouting.install.part import Part
    from hostrouting.model.snapshot import Snapshot

_WOULD_REMOVE = f"this would remove protection (to allow it: {ALLOWED_BY}):"


def plan_install(
    host: Host,
    wanted: Wanted,
    parts: Sequence[Part],
    *,
    is_dry_run: bool = False,
    earlier: Iterable[Plan] = (),
) -> Plan:
    """What a run with these parts would change, and why it must not; for a dry run also the check
    of the host as it would be, after the earlier plans of this dry run, if one of the parts checks
    the result.

    If the run must not take anything away, a config.json that cannot be read raises its error:
    nobody knows what it protects.
    """
    if host.is_image:
        parts = ()  # an image has no kernel
    read_snapshot = cache(host.take_snapshot)  # once, if anybody needs it
    config = wanted.config
    files = find_file_changes(host, config)
    systemd = find_systemd_changes(host.running_manager, config, wanted.former, files)
    obstacles = (
        *find_requirements(host, config, files),
        *find_ungated(config, host),
        *wanted.notes,
    )
    plan = Plan(files, systemd, obstacles=obstacles, kernel=id(host.backend))
    for part in parts:
        plan = plan.with_work(part.planned(wanted, read_snapshot))
    if not wanted.allow_removal:
        plan = _with_losses(plan, host, wanted, read_snapshot)
    if is_dry_run and any(part.checks_the_result for part in parts):
        before = [each for each in earlier if each.kernel == plan.kernel]
        plan = plan.with_check(config, read_snapshot(), before)
    return plan


def _with_losses(
    plan: Plan, host: Host, wanted: Wanted, read_snapshot: Callable[[], Snapshot]
) -> Plan:
    """The plan, with what the run would take away."""
    installed = wanted.former
    if installed is None:
        # It could not be read. This raises why, unless another run has just replaced the file: the
        # plan that is made again under the lock has that one.
        installed = read_installed(host)
    losses = [*find_losses(installed, wanted.config)]
    routes = plan.routes
    if routes.waiting:
        plan = plan.with_work(Plan(obstacles=tuple(_find_undecided_routes(wanted, plan))))
    elif routes.changes and not routes.conflicts:  # with a conflict, no route changes
        snapshot = read_snapshot()
        losses += find_lost_addresses(wanted.config, snapshot, routes.apply_to(snapshot))
    return attrs.evolve(plan, losses=tuple(losses))


def require_no_loss(wanted: Wanted, now: Snapshot, afterwards: Snapshot) -> None:
    """Raise the error of a run that must not change the routes, because addresses would escape.
    Asked again immediately before the change: the plan is older than the routes.
    """
    if wanted.allow_removal:
        return
    losses = [*find_lost_addresses(wanted.config, now, afterwards)]
    if losses:
        raise ConfigError(losses, headline=_WOULD_REMOVE)


def _find_undecided_routes(wanted: Wanted, plan: Plan) -> Iterator[Finding]:
    """Refuse to delete unconfigured routes to expected addresses while another route waits: until
    then the expected devices may be unknown, so nobody knows what escapes without these routes.
    """
    section = wanted.config.route_overlap
    if not section.is_strict:
        return
    cidrs = [Prefix.of(cidr) for cidr in section.cidrs]
    unconfigured: list[str] = []
    for step in plan.routes.deletions.steps:
        prefix = step.route.prefix
        if any(map(prefix.overlaps, cidrs)) and step.route.key not in wanted.former_keys:
            unconfigured.append(str(prefix))
    if not unconfigured:
        return
    sentence = (
        f"{spoken(unconfigured)} would lose a route that is not in the configuration, and whether "
        "addresses escape without it cannot be said while another route waits"
    )
    remedy = Remedy(f"run this again when no route waits, or allow the removal ({ALLOWED_BY})")
    yield Finding("removal", "error", sentence, unconfigured[0], remedy, can_retry=True)


def require_possible(host: Host, wanted: Wanted, plan: Plan) -> None:
    """Raise the error of a run that must fail before its first change. The order is that in which
    an operator has to solve it; missing rights come last, so that everybody reads what root would.

    ========================  ================================================
    What the host lacks       raises
    A route that cannot come  raises, but not in an undo
    What would be lost        raises, unless that is allowed
    A conflict of routes      raises if it is new on a host that is configured
    Missing rights            raises
    ========================  ================================================

    Other conflicts let the run fail at its end: the files are there then, and the gate holds units
    back until the conflict is solved. So do addresses that escape: the run checks at its end.
    """
    findings = list(plan.obstacles)
    if not wanted.is_undo:
        findings += plan.routes.route_waits
    lacking = [finding for finding in findings if finding.severity == "error"]
    if lacking:
        raise RequirementError(findings=lacking)
    if plan.losses:
        raise ConfigError(plan.losses, headline=_WOULD_REMOVE)
    conflicts = plan.routes.conflicts
    has_new_conflict = any(step.route.key not in wanted.former_keys for step in conflicts)
    if has_new_conflict and not (wanted.is_on_new_host or wanted.is_undo):
        plan.routes.require_no_conflict()  # names the others, too: they have to be solved as well
    if not host.is_image and plan.changes_kernel:
        host.rights().require_network()
