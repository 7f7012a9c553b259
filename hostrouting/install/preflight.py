"""What an installation would do on a host (`plan_install`), and whether it must fail before its
first change (`require_possible`). Nothing is changed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import attrs

from hostrouting.errors import ConfigError, RequirementError
from hostrouting.install.difference import find_file_changes, find_systemd_changes
from hostrouting.install.installed import read_installed
from hostrouting.install.losses import find_losses
from hostrouting.install.plan import ALLOWED_BY, Plan
from hostrouting.install.requirements import find_requirements
from hostrouting.install.ungated import find_ungated

if TYPE_CHECKING:
    from hostrouting.host.host import Host
    from hostrouting.install.part import Part
    from hostrouting.install.wanted import Wanted

_WOULD_REMOVE = f"this would remove protection (to allow it: {ALLOWED_BY}):"


def plan_install(
    host: Host,
    wanted: Wanted,
    parts: Sequence[Part],
    *,
    is_dry_run: bool = False,
    earlier: Sequence[Plan] = (),
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
    )
    plan = Plan(files, systemd, obstacles=obstacles)
    for part in parts:
        plan = plan.with_work(part.planned(wanted, read_snapshot))
    if not wanted.allow_removal:
        # If it could not be read, this raises why.
        installed = wanted.former or read_installed(host)
        plan = attrs.evolve(plan, losses=tuple(find_losses(installed, config)))
    if is_dry_run and any(part.checks_the_result for part in parts):
        plan = plan.with_check(config, read_snapshot(), earlier)
    return plan


def require_possible(wanted: Wanted, plan: Plan) -> None:
    """Raise the error of a run that must fail before its first change. The order is that in which
    an operator has to solve it.

    ========================  ================================================
    What the host lacks       raises
    What would be lost        raises, unless that is allowed
    A conflict of routes      raises if it is new on a host that is configured
    ========================  ================================================

    Other conflicts let the run fail at its end: the files are there then, and the gate holds units
    back until the conflict is solved. So do addresses that escape, and a gate that another program
    cancels: the run looks for both at its end.
    """
    lacking = [
        finding
        for finding in plan.obstacles
        if finding.severity == "error" and finding.name != "gate-open"
    ]
    if lacking:
        raise RequirementError(findings=lacking)
    if plan.losses:
        raise ConfigError(plan.losses, headline=_WOULD_REMOVE)
    conflicts = plan.routes.conflicts
    has_new_conflict = any(step.route.key not in wanted.former_keys for step in conflicts)
    if has_new_conflict and not (wanted.is_on_new_host or wanted.is_undo):
        plan.routes.require_no_conflict()  # names the others, too: they have to be solved as well
