"""hostrouting.install.losses: the protection that a configuration would take away."""

import json
from collections.abc import Callable
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
from hostrouting.install.installed import read_installed
from hostrouting.install.losses import find_losses
from hostrouting.status import find_status
from hostrouting.tasks.configure import Configure
from hostrouting.tasks.overlap_check import CheckRouteOverlap
from hostrouting.tasks.static_routes import ConfigureStaticRoutes
from hostrouting.tasks.task import InstallTask
from hostrouting.testing import FakeHost, h200
from tests.support.sections import expect
from tests.support.tasks import (
    CIDR,
    LAYOUT,
    REPAIR,
    config,
    configured,
    failure_of,
    ours,
    run,
    undo,
)

OLD = config(*REPAIR, cidrs=(CIDR,))._replace(guard=GuardConfig(enabled=True))
LOSSES = {
    "CIDRs": (
        OLD._replace(route_overlap=expect("172.16.64.0/18", mode="STRICT")),
        "routeOverlap.expectedCidrs: 172.16.0.0/16 would no longer be checked",
    ),
    "all CIDRs": (  # the mode means nothing then
        OLD._replace(route_overlap=HostRoutingConfig().route_overlap),
        "routeOverlap.expectedCidrs: 172.16.0.0/16 would no longer be checked",
    ),
    "units": (
        OLD._replace(gate=GateConfig(("kubelet.service",))),
        "gate.units: systemd-nspawn@.service would no longer wait for the gate",
    ),
    "all static routes": (
        OLD._replace(static_routes=HostRoutingConfig().static_routes),
        "staticRoutes.routes: all static routes would be deleted",
    ),
    "guard": (
        OLD._replace(guard=GuardConfig()),
        "guard.enabled: the guard that repairs routes would be removed",
    ),
}
"""By what would be lost: the new configuration, and the loss."""


def losses(old: HostRoutingConfig, new: HostRoutingConfig) -> list[str]:
    """What the new configuration would take away."""
    return [str(fault) for fault in find_losses(old, gated_units(old), new)]


@pytest.mark.parametrize(("new", "sentence"), LOSSES.values(), ids=LOSSES)
def test_each_loss(new: HostRoutingConfig, sentence: str) -> None:
    """What protects less than the installed configuration is named."""
    assert losses(OLD, new) == [sentence]


def test_both_families() -> None:
    """A CIDR of one family takes the place of none of the other."""
    ipv4 = config(cidrs=("172.16.0.0/16",))
    ipv6 = config(cidrs=("fd00:16::/32",))
    both = config(cidrs=("172.16.0.0/16", "fd00:16::/32"))
    assert losses(ipv4, both) == []
    assert losses(both, both) == []
    assert losses(both, ipv6) == [
        "routeOverlap.expectedCidrs: 172.16.0.0/16 would no longer be checked",
    ]


def test_what_is_refused_no_longer() -> None:
    """STRICT, and what is undecided."""
    refuses = expect(CIDR, mode="STRICT", undecided="refuse")
    old, strict, warn = (
        OLD._replace(route_overlap=section)
        for section in (refuses, expect(CIDR, mode="STRICT"), expect(CIDR))
    )
    undecided = '"refuse" is installed; without it, units start even if the verdict is UNDECIDED'
    mode = "STRICT is installed; with WARN, units start even if addresses escape"
    assert losses(old, strict) == [f"routeOverlap.undecided: {undecided}"]
    assert losses(strict, warn) == [f"routeOverlap.mode: {mode}"]
    assert losses(old, warn) == [*losses(strict, warn), *losses(old, strict)]
    assert losses(warn, old) == []


def test_cidrs_of_services() -> None:
    """They are checked like the others."""
    section = OLD.route_overlap._replace(service_cidrs=(IPv4Network("10.96.0.0/12"),))
    assert losses(OLD._replace(route_overlap=section), OLD) == [
        "routeOverlap.expectedCidrs: 10.96.0.0/12 would no longer be checked",
    ]


def test_no_loss() -> None:
    """More routes, CIDRs and units are no loss; nor is anything on a new host."""
    more = config(*REPAIR, "10.9.0.0/16", cidrs=(*REPAIR, "10.0.0.0/8"))
    units = GateConfig(("kubelet.service", MACHINES))
    new = more._replace(gate=units, guard=GuardConfig(enabled=True))
    assert losses(OLD, new) == []
    assert losses(HostRoutingConfig(), OLD) == []


@pytest.mark.parametrize("gate", [None, GateConfig((MACHINES,))])
def test_a_gate_that_nobody_has_named(gate: GateConfig | None) -> None:
    """The gate of machines is there by itself; in WARN, it is no loss if another unit is named."""
    named = GateConfig(("kubelet.service",))
    warn = config(*REPAIR, cidrs=(CIDR,), mode="WARN")
    lost = losses(warn._replace(gate=gate), warn._replace(gate=named))
    assert bool(lost) is (gate is not None)
    assert losses(OLD._replace(gate=gate), OLD._replace(gate=named)) != []


def test_no_loss_of_an_instance() -> None:
    """The template gates it, too."""
    instance = OLD._replace(gate=GateConfig(("systemd-nspawn@kube.1.service",)))
    assert losses(instance, OLD._replace(gate=GateConfig((MACHINES,)))) == []


EMPTYING: list[tuple[HostRoutingConfig, type[InstallTask], HostRoutingConfig]] = [
    (OLD, Configure, HostRoutingConfig()),
    (OLD, CheckRouteOverlap, HostRoutingConfig()),
    (OLD, CheckRouteOverlap, config(cidrs=(CIDR,), mode="WARN")),
    (config(*REPAIR), ConfigureStaticRoutes, HostRoutingConfig()),
    (OLD, ConfigureStaticRoutes, HostRoutingConfig()),
]
"""What is installed, and what a task makes of it."""


@pytest.mark.parametrize(("old", "make", "empty"), EMPTYING)
def test_no_task_takes_protection_away_unasked(
    old: HostRoutingConfig, make: Callable[..., InstallTask], empty: HostRoutingConfig
) -> None:
    """An empty configuration changes nothing unless that is said; undo may protect less."""
    host = configured(old)
    before = dict(host.files.texts), ours(host)
    failure_of(run, make(empty, host=host), of=ConfigError, match="would remove protection")
    assert (dict(host.files.texts), ours(host)) == before
    task = make(empty, host=host, allow_removal=True)
    run(task)
    assert read_installed(host) != old
    undo(task)
    assert read_installed(host) == old
    protecting = Configure(old, host=FakeHost(kernel=h200()))
    run(protecting)
    undo(protecting)
    assert read_installed(protecting.host) == HostRoutingConfig()


def test_an_edited_config() -> None:
    """What is gated now counts, and not only what config.json says now."""
    host = configured(OLD._replace(gate=GateConfig(("kubelet.service",))))
    edited = OLD._replace(gate=GateConfig(("kublet.service",)))
    host.files.texts[LAYOUT.config_path] = json.dumps(edited.to_mapping())
    sentence = "kubelet.service would no longer wait for the gate"
    failure_of(run, Configure(read_installed(host), host=host), of=ConfigError, match=sentence)
    page = find_status(host)
    assert (page.state, page.command) == ("differs", "")
    assert any(sentence in finding.sentence for finding in page.wrong)
