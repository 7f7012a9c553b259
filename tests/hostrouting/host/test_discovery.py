"""What the files of a node say about the networks of its cluster."""

import json
from typing import Any

import pytest

from hostrouting.host.discovery import discover
from hostrouting.host.layout import HostLayout
from hostrouting.testing import FakeFiles

AGENT = "/etc/aks-flex-node/config.json"
NET_D = "/etc/cni/net.d"
K3S = "/var/lib/rancher/k3s/agent/etc/cni/net.d"
RKE2 = "/var/lib/machines/kube1/var/lib/rancher/rke2/agent/etc/cni/net.d"
MACHINE = "/var/lib/machines/kube1/etc/cni/net.d"


def conflist(ipam: dict[str, Any], kind: str = "bridge") -> str:
    """A list with one plugin and this way to choose addresses."""
    return json.dumps({"name": "x", "plugins": [{"type": kind, "ipam": ipam}, {"type": "portmap"}]})


def ranges(*cidrs: str) -> str:
    """A list that uses host-local with these ranges."""
    return conflist(
        {"type": "host-local", "ranges": [[{"subnet": cidr}] for cidr in cidrs], "routes": [{"dst": "::/0"}]}
    )


def agent(**keys: Any) -> str:
    """The agent's configuration with these keys."""
    return json.dumps({"azure": {"bootstrapToken": {"token": "abcdef.0123"}}, **keys})


MULTUS = json.dumps({"type": "multus", "clusterNetwork": "10-a"})
AT = "plugins[0].ipam"

