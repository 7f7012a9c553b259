"""The services that run the pods of a node and do not wait for the gate."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hostrouting.config.settings import gated_units
from hostrouting.errors import HostError
from hostrouting.finding import Finding, Remedy, Severity
from hostrouting.host.layout import HostLayout

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.host.host import Host

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
