"""Asks a host how it is.

Each part of the host is asked on its own. A part that does not answer, and a config.json that
cannot be used, hide no other part.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, TypeVar, get_args

import attrs

from hostrouting.boot.files import WRITER, writer_of
from hostrouting.boot.on_disk import gated_on_disk
from hostrouting.config.settings import HostRoutingConfig, gated_units
from hostrouting.errors import HostRoutingError, is_denied
from hostrouting.gate.health import find_faults, find_faults_without_config
from hostrouting.gate.unit_states import State, UnitState, unit_states
from hostrouting.host.fileset import FileChanges
from hostrouting.host.host import Host
from hostrouting.host.layout import HostLayout
from hostrouting.install.host_check import HostCheck, check_host
from hostrouting.install.installed import read_installed
from hostrouting.status.status import Status
from hostrouting.tasks.configure import Configure
from phases.arguments import must_be

if TYPE_CHECKING:
    from hostrouting.finding import Finding
    from hostrouting.install.plan import Plan

T = TypeVar("T")
_WORST_FIRST: tuple[State, ...] = get_args(State)


def find_status(host: Host, unit: str = "") -> Status:
    """Ask each part of the host; with `unit`, about no other gated unit. Nothing is changed."""
    must_be(Host, host, "find_status: host", "a Host: Host.local()")
    unanswered: list[HostRoutingError] = []

    def answer(ask: Callable[[], T]) -> T | None:
        """What a part of the host answers; None if it does not."""
        try:
            return ask()
        except HostRoutingError as error:
            unanswered.append(error)
            return None

    config = answer(lambda: read_installed(host))
    broken: Sequence[Finding] = ()
    if unanswered and not is_denied(unanswered[0]):  # else nothing need be wrong with the file
        broken = unanswered.pop().findings
    on_disk = gated_on_disk(host.files)
    gated = {*on_disk, *gated_units(config or HostRoutingConfig())}
    units = answer(lambda: _find_units(host, unit, gated))
    if unit and not units:
        units = [UnitState(unit, "no answer")]
    status = Status(config, is_broken=bool(broken), units=tuple(units or ()), asked=unit)
    if status.state == "nothing":
        return attrs.evolve(status, unanswered=tuple(unanswered))

    faults = answer(lambda: _find_faults(host, config, on_disk, broken))
    plan = answer(lambda: _plan_of(host, config, on_disk))
    check = answer(lambda: _check_of(host, config))
    guard = answer(lambda: _find_guard(host))
    return attrs.evolve(
        status,
        faults=faults or (),
        plan=plan,
        check=check,
        guard=guard,
        unanswered=tuple(unanswered),
    )


def _find_units(host: Host, asked: str, gated: Collection[str]) -> list[UnitState]:
    """The gated units, the worst first, and checked ones last; or the unit that was asked about.
    None are known where systemd does not run.
    """
    manager = host.running_manager
    if manager is None:
        return []
    units = unit_states(host.files, manager, [asked] if asked else sorted(gated), gated)
    if asked and not units:  # a template
        return [UnitState(asked, "stopped", details=": systemd has loaded no instance of it")]
    return sorted(units, key=lambda unit: (_WORST_FIRST.index(unit.state), unit.checked > 0))


def _find_faults(
    host: Host,
    config: HostRoutingConfig | None,
    on_disk: Sequence[str],
    broken: Sequence[Finding],
) -> tuple[Finding, ...]:
    """What is wrong with the gate; `broken` is what is wrong with config.json."""
    if config is None:
        return find_faults_without_config(host, on_disk, broken)
    return find_faults(host, config)


def _plan_of(host: Host, config: HostRoutingConfig | None, on_disk: Collection[str]) -> Plan | None:
    """What apply would do; a unit that a drop-in still gates is not called ungated."""
    if config is None:
        return None
    plan = Configure(config, host=host, allow_removal=False).plan()
    obstacles = [
        finding
        for finding in plan.obstacles
        if finding.name != "unit-not-gated" or finding.target not in on_disk
    ]
    if writer_of(host.files) != WRITER:  # another release writes other texts
        others = plan.for_systemd("reload", "start", "stop")
        plan = attrs.evolve(plan, files=FileChanges(), systemd=others)
    return attrs.evolve(plan, obstacles=tuple(obstacles))


def _check_of(host: Host, config: HostRoutingConfig | None) -> HostCheck | None:
    """The check, if anything is expected."""
    if config is None or not config.route_overlap.cidrs:
        return None
    return check_host(config, host)


def _find_guard(host: Host) -> UnitState | None:
    """How the guard is; None where systemd does not run."""
    manager = host.running_manager
    if manager is None:
        return None
    [guard] = unit_states(host.files, manager, [HostLayout.guard_unit])
    return guard
