"""The refusing routes that each CNI installs for the pod block of its node, with the place in its source.

Here: the table. Not here: which routes of a host match it (`pod_blocks`, and the check at boot), and which devices are
a CNI's (`config.values`).

kube-router (protocol 17) and Antrea install unicast routes only. OVN-Kubernetes (protocol 85) has an unreachable
default route in the table of each VRF: that is not a pod block, so it has no row. BIRD also installs `unreachable`
where it has no route to the block of another node: those pods are lost, so that has no row either.
"""

import attrs

from hostrouting.model import REFUSING, RouteType

__all__ = ["CNI_ROUTES", "CniRoute"]


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
