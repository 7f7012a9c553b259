"""What the known cluster networks (CNIs) leave on a node: their devices, and the routes that refuse packets on purpose.

Here: one table of each, a row with its CNI, or the place in its source. Not here: which routes of a host are of that
kind (`check.cni`), and what an address is told that leaves by such a device (`check.overlap`).

A CNI that gives a node a block of addresses often makes the node drop packets for addresses that no pod has. Without
that, such packets go to the router, which sends them back. The pods themselves have longer prefixes, by devices of the
CNI.

kube-router (protocol 17) and Antrea install unicast routes only. OVN-Kubernetes (protocol 85) has an unreachable
default route in the table of each VRF: that is not a pod block, so it has no row. BIRD also installs `unreachable`
where it has no route to the block of another node: those pods are lost, so that has no row either.
"""

import attrs

from hostrouting.model import REFUSING, RouteType

__all__ = ["CNI_ROUTES", "DEFAULT_ALLOWED_DEVS", "CniRoute"]

DEFAULT_ALLOWED_DEVS = (
    "antrea-gw*",  # Antrea's gateway to the pods of this node
    "azure*",  # Azure CNI: bridge mode's azure0
    "azv*",  # Azure CNI: transparent mode's veths
    "cali*",  # Calico's veths
    "cbr0",  # kubenet's bridge
    "cilium_*",  # Cilium: cilium_host, cilium_net, cilium_vxlan, cilium_wg0
    "cni0",  # the bridge of the reference bridge plugin, and flannel's
    "flannel*",  # flannel's VXLAN and WireGuard devices
    "gke*",  # GKE's veths
    "kube-bridge",  # kube-router's bridge
    "kube-ipvs0",  # kube-proxy in IPVS mode holds the service addresses here
    "lxc*",  # Cilium's veths
    "nodelocaldns",  # NodeLocal DNSCache holds its service address here
    "ovn-k8s-mp*",  # OVN-Kubernetes' port to the pods of this node
    "tunl0",  # Calico's IP-in-IP tunnel
    "veth*",  # the veths of the bridge plugin, kubenet and flannel
    "vxlan-v6.calico",  # Calico's VXLAN devices
    "vxlan.calico",
    "weave",  # Weave Net's bridge
    "wg-v6.cali",  # Calico's WireGuard devices
    "wireguard.cali",
)
"""Devices for this node's pods and services, or for the cluster's tunnel to the pods of other nodes.

The list has no names of network cards, and not docker0 either: no cluster network uses docker0, and its 172.17.0.0/16
can capture part of a cluster's 172.16.0.0/12 just as InfiniBand's route does.
"""


@attrs.frozen
class CniRoute:
    """Refusing routes of one CNI; with a `dev`, only on a host that has a device of such a name."""

    cni: str
    protocols: frozenset[int]
    types: frozenset[RouteType]
    source: str
    single: bool = False  # for single addresses only
    dev: str = "*"


_BOOT, _KERNEL, _BIRD, _CALICO = 3, 2, 12, 80

CNI_ROUTES = (
    CniRoute(
        "Calico with BIRD",
        frozenset({_BIRD}),
        frozenset({"blackhole"}),
        "projectcalico/calico, confd/etc/calico/confd/templates/bird_ipam.cfg.template",
    ),
    CniRoute(
        "Calico's Felix",
        frozenset({_CALICO}),
        frozenset(REFUSING),
        "projectcalico/calico, felix/dataplane/linux/route_mgr.go (blackholeRoutes) and felix/routetable/defs.go",
    ),
    # The address of a pod that is gone (enable-unreachable-routes), until another one gets it.
    CniRoute(
        "Cilium",
        frozenset({_BOOT, _KERNEL}),
        frozenset({"unreachable"}),
        "cilium/cilium, pkg/datapath/linux/routing/routing.go (Delete)",
        single=True,
        dev="cilium_*",
    ),
    # The node's pod block (--ip-blackhole-route, since 0.27.1), without a protocol of its own.
    CniRoute(
        "Flannel",
        frozenset({_BOOT}),
        frozenset({"blackhole"}),
        "flannel-io/flannel, main.go (ip-blackhole-route)",
        dev="flannel*",
    ),
)
