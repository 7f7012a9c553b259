"""azure-vnet's state file: the pods that it lists, read strictly.

The file is the JSON of azure-vnet's own structures. They contain each other in this order: Network,
ExternalInterfaces, an uplink, Networks, a network, Endpoints, a pod. Each release has other keys
beside these, which are passed over. But it is a fault if one of these is missing, or has another
type: the rules of a pod that is not found are deleted.
"""

from __future__ import annotations

import base64
import json
from typing import Any, NamedTuple, TypeAlias

from hostrouting.errors import ConfigError, Fault
from hostrouting.model.prefix import IP, as_ip
from hostrouting.reading import path_of
from hostrouting.text import show

STATE_FILE = "/var/run/azure-vnet.json"

_Place: TypeAlias = tuple[str | int, ...]
"""The keys, and places in lists, that lead to a value."""
_NOT_ITS = "is truncated, or was not written by azure-vnet"


class Endpoint(NamedTuple):
    """A pod in azure-vnet's state file; the device is its veth at the host's end."""

    name: str
    device: str
    ips: tuple[IP, ...]
    mac: str


def read_state(text: str) -> tuple[Endpoint, ...]:
    """Every pod in the text of a state file, in order. Raises ConfigError, with all faults, for any
    other text.
    """
    try:
        document = json.loads(text)
    except (RecursionError, ValueError) as error:
        raise ConfigError([Fault("", "", _NOT_ITS)], STATE_FILE) from error
    reader = _Reader()
    pods = reader.pods(document)
    if reader.faults:
        raise ConfigError(reader.faults, STATE_FILE)
    return pods


_KINDS: dict[Any, str] = {dict: "an object", list: "a list", str: "a text"}


class _Reader:
    """Reads one document, and collects its faults."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def pods(self, document: Any) -> tuple[Endpoint, ...]:
        if document in ({}, {"Network": None}):  # azure-cns writes {} into an empty file
            return ()
        if not isinstance(document, dict) or not isinstance(document.get("Network"), dict):
            self.faults.append(Fault("", "", _NOT_ITS))
            return ()
        pods: list[Endpoint] = []
        for uplink, above in self._objects(document["Network"], ("Network", "ExternalInterfaces")):
            for network, within in self._objects(uplink, (*above, "Networks")):
                for pod, where in self._objects(network, (*within, "Endpoints")):
                    pods.append(self._pod(pod, where))
        return tuple(pods)

    def _objects(
        self, holder: dict[str, Any], where: _Place
    ) -> list[tuple[dict[str, Any], _Place]]:
        """The objects that are members of the object at this place in its holder, each with its own
        place.
        """
        members = self._member(holder, where, dict)
        objects: list[tuple[dict[str, Any], _Place]] = []
        for name, value in (members or {}).items():
            place = (*where, name)
            if isinstance(value, dict):
                objects.append((value, place))
            else:
                self._add_fault(place, value, "is not an object")
        return objects

    def _pod(self, pod: dict[str, Any], where: _Place) -> Endpoint:
        name = str(where[-1])
        device = self._member(pod, (*where, "HostIfName"), str) or ""
        mac = self._mac(pod, (*where, "MacAddress"))
        ips = self._ips(pod, (*where, "IPAddresses"))
        return Endpoint(name if name.isprintable() else ascii(name), device, ips, mac)

    def _mac(self, pod: dict[str, Any], where: _Place) -> str:
        text = self._member(pod, where, str) or ""
        try:
            return base64.b64decode(text, validate=True).hex(":")
        except ValueError:
            self._add_fault(where, text, "is not a MAC address in base64")
            return ""

    def _ips(self, pod: dict[str, Any], where: _Place) -> tuple[IP, ...]:
        ips: list[IP] = []
        for number, address in enumerate(self._member(pod, where, list) or ()):
            if not isinstance(address, dict):
                self._add_fault((*where, number), address, "is not an object")
                continue
            text = self._member(address, (*where, number, "IP"), str)
            try:
                ips.append(as_ip(text or ""))
            except ValueError:
                self._add_fault((*where, number, "IP"), text, "is not an address")
        return tuple(ips)

    def _member(self, holder: dict[str, Any], where: _Place, kind: type[Any]) -> Any:
        """The value at this place in its holder; None for null, which azure-vnet writes for what is
        empty.
        """
        key = where[-1]
        if key not in holder:
            self.faults.append(Fault(_path_to(where), "", "is missing"))
            return None
        value = holder[key]
        if value is not None and not isinstance(value, kind):
            self._add_fault(where, value, f"is not {_KINDS[kind]}")
            return None
        return value

    def _add_fault(self, where: _Place, value: object, rule: str) -> None:
        self.faults.append(Fault(_path_to(where), show(value), rule))


def _path_to(where: _Place) -> str:
    path = ""
    for key in reversed(where):
        path = path_of(key, path)
    return path
