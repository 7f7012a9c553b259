"""hostrouting.config.cni: whose a device is."""

import pytest

from hostrouting.config.cni import CNIS, cni_row


@pytest.mark.parametrize(
    ("name", "kind", "cni"),
    [
        ("lxc12", "veth", "Cilium pod"),
        ("lxcbr0", "bridge", ""),
        ("wg-v6.cali", "wireguard", "Calico network"),
        ("vxlan-v6.calico", "vxlan", "Calico network"),
        ("vlan.eth.7", "vlan", "AWS VPC CNI marked"),
        ("wg51820", "wireguard", "unbounded-net network"),
        ("wg518ab", "wireguard", ""),
        ("gn167772165", "geneve", "unbounded-net network"),
        ("gn_to_office", "geneve", ""),
        ("ipiptunnel0", "ipip", ""),
        ("ovn-k8s-mp0", "", "OVN-Kubernetes network"),
        ("ovn-k8s-mpx", "", ""),
        ("ovn-k8s-mpx", "openvswitch", "OVN-Kubernetes network"),
        ("cbr0", "bridge", "kubenet bridge"),
    ],
)
def test_whose_a_device_is(name: str, kind: str, cni: str) -> None:
    """Name and kind have to fit; where the name has a number, only digits do."""
    row = cni_row(name, kind)
    assert (f"{row[0].name} {row[1].use}" if row else "") == cni


def test_no_device_fits_two_rows() -> None:
    """An example of each row is found by that row. Routes of three protocols show their CNI."""
    for cni in CNIS:
        for device in cni.devices:
            name = device.pattern.replace("*", "x").replace("#", "1")
            for kind in device.kinds:
                assert cni_row(name, kind) == (cni, device)
    protocols = {cni.name: cni.protocols for cni in CNIS if cni.protocols}
    assert protocols == {"Calico": {12, 80}, "Cilium": {2}}
