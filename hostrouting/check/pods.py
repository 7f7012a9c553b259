"""Packets of pods: which kinds of them the rules tell apart.

What a node forwards is not judged, unless `podCidrs` names the addresses of pods. Then their packets are judged like
the host's own, by the same pass over the rules, with the source and the device that they have. Sources differ only
where a `from` selector begins or ends, and devices only where a rule names one; so a few kinds are all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from hostrouting.check.judge import pieces
from hostrouting.config.cni import devices_of
from hostrouting.fib.engine import Packet
from hostrouting.model.prefix import prefixes_between

if TYPE_CHECKING:
    from hostrouting.fib.engine import Fib
    from hostrouting.model.prefix import Prefix

_SOME_POD = "a pod's device"
"""Stands for every device that no rule names; no device has a name with a space."""
_PODS = {"pod", "bridge"}


def pod_packets(fib: Fib, cidrs: Iterable[Prefix]) -> Iterator[Packet]:
    """A packet of each kind that pods with these addresses send; the CIDRs are of this family."""
    named = {rule.iif for rule in fib.rules if rule.iif is not None}
    links = (link for link in fib.snapshot.links if link.name in named)
    of_pods = [link.name for link in links if any(row.use in _PODS for _, row in devices_of(link.name, link.kind))]
    blocks = [rule.src for rule in fib.rules if rule.src is not None]
    for first, last in (piece for cidr in cidrs for piece in pieces(cidr.first, cidr.last, blocks)):
        for source in prefixes_between(fib.family, first, last):
            yield from (Packet(source, dev) for dev in (_SOME_POD, *of_pods))


def phrase_of(packet: Packet) -> str:
    """The packets, as a phrase that follows "for"."""
    arriving = "" if packet.iif == _SOME_POD else f" that arrive on {packet.iif}"
    return f"packets of pods from {packet.source}{arriving}"
