"""A fake host as azure-vnet leaves it: a live pod behind azv1, and dead pods, whose networks another CNI manages now."""

from typing import Any

from hostrouting.config.settings import AzureVnetCleanupConfig, HostRoutingConfig
from hostrouting.kernel.neighbours import EthernetLink, Neighbour, PeerMac
from hostrouting.model.route import Route
from hostrouting.model.snapshot import Link
from hostrouting.testing import FakeEbtables, FakeHost, FakeLinkLayer, plain_vm
from tests.support.azure_rules import NODE_RULES, pod_rules

MANAGED = ("10.1.0.0/16", "fd00::/64")
DEAD, LIVE, OTHER = "02:00:00:00:00:05", "02:00:00:00:00:aa", "02:00:00:00:00:06"
LINKS = (
    EthernetLink(name="lo", index=1, mac="00:00:00:00:00:00"),
    EthernetLink(name="eth0", index=2, mac="00:0d:3a:00:00:01", master="azure0"),
    EthernetLink(name="azure0", index=3, kind="bridge", mac="00:0d:3a:00:00:01"),
    EthernetLink(name="azv1", index=4, kind="veth", mac="aa:aa:aa:aa:aa:01", master="azure0", peer=PeerMac(LIVE)),
    EthernetLink(name="azv2", index=5, kind="dummy", mac="aa:aa:aa:aa:aa:02"),
)
NEIGHBOURS = tuple(Neighbour(f"10.1.0.{last}", mac, "azure0") for last, mac in ((5, DEAD), (9, LIVE)))
KEPT_RULES = (*NODE_RULES, *pod_rules("10.1.0.9", LIVE), *pod_rules("fd00::9", LIVE))
STALE_RULES = (*pod_rules("10.1.0.5", DEAD), *pod_rules("fd00::5", DEAD), *pod_rules("10.1.0.6", OTHER)) * 2
STALE_ROUTES = tuple(
    Route.to(to, dev=dev, protocol=4, metric=7) for to, dev in (("10.1.0.5/32", "azure0"), ("10.1.0.7/32", "azv2"))
)


def section(**changed: Any) -> AzureVnetCleanupConfig:
    """The section of the configuration; it orders the deletion unless `dry_run` is given."""
    return AzureVnetCleanupConfig(**{"managed": MANAGED, "dry_run": False, **changed})


def config(**changed: Any) -> HostRoutingConfig:
    """A configuration with this section."""
    return HostRoutingConfig(azure_vnet_cleanup=section(**changed))


def host(**changed: Any) -> FakeHost:
    """The host, with two copies of each stale rule, one stale neighbour, and two stale routes."""
    kernel = plain_vm()
    for link in LINKS[2:]:
        kernel.add_link(Link(name=link.name, index=0, kind=link.kind))
    for route in (*STALE_ROUTES, Route.to("10.1.0.8/32", dev="azv1", protocol=3)):
        kernel.ip_route("add", route)
    rules, links = FakeEbtables([*KEPT_RULES, *STALE_RULES]), FakeLinkLayer(LINKS, NEIGHBOURS)
    return FakeHost(**{"kernel": kernel, "bridge_rules": rules, "neighbours": links, **changed})
