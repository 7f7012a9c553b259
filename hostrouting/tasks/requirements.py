"""What a host lacks for a configuration, and what a configuration would take away: asked before the first write.

Pure questions: nothing is changed here. Not here: what is done about the answers (`install`, the command `apply`).
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from hostrouting.boot.files import files_of
from hostrouting.config.settings import HostRoutingConfig, gated_units
from hostrouting.config.values import Mode
from hostrouting.errors import Fault, HostRoutingError
from hostrouting.finding import Finding
from hostrouting.routes.uplink import wanted_routes
from hostrouting.text import counted, spoken

if TYPE_CHECKING:
    from hostrouting.config.values import Network
    from hostrouting.host.host import Host
    from hostrouting.host.systemd import Manager

_OLDEST = 247
_TOOLS = ("bash", "ip", "awk", "flock", "timeout", "nsenter")
_PACKAGES = {
    "ip": "iproute2",
    "awk": "mawk or gawk",
    "flock": "util-linux",
    "nsenter": "util-linux",
    "timeout": "coreutils",
    "nft": "nftables",
}
_AWAITED = {"sysinit.target", "basic.target", "network-pre.target", "network.target", "network-online.target"}


def find_requirements(host: Host, config: HostRoutingConfig) -> Iterator[Finding]:
    """What this host lacks for the configuration: an error for each, found before anything is changed."""
    wanted = files_of(config, host.layout)
    stale = [file for file in wanted if file.differs(host.files)]
    for file in stale:
        try:
            file.require_room(host.files)
        except HostRoutingError as error:
            yield from error.findings
    # Anybody may look at the plan; where root has no way to write, nobody has.
    for folder in sorted({file.path.rpartition("/")[0] for file in stale if host.rights().is_root}):
        if reason := host.files.why_unwritable(folder):
            yield Finding("file", "error", f"nothing can be written into {folder}: {reason}", folder)
    if not wanted:
        return
    for tool in (*_TOOLS, *(["nft"] if config.probe_rewrite.enabled else [])):
        if host.find_program(tool) is None:
            remedy = f"install the package {_PACKAGES.get(tool, tool)}"
            yield Finding(
                "program", "error", f"the program {tool} is not installed; the boot scripts need it", tool, remedy
            )
    if (manager := host.running_manager) is not None:
        yield from _systemd_findings(manager, host, config)


def _systemd_findings(manager: Manager, host: Host, config: HostRoutingConfig) -> Iterator[Finding]:
    [properties] = manager.show(("Version",))
    number = "".join(itertools.takewhile(str.isdigit, properties["Version"]))
    if number and int(number) < _OLDEST:
        sentence = f"systemd {number} runs here, and the gate needs systemd {_OLDEST} or newer"
        yield Finding("systemd", "error", sentence, "systemd")
    for unit in gated_units(config):
        if host.files.is_there(host.layout.drop_in_path(unit)):
            continue  # its own After= would be shown, too
        [properties] = manager.show(("Id", "Before"), unit.replace("@.", "@hostrouting-probe."))
        if before := sorted({*properties["Before"].split()} & _AWAITED):
            sentence = f"{unit} starts before {before[0]}, which the gate waits for: each would wait for the other"
            remedy = "name the unit that needs the network, such as kubelet.service, in gate.units"
            yield Finding("gate-units", "error", sentence, unit, remedy)


def find_losses(installed: HostRoutingConfig | None, config: HostRoutingConfig) -> Iterator[Fault]:
    """What protects this host now and would not any more: routes, STRICT, CIDRs, gated units and the guard."""
    if installed is None:
        return
    old, new, remedy = (
        installed.route_overlap,
        config.route_overlap,
        "write it into this file, or allow it: --allow-removal",
    )

    def lost(path: str, sentence: str) -> Fault:
        return Fault(config.path(*path.split(".")), "", sentence, remedy)

    kept = {wish.key for wish in wanted_routes(config)}
    if gone := [str(wish.destination) for wish in wanted_routes(installed) if wish.key not in kept]:
        yield lost("staticRoutes.routes", f"takes away {counted(len(gone), 'route')}, to {spoken(gone)}")
    if gone := [str(part) for cidr in old.expected_cidrs for part in _uncovered(cidr, new.expected_cidrs)]:
        yield lost("routeOverlap.expectedCidrs", f"{spoken(gone)} would not be checked any more")
    if old.expected_cidrs and new.expected_cidrs and (old.mode, new.mode) == (Mode.STRICT, Mode.WARN):
        yield lost("routeOverlap.mode", "STRICT is installed, and with WARN units start although addresses escape")
    if gone := sorted({*gated_units(installed)} - {*gated_units(config)}):
        yield lost("gate.units", f"{spoken(gone)} would not wait for the gate any more")
    if installed.guard.enabled and not config.guard.enabled:
        yield lost("guard.enabled", "the guard that repairs routes would be removed")


def _uncovered(cidr: Network, others: Collection[Network]) -> Iterator[Network]:
    """The parts of a CIDR that the others do not cover."""
    near = [other for other in others if cidr.overlaps(other)]
    if not near:
        yield cidr
    elif all(other.prefixlen > cidr.prefixlen for other in near):
        for half in cidr.subnets():
            yield from _uncovered(half, near)
