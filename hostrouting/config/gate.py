"""The section `gate`: the units that do not start before the routing is right, and the rule for their names.

Here: which unit can wait for the gate. Not here: how a unit is made to wait (`boot.gate`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.config.json import Keys, Spot, items_read, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable

MACHINES = "systemd-nspawn@.service"
"""The template of the machines that systemd-nspawn runs."""

_LONGEST = 255 - len("00.d")  # of a file name, for the folder of its drop-ins
_LETTERS = r"[A-Za-z0-9:_.\\-]"
_NAME = re.compile(rf"{_LETTERS}+(@({_LETTERS}|@)*)?\.service")
_REMEDY = f'write the name of a service, such as "kubelet.service" or "{MACHINES}"'

# Units that cannot wait for the gate; of the early ones, how their names begin.
_OWN = (
    "static-routes.service",
    "check-route-overlap.service",
    "probe-rewrite.service",
    "kernel-rules.service",
    "host-routing-gate.service",
    "hostrouting-guard.service",
)
_EARLY = (
    "systemd-",
    "dbus",
    "NetworkManager",
    "networking.",
    "network.",
    "netplan",
    "ifup",
    "dhcpcd",
    "dhclient",
    "wpa_supplicant",
    "cloud-init",
    "openibd.",
    "nftables",
)


@attrs.frozen(init=False)
class GateConfig:
    """The units that wait for the gate."""

    units: tuple[str, ...]
    """Sorted. A template (`NAME@.service`) means each of its instances."""

    def __init__(self, units: Iterable[str] = (MACHINES,)) -> None:
        self.__attrs_init__(**GATE.check(units=units))

    def to_mapping(self) -> dict[str, Any]:
        """The JSON object of this section."""
        return GATE.write(self)


def _units(raw: object, at: Spot) -> tuple[str, ...]:
    before = len(at.faults)
    units = items_read(raw, at, _unit)
    if not units and len(at.faults) == before:
        at.note_absence("the list is empty, and the gate needs a unit that waits for it", _REMEDY)
    return tuple(sorted(set(units)))


def _unit(raw: object, at: Spot) -> str:
    text = text_of(raw, at, _REMEDY)
    if not _NAME.fullmatch(text) or len(text) > _LONGEST:
        rule = "is not the name of a service" if text.endswith(".service") else "does not end with .service"
        why = "" if text.endswith(".service") else ", and only a service runs a command before it starts"
        raise at.faulty(raw, f"{rule}{why}", _REMEDY)
    if text in _OWN:
        raise at.faulty(raw, "is one of hostrouting's own units: each would wait for the other", "remove it")
    if text.partition("@")[0] != "systemd-nspawn" and text.startswith(_EARLY):
        rule = "is needed by the gate, which waits for the network: each would wait for the other"
        raise at.faulty(raw, rule, "name the unit that needs the network, such as kubelet.service")
    return text


GATE = Keys({"units": _units})
"""The keys of the section."""
