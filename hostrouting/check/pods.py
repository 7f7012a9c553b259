"""Packets of pods: which kinds of them the rules tell apart.

What a node forwards is not judged, unless `podCidrs` names the addresses of pods. Then their packets are judged like
the host's own, by the same pass over the rules, with the source and the device that they have. Sources differ only
where a `from` selector begins or ends, and devices only where a rule names one; so a few kinds are all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from hostrouting.config.cni import Use, devices_of
from hostrouting.fib.engine import Packet
from hostrouting.model.prefix import Prefix, prefixes_between

if TYPE_CHECKING:
    from hostrouting.fib.engine import Fib

_SOME_POD = "a pod's device"
"""Stands for every device that no rule names; no device has a name with a space."""


def pod_packets(fib: Fib, cidrs: Iterable[Prefix]) -> Iterator[Packet]:
    """A packet of each kind that pods with these addresses send; the CIDRs are of this family."""
    named = {rule.iif for rule in fib.rules if rule.iif is not None}
    links = (link for link in fib.snapshot.links if link.name in named)
    of_pods = [link.name for link in links if any(row.use in _PODS for _, row in devices_of(link.name, link.kind))]
    for cidr in cidrs:
        for source in _sources(fib, cidr):
            yield from (Packet(source, dev) for dev in (_SOME_POD, *of_pods))


_PODS = {Use.POD, Use.BRIDGE}


def _sources(fib: Fib, cidr: Prefix) -> Iterator[Prefix]:
    """The CIDR, cut wherever a `from` selector begins or ends."""
    blocks = [rule.src for rule in fib.rules if rule.src is not None]
    cuts = {cut for block in blocks for cut in (block.first, block.last + 1) if cidr.first < cut <= cidr.last}
    starts = sorted({cidr.first, *cuts})
    for first, behind in zip(starts, [*starts[1:], cidr.last + 1], strict=True):
        yield from prefixes_between(fib.family, first, behind - 1)


def phrase_of(packet: Packet) -> str:
    """The packets, as a phrase that follows "for"."""
    arriving = "" if packet.iif == _SOME_POD else f" that arrive on {packet.iif}"
    return f"packets of pods from {packet.source}{arriving}"
