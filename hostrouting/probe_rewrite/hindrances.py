"""Finds the settings and devices of a host that block probes, or may block them, although rules and route are in force.

Here: facts about the host as values, and the conclusions. Not here: reading the facts (`tasks.probe_rewrite`).
"""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from hostrouting.config import ProbeRewriteConfig
    from hostrouting.ingress import Programs
    from hostrouting.model import Link, Snapshot

__all__ = ["Hindrance", "OwnAddress", "Surroundings", "find_hindrances", "has_address", "own_addresses"]

_RIVAL = "azureslbprobe"
"""A part of the name of tables that other agents create and delete for the same purpose."""


@attrs.frozen
class OwnAddress:
    """An IPv6 address of the host."""

    ip: IPv6Address
    dev: str
    state: Literal["usable", "tentative", "duplicate"] = "usable"
    """The result of duplicate address detection."""


_TENTATIVE, _DUPLICATE = 0x40, 0x08


def own_addresses(snapshot: Snapshot, listed: str) -> tuple[OwnAddress, ...]:
    """The addresses of the snapshot, with their states from `listed`, which is the text of /proc/net/if_inet6.

    No other source reports the states.
    """
    flags = {}
    for line in listed.splitlines():
        address, _, _, _, number, dev = line.split()
        flags[IPv6Address(bytes.fromhex(address)), dev] = int(number, 16)
    mine = [(it.ip, it.dev) for it in snapshot.addresses if isinstance(it.ip, IPv6Address)]
    return tuple(OwnAddress(ip, dev, _state(flags.get((ip, dev), 0))) for ip, dev in mine)


def _state(flags: int) -> Literal["usable", "tentative", "duplicate"]:
    if flags & _DUPLICATE:
        return "duplicate"
    return "tentative" if flags & _TENTATIVE else "usable"


def has_address(interfaces: Collection[str], addresses: Iterable[OwnAddress]) -> bool | None:
    """Whether a device has a global or unique local address; None while duplicate address detection is running."""
    near = {it for it in addresses if it.dev in interfaces}
    states = {it.state for it in near if not (it.ip.is_link_local or it.ip.is_site_local)}
    return True if "usable" in states else None if "tentative" in states else False


HindranceKind: TypeAlias = Literal[
    "link-missing",
    "link-down",
    "link-enslaved",
    "forwarding-off",
    "accept-ra",
    "own-address",
    "no-way-back",
    "other-table",
    "bpf-program",
    "not-looked-at",
]


@attrs.frozen
class Hindrance:
    """One fact about the host, not about the rewrite, that blocks probes or may block them."""

    kind: HindranceKind
    subject: str
    """The device, setting, table or address."""
    text: str
    """The effect and the remedy."""
    is_certain: bool = True
    """Whether the rewrite certainly cannot work until this is changed."""

    def __str__(self) -> str:
        return self.text


@attrs.frozen(kw_only=True)
class Surroundings:
    """The facts about a host that matter to a rewrite, except for the table. None means that a fact is not known."""

    links: tuple[Link, ...] = ()
    """The uplinks, and the devices that they are ports of."""
    addresses: tuple[OwnAddress, ...] = ()
    forwarding: bool | None = None
    accept_ra: Mapping[str, int] = attrs.field(factory=dict)
    """By device: 0 no, 1 only if the host does not forward, 2 always."""
    way_back: tuple[str, ...] | None = None
    """The outgoing devices for a packet to the global address."""
    tables: tuple[tuple[str, str], ...] = ()
    """Family and name of every nftables table."""
    programs: Mapping[str, Programs] = attrs.field(factory=dict)
    """By device: the BPF programs that process a packet before nftables."""


def find_hindrances(config: ProbeRewriteConfig, around: Surroundings) -> tuple[Hindrance, ...]:
    """All facts about the host that block probes, or may block them, although the rules and the route are in force."""
    return tuple(_hindrances(config, around))


