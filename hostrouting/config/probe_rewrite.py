"""The section `probeRewrite`, for the load balancer's probes over IPv6, and its rules.

Here: the frozen values of the section, its defaults, and the rules for values that only this section has. Not here:
what is done on the host, and the check whether an address belongs to the host, which needs a host.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv6Address, IPv6Network
from typing import Any

import attrs

from hostrouting.config.json import InvalidValue, Keys, Section, Spot, items
from hostrouting.config.values import address_in, device_name, switch
from hostrouting.model.prefix import LINK_LOCAL

DEFAULT_LINK_LOCAL = "fe80::1234:5678:9abc"
"""The source address of the probes of Azure's load balancer."""
DEFAULT_GLOBAL_ADDRESS = "2603:1062:0:1:fe80:1234:5678:9abc"
"""An address that Azure reserves as a replacement for the one above."""

_GLOBAL_UNICAST = IPv6Network("2000::/3")


@attrs.frozen(init=False, repr=False)
class ProbeRewriteConfig(Section):
    """The rewrite of the load balancer's probes, and the switch that enables it."""

    enabled: bool
    interfaces: tuple[str, ...]
    """The uplinks that probes arrive on."""
    link_local: IPv6Address
    """The source address of the probes."""
    global_address: IPv6Address
    """The source address after the rewrite."""
    ensure_route: bool
    """Whether to add a route to the global address, so that replies leave by the uplink."""

    def __init__(
        self,
        enabled: bool = False,  # noqa: FBT001, FBT002  the order is that of the JSON
        interfaces: Iterable[str] = (),
        *,
        link_local: IPv6Address | str = DEFAULT_LINK_LOCAL,
        global_address: IPv6Address | str = DEFAULT_GLOBAL_ADDRESS,
        ensure_route: bool = True,
    ) -> None:
        self._keys.fill(self, locals())


def _interfaces(raw: object, at: Spot) -> tuple[str | None, ...]:
    """The names. A faulty one becomes None, so that it still counts as given."""
    names: list[str | None] = []
    holders: dict[str, Spot] = {}
    for item, spot in items(raw, at):
        try:
            name = _uplink(item, spot)
        except InvalidValue:
            names.append(None)
            continue
        names.append(name)
        holder = holders.setdefault(name, spot)
        if holder is not spot:
            spot.note(name, f"is already given in {holder.path}", "remove one of the two")
    return tuple(names)


def _uplink(raw: object, at: Spot) -> str:
    name = device_name(raw, at)
    if name == "lo":
        raise at.faulty(raw, "is the loopback device, where no probe arrives", "name the uplink")
    return name


def _link_local(raw: object, at: Spot) -> IPv6Address:
    address = _address(raw, at)
    if address not in LINK_LOCAL:
        rule = f"is not a link-local address: it must be in {LINK_LOCAL}"
        raise at.faulty(raw, rule, "write the source address of the load balancer's probes")
    return address


def _global_address(raw: object, at: Spot) -> IPv6Address:
    address = _address(raw, at)
    if address not in _GLOBAL_UNICAST:
        rule = f"is not a global unicast address: it must be in {_GLOBAL_UNICAST}"
        raise at.faulty(raw, rule, f'write an address that no host has, such as "{DEFAULT_GLOBAL_ADDRESS}"')
    return address


def _address(raw: object, at: Spot) -> IPv6Address:
    remedy = f'write an IPv6 address such as "{DEFAULT_LINK_LOCAL}", without a prefix length'
    address = address_in(raw, at, remedy)
    if not isinstance(address, IPv6Address):
        raise at.faulty(raw, "is not an IPv6 address", remedy)
    return address


def _rules_of_several(found: dict[str, Any], at: Spot) -> None:
    """Check the switch, the interfaces and the route together; values with a fault are left out."""
    interfaces = found.get("interfaces")
    if interfaces and found.get("enabled") is False:
        rule = "interfaces were provided but enabled=false"
        at.below("enabled").note_absence(rule, "set enabled=true to rewrite the source of probes")
    if found.get("enabled") is not True or interfaces is None:
        return
    if not interfaces:
        rule = "no interface is given but enabled=true"
        at.below("interfaces").note_absence(rule, 'name the uplink that probes arrive on, such as ["eth0"]')
    if found.get("ensure_route") is True and len(set(interfaces)) > 1:
        rule = f"true requires exactly one interface, but {len(interfaces)} are given"
        remedy = "name the one that probes arrive on, or set ensureRoute=false and add the route yourself"
        at.below("ensureRoute").note_absence(rule, remedy)


PROBE_REWRITE = ProbeRewriteConfig._keys = Keys(
    {
        "enabled": switch,
        "interfaces": _interfaces,
        "link_local": _link_local,
        "global_address": _global_address,
        "ensure_route": switch,
    },
    absent={"enabled": False, "interfaces": (), "ensure_route": True},
    together=_rules_of_several,
)
"""The keys of the section."""
