"""A fake host as azure-vnet leaves it: a live pod behind azv1, and dead ones."""

import json
from typing import Any

import attrs

from hostrouting.azure_vnet.neighbours import LinkLayerView, Neighbour
from hostrouting.azure_vnet.task import CleanStaleAzureVnet
from hostrouting.config.settings import AzureVnetCleanupConfig, HostRoutingConfig
from hostrouting.model.route import Route
from hostrouting.model.snapshot import ARPHRD_LOOPBACK, Link
from hostrouting.testing import FakeEbtables, FakeHost, FakeKernel, FakeLinkLayer
from tests.support.azure_rules import NODE_RULES, pod_rules

MANAGED = ("10.1.0.0/16", "fd00::/64")
DEAD, LIVE, OTHER = "02:00:00:00:00:05", "02:00:00:00:00:aa", "02:00:00:00:00:06"
LINKS = (
    Link(name="lo", index=1, type=ARPHRD_LOOPBACK),
    Link(name="eth0", index=2, master="azure0"),
    Link(name="azure0", index=3, kind="bridge"),
    Link(name="azv1", index=4, kind="veth", master="azure0"),
)
CARD = "00:0d:3a:00:00:01"
MACS = {"lo": "00:00:00:00:00:00", "eth0": CARD, "azure0": CARD, "azv1": "aa:aa:aa:aa:aa:01"}
PEERS = {"azv1": LIVE}
NEIGHBOURS = (Neighbour("10.1.0.5", DEAD, "azure0"), Neighbour("10.1.0.9", LIVE, "azure0"))
KEPT_RULES = (*NODE_RULES, *pod_rules("10.1.0.9", LIVE), *pod_rules("fd00::9", LIVE))
STALE_RULES = (
    *pod_rules("10.1.0.5", DEAD),
    *pod_rules("fd00::5", DEAD),
    *pod_rules("10.1.0.6", OTHER),
) * 2
STALE_ROUTES = tuple(
    Route.to(to, dev="azure0", protocol=4, metric=7) for to in ("10.1.0.5/32", "10.1.0.6/32")
)


def section(**changed: Any) -> AzureVnetCleanupConfig:
    """The section of the configuration; it orders the deletion unless `dry_run` is given."""
    return AzureVnetCleanupConfig(**{"managed": MANAGED, "dry_run": False, **changed})


def config(**changed: Any) -> HostRoutingConfig:
    return HostRoutingConfig(azure_vnet_cleanup=section(**changed))


def state(device: str, *ips: str) -> str:
    pod = {
        "HostIfName": device,
        "MacAddress": "AgAAAAAF",
        "IPAddresses": [{"IP": ip, "Mask": "//8AAA=="} for ip in ips],
    }
    network = {"Networks": {"azure": {"Endpoints": {"a-eth0": pod}}}}
    return json.dumps({"Network": {"Version": "v1", "ExternalInterfaces": {"eth0": network}}})


@attrs.frozen(kw_only=True)
class AzureHost(FakeHost):
    ebtables: FakeEbtables = attrs.field(factory=FakeEbtables)
    link_layer: FakeLinkLayer = attrs.field(factory=FakeLinkLayer)


def task(config: HostRoutingConfig, *, host: AzureHost) -> CleanStaleAzureVnet:
    return CleanStaleAzureVnet(
        config, host=host, ebtables=host.ebtables, link_layer=host.link_layer
    )


def host(**changed: Any) -> AzureHost:
    """The host, with two copies of each stale rule, one stale neighbour, and two stale routes."""
    kernel = FakeKernel()
    for link in LINKS[1:]:
        kernel.add_link(link)
    for route in (*STALE_ROUTES, Route.to("10.1.0.8/32", dev="azv1", protocol=3)):
        kernel.ip_route("add", route)
    rules = FakeEbtables([*KEPT_RULES, *STALE_RULES])
    view = LinkLayerView(macs=MACS, peers=PEERS, neighbours=NEIGHBOURS)
    return AzureHost(kernel=kernel, ebtables=rules, link_layer=FakeLinkLayer(view), **changed)
