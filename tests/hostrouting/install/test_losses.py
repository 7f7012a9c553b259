"""hostrouting.install.losses: the protection that a configuration would take away."""

import json
from ipaddress import IPv4Network

import pytest

from hostrouting.config.settings import (
    MACHINES,
    GateConfig,
    GuardConfig,
    HostRoutingConfig,
    gated_units,
)
from hostrouting.errors import ConfigError
from hostrouting.install.losses import find_losses
from hostrouting.status import find_status
from hostrouting.tasks.configure import Configure
from tests.support.sections import expect
from tests.support.tasks import (
    CIDR,
    GUARDED as OLD,
    LAYOUT,
    REPAIR,
    config,
    configured,
    failure_of,
    run,
)

NOTHING = HostRoutingConfig()
WARN = config(*REPAIR, cidrs=(CIDR,), mode="WARN")
KUBELET = GateConfig(("kubelet.service",))
REFUSING = OLD._replace(route_overlap=expect(CIDR, mode="STRICT", undecided="refuse"))
UNCHECKED = "routeOverlap.expectedCidrs: 172.16.0.0/16 would no longer be checked"
NOT_KUBELET = "gate.units: kubelet.service would no longer wait for the gate"
UNGATED = "gate.units: systemd-nspawn@.service would no longer wait for the gate"
IN_WARN = "routeOverlap.mode: STRICT is installed; with WARN, units start even if addresses escape"
IN_DOUBT = (
    'routeOverlap.undecided: "refuse" is installed; without it, units start even if the verdict is '
    "UNDECIDED"
)

CASES: dict[str, tuple[HostRoutingConfig, HostRoutingConfig, list[str]]] = {
    "a half of a CIDR": (
        OLD,
        OLD._replace(route_overlap=expect("172.16.64.0/18", mode="STRICT")),
        [UNCHECKED],
    ),
    "all CIDRs, without which no mode means anything": (
        OLD,
        OLD._replace(route_overlap=NOTHING.route_overlap),
        [UNCHECKED],
    ),
    "a family": (config(cidrs=(CIDR, "fd00::/32")), config(cidrs=("fd00::/32",)), [UNCHECKED]),
    "services": (
        OLD._replace(
            route_overlap=OLD.route_overlap._replace(service_cidrs=(IPv4Network("10.96.0.0/12"),))
        ),
        OLD,
        ["routeOverlap.expectedCidrs: 10.96.0.0/12 would no longer be checked"],
    ),
    "STRICT": (OLD, OLD._replace(route_overlap=expect(CIDR)), [IN_WARN]),
    "the refusal of what is undecided": (REFUSING, OLD, [IN_DOUBT]),
    "units": (OLD, OLD._replace(gate=KUBELET), [UNGATED]),
    "a unit in WARN": (WARN._replace(gate=KUBELET), WARN, [NOT_KUBELET]),
    "machines in WARN, which nobody has named": (WARN, WARN._replace(gate=KUBELET), []),
    "all static routes": (
        OLD,
        OLD._replace(static_routes=NOTHING.static_routes),
        ["staticRoutes.routes: all static routes would be deleted"],
    ),
    "the guard": (
        OLD,
        OLD._replace(guard=GuardConfig()),
        ["guard.enabled: the guard that repairs routes would be removed"],
    ),
    "nothing: more of everything": (
        OLD,
        config(*REPAIR, "10.9.0.0/16", cidrs=(*REPAIR, "10.0.0.0/8", "fd00:16::/32"))._replace(
            gate=GateConfig(("kubelet.service", MACHINES)), guard=GuardConfig(enabled=True)
        ),
        [],
    ),
    "nothing: a template for its instance": (
        OLD._replace(gate=GateConfig(("systemd-nspawn@kube.1.service",))),
        OLD,
        [],
    ),
    "nothing: a new host": (NOTHING, OLD, []),
}
"""By what would be lost: what is installed, the new configuration, and the losses."""


@pytest.mark.parametrize("name", CASES)
def test_each_loss(name: str) -> None:
    """What protects less than the installed configuration is named."""
    old, new, losses = CASES[name]
    assert [str(fault) for fault in find_losses(old, gated_units(old), new)] == losses


def test_an_edited_config() -> None:
    """What is gated now counts, and not only what config.json says now."""
    host = configured(OLD._replace(gate=KUBELET))
    edited = OLD._replace(gate=GateConfig(("kublet.service",)))
    host.files.texts[LAYOUT.config_path] = json.dumps(edited.to_mapping())
    failure_of(run, Configure(edited, host=host), of=ConfigError, match=NOT_KUBELET)
    page = find_status(host)
    assert (page.state, page.command) == ("differs", "")
    assert any(NOT_KUBELET in finding.sentence for finding in page.wrong)
