"""hostrouting.config.cni: whose a device is."""

import pytest

from hostrouting.config.cni import devices_of


@pytest.mark.parametrize(
    ("name", "kind", "cnis"),
    [
        ("lxc12", "veth", ["Cilium"]),
        ("lxcbr0", "bridge", []),
        ("wg-v6.cali", "wireguard", ["Calico"]),
        ("vxlan-v6.calico", "vxlan", ["Calico"]),
        ("wg51820", "wireguard", ["unbounded-net"]),
        ("wg518xx", "wireguard", []),
        ("gn167772165", "geneve", ["unbounded-net"]),
        ("gn_to_office", "geneve", []),
        ("ovn-k8s-mp0", "", ["OVN-Kubernetes"]),
        ("ovn-k8s-mpx", "", []),
        ("ovn-k8s-mpx", "openvswitch", ["OVN-Kubernetes"]),
        ("cbr0", "bridge", ["kubenet"]),
    ],
)
def test_whose_a_device_is(name: str, kind: str, cnis: list[str]) -> None:
    """Both its name and its kind have to fit; where the name has a number, only digits do."""
    assert [cni.name for cni, _ in devices_of(name, kind)] == cnis
