"""What CNIs put on a node: their devices by name and kind, and the routes with which they refuse
packets.

A device is a CNI's only if both its name and its kind fit: `lxcbr0` is a bridge of LXC, and not one
of Cilium's `lxc*`. To add a CNI, add a row with its source, files of tests/hosts that each thing in
the row decides, and the name of the CNI to docs/limits.md.
"""

from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from hostrouting.model.route import PROTOCOL_BOOT, PROTOCOL_KERNEL, RouteType

Use: TypeAlias = Literal["network", "pod", "bridge", "marked"]
"""What a device is for:

- network: it leads to the pods of other nodes, or to all pods;
- pod: it leads to one pod, so it is fine for single addresses only;
- bridge: it leads to the pods of this node;
- marked: it leads out only packets that a rule selects by their mark or their incoming device.
"""


Proof: TypeAlias = Literal["inside", "device", "first"]
"""What proves that a route that refuses packets is a CNI's:

- inside: the prefix contains a pod behind a device of the CNI, or an address of such a device;
- device: a device of the CNI is on this node, because no other program uses the protocol for such
  routes;
- first: a device of the CNI has the first address of the prefix, because the CNI refuses only the
  subnet of this node.
"""


class Device(NamedTuple):
    """Devices of a CNI, by their names and kinds."""

    pattern: str
    """The pattern of their names: `*` is any text, and `#` a decimal digit."""
    kinds: tuple[str, ...]
    """Their kinds as in `Link.kind`; "" is hardware, which a CNI can rename."""
    use: Use


class Refusal(NamedTuple):
    """Routes with which a CNI refuses packets to those of its addresses that no pod has."""

    protocol: int
    types: tuple[RouteType, ...]
    lengths: dict[int, tuple[int, int]]
    """By family: the shortest and the longest prefix. A family without such routes is left out."""
    proof: Proof = "inside"
    """What proves that such a route is the CNI's."""


class Cni(NamedTuple):
    """What is known about a CNI."""

    name: str
    devices: tuple[Device, ...]
    refusals: tuple[Refusal, ...] = ()
    serves: tuple[str, ...] | None = ()
    """The other CNIs to whose pods its devices can lead; None means all. Pods of the plain bridge
    plugin may be those of every CNI, and are not listed.
    """

    @property
    def protocols(self) -> set[int]:
        """The protocols by which its routes with a gateway are recognised: those of the routes with
        which it refuses packets. The protocol boot shows no CNI: a route that an operator adds has
        it, too. But Linux itself makes no route through a gateway with the protocol kernel.
        """
        return {row.protocol for row in self.refusals} - {PROTOCOL_BOOT}


POD_NETWORK_DEVS = ("cilium_host",)
"""Devices with the use `network` whose routes show which CNI has the pods of the node, as routes by
the device of a pod do.
"""

BRIDGE_PLUGIN = "bridge"
"""The name of the plain bridge plugin. Many CNIs attach their pods with it."""

BIRD, CALICO = 12, 80
_BLOCKS = {4: (20, 32), 6: (116, 128)}
"""By family: the shortest and the longest block of an IPPool of Calico."""


def _devices(
    network: str = "", *, pod: str = "", bridge: str = "", marked: str = ""
) -> tuple[Device, ...]:
    """Make the rows for the devices of a CNI. Each argument lists the devices of one use (`Use`):
    `marked` means that a device is for packets with a mark of the CNI. A device is written
    "PATTERN KIND [KIND…]", with commas between devices.
    """
    lists: dict[Use, str] = {"network": network, "pod": pod, "bridge": bridge, "marked": marked}
    rows: list[Device] = []
    for use, listed in lists.items():
        if listed:
            for device in listed.split(", "):
                pattern, *kinds = device.split()
                rows.append(Device(pattern, tuple(kinds), use))
    return tuple(rows)


