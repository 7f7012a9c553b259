"""hostrouting.install.requirements: what a host lacks, and what a configuration would take away."""

from collections.abc import Callable
from ipaddress import IPv4Network

import attrs
import pytest
from hypothesis import given, strategies as st

from hostrouting.config.settings import (
    GateConfig,
    GuardConfig,
    HostRoutingConfig,
    StaticRoute,
    StaticRoutesConfig,
)
from hostrouting.host.fileset import FileChanges
from hostrouting.install.losses import find_losses
from hostrouting.install.requirements import find_requirements
from hostrouting.kernel.programs import Rights
from hostrouting.testing import FakeFiles, FakeHost, FakeManager
from tests.support.sections import expect
from tests.support.tasks import CIDR, LAYOUT, REPAIR, config

# Few enough that routes often cover each other, as a whole or by halves.
NETWORKS = st.sampled_from(
    [
        part
        for length in range(24, 28)
        for part in IPv4Network("10.0.0.0/24").subnets(new_prefix=length)
    ]
)
ROUTES = st.lists(NETWORKS, max_size=6, unique=True)


def routes(networks: list[IPv4Network]) -> HostRoutingConfig:
    """A configuration with routes to these networks."""
    return HostRoutingConfig(StaticRoutesConfig(bool(networks), tuple(map(StaticRoute, networks))))


@given(before=ROUTES, after=ROUTES)
def test_law_a_route_is_lost_where_no_other_that_is_as_long_takes_its_place(
    before: list[IPv4Network], after: list[IPv4Network]
) -> None:
    """Address by address: halves take the place of a route, and a shorter route does not."""
    is_lost = any(
        not any(address in other and other.prefixlen >= route.prefixlen for other in after)
        for route in before
        for address in route
    )
    faults = {fault.path for fault in find_losses(routes(before), routes(after))}
    assert ("staticRoutes.routes" in faults) is is_lost


OLD = config(*REPAIR, cidrs=(CIDR,))._replace(guard=GuardConfig(enabled=True))
LOSSES: dict[str, tuple[Callable[[HostRoutingConfig], HostRoutingConfig], str]] = {
    "routes": (
        lambda old: old._replace(static_routes=config(REPAIR[0]).static_routes),
        "staticRoutes.routes: takes away the route to 172.16.128.0/17",
    ),
    "CIDRs": (
        lambda old: old._replace(route_overlap=expect("172.16.64.0/18", mode="STRICT")),
        "routeOverlap.expectedCidrs: 172.16.0.0/16 would no longer be checked",
    ),
    "units": (
        lambda old: old._replace(gate=GateConfig(("kubelet.service",))),
        "gate.units: systemd-nspawn@.service would no longer wait for the gate",
    ),
    "guard": (
        lambda old: old._replace(guard=GuardConfig()),
        "guard.enabled: the guard that repairs routes would be removed",
    ),
}


@pytest.mark.parametrize(("weaken", "sentence"), LOSSES.values(), ids=LOSSES)
def test_each_loss(weaken: Callable[[HostRoutingConfig], HostRoutingConfig], sentence: str) -> None:
    """What protects less than the installed configuration is named."""
    assert [*map(str, find_losses(OLD, weaken(OLD)))] == [sentence]


def test_an_image_that_is_not_roots() -> None:
    """Without root, the files of an image belong to a user who could then change what root runs."""
    for host, is_warned in (
        (FakeHost.image(), False),
        (attrs.evolve(FakeHost.image(), rights=lambda: Rights(is_root=False)), True),
        (FakeHost(rights=lambda: Rights(is_root=False)), False),  # it cannot write to /etc
    ):
        findings = [*find_requirements(host, OLD, FileChanges())]
        warned = [
            finding.severity for finding in findings if "another user owns" in finding.sentence
        ]
        assert warned == (["warning"] if is_warned else [])


@pytest.mark.parametrize("is_link", [False, True])
@pytest.mark.parametrize("manager", ["systemd", "no systemd", "an image"])
def test_a_foreign_step_that_the_gate_does_not_run(manager: str, *, is_link: bool) -> None:
    """The next gated start would be refused, whether or not systemd runs now: it is named before
    anything is written.
    """
    path = LAYOUT.step_path("50-x")
    files = FakeFiles({path: "exit 0\n"}, {path: 0o644})
    host = FakeHost(files=files)
    if manager == "no systemd":
        host = FakeHost(files=files, manager=FakeManager(running=False))
    if manager == "an image":
        host = attrs.evolve(FakeHost.image(), files=files)
    assert [*find_requirements(host, OLD, FileChanges())] == []
    if is_link:
        files.texts.clear()
        files.links[path] = "/opt/x.sh"
    else:
        files.modes[path] = 0o775
    [finding] = find_requirements(host, OLD, FileChanges())
    assert (finding.name, finding.severity, finding.target) == ("file", "error", path)
    assert str(finding) == (
        f"{path} is a link, so the gate would not run it, and would let no unit pass; "
        "put a copy of the file in its place"
        if is_link
        else f"users other than root can write to {path}, so the gate would not run it, and would let "
        f"no unit pass; as root: chown root {path} && chmod 644 {path}"
    )
    keeping = HostRoutingConfig(manage_foreign="keep")  # no unit is gated
    assert [*find_requirements(host, keeping, FileChanges())] == []


def test_no_loss() -> None:
    """More routes, other halves of a CIDR and more units are no loss; nor is anything on a new
    host.
    """
    more = config(*REPAIR, "10.9.0.0/16", cidrs=(*REPAIR, "10.0.0.0/8"))
    units = GateConfig(("kubelet.service", "systemd-nspawn@.service"))
    new = more._replace(gate=units, guard=GuardConfig(enabled=True))
    instance = OLD._replace(
        gate=GateConfig(("systemd-nspawn@kube.1.service",))
    )  # the template gates it, too
    assert [
        *find_losses(OLD, new),
        *find_losses(instance, new),
        *find_losses(HostRoutingConfig(), OLD),
    ] == []
