"""What azure-vnet's own files say: which pods its state file lists, and whether azure-vnet is the node's active CNI."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from hostrouting.model.prefix import IP, as_ip

STATE_FILE = "/var/run/azure-vnet.json"
CONFLISTS = "/etc/cni/net.d"

_PLUGIN = re.compile(r'"type\\*"\s*:\s*\\*"azure-vnet\\*"')
"""azure-vnet as a plugin, also in a document that is a string in another document."""
_MULTUS = {"multus", "multus-shim"}
_MISREAD = (AttributeError, KeyError, RecursionError, TypeError, ValueError)
"""What reading JSON of another shape raises."""


class Endpoint(NamedTuple):
    """A pod in azure-vnet's state file; the device is its veth at the host's end."""

    name: str
    device: str
    ips: tuple[IP, ...]
    mac: str


def read_state(text: str) -> tuple[Endpoint, ...]:
    """Every pod in the text of a state file, in order. Raises ValueError for any other text."""
    pods: list[Endpoint] = []
    try:
        network = json.loads(text).get("Network") or {}
        for uplink in _values(network, "ExternalInterfaces"):
            for part in _values(uplink, "Networks"):
                for name, pod in (part.get("Endpoints") or {}).items():
                    pods.append(_endpoint(name, pod))
    except _MISREAD as error:
        raise ValueError("it is truncated, or was not written by azure-vnet") from error
    return tuple(pods)


def _values(parent: Mapping[str, Any], key: str) -> list[Any]:
    """The values of the object at this key; azure-vnet writes null for an empty object."""
    return list((parent.get(key) or {}).values())


def _endpoint(name: str, pod: Mapping[str, Any]) -> Endpoint:
    addresses = pod.get("IPAddresses") or ()
    return Endpoint(
        name=name if name.isprintable() else ascii(name),
        device=str(pod.get("HostIfName") or ""),
        ips=tuple(as_ip(address["IP"]) for address in addresses),
        mac=base64.b64decode(pod.get("MacAddress") or "").hex(":"),
    )


def active_file(conflists: Mapping[str, str]) -> str:
    """The name of the CNI configuration that makes azure-vnet active; empty if none does.

    A container runtime uses the first file, by name, that it can use. If this is Multus, which calls other plugins, the
    next file counts as well. Any file before that counts if azure-vnet is anywhere in it: refusing is safe.
    """
    for name, text in sorted(conflists.items()):
        if _PLUGIN.search(text):
            return name
        plugins = _plugins(text)
        if plugins and not _MULTUS & plugins:
            return ""
    return ""


def _plugins(text: str) -> set[str]:
    """The types of the plugins in a CNI configuration; none if no container runtime can use it."""
    try:
        document = json.loads(text)
        return {plugin["type"] for plugin in document.get("plugins", [document])}
    except _MISREAD:
        return set()
