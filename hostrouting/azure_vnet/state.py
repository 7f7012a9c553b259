"""azure-vnet's state file: the pods that it lists, read strictly.

The file is the JSON of azure-vnet's own structures. They contain each other in this order: Network,
ExternalInterfaces, an uplink, Networks, a network, Endpoints, a pod. Other keys differ between
releases, and are ignored. If one of these is missing or has another type, the whole file counts as
unreadable, because the rules of a pod that is not found would be deleted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from hostrouting.model.prefix import IP, as_ip
from hostrouting.text import printable

STATE_FILE = "/var/run/azure-vnet.json"


class Endpoint(NamedTuple):
    """A pod in azure-vnet's state file; the device is its veth at the host's end."""

    name: str
    device: str
    ips: tuple[IP, ...]


def read_state(text: str | None) -> tuple[Endpoint, ...] | None:
    """The pods in the text of the state file, in order; None if the text is unreadable. Without a
    file, `text` is None, and there are no pods.
    """
    if text is None:
        return ()
    try:
        return tuple(_pods(json.loads(text)))
    except (KeyError, RecursionError, TypeError, ValueError):
        return None


def _pods(document: Any) -> Iterator[Endpoint]:
    # Another shape raises an exception, which `read_state` expects.
    if document in ({}, {"Network": None}):  # empty: azure-cns writes {}, azure-vnet null
        return
    for uplink in _member(document["Network"], "ExternalInterfaces", dict).values():
        for network in _member(uplink, "Networks", dict).values():
            for name, pod in _member(network, "Endpoints", dict).items():
                yield _pod(name, pod)


def _pod(name: str, pod: Any) -> Endpoint:
    device = _member(pod, "HostIfName", str)
    addresses = _member(pod, "IPAddresses", list)
    ips = [as_ip(_member(address, "IP", str)) for address in addresses]
    return Endpoint(printable(name), device, tuple(ips))


def _member(holder: Any, key: str, kind: type[Any]) -> Any:
    """The value of this key, which has to be of this kind. Null becomes an empty one, because
    azure-vnet writes null instead.
    """
    value = holder[key]
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise TypeError(f"{key} is not a {kind.__name__}")
    return value
