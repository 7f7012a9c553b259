"""The setting of a host because of which no probe reaches a pod, although the table is in force."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hostrouting.finding import Finding, Remedy
from hostrouting.model.route import PROTOCOL_RA

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.model.snapshot import Snapshot


def find_probe_obstacles(config: HostRoutingConfig, snapshot: Snapshot) -> Iterator[Finding]:
    """Yield a warning if probes are rewritten, but the host does not forward IPv6: then no probe
    reaches a pod. Yield nothing if the snapshot does not know whether the host forwards.
    """
    if config.probe_rewrite.enabled and snapshot.ipv6_forwarding is False:
        sentence = "net.ipv6.conf.all.forwarding is 0, so no probe is forwarded to a pod"
        remedy = Remedy("until the next boot", _command_to_forward(snapshot))
        yield Finding("probe-rewrite", "warning", sentence, "net.ipv6.conf.all.forwarding", remedy)


def _command_to_forward(snapshot: Snapshot) -> str:
    """The command that makes the host forward IPv6 and keeps its routes. If the default route is
    from a router advertisement, Linux would delete it when forwarding is turned on while the
    accept_ra of its device is 1. So the command first sets such an accept_ra to 2.
    """
    commands: list[str] = []
    for route in snapshot.routes:
        if route.protocol == PROTOCOL_RA:
            for dev in route.devs:
                setting = shlex.quote(f"net/ipv6/conf/{dev}/accept_ra")
                commands.append(f'[ "$(sysctl -n {setting})" != 1 ] || sysctl -w {setting}=2')
    return "; ".join((*dict.fromkeys(commands), "sysctl -w net.ipv6.conf.all.forwarding=1"))