def _hindrances(config: ProbeRewriteConfig, around: Surroundings) -> Iterator[Hindrance]:
    links = {link.name: link for link in around.links}
    for dev in config.interfaces:
        yield from _link_hindrances(dev, links)
    yield from _setting_hindrances(config, around)
    yield from _address_hindrances(config, around)
    for family, name in around.tables:
        if _RIVAL in name.lower():
            told = f"the nftables table {family} {name} has the same purpose; other agents create and delete it"
            yield Hindrance("other-table", f"{family} {name}", f"{told}; it is not changed", is_certain=False)
    for dev in config.interfaces:
        yield from _program_hindrances(dev, around.programs.get(dev))


def _setting_hindrances(config: ProbeRewriteConfig, around: Surroundings) -> Iterator[Hindrance]:
    if around.forwarding is False:
        setting = "net.ipv6.conf.all.forwarding"
        told = f"{setting} is 0, so no probe is forwarded to a pod; set it to 1, and accept_ra of the uplink to 2"
        yield Hindrance("forwarding-off", setting, told)
    for dev in config.interfaces:
        if around.accept_ra.get(dev) == 1 and around.forwarding:
            setting = f"net.ipv6.conf.{dev}.accept_ra"
            told = f"{setting} is 1, so a host that forwards ignores router advertisements, and loses the default"
            yield Hindrance("accept-ra", setting, f"{told} route that they install; set it to 2", is_certain=False)


def _address_hindrances(config: ProbeRewriteConfig, around: Surroundings) -> Iterator[Hindrance]:
    known = config.global_address
    for owner in around.addresses:
        if owner.ip == known:
            told = f"{known} is an address of this host, on {owner.dev}, so replies to probes do not leave the host"
            yield Hindrance("own-address", str(known), f"{told}; set probeRewrite.globalAddress to another address")
    if around.way_back is not None and not set(around.way_back) & set(config.interfaces):
        ways, uplinks = " and ".join(around.way_back), " or ".join(config.interfaces)
        told = f"a packet to {known} {f'leaves by {ways}' if ways else 'has no route'}, so replies to probes are lost"
        yield Hindrance(
            "no-way-back",
            str(known),
            f"{told}; it has to leave by {uplinks} (set ensureRoute to true to add the route)",
        )


def _link_hindrances(dev: str, links: Mapping[str, Link]) -> Iterator[Hindrance]:
    link = links.get(dev)
    if link is None:
        yield Hindrance("link-missing", dev, f"there is no device {dev}; name the uplink in probeRewrite.interfaces")
        return
    if not link.up:
        yield Hindrance("link-down", dev, f"{dev} is down")
    if link.master is not None and not _is_vrf(links.get(link.master)):
        told = f"{dev} is a port of {link.master}, so its packets arrive on {link.master} and no rule matches them"
        yield Hindrance("link-enslaved", dev, f"{told}; name {link.master} in probeRewrite.interfaces")


def _is_vrf(link: Link | None) -> bool:
    """Whether it is a VRF. For a port of a VRF, prerouting runs twice: with the port as the device, then with the VRF.

    For a port of a bridge or a bond it runs once, with the bridge or bond as the device. (Linux runs the hook in
    ip6_rcv for the port, passes the packet to the VRF, and runs the hook again there.)
    """
    return link is not None and link.kind == "vrf"


def _program_hindrances(dev: str, programs: Programs | None) -> Iterator[Hindrance]:
    if programs is None:
        return
    for program in programs.found:
        told = f"{program} at {dev} processes packets before nftables does, and they may bypass the rules"
        yield Hindrance("bpf-program", dev, f"{told}; compare the counters (hostrouting status)", is_certain=False)
    for unchecked in programs.unseen:
        told = f"the BPF programs at {dev} could not all be checked: {unchecked}"
        yield Hindrance("not-looked-at", dev, told, is_certain=False)