CNIS = (
    # antrea docs/egress.md; pkg/agent/wireguard; Open vSwitch in user space has taps (kind tun)
    Cni(
        "Antrea",
        _devices("antrea-gw* openvswitch tun, antrea-wg0 wireguard", marked="antrea-ext.* vlan"),
        serves=None,
    ),
    # amazon-vpc-cni-k8s cmd/routed-eni-cni-plugin
    Cni("AWS VPC CNI", _devices(pod="eni* veth, vlan* veth", marked="vlan.eth.* vlan")),
    # azure-container-networking network/
    Cni("Azure CNI", _devices(pod="azv* veth")),
    # calico confd bird_ipam.cfg; felix route_mgr.go; the block size of an IPPool
    Cni(
        "Calico",
        _devices(
            "bpfin.cali veth, tunl0 ipip, vxlan.calico vxlan, vxlan-v6.calico vxlan, "
            "wireguard.cali wireguard, wg-v6.cali wireguard",
            pod="cali* veth",
        ),
        (
            # unreachable: the block of a node that BIRD does not reach now
            Refusal(BIRD, ("blackhole", "unreachable"), _BLOCKS),
            Refusal(CALICO, ("blackhole",), _BLOCKS, proof="device"),
        ),
    ),
    # cilium pkg/defaults, pkg/datapath/linux/routing
    Cni(
        "Cilium",
        _devices("cilium_host veth, cilium_wg0 wireguard", pod="lxc* veth netkit"),
        (Refusal(PROTOCOL_KERNEL, ("unreachable",), {4: (32, 32), 6: (128, 128)}, proof="device"),),
    ),
    # flannel pkg/backend/*, main.go --ip-blackhole-route
    Cni(
        "Flannel",
        _devices(
            "flannel.* vxlan, flannel-v6.* vxlan, flannel-wg wireguard, flannel-wg-v6 wireguard, "
            "flannel.ipip ipip, flannel0 tun"
        ),
        (Refusal(PROTOCOL_BOOT, ("blackhole",), {4: (8, 30), 6: (48, 124)}, proof="first"),),
        serves=("Calico",),  # Canal
    ),
    # tigera/operator pkg/controller/migration/convert, getCNIPlugin
    Cni("GKE", _devices(pod="gke* veth")),
    # kubernetes-sigs/kindnet
    Cni("kindnet", _devices(pod="knet* veth")),
    # istio cni/pkg/ambient: tunnels to this node's ztunnel, for the pods of any CNI
    Cni("Istio", _devices("istioin geneve, istioout geneve"), serves=None),
    # squat/kilo --interface; --compatibility says whose pods they are
    Cni("Kilo", _devices("kilo0 wireguard"), serves=("Cilium",)),
    # talos pkg/machinery/constants, KubeSpanLinkName
    Cni("KubeSpan", _devices("kubespan wireguard"), serves=None),
    # kube-router pkg/tunnels, docs/tunnels.md
    Cni("kube-router", _devices("tun-* ipip ip6tnl", bridge="kube-bridge bridge")),
    # kube-ovn pkg/util/const.go, NodeNic
    Cni("Kube-OVN", _devices("ovn0 openvswitch tun"), serves=("Cilium",)),  # chained behind it
    # kubernetes pkg/kubelet/dockershim/network/kubenet (until 1.23)
    Cni("kubenet", _devices(bridge="cbr0 bridge")),
    # ovn-kubernetes --ovnkube-node-mgmt-port-netdev renames a virtual function beside a DPU: it has
    # no kind
    Cni(
        "OVN-Kubernetes",
        (*_devices("ovn-k8s-mp* openvswitch tun"), Device("ovn-k8s-mp#", ("",), "network")),
    ),
    # openshift/sdn pkg/network/node/ovscontroller.go
    Cni("OpenShift SDN", _devices("tun0 openvswitch")),
    # containernetworking/plugins bridge, ptp; minikube 1-k8s.conflist; kubernetes-the-hard-way
    Cni(
        BRIDGE_PLUGIN,
        _devices(bridge="cni0 bridge, cnio0 bridge, bridge bridge", pod="veth* veth"),
    ),
    # terway plugin/datapath/ipvlan_linux.go; the veths of its other modes are cali*
    Cni("Terway", _devices(pod="ipvl_* ipvlan")),
    # unbounded docs/content/reference/networking/routing-flows.md: wg and a port; gn or ip, and the
    # IPv4 address of the other node as one number
    Cni(
        "unbounded-net",
        _devices(
            "unbounded0 dummy, wg518## wireguard, vxlan0 vxlan, gn######### geneve, "
            "gn########## geneve, ip######### ipip, ip########## ipip"
        ),
        serves=None,  # with manageCniPlugin: false, another CNI has the pods
    ),
    # weave net/bridge.go
    Cni("Weave Net", _devices("weave bridge")),
)


@lru_cache(4096)  # the devices of pods come and go, each with a new name
def cni_row(name: str, kind: str) -> tuple[Cni, Device] | None:
    """Find out which CNI makes devices with this name and kind: return the CNI, and its row for
    such devices. None if no known CNI makes them.
    """
    for cni in CNIS:
        for device in cni.devices:
            if kind in device.kinds and fnmatchcase(name, device.pattern.replace("#", "[0-9]")):
                return cni, device
    return None
