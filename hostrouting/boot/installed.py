"""The configuration that is installed on a host, read from its boot scripts, units and the kept section.

Here: what they say together. Not here: how each is written and read (`scripts`, `units`, `probe`), and who asks: most
commands on this host, and the guard that follows what is installed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from hostrouting.boot.gate import Gate
from hostrouting.boot.probe import ProbeScript, parse_probe_script
from hostrouting.boot.scripts import (
    DEFAULT_WAIT,
    CheckScript,
    RoutesScript,
    parse_check_script,
    parse_static_routes_script,
)
from hostrouting.boot.units import parse_guard_unit
from hostrouting.config.settings import GateConfig, GuardConfig, HostRoutingConfig
from hostrouting.config.values import Upkeep
from hostrouting.errors import ConfigError, Fault
from hostrouting.host.fileset import OURS as WRITTEN

if TYPE_CHECKING:
    from hostrouting.host.files import Files
    from hostrouting.host.host import Host

T = TypeVar("T")


def kept_config(host: Host) -> HostRoutingConfig:
    """The installed configuration, or an empty one. Raises ConfigError if a script is lost or was changed.

    A guard that follows it would delete the routes of a script that was lost.
    """
    layout = host.layout
    found = installed_config(host) or HostRoutingConfig()
    has = {
        layout.routes_script_path: bool(found.static_routes.routes),
        layout.check_script_path: bool(found.route_overlap.expected_cidrs),
        layout.probe_script_path: found.probe_rewrite.enabled,
    }
    remedy = "write it again with: hostrouting apply --config FILE"
    scripts = [layout.at(f"{layout.config_directory}/{step.name}.sh") for step in Gate(host).steps]
    lost, changed = "is missing, so the installed configuration is not known", "is not as hostrouting wrote it"
    faults = [Fault(path, "", lost, remedy) for path in scripts if not host.files.is_there(path)]
    faults += [Fault(path, "", changed, remedy) for path, read in has.items() if not read and host.files.is_there(path)]
    if faults:
        raise ConfigError(faults)
    return found


def installed_config(host: Host) -> HostRoutingConfig | None:
    """The configuration in the boot scripts of this host; None if it has none of our scripts."""
    routes, check, probe = _scripts(host)
    program = parsed(host.files, host.layout.guard_unit_path, parse_guard_unit)
    found = routes or check or probe
    is_told = WRITTEN in (host.files.read(host.layout.networkd_path) or "")
    if found is None and not is_told:
        return None
    gated = Gate(host).gated
    has_work = (routes and routes.config.routes) or (check and check.config.expected_cidrs) or probe
    return HostRoutingConfig(
        None if routes is None else routes.config,
        None if check is None else check.config,
        probe_rewrite=None if probe is None else probe.config,
        guard=GuardConfig(enabled=True, program=program) if program and has_work else None,
        gate=GateConfig(gated) if gated else None,
        manage_foreign=Upkeep.KEEP if is_told else Upkeep.LEAVE,
    )


def installed_wait(host: Host) -> float:
    """The seconds that the boot scripts of this host wait, else the default."""
    return next((float(section.wait) for section in _scripts(host) if section is not None), float(DEFAULT_WAIT))


def _scripts(host: Host) -> tuple[RoutesScript | None, CheckScript | None, ProbeScript | None]:
    """What the boot scripts on this host say; None for one that is absent or not ours."""
    return (
        parsed(host.files, host.layout.routes_script_path, parse_static_routes_script),
        parsed(host.files, host.layout.check_script_path, parse_check_script),
        parsed(host.files, host.layout.probe_script_path, parse_probe_script),
    )


def parsed(files: Files, path: str, parse: Callable[[str], T]) -> T | None:
    """What an installed file says; None if it is absent or not ours."""
    text = files.read(path)
    with suppress(ValueError, LookupError):
        return None if text is None else parse(text)
    return None
