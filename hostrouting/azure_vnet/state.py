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
    """The pods that azure-vnet's state file lists, in order. `text` is what the file contains; if
    it is None, the file is missing, and no pod is listed. Return None if the text is truncated or
    has an unknown shape.
    """
    if text is None:
        return ()
    try:
        return tuple(_pods(json.loads(text)))
    except (KeyError, RecursionError, TypeError, ValueError):
        return None


def _pods(document: Any) -> Iterator[Endpoint]:
    """Yield the pods in the document. A document of another shape raises one of the exceptions that
    `read_state` catches.
    """
    if document in ({}, {"Network": None}):  # empty: azure-cns writes {}, azure-vnet null
        return
    for uplink in _member(document["Network"], "ExternalInterfaces", dict).values():
        for network in _member(uplink, "Networks", dict).values():
            for name, values in _member(network, "Endpoints", dict).items():
                yield _pod(name, values)


def _pod(name: str, values: Any) -> Endpoint:
    """The pod with this name and these values in the state file."""
    device = _member(values, "HostIfName", str)
    addresses = _member(values, "IPAddresses", list)
    ips = [as_ip(_member(address, "IP", str)) for address in addresses]
    return Endpoint(printable(name), device, tuple(ips))


def _member(holder: Any, key: str, kind: type[Any]) -> Any:
    """The value of this key in the object `holder`. TypeError if the value is not of this kind.
    Instead of an empty list or object, azure-vnet writes null, so null becomes an empty value of
    this kind.
    """
    value = holder[key]
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise TypeError(f"{key} is not a {kind.__name__}")
    return value
