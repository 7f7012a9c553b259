"""Whether azure-vnet manages a node's pods, according to its CNI configuration."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hostrouting.tasks.azure_vnet import active_file

AZURE = json.dumps({"cniVersion": "0.3.0", "plugins": [{"type": "azure-vnet"}, {"type": "portmap"}]})
OTHER = json.dumps({"type": "cilium-cni"})


@pytest.mark.parametrize(
    ("files", "active"),
    [
        ({}, None),
        ({"05-cilium.conf": OTHER, "10-azure.conflist": AZURE}, None),
        ({"10-azure.conflist": AZURE, "15-cilium.conf": OTHER}, "10-azure.conflist"),
        ({"05-broken.conflist": "{", "06-empty.json": "{}", "10-azure.conflist": AZURE}, "10-azure.conflist"),
        ({"05-azure.conflist.bak": AZURE, "10-cilium.conf": OTHER}, None),
        ({"05.json": json.dumps({"type": "azure-vnet"})}, "05.json"),
        ({"05.conflist": '{"plugins": 3}', "06.conf": "[]"}, None),
        ({"05.conf": '{"ipam": {"type": "azure-vnet-ipam"}}', "10-azure.conflist": AZURE}, "10-azure.conflist"),
    ],
)
def test_whether_azure_vnet_is_active(files: dict[str, str], active: str | None) -> None:
    """The first usable file decides, as it does for a container runtime."""
    assert active_file(files, files.get) == active


DEFINITION = {
    "apiVersion": "k8s.cni.cncf.io/v1",
    "kind": "NetworkAttachmentDefinition",
    "metadata": {"name": "default"},
    "spec": {"config": AZURE},
}


def multus(**keys: Any) -> str:
    """A multus configuration with these keys."""
    return json.dumps({"name": "multus", "type": "multus", **keys})


@pytest.mark.parametrize(
    ("text", "is_active"),
    [
        (multus(delegates=[json.loads(AZURE)]), True),
        (multus(delegates=[{"type": "cilium-cni"}, {"type": "azure-vnet"}]), True),
        (multus(delegates=[DEFINITION]), True),
        (multus(delegates=[{**DEFINITION, "spec": {"config": OTHER}}]), False),
        (multus(delegates=[{**DEFINITION, "spec": {"config": "{"}}]), False),
        (json.dumps({"plugins": [{"type": "flannel", "delegate": {"type": "azure-vnet"}}]}), True),
        (multus(clusterNetwork="/etc/cni/net.d/10-azure.conflist"), True),
        (multus(clusterNetwork="10-azure"), True),
        (multus(clusterNetwork="azure", defaultNetworks=["sidecar"]), True),
        (multus(clusterNetwork="cilium", defaultNetworks=["sidecar", "azure"]), True),
        (multus(clusterNetwork="/etc/cni/net.d/05-cilium.conf"), False),
        (multus(clusterNetwork=7), False),
        (multus(ipam={"type": "azure-vnet-ipam"}), False),
    ],
)
def test_a_plugin_that_hands_pods_on(text: str, is_active: bool) -> None:  # noqa: FBT001  a parameter
    """A plugin that multus calls is active, whether it is configured in the same file or in another one that multus names."""
    azure = json.dumps({"name": "azure", **json.loads(AZURE)})
    files = {"00-multus.conf": text, "05-cilium.conf": OTHER, "10-azure.conflist": azure}
    assert active_file(files, files.get) == ("00-multus.conf" if is_active else None)


def test_what_no_runtime_can_use() -> None:
    """A file that contains azure-vnet but is not a CNI configuration counts, because refusing is safe."""
    files = {"00.conf": json.dumps(DEFINITION), "05-cilium.conf": OTHER}
    assert active_file(files, files.get) == "00.conf"


def test_what_is_nested_very_deeply() -> None:
    """A file that is nested too deeply is skipped, without an error."""
    files = {"00.conf": "[" * 100_000, "05-cilium.conf": OTHER}
    assert active_file(files, files.get) is None
