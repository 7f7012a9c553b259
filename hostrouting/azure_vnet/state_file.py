"""Reads the list of pods from azure-vnet's state file. The file is never written.

Here: from text to endpoints. Not here: whether an endpoint's device still exists (`cleanup`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.model import as_ip

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hostrouting.model import IP

__all__ = ["Endpoint", "StateFileUnreadable", "read_state"]


@attrs.frozen
class Endpoint:
    """A pod in azure-vnet's state file."""

    name: str
    device: str
    """The veth at the host's end."""
    ips: tuple[IP, ...] = ()


class StateFileUnreadable(ValueError):  # noqa: N818  reads as what is wrong
    """The text is not a state file of azure-vnet, or is truncated; the message says where."""


def read_state(text: str) -> tuple[Endpoint, ...]:
    """Every endpoint in the text, in order. Raises StateFileUnreadable."""
    import json  # noqa: PLC0415  only where there is a state file

    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StateFileUnreadable(f"it is not JSON, or is truncated: {error}") from error
    return tuple(_endpoints(document))


def _endpoints(document: object) -> Iterator[Endpoint]:
    network = _object(_object(document, "").get("Network"), "Network")
    interfaces = _object(network.get("ExternalInterfaces"), "ExternalInterfaces")
    for interface in interfaces.values():
        networks = _object(_object(interface, "ExternalInterfaces").get("Networks"), "Networks")
        for one in networks.values():
            endpoints = _object(_object(one, "Networks").get("Endpoints"), "Endpoints")
            for name, endpoint in endpoints.items():
                yield _endpoint(name, _object(endpoint, "Endpoints"))


def _endpoint(name: str, known: dict[str, Any]) -> Endpoint:
    device = known.get("HostIfName") or ""
    addresses = known.get("IPAddresses") or []
    if not isinstance(device, str) or not isinstance(addresses, list):
        raise StateFileUnreadable(
            f"the endpoint {name!a} does not have HostIfName and IPAddresses in the form that azure-vnet writes"
        )
    try:
        ips = tuple(as_ip(str(_object(it, "IPAddresses").get("IP"))) for it in addresses)
    except ValueError as error:
        raise StateFileUnreadable(f"the endpoint {name!a} has an invalid address: {error}") from error
    return Endpoint(name, device, ips)


def _object(value: object, what: str) -> dict[str, Any]:
    """A part of the document that must be an object; azure-vnet writes null for an empty one."""
    if value is None and what:
        return {}
    if not isinstance(value, dict):
        raise StateFileUnreadable(f"{what or 'the document'} is not a JSON object")
    return value
