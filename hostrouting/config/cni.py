"""What CNIs put on a node: their devices by name and kind, and the routes with which they refuse packets.

The one table of this knowledge; the judge and the script at boot read it. A device is a CNI's only if both its name and
its kind fit: `lxcbr0` is a bridge of LXC, and not one of Cilium's `lxc*`. To add a CNI, add a row with its source.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from fnmatch import fnmatchcase
from typing import NamedTuple

from hostrouting.model.route import PROTOCOL_KERNEL, RouteType


class Use(Enum):
    """What a device is for."""

    NETWORK = "network"
    """It leads to pods on other nodes, or to all pods."""
    POD = "pod"
    """It leads to one pod, so it is fine for single addresses only."""
    BRIDGE = "bridge"
    """It leads to the pods of this node."""
    MARKED = "marked"
    """Only packets with a mark leave by it."""


class Device(NamedTuple):
    """Devices of a CNI: a pattern (`*`, `?`) for their names, and their kinds."""

    pattern: str
    kinds: tuple[str, ...]
    use: Use = Use.NETWORK


class Refusal(NamedTuple):
    """Routes with which a CNI refuses packets to addresses of its own that no pod has."""

    protocol: int
    types: tuple[RouteType, ...]
    lengths: dict[int, tuple[int, int]]
    """By family: the shortest and longest prefix."""
    is_exclusive: bool = False
    """Whether no other program uses this protocol for such routes."""
    is_node_subnet: bool = False
    """Whether the route is for the subnet of this node, and no other."""


class Cni(NamedTuple):
    """One CNI."""

    name: str
    devices: tuple[Device, ...]
    refusals: tuple[Refusal, ...] = ()
    serves: tuple[str, ...] | None = ()
    """The other CNIs whose pods its devices can lead to, beside those of the plain bridge plugin; None for any."""


BOOT, BIRD, CALICO = 3, 12, 80
_ALL: tuple[RouteType, ...] = ("blackhole", "unreachable", "prohibit")
_BLOCKS = {4: (20, 32), 6: (116, 128)}


def _network(*rows: str) -> tuple[Device, ...]:
    """Devices of the use NETWORK, each as its pattern and its kinds in one text."""
    return tuple(Device(row.split()[0], tuple(row.split()[1:])) for row in rows)


CNIS = (
    # antrea docs/egress.md; pkg/agent/wireguard
    Cni(
        "Antrea",
        (*_network("antrea-gw* openvswitch", "antrea-wg0 wireguard"), Device("antrea-ext.*", ("vlan",), Use.MARKED)),
        serves=None,
    ),
    # amazon-vpc-cni-k8s cmd/routed-eni-cni-plugin
    Cni("AWS VPC CNI", (Device("eni*", ("veth",), Use.POD), Device("vlan*", ("veth",), Use.POD))),
    # azure-container-networking network/
    Cni("Azure CNI", (Device("azure*", ("bridge",), Use.BRIDGE), Device("azv*", ("veth",), Use.POD))),
    # calico confd bird_ipam.cfg; felix route_mgr.go; the block size of an IPPool
    Cni(
        "Calico",
        (
            *_network(
                "bpfin.cali veth",
                "tunl0 ipip",
                "vxlan.calico vxlan",
                "vxlan-v6.calico vxlan",
                "wireguard.cali wireguard",
                "wg-v6.cali wireguard",
            ),
            Device("cali*", ("veth",), Use.POD),
        ),
        (Refusal(BIRD, ("blackhole",), _BLOCKS), Refusal(CALICO, _ALL, _BLOCKS, is_exclusive=True)),
    ),
    # cilium pkg/defaults, pkg/datapath/linux/routing
    Cni(
        "Cilium",
        (
            *_network(
                "cilium_host veth",
                "cilium_net veth",
                "cilium_vxlan vxlan",
                "cilium_geneve geneve",
                "cilium_wg0 wireguard",
                "cilium_ipip4 ipip",
                "cilium_ipip6 ip6tnl",
            ),
            Device("lxc*", ("veth", "netkit"), Use.POD),
        ),
        (Refusal(PROTOCOL_KERNEL, ("unreachable",), {4: (32, 32), 6: (128, 128)}, is_exclusive=True),),
        serves=("AWS VPC CNI", "Azure CNI", "GKE"),  # chained behind them
    ),
    # flannel pkg/backend/*, main.go --ip-blackhole-route
    Cni(
        "Flannel",
        _network(
            "flannel.* vxlan",
            "flannel-v6.* vxlan",
            "flannel-wg wireguard",
            "flannel-wg-v6 wireguard",
            "flannel.ipip ipip",
            "flannel0 tun",
        ),
        (Refusal(BOOT, ("blackhole",), {4: (8, 30), 6: (48, 124)}, is_node_subnet=True),),
        serves=("Calico",),  # Canal
    ),
    Cni("GKE", (Device("gke*", ("veth",), Use.POD),)),
    # kubernetes-sigs/kindnet
    Cni("kindnet", (Device("knet*", ("veth",), Use.POD),)),
    # squat/kilo --interface, and the bridge of its manifests
    Cni("Kilo", (*_network("kilo0 wireguard"), Device("kube-bridge", ("bridge",), Use.BRIDGE)), serves=None),
    Cni("KubeSpan", _network("kubespan wireguard"), serves=None),
    Cni("kube-router", (*_network("tun-* ipip ip6tnl"), Device("kube-bridge", ("bridge",), Use.BRIDGE))),
    Cni("Kube-OVN", _network("ovn0 openvswitch"), serves=None),
    Cni("kubenet", (Device("cbr0", ("bridge",), Use.BRIDGE),)),
    Cni("OVN-Kubernetes", _network("ovn-k8s-mp* openvswitch")),
    Cni("OpenShift SDN", _network("tun0 openvswitch")),
    # containernetworking/plugins bridge, ptp; minikube 1-k8s.conflist
    Cni(
        "bridge",
        (
            Device("cni0", ("bridge",), Use.BRIDGE),
            Device("bridge", ("bridge",), Use.BRIDGE),
            Device("veth*", ("veth",), Use.POD),
        ),
    ),
    # unbounded-net: its names are a prefix and the hexadecimal number of a tunnel
    Cni(
        "unbounded-net",
        (
            *_network(
                "unbounded0 dummy",
                "wg518?? wireguard",
                "vxlan0 vxlan",
                "gn????????? geneve",
                "gn?????????? geneve",
                "ip????????? ipip",
                "ip?????????? ipip",
            ),
            Device("cbr0", ("bridge",), Use.BRIDGE),
        ),
        serves=None,
    ),
    Cni("Weave Net", _network("weave bridge openvswitch")),
)


REFUSING_PROTOCOLS = frozenset(row.protocol for cni in CNIS for row in cni.refusals) - {BOOT, PROTOCOL_KERNEL}
"""The protocols of routes by which a CNI can be known: others use the rest for all kinds of things."""


def is_name_of_cni(name: str) -> bool:
    """Whether a device with this name can be a CNI's, whatever its kind."""
    return any(fnmatchcase(name, device.pattern) for cni in CNIS for device in cni.devices)


def devices_of(name: str, kind: str) -> Iterator[tuple[Cni, Device]]:
    """The rows that a device with this name and kind fits."""
    for cni in CNIS:
        for device in cni.devices:
            if kind in device.kinds and fnmatchcase(name, device.pattern):
                yield cni, device
