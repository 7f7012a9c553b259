"""What about a host keeps probes from the pods although rules and route are in force, or may keep them.

Here: facts about the host as values, and what follows from them. Not here: finding the facts out
(`tasks.probe_rewrite`).
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
"""In the name of a table that other agents make for the same purpose, and delete."""


@attrs.frozen
class OwnAddress:
    """An IPv6 address of the host."""

    ip: IPv6Address
    dev: str
    state: Literal["usable", "tentative", "duplicate"] = "usable"
    """What duplicate address detection says of it."""


_TENTATIVE, _DUPLICATE = 0x40, 0x08


def own_addresses(snapshot: Snapshot, listed: str) -> tuple[OwnAddress, ...]:
    """The addresses of the snapshot; `listed` is the text of /proc/net/if_inet6, which alone says their state."""
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
    """Whether one of the interfaces has a global or unique local address; None while it may prove a duplicate."""
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
    """One thing about the host, not about the rewrite, that keeps probes from the pods, or may."""

    kind: HindranceKind
    subject: str
    """The device, setting, table or address."""
    text: str
    """What it does, and what to do about it."""
    is_certain: bool = True
    """Whether the rewrite cannot work as long as it is so."""

    def __str__(self) -> str:
        return self.text


@attrs.frozen(kw_only=True)
class Surroundings:
    """What there is to know of a host about a rewrite, but for the table. None: it could not be found out."""

    links: tuple[Link, ...] = ()
    """The interfaces, and what they are ports of."""
    addresses: tuple[OwnAddress, ...] = ()
    forwarding: bool | None = None
    accept_ra: Mapping[str, int] = attrs.field(factory=dict)
    """By device: 0 no, 1 only where the host does not forward, 2 always."""
    way_back: tuple[str, ...] | None = None
    """The devices by which a packet to the global address leaves."""
    tables: tuple[tuple[str, str], ...] = ()
    """Family and name of every nftables table."""
    programs: Mapping[str, Programs] = attrs.field(factory=dict)
    """By device: the BPF programs that a packet meets before nftables."""


def find_hindrances(config: ProbeRewriteConfig, around: Surroundings) -> tuple[Hindrance, ...]:
    """What about the host keeps probes from the pods although the rules and the route are in force, or may."""
    return tuple(_hindrances(config, around))


def _hindrances(config: ProbeRewriteConfig, around: Surroundings) -> Iterator[Hindrance]:
    links = {link.name: link for link in around.links}
    for dev in config.interfaces:
        yield from _link_hindrances(dev, links)
    yield from _setting_hindrances(config, around)
    yield from _address_hindrances(config, around)
    for family, name in around.tables:
        if _RIVAL in name.lower():
            told = f"there is an nftables table {family} {name} for the same purpose; other agents make and delete it"
            yield Hindrance("other-table", f"{family} {name}", f"{told}; it is left alone", is_certain=False)
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
            told = f"{setting} is 1: a host that forwards ignores router advertisements then, and loses the default"
            yield Hindrance("accept-ra", setting, f"{told} route that came with one; set it to 2", is_certain=False)


def _address_hindrances(config: ProbeRewriteConfig, around: Surroundings) -> Iterator[Hindrance]:
    known = config.global_address
    for owner in around.addresses:
        if owner.ip == known:
            told = f"{known} is an address of this host, on {owner.dev}, so answers to probes stay here"
            yield Hindrance("own-address", str(known), f"{told}; set probeRewrite.globalAddress to another address")
    if around.way_back is not None and not set(around.way_back) & set(config.interfaces):
        ways, uplinks = " and ".join(around.way_back), " or ".join(config.interfaces)
        told = f"a packet to {known} {f'leaves by {ways}' if ways else 'has no route'}, so no answer reaches the probe"
        yield Hindrance("no-way-back", str(known), f"{told}; it has to leave by {uplinks} (ensureRoute sees to that)")


def _link_hindrances(dev: str, links: Mapping[str, Link]) -> Iterator[Hindrance]:
    link = links.get(dev)
    if link is None:
        yield Hindrance("link-missing", dev, f"there is no device {dev}; name the uplink in probeRewrite.interfaces")
        return
    if not link.up:
        yield Hindrance("link-down", dev, f"{dev} is down")
    if link.master is not None and not _is_vrf(links.get(link.master)):
        told = f"{dev} is a port of {link.master}, so its packets come in by {link.master} and no rule sees them"
        yield Hindrance("link-enslaved", dev, f"{told}; name {link.master} in probeRewrite.interfaces")


def _is_vrf(link: Link | None) -> bool:
    """Whether it is a VRF, whose ports keep their packets: prerouting meets each by its port, then by the VRF.

    A bridge or a bond takes a packet before that, and prerouting meets it once, by the bridge. (Linux runs the hook in
    ip6_rcv for the port, hands the packet to the VRF, and runs it again there.)
    """
    return link is not None and link.kind == "vrf"


def _program_hindrances(dev: str, programs: Programs | None) -> Iterator[Hindrance]:
    if programs is None:
        return
    for program in programs.found:
        told = f"{program} at {dev} sees packets before nftables does, and may send them past the rules"
        yield Hindrance("bpf-program", dev, f"{told}; compare the counters (hostrouting status)", is_certain=False)
    for kind in programs.unseen:
        told = f"whether there are BPF programs at {dev} could not be found out: {kind}"
        yield Hindrance("not-looked-at", dev, told, is_certain=False)
