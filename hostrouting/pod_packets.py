"""The packets that pods send, in classes that no rule and no route tells apart.

A pod's packet arrives on the pod's device with the pod's source address, and is forwarded. Rules that do not match the
host's own packets can match it: those that select on the device that it arrives on (`iif`), or on its source (`from`).
Nothing else distinguishes two pods' packets to the same destination, so they fall into a few classes:

- *Devices.* Each device that a rule names is a class; all other devices of pods are one class. If such a device is a
  port of a bridge, its packets arrive on the bridge. In IPv6, Linux prefers a route by the device that the packet
  arrived on to other routes of the same prefix and metric, so each device of such routes is a class, too.
- *Sources.* The pod CIDRs are split where a prefix begins or ends that a rule, or an IPv6 route, has for its sources.
  The parts that are inside the same prefixes are one class.

So one packet of each class can be checked for all of them.

Here: the classes. Not here: the check of a class (`pods`), and whether the host accepts the packets and the answers.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

import attrs

from hostrouting.fib import Fib, Flow
from hostrouting.model import IPV4, IPV6, Link, Prefix, Snapshot, prefixes_between

__all__ = ["PodPackets", "find_pod_packets", "with_devices_of"]

_ANY_DEVICE = "pod"  # stands for a device that does not exist yet and that no rule names


@attrs.frozen
class PodPackets:
    """Packets of pods that no rule tells apart: from one of these sources, arriving on one of these devices."""

    sources: tuple[Prefix, ...]
    devs: tuple[str, ...]
    """Empty if no device of a pod exists yet, and no rule names one."""
    exist: bool = True
    """Whether the devices exist. A rule may name one before the CNI creates it."""

    @property
    def flow(self) -> Flow:
        """A packet of this class."""
        dev = self.devs[0] if self.devs else _ANY_DEVICE
        return Flow(source=self.sources[0].ip, iif=dev, oif="", uid=0)


def find_pod_packets(
    snapshot: Snapshot, pod_cidrs: Iterable[Prefix], pod_devs: Sequence[str], *, expected: Sequence[Prefix]
) -> tuple[PodPackets, ...]:
    """The classes of packets that pods send to the expected CIDRs, which are of one family.

    Pods have addresses in `pod_cidrs`, and devices whose names match the patterns `pod_devs`.
    """
    family = expected[0].family if expected else IPV4
    its = [cidr for cidr in pod_cidrs if cidr.family == family]
    if not its or not expected:
        return ()
    sources = _classes_of_sources(snapshot, its, family)
    devices = _classes_of_devices(snapshot, pod_devs, expected)
    return tuple(PodPackets(some, devs, exist) for devs, exist in devices for some in sources)


def with_devices_of(fib: Fib, packets: Iterable[PodPackets]) -> Fib:
    """The host once the devices of these packets exist."""
    missing = {dev for it in packets if not it.exist for dev in it.devs if fib.snapshot.link(dev) is None}
    return fib.with_links(Link(name=dev, index=0) for dev in sorted(missing)) if missing else fib


def _classes_of_sources(snapshot: Snapshot, cidrs: Iterable[Prefix], family: int) -> list[tuple[Prefix, ...]]:
    """The CIDRs in parts, those together that are inside the same prefixes of sources."""
    told = {rule.src for rule in snapshot.rules if rule.family == family and rule.src is not None}
    if family == IPV6 and any(outline.has_source for outline in snapshot.routes.outlines):
        told |= {shape.source for shape in snapshot.routes.shapes if shape.source is not None}
    cuts = sorted({place for prefix in told for place in (prefix.first, prefix.last + 1)})
    classes: dict[frozenset[Prefix], list[Prefix]] = {}
    for first, last in _spans(cidrs):
        begins = [first, *(cut for cut in cuts if first < cut <= last)]
        for begin, following in zip(begins, [*begins[1:], last + 1], strict=True):
            inside = frozenset(prefix for prefix in told if prefix.first <= begin <= prefix.last)
            classes.setdefault(inside, []).extend(prefixes_between(family, begin, following - 1))
    return [tuple(parts) for parts in classes.values()]


def _spans(cidrs: Iterable[Prefix]) -> list[tuple[int, int]]:
    """The CIDRs as ranges that are sorted and disjoint."""
    found: list[tuple[int, int]] = []
    for cidr in sorted(cidrs):
        if found and cidr.first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], cidr.last))
        else:
            found.append((cidr.first, cidr.last))
    return found


def _classes_of_devices(
    snapshot: Snapshot, patterns: Sequence[str], expected: Sequence[Prefix]
) -> Iterator[tuple[tuple[str, ...], bool]]:
    """The devices that packets of pods arrive on, those together that nothing tells apart; and whether they exist."""
    family = expected[0].family
    named = {rule.iif for rule in snapshot.rules if rule.family == family and rule.iif is not None}
    special = named | (set(_preferred(snapshot, expected)) if family == IPV6 else set())
    there = list(dict.fromkeys(_arriving(snapshot, patterns)))
    alike = tuple(dev for dev in there if dev not in special)
    if alike:
        yield alike, True
    for dev in there:
        if dev in special:
            yield (dev,), True
    existing = {link.name for link in snapshot.links}
    for dev in sorted(named - existing):
        if _is_like(dev, patterns):
            yield (dev,), False
    if not there:
        yield (), False


def _arriving(snapshot: Snapshot, patterns: Sequence[str]) -> Iterator[str]:
    """The devices that IP packets of pods arrive on: a port's packets arrive on its bridge. VRFs are not covered."""
    links = {link.name: link for link in snapshot.links}
    for link in snapshot.links:
        if link.name == "lo" or not _is_like(link.name, patterns):
            continue
        top = link
        while top.master is not None and top.master in links and links[top.master].kind != "vrf":
            top = links[top.master]
        if top.master is None:
            yield top.name


def _preferred(snapshot: Snapshot, expected: Sequence[Prefix]) -> Iterator[str]:
    """The devices of IPv6 routes for which the device that a packet arrived on can matter."""
    routes = snapshot.routes
    for column in routes.columns:
        if column.family != IPV6:
            continue
        prefixes = [Prefix(IPV6, *it) for it in zip(column.networks, column.lengths, strict=True)]
        several = {prefix for prefix, count in Counter(prefixes).items() if count > 1 and _meet(prefix, expected)}
        for place, prefix in zip(column.positions, prefixes, strict=True):
            shape = routes.shapes[routes.shape_numbers[place]]
            if prefix in several or len(shape.legs) > 1:
                yield from shape.devs


def _meet(prefix: Prefix, others: Iterable[Prefix]) -> bool:
    return any(prefix.first <= it.last and it.first <= prefix.last for it in others)


def _is_like(dev: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(dev, pattern) for pattern in patterns)
