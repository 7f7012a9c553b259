"""A fake host as azure-vnet leaves it: bridge mode, with a live pod and dead pods.

eth0 and azv1 are ports of azure0; the live pod is behind azv1. Another CNI now manages 10.240.0.0/16 and fd00:1::/64.
"""

from typing import Any

from hostrouting.config.azure_vnet import AzureVnetCleanupConfig
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.kernel.neighbours import EthernetLink, Neighbour, PeerMac
from hostrouting.model.route import Route
from hostrouting.model.snapshot import Link
from hostrouting.testing import FakeHost, MemoryBackend, MemoryEbtables, MemoryLinkLayer, plain_vm

MANAGED = ("10.240.0.0/16", "fd00:1::/64")
DEAD, LIVE = "02:00:00:00:00:05", "02:00:00:00:00:aa"
R1 = "PREROUTING -p ARP --arp-op Request --arp-ip-dst {} -j arpreply --arpreply-mac {}"
R2 = "PREROUTING -p IPv4 -i eth0 --ip-dst {} -j dnat --to-dst {} --dnat-target ACCEPT"
R3 = "PREROUTING -p IPv6 -i eth0 --ip6-dst {} -j dnat --to-dst {} --dnat-target ACCEPT"
OWN = (
    R1.format("10.0.0.4", "00:0d:3a:00:00:01"),
    "PREROUTING -p ARP -i eth0 --arp-op Reply -j dnat --to-dst ff:ff:ff:ff:ff:ff --dnat-target ACCEPT",
    "POSTROUTING -s Unicast -o eth0 -j snat --to-src 00:0d:3a:00:00:01 --snat-arp --snat-target ACCEPT",
)
"""Rules for the node itself, which azure-vnet also adds."""

LINKS = (
    EthernetLink(name="lo", index=1, mac="00:00:00:00:00:00"),
    EthernetLink(name="eth0", index=2, mac="00:0d:3a:00:00:01", master="azure0"),
    EthernetLink(name="azure0", index=3, kind="bridge", mac="00:0d:3a:00:00:01"),
    EthernetLink(name="azv1", index=4, kind="veth", mac="aa:aa:aa:aa:aa:01", master="azure0", peer=PeerMac(LIVE)),
    EthernetLink(name="azv2", index=5, kind="dummy", mac="aa:aa:aa:aa:aa:02"),
)


def azure_settings(**changed: Any) -> AzureVnetCleanupConfig:
    """The settings of the clean-up."""
    return AzureVnetCleanupConfig(**{"managed": MANAGED, "dry_run": False, **changed})


def azure_config(**changed: Any) -> HostRoutingConfig:
    """A complete configuration with these settings."""
    return HostRoutingConfig(azure_vnet_cleanup=azure_settings(**changed))


def pod_rules(number: int, mac: str) -> tuple[str, ...]:
    """The rules for a pod with addresses of both families."""
    ip, ip6 = f"10.240.0.{number}", f"fd00:1::{number:x}"
    return R1.format(ip, mac), R2.format(ip, mac), R3.format(ip6, mac)


def stale_rules() -> tuple[str, ...]:
    """The rules for the two dead pods; those of the first are duplicated."""
    return (*pod_rules(5, DEAD), *pod_rules(5, DEAD), *pod_rules(6, "02:00:00:00:00:06"))


def azure_kernel() -> MemoryBackend:
    """The routes: one by azure0 to a dead pod, one by azv2, which is no longer a veth, and one to the live pod."""
    kernel = plain_vm()
    for name, kind in (("azure0", "bridge"), ("azv1", "veth"), ("azv2", "dummy")):
        kernel.add_link(Link(name=name, index=0, kind=kind))
    kernel.ip_route("add", Route.to("10.240.0.5/32", dev="azure0", protocol=4))
    kernel.ip_route("add", Route.to("10.240.0.7/32", dev="azv2", protocol=3, metric=7))
    kernel.ip_route("add", Route.to("10.240.0.8/32", dev="azv1", protocol=3))
    return kernel


def azure_host(**changed: Any) -> FakeHost:
    """The whole host."""
    neighbours = [
        Neighbour("10.240.0.5", DEAD, "azure0"),
        Neighbour("10.240.0.9", LIVE, "azure0"),
        Neighbour("10.240.0.6", "02:00:00:00:00:06", "azure0", "stale"),
    ]
    parts: dict[str, Any] = {
        "kernel": azure_kernel(),
        "bridge_rules": MemoryEbtables([*OWN, *pod_rules(9, LIVE), *stale_rules()]),
        "neighbours": MemoryLinkLayer(LINKS, neighbours),
    }
    return FakeHost(**{**parts, **changed})
