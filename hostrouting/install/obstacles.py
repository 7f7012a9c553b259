"""What else on a host keeps a configuration from working, although its files, routes and table are
there.

Our files and routes do not show these obstacles: what takes probes before they are rewritten, what
keeps replies on the host, systemd-networkd, which deletes the routes of other programs, and a
kubelet that does not wait for the gate. Checks and plans name them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hostrouting.config.settings import gated_units
from hostrouting.errors import HostError
from hostrouting.finding import Finding, Remedy, Severity
from hostrouting.host.layout import HostLayout

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.host.files import Files
    from hostrouting.host.host import Host
    from hostrouting.model.snapshot import Link, Snapshot

_LINKS = "/run/systemd/netif/links"
"""While systemd-networkd runs, this folder has a file about each device; the folder itself is made
at every boot.
"""
_IS_MANAGED = re.compile(r"(?m)^ADMIN_STATE=(configuring|configured|failed)$")
"""The states of a device for which a .network file has been found: networkd deletes routes for no
other device.
"""
_NETWORKD_FOLDERS = ("/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd")
_KEEPS_ROUTES = re.compile(
    r"(?m)^[ \t]*ManageForeignRoutes[ \t]*=[ \t]*(?i:no|false|off|0|n|f)[ \t]*$"
)

_KUBELETS = (
    "kubelet.service",
    "k3s.service",
    "k3s-agent.service",
    "rke2-server.service",
    "rke2-agent.service",
)
"""The services that run the pods of a node."""


def find_ungated(config: HostRoutingConfig, host: Host) -> Iterator[Finding]:
    """The services that run this node's pods and are not gated, although something is expected. In
    mode WARN, they would start all the same, and only their check would be logged.
    """
    if not config.route_overlap.cidrs:
        return
    severity: Severity = "note"
    consequence = "so its starts are not checked"
    if config.route_overlap.is_strict:
        severity = "warning"
        consequence = "so it starts even while addresses escape"
    gated = gated_units(config)
    for unit, state in _used_units(host, [unit for unit in _KUBELETS if unit not in gated]):
        sentence = f"{unit} {state} on this host and is not gated, {consequence}"
        remedy = Remedy(f"write into gate.units: {json.dumps([*gated, unit])}")
        yield Finding("unit-not-gated", severity, sentence, unit, remedy)


def _used_units(host: Host, units: list[str]) -> Iterator[tuple[str, str]]:
    """Each of these units that runs or is enabled here, and which of the two."""
    manager = host.running_manager
    if manager is None:  # an image, or a container
        for unit in units:
            if host.files.look(HostLayout.enabled_path(unit)):
                yield unit, "is enabled"
        return
    if not units:  # systemd would show its own properties
        return
    try:
        states = manager.show(("ActiveState", "UnitFileState"), *units)
    except HostError:  # a warning is not worth a failure: what needs systemd raises this error
        return
    for unit, properties in zip(units, states, strict=True):
        if properties["ActiveState"] in {"active", "activating", "reloading"}:
            yield unit, "runs"
        elif properties["UnitFileState"] in {"enabled", "enabled-runtime"}:
            yield unit, "is enabled"


def find_probe_obstacles(config: HostRoutingConfig, snapshot: Snapshot) -> Iterator[Finding]:
    """Why probes do not reach the pods although the table is loaded."""
    probe = config.probe_rewrite
    if not probe.enabled:
        return
    for address in snapshot.addresses:
        if address.ip == probe.global_address:
            sentence = (
                f"{address.ip} is an address of this host, on {address.dev}: replies to probes "
                "would not leave it"
            )
            remedy = Remedy("write an address that no host has")
            path = "probeRewrite.globalAddress"
            yield Finding("probe-rewrite", "error", sentence, path, remedy)
    for link in snapshot.links:
        if link.name in probe.interfaces:
            yield from _what_takes_probes(link)
    if snapshot.ipv6_forwarding is False:  # None: the snapshot does not say
        sentence = "net.ipv6.conf.all.forwarding is 0, so no probe is forwarded to a pod"
        # A host that forwards takes advertisements only where accept_ra is 2.
        words = "if accept_ra of the uplink is 1, set it to 2 first; then, until the next boot"
        remedy = Remedy(words, "sysctl -w net.ipv6.conf.all.forwarding=1")
        yield Finding("probe-rewrite", "warning", sentence, "net.ipv6.conf.all.forwarding", remedy)


def _what_takes_probes(link: Link) -> Iterator[Finding]:
    """What takes packets that arrive on this device, before a rule for the device sees them: the
    table of the rewrite has such rules (`boot.probe_table`).
    """
    if link.master is not None:
        sentence = (
            f"{link.name} is a port of {link.master}, where its packets arrive, so no rule "
            "matches them"
        )
        remedy = Remedy(f"name {link.master} in probeRewrite.interfaces")
        yield Finding("probe-rewrite", "warning", sentence, link.name, remedy)
    if link.xdp:
        sentence = (
            f"{link.name} has an XDP program, which may take packets before nftables sees them"
        )
        remedy = Remedy(
            f"ask its owner (see it with: ip -details link show {link.name}), and send a probe"
        )
        yield Finding("probe-rewrite", "warning", sentence, link.name, remedy)


def find_networkd(config: HostRoutingConfig, files: Files) -> Iterator[Finding]:
    """Whether systemd-networkd may delete the static routes when it restarts."""
    if config.manage_foreign == "keep" or not _manages_a_device(files) or _keeps_routes(files):
        return
    sentence = (
        "systemd-networkd manages devices of this host, and can delete the routes of other programs"
    )
    remedy = Remedy('to keep them, write "manageForeign": "keep" into the configuration')
    yield Finding("unit", "note", sentence, "systemd-networkd.service", remedy)


def _manages_a_device(files: Files) -> bool:
    texts = [files.read(f"{_LINKS}/{number}") or "" for number in files.names(_LINKS)]
    return any(_IS_MANAGED.search(text) for text in texts)


def _keeps_routes(files: Files) -> bool:
    """Whether somebody has told networkd to keep the routes of other programs. Not judged: in which
    section of the file, and whether another file, which is read later, says otherwise.
    """
    for folder in _NETWORKD_FOLDERS:
        drop_ins = f"{folder}/networkd.conf.d"
        paths = [f"{drop_ins}/{name}" for name in files.names(drop_ins)]
        paths.append(f"{folder}/networkd.conf")
        if any(_KEEPS_ROUTES.search(files.read(path) or "") for path in paths):
            return True
    return False
