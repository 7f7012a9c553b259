"""What the known cluster networks (CNIs) leave on a node: their devices, and the routes that refuse packets on purpose.

Here: one table, with a row for each CNI. Not here: which routes and devices of a host are of that kind
(`check.exceptions`), and the verdict on addresses that leave by such a device (`check.overlap`).
"""

from typing import NamedTuple

from hostrouting.model.route import REFUSING, RouteType


class CniRoute(NamedTuple):
    """Refusing routes of one CNI; with a `dev`, only on a host that has a device of such a name."""

    protocols: frozenset[int]
    types: frozenset[RouteType]
    source: str
    single: bool = False  # for single addresses only
    dev: str = "*"


class Cni(NamedTuple):
    """One CNI: the devices that lead to its pods and services on any node, and its refusing routes."""

    name: str
    devs: tuple[str, ...] = ()
    routes: tuple[CniRoute, ...] = ()


_BOOT, _KERNEL, _BIRD, _CALICO = 3, 2, 12, 80

CNIS = (
    Cni("Antrea", ("antrea-gw*", "antrea-wg0")),
    # The host's end of a pod; "vlan" if the pod has a security group, and so a branch network interface, of its own.
    Cni("AWS VPC CNI", ("eni* veth", "vlan* veth")),
    Cni("Azure CNI", ("azure*", "azv*")),  # the bridge of bridge mode; the veths of transparent mode
    Cni(
        "Calico",
        # In eBPF mode, a program on bpfin.cali takes what the host sends to services.
        ("bpfin.cali", "cali*", "tunl0", "vxlan.calico", "vxlan-v6.calico", "wireguard.cali", "wg-v6.cali"),
        (
            CniRoute(
                frozenset({_BIRD}),
                frozenset({"blackhole"}),
                "projectcalico/calico, confd/etc/calico/confd/templates/bird_ipam.cfg.template",
            ),
            CniRoute(
                frozenset({_CALICO}),
                frozenset(REFUSING),
                "projectcalico/calico, felix/dataplane/linux/route_mgr.go (blackholeRoutes), felix/routetable/defs.go",
            ),
        ),
    ),
    Cni(
        "Cilium",
        ("cilium_*", "lxc*"),
        (
            # The address of a pod that is gone (enable-unreachable-routes), until another one gets it.
            CniRoute(
                frozenset({_BOOT, _KERNEL}),
                frozenset({"unreachable"}),
                "cilium/cilium, pkg/datapath/linux/routing/routing.go (Delete)",
                single=True,
                dev="cilium_*",
            ),
        ),
    ),
    Cni(
        "Flannel",
        ("flannel*",),
        (
            # The node's pod block (--ip-blackhole-route, since 0.27.1), without a protocol of its own.
            CniRoute(
                frozenset({_BOOT}),
                frozenset({"blackhole"}),
                "flannel-io/flannel, main.go (ip-blackhole-route)",
                dev="flannel*",
            ),
        ),
    ),
    Cni("GKE", ("gke*",)),
    Cni("KubeSpan", ("kubespan",)),  # of Talos: it carries what nftables marks for other nodes and their pods
    Cni("kube-proxy", ("kube-ipvs0",)),  # in IPVS mode it holds the service addresses
    # The bridge, and tunnels to nodes in other subnets, named after a hash of the node's address.
    Cni("kube-router", ("kube-bridge", "tun-* ipip", "tun-* ip6tnl")),
    Cni("Kube-OVN", ("ovn0",)),
    Cni("kubenet", ("cbr0",)),
    Cni("NodeLocal DNSCache", ("nodelocaldns",)),  # holds its service address
    Cni("OVN-Kubernetes", ("ovn-k8s-mp*",)),
    Cni("bridge", ("cni0", "veth*")),  # the plugin of the CNI project
    # With eBPF, all routes are by unbounded0. With netlink, they are by tunnels: wg and a port, gn or ip and another
    # node's address as one number, or vxlan0. (Azure/unbounded, docs/content/reference/networking/routing-flows.md)
    Cni(
        "unbounded-net",
        (
            "unbounded0",
            "wg518?? wireguard",
            "vxlan0 vxlan",
            "gn????????? geneve",
            "gn?????????? geneve",
            "ip????????? ipip",
            "ip?????????? ipip",
        ),
    ),
    Cni("Weave Net", ("weave",)),
)

CNI_ROUTES = tuple(route for cni in CNIS for route in cni.routes)

DEFAULT_ALLOWED_DEVS = tuple(sorted(dev for cni in CNIS for dev in cni.devs))
"""Devices for this node's pods and services, or for the cluster's tunnel to the pods of other nodes.

The list has no names of network cards, and not docker0 either: no cluster network uses docker0, and its 172.17.0.0/16
can capture part of a cluster's 172.16.0.0/12 just as InfiniBand's route does.
"""
