"""What a host lacks for a configuration, and what a configuration would take away: found before the
first write.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from ipaddress import collapse_addresses
from typing import TYPE_CHECKING

from hostrouting.boot.files import foreign_steps, is_nothing, why_not_run
from hostrouting.config.settings import HostRoutingConfig, Network, gated_units
from hostrouting.errors import Fault, HostRoutingError
from hostrouting.finding import Finding, Severity
from hostrouting.host.layout import HostLayout
from hostrouting.text import spoken

if TYPE_CHECKING:
    from hostrouting.host.fileset import FileChanges
    from hostrouting.host.host import Host
    from hostrouting.host.systemd import Manager

_OLDEST = 247
_PACKAGES = {
    "bash": "bash",
    "ip": "iproute2",
    "awk": "mawk or gawk",
    "flock": "util-linux",
    "nsenter": "util-linux",
    "timeout": "coreutils",
    "nft": "nftables",
}
_NETWORK_TARGETS = {
    "sysinit.target",
    "basic.target",
    "network-pre.target",
    "network.target",
    "network-online.target",
}


def find_requirements(
    host: Host, config: HostRoutingConfig, changes: FileChanges
) -> Iterator[Finding]:
    """What this host lacks for the configuration, before anything is changed: errors; for an image,
    also warnings.
    """
    yield from _file_findings(host, changes)
    if is_nothing(config):
        return
    for folder in (HostLayout.config_directory, HostLayout.gate_directory):
        entry = host.files.look(folder)
        if entry is not None and entry.is_open_to_others:
            sentence = f"users other than root can write to {folder}, and root runs what is there"
            yield Finding(
                "file",
                "error",
                sentence,
                folder,
                f"as root: chown root {folder} && chmod 755 {folder}",
            )
    if gated_units(config):
        yield from _step_findings(host)
    for tool, package in _PACKAGES.items():
        if (tool != "nft" or config.probe_rewrite.enabled) and not host.has_program(tool):
            sentence = f"the program {tool} is not installed; the boot scripts need it"
            # More may be installed into an image later.
            severity: Severity = "error" if host.backend is not None else "warning"
            yield Finding("requirement", severity, sentence, tool, f"install the package {package}")
    if host.backend is None and not host.rights().is_root:
        sentence = (
            "this process is not root, so another user owns what it writes, and root runs that at "
            "boot"
        )
        remedy = "prepare the image as root, or give these files to root"
        yield Finding("file", "warning", sentence, HostLayout.config_directory, remedy)
    if (manager := host.running_manager) is not None:
        yield from _systemd_findings(manager, gated_units(config))


def _file_findings(host: Host, changes: FileChanges) -> Iterator[Finding]:
    """What keeps files from being written or removed, as far as this can be foreseen."""
    for file in changes.files:
        try:
            file.require_room(host.files)
        except HostRoutingError as error:
            yield from error.findings
    paths = {*changes.writes, *changes.removes} - {
        *HostLayout.markers
    }  # a marker that stays stops nothing
    # Anybody may look at the plan, so only what keeps root from writing counts.
    folders: dict[str, list[str]] = {}
    for folder in sorted({path.rpartition("/")[0] for path in paths if host.rights().is_root}):
        folders.setdefault(host.files.why_unwritable(folder), []).append(folder)
    for reason in filter(None, folders):
        alike = folders[reason]
        yield Finding(
            "file", "error", f"nothing can be changed in {spoken(alike)}: {reason}", alike[0]
        )
    if {HostLayout.gate_path, HostLayout.config_path} & {
        *changes.removes
    }:  # the gate goes, or its rest
        for path in foreign_steps(host.files):
            sentence = (
                f"{path} was not installed by hostrouting, and gated units would no longer wait "
                "for this script"
            )
            yield Finding("file", "error", sentence, path, "move the script away first")


def _step_findings(host: Host) -> Iterator[Finding]:
    """Scripts of somebody else in gate.d that the gate does not run: it then refuses each start."""
    for path in foreign_steps(host.files):
        why_not, remedy = why_not_run(host.files, path)
        if why_not:
            sentence = f"{why_not}, so the gate would not run it, and would let no unit pass"
            yield Finding("file", "error", sentence, path, remedy)


def _systemd_findings(manager: Manager, units: tuple[str, ...]) -> Iterator[Finding]:
    [properties] = manager.show(("Version",))
    number = "".join(itertools.takewhile(str.isdigit, properties["Version"]))
    if number and int(number) < _OLDEST:
        sentence = f"systemd {number} runs here, and the gate needs systemd {_OLDEST} or newer"
        yield Finding("requirement", "error", sentence, "systemd")
    instances = [unit.replace("@.", "@hostrouting-probe.") for unit in units]
    for unit, properties in zip(
        units, manager.show(("Before",), *instances) if units else (), strict=True
    ):
        if before := sorted({*properties["Before"].split()} & _NETWORK_TARGETS):
            sentence = (
                f"{unit} starts before {before[0]}, which the gate waits for: each would wait for "
                "the other"
            )
            remedy = "name the unit that needs the network, such as kubelet.service, in gate.units"
            yield Finding("requirement", "error", sentence, unit, remedy)


def find_losses(installed: HostRoutingConfig | None, config: HostRoutingConfig) -> Iterator[Fault]:
    """What protects this host now and would be taken away: routes, STRICT, CIDRs, gated units and
    the guard.
    """
    if installed is None:
        return
    old, new = installed.route_overlap, config.route_overlap
    if gone := [*map(str, _lost_routes(installed, config))]:
        yield Fault(
            "staticRoutes.routes",
            "",
            f"takes away the route{'s' * (len(gone) > 1)} to {spoken(gone)}",
        )
    if gone := [str(cidr) for cidr in old.cidrs if not _covers(new.cidrs, cidr)]:
        yield Fault("routeOverlap.expectedCidrs", "", f"{spoken(gone)} would no longer be checked")
    if old.cidrs and new.cidrs and (old.mode, new.mode) == ("STRICT", "WARN"):
        yield Fault(
            "routeOverlap.mode",
            "",
            "STRICT is installed; with WARN, units start even if addresses escape",
        )
    gated = {*gated_units(config)}  # a drop-in of a template counts for its instances
    if gone := sorted(
        unit
        for unit in gated_units(installed)
        if not {unit, re.sub(r"@.*(?=\.)", "@", unit)} & gated
    ):
        yield Fault("gate.units", "", f"{spoken(gone)} would no longer wait for the gate")
    if installed.guard.enabled and not config.guard.enabled:
        yield Fault("guard.enabled", "", "the guard that repairs routes would be removed")


def _lost_routes(installed: HostRoutingConfig, config: HostRoutingConfig) -> Iterator[Network]:
    """The destinations that lose their route. Longer prefixes can replace it; a shorter one may not
    take precedence.
    """
    kept = [route.destination for route in config.static_routes.routes]
    for cidr in (route.destination for route in installed.static_routes.routes):
        if not _covers([other for other in kept if other.prefixlen >= cidr.prefixlen], cidr):
            yield cidr


def _covers(networks: Iterable[Network], cidr: Network) -> bool:
    of_family = (network for network in networks if network.version == cidr.version)
    return any(cidr.subnet_of(whole) for whole in collapse_addresses(of_family))  # type: ignore[type-var,arg-type]  # all of one family
