"""Why probes do not reach the pods although the table is in force: what takes them before they are
rewritten, and what keeps replies on the host.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hostrouting.finding import Finding, Remedy
from hostrouting.model.prefix import IPV6
from hostrouting.model.route import PROTOCOL_RA

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.model.snapshot import Link, Snapshot


def find_probe_obstacles(config: HostRoutingConfig, snapshot: Snapshot) -> Iterator[Finding]:
    """Why probes do not reach the pods although the table is loaded."""
    probe = config.probe_rewrite
    if not probe.enabled:
        return
    for address in snapshot.addresses:
        if address.ip == probe.global_address:
            sentence = (
                f"{address.ip} is an address of this host, on {address.dev}: replies to probes "
                "would not leave it"
            )
            remedy = Remedy("write an address that no host has")
            path = "probeRewrite.globalAddress"
            yield Finding("probe-rewrite", "error", sentence, path, remedy)
    for link in snapshot.links:
        if link.name in probe.interfaces:
            yield from _what_takes_probes(link)
    if snapshot.ipv6_forwarding is False:  # None: the snapshot does not say
        sentence = "net.ipv6.conf.all.forwarding is 0, so no probe is forwarded to a pod"
        remedy = Remedy("until the next boot", _command_to_forward(snapshot))
        yield Finding("probe-rewrite", "warning", sentence, "net.ipv6.conf.all.forwarding", remedy)


def _command_to_forward(snapshot: Snapshot) -> str:
    """The command to forward IPv6. Where accept_ra is 1, Linux would delete an advertised default
    route then.
    """
    commands: list[str] = []
    for route in snapshot.default_routes(IPV6):
        if route.protocol == PROTOCOL_RA:
            for dev in route.devs:
                setting = shlex.quote(f"net/ipv6/conf/{dev}/accept_ra")
                commands.append(f'[ "$(sysctl -n {setting})" != 1 ] || sysctl -w {setting}=2')
    return "; ".join((*dict.fromkeys(commands), "sysctl -w net.ipv6.conf.all.forwarding=1"))


def _what_takes_probes(link: Link) -> Iterator[Finding]:
    """What takes packets that arrive on this device, before a rule for the device sees them: the
    table of the rewrite has such rules (`probe.table`).
    """
    if link.master is not None:
        sentence = (
            f"{link.name} is a port of {link.master}, where its packets arrive, so no rule "
            "matches them"
        )
        remedy = Remedy(f"name {link.master} in probeRewrite.interfaces")
        yield Finding("probe-rewrite", "warning", sentence, link.name, remedy)
    if link.xdp:
        sentence = (
            f"{link.name} has an XDP program, which may take packets before nftables sees them"
        )
        remedy = Remedy(
            f"ask its owner (see it with: ip -details link show {link.name}), and send a probe"
        )
        yield Finding("probe-rewrite", "warning", sentence, link.name, remedy)