FOUND = {
    "nothing": ({}, []),
    "unbounded-net, in the machine": (
        {f"{MACHINE}/10-unbounded.conflist": ranges("10.244.1.0/24", "fd00:1::/64")},
        [
            f"10.244.1.0/24 pods of this node {MACHINE}/10-unbounded.conflist {AT}.ranges[0][0].subnet",
            f"fd00:1::/64 pods of this node {MACHINE}/10-unbounded.conflist {AT}.ranges[1][0].subnet",
        ],
    ),
    "the address of the gateway in place of the network": (
        {f"{NET_D}/99-bridge.conf": json.dumps({"type": "bridge", "ipam": {"subnet": "10.244.0.1/16"}})},
        [f"10.244.0.0/16 pods of this node {NET_D}/99-bridge.conf ipam.subnet"],
    ),
    "Calico with pools, and Canal": (
        {
            f"{NET_D}/10-calico.conflist": conflist({"ipv4_pools": ["10.1.0.0/16", "default-pool"]}, "calico"),
            f"{MACHINE}/10-canal.conflist": conflist({"type": "host-local", "subnet": "usePodCidr"}, "calico"),
        },
        [f"10.1.0.0/16 pods of the cluster {NET_D}/10-calico.conflist {AT}.ipv4_pools"],
    ),
    "Azure, Cilium and others that ask elsewhere": (
        {f"{NET_D}/10-azure.conflist": conflist({"type": "azure-cns"}, "azure-vnet")},
        [],
    ),
    "Flannel": (
        {
            f"{NET_D}/10-flannel.conflist": json.dumps({"plugins": [{"type": "flannel", "delegate": {}}]}),
            "/run/flannel/subnet.env": "FLANNEL_NETWORK=10.244.0.0/16,10.9.0.0/16\nFLANNEL_SUBNET=10.244.1.1/24\nwhat\n",
        },
        [
            "10.244.0.0/16 pods of the cluster /run/flannel/subnet.env FLANNEL_NETWORK",
            "10.9.0.0/16 pods of the cluster /run/flannel/subnet.env FLANNEL_NETWORK",
        ],
    ),
    "the folders of k3s, and of RKE2 in the machine": (
        {f"{K3S}/10.conflist": ranges("10.42.0.0/24"), f"{RKE2}/10.conflist": ranges("10.42.1.0/24")},
        [
            f"10.42.0.0/24 pods of this node {K3S}/10.conflist {AT}.ranges[0][0].subnet",
            f"10.42.1.0/24 pods of this node {RKE2}/10.conflist {AT}.ranges[0][0].subnet",
        ],
    ),
    "another file that multus names": (
        {f"{NET_D}/00-multus.conf": MULTUS, f"{NET_D}/10-a.conflist": ranges("10.5.0.0/24")},
        [f"10.5.0.0/24 pods of this node {NET_D}/10-a.conflist {AT}.ranges[0][0].subnet"],
    ),
    "the agent's configuration": (
        {
            AGENT: agent(
                hostRouting={"routeOverlap": {"expectedCidrs": ["172.16.0.0/16"]}},
                networking={"dnsServiceIP": "10.0.0.10"},
                node={"kubelet": {"serverURL": "https://10.0.9.9:443", "clusterFQDN": "a.azmk8s.io"}},
            )
        },
        [
            f"172.16.0.0/16 expected by the agent {AGENT} hostRouting.routeOverlap.expectedCidrs",
            f"10.0.0.10/32 services {AGENT} networking.dnsServiceIP",
            f"10.0.9.9/32 API server {AGENT} node.kubelet.serverURL",
        ],
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_networks(name: str) -> None:
    """Each network has its file and its key, and nothing is written."""
    texts, expected = FOUND[name]
    files = FakeFiles(dict(texts))
    found = discover(files, HostLayout())
    assert [f"{network.cidr} {network.what} {network.file} {network.key}" for network in found.networks] == expected
    assert (found.remarks, files.writes) == ((), [])


@pytest.mark.parametrize(
    ("file", "text", "remark"),
    [
        (AGENT, "{", "is not JSON"),
        (AGENT, "[1]", ""),
        (AGENT, agent(networking=7, node={"kubelet": {"serverURL": "https://[", "clusterFQDN": 7}}), ""),
        (AGENT, agent(networking={"dnsServiceIP": "secret"}), "networking.dnsServiceIP: is not a network"),
        (AGENT, agent(networking={"dnsServiceIP": "${DNS}/x"}), "networking.dnsServiceIP: is not a network"),
        (f"{NET_D}/05.conf", "{", "is not JSON"),
        (f"{NET_D}/05.conf", "[" * 100_000, "is not JSON"),
        (f"{NET_D}/05.conf", "{}", "is not a CNI configuration"),
        (f"{MACHINE}/50.conf", ranges("10.1.0.0/24"), "is not in force, because 10.conflist is"),
        (f"{NET_D}/05.conf", ranges("10.1.0.0/33"), f"{AT}.ranges[0][0].subnet: is not a network"),
        (f"{NET_D}/05.conf", conflist({"ranges": 7, "ipv4_pools": 7, "subnet": []}), ""),
        (f"{NET_D}/05.conf.bak", "{", ""),
    ],
)
def test_a_bad_file(file: str, text: str, remark: str) -> None:
    """A file that says nothing is named with the reason, but without its text, and the others count."""
    files = FakeFiles({f"{MACHINE}/10.conflist": ranges("10.244.1.0/24"), file: text})
    found = discover(files, HostLayout())
    assert [(where, words[: len(remark)]) for where, words in found.remarks] == ([(file, remark)] if remark else [])
    assert "10.244.1.0/24" in map(str, found.cidrs)
    assert "secret" not in str(found)


def test_files_that_cannot_be_read() -> None:
    """For a fifo there is one remark, not two."""
    fifo = f"{NET_D}/05.conf"
    files = FakeFiles({fifo: ""}, strange={AGENT: "a fifo", fifo: "a fifo"})
    found = discover(files, HostLayout())
    assert [(file, text.partition(":")[0]) for file, text in found.remarks] == [
        (AGENT, "cannot be read"),
        (fifo, "cannot be read"),
    ]


def test_a_directory_in_the_place_of_a_file() -> None:
    """A runtime ignores such a file, and its owner may need it. Kills: the remedy of our files, "remove it"."""
    found = discover(FakeFiles(strange={f"{NET_D}/05.conf": "a directory"}), HostLayout())
    assert found.remarks == ((f"{NET_D}/05.conf", "cannot be read: there is a directory in its place"),)


def test_below_a_root() -> None:
    """With a root, the files there are read, and named as the host itself sees them."""
    layout = HostLayout(root="/mnt")
    found = discover(FakeFiles({f"/mnt{AGENT}": agent(networking={"dnsServiceIP": "10.0.0.10"})}), layout)
    assert [network.file for network in found.networks] == [AGENT]


def test_the_cidrs_and_what_is_missing() -> None:
    """A network inside another one is not proposed; what is known only in part has its command."""
    inner = {f"{NET_D}/10.conflist": ranges("10.244.1.0/24"), AGENT: agent(networking={"dnsServiceIP": "10.0.0.10"})}
    found = discover(FakeFiles(inner), HostLayout())
    assert [*map(str, found.cidrs)] == ["10.0.0.10/32", "10.244.1.0/24"]
    assert [*found.missing] == ["pods of the cluster", "all services", "API server"]
    whole = discover(FakeFiles({**inner, "/run/flannel/subnet.env": "FLANNEL_NETWORK=10.244.0.0/16"}), HostLayout())
    assert [*map(str, whole.cidrs)] == ["10.0.0.10/32", "10.244.0.0/16"]
    assert [*whole.missing] == ["all services", "API server"]


def test_servers_for_names() -> None:
    """The stub of systemd-resolved is on this host; behind it are the servers of its own file."""
    texts = {
        "/etc/resolv.conf": "# from systemd\nnameserver 127.0.0.53\nnameserver\nnameserver fe80::1%eth0\n",
        "/run/systemd/resolve/resolv.conf": "search x\nnameserver 168.63.129.16\nnameserver what\n",
    }
    found = discover(FakeFiles(texts), HostLayout())
    assert [(str(server), file) for server, file in found.servers] == [
        ("168.63.129.16", "/run/systemd/resolve/resolv.conf")
    ]
