"""Finds the services that run the pods of a node and are not gated."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hostrouting.config.settings import gated_units
from hostrouting.finding import Finding, Remedy, Severity

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.host.host import Host

_KUBELETS = (
    "kubelet.service",
    "k3s.service",
    "k3s-agent.service",
    "rke2-server.service",
    "rke2-agent.service",
    "k0scontroller.service",
    "k0sworker.service",
    "snap.microk8s.daemon-kubelite.service",
)
"""The services that run the pods of a node."""


def find_ungated(config: HostRoutingConfig, host: Host) -> Iterator[Finding]:
    """Yield a finding for each service that runs the pods of this node, such as kubelet.service,
    and is not gated: it starts unchecked. The finding is a warning in STRICT, and only a note in
    WARN, in which the gate would let the service start in any case. Without expected CIDRs there is
    none, because the gate would check nothing.
    """
    manager = host.running_manager
    gated = gated_units(config)
    units = [unit for unit in _KUBELETS if unit not in gated]
    if manager is None or not units or not config.route_overlap.cidrs:
        return
    severity: Severity = "warning" if config.route_overlap.is_strict else "note"
    states = manager.show(("ActiveState", "UnitFileState"), *units)
    for unit, properties in zip(units, states, strict=True):
        is_running = properties["ActiveState"] in {"active", "activating", "reloading"}
        if is_running or properties["UnitFileState"] in {"enabled", "enabled-runtime"}:
            sentence = (
                f"{unit} is used on this host and is not gated, so its starts are not checked"
            )
            remedy = Remedy(f"write into gate.units: {json.dumps([*gated, unit])}")
            yield Finding("unit-not-gated", severity, sentence, unit, remedy)
