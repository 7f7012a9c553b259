"""The packets that pods send, in classes that no rule and no route tells apart.

Here: the classes. Not here: the check of a class (`pods`).

A pod's packet arrives on the pod's device with the pod's source address, and is forwarded. Rules that do not match the
host's own packets can match it: those that select on the device that it arrives on (`iif`), or on its source (`from`).
Nothing else distinguishes two pods' packets to the same destination, so they fall into a few classes:

- *Devices.* Two devices are in one class if the rules that match their packets do the same, in the same order. If a
  pod's device is a port of a bridge, its packets arrive on the bridge. In IPv6, Linux prefers a route by the device
  that the packet arrived on to other routes of the same prefix and metric: each device of such routes is a class.
- *Sources.* The pod CIDRs are split where a prefix begins or ends that a rule, or an IPv6 route, has for its sources.
  Two parts are in one class if the rules that match them do the same, and they are inside the same prefixes of routes.

So one packet of each class can be checked for all of them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import attrs

from hostrouting.check.exceptions import is_like
from hostrouting.fib.engine import Fib
from hostrouting.fib.packet import Flow
from hostrouting.model.prefix import IPV4, IPV6, Prefix, prefixes_between, spans_of, width_of
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Link, Snapshot
from hostrouting.text import spoken

_NAMED = 3  # the number of sources and devices of pods that are named; the others are counted

_JOINING = frozenset({"bridge", "bond", "team"})  # packets of a port arrive on these devices
_ANY_DEVICE = "/"  # stands for a device that no rule names; no device can have this name


class PodPackets(NamedTuple):
    """Packets of pods that the rules treat alike: their sources, and the devices on which they arrive."""

    sources: tuple[Prefix, ...]
    devs: tuple[str, ...]
    """Empty for any device that no rule names, if no pod has a device."""
    exist: bool = True
    """Whether the devices exist. A rule may name one that the CNI has still to create."""

    @property
    def flow(self) -> Flow:
        """A packet of this class."""
        dev = self.devs[0] if self.devs else _ANY_DEVICE
        return Flow(source=self.sources[0].ip, iif=dev, oif="", uid=0)


def find_pod_packets(
    snapshot: Snapshot, pod_cidrs: Iterable[Prefix], pod_devs: Sequence[str], *, expected: Sequence[Prefix]
) -> tuple[PodPackets, ...]:
    """The classes of packets that pods send to the expected CIDRs. All CIDRs are of one family.

    Pods have addresses in `pod_cidrs`, and devices that match the patterns `pod_devs`.
    """
    family = expected[0].family if expected else IPV4
    cidrs = [cidr for cidr in pod_cidrs if cidr.family == family]
    if not cidrs or not expected:
        return ()
    rules = [rule for rule in snapshot.rules if rule.family == family]
    sources = _classes_of_sources(snapshot, cidrs, rules)
    devices = _classes_of_devices(snapshot, pod_devs, expected, rules)
    return tuple(PodPackets(some, devs, exist) for devs, exist in devices for some in sources)


def senders_phrase(packets: Iterable[PodPackets]) -> str:
    """A phrase for packets of pods: their sources, and the devices on which they arrive."""
    sources: dict[tuple[tuple[str, ...], bool], dict[Prefix, None]] = {}
    for sender in packets:
        sources.setdefault((sender.devs, sender.exist), {}).update(dict.fromkeys(sender.sources))
    ways: dict[tuple[Prefix, ...], list[str]] = {}
    for (devs, exist), ranges in sources.items():
        named = [dev if exist else f"{dev} (which does not exist)" for dev in devs]
        ways.setdefault(tuple(sorted(ranges)), []).extend(named or ["a device that no rule names"])
    told = [f"from {some_of(ranges)} that arrive on {some_of(devs)}" for ranges, devs in ways.items()]
    return f"packets of pods {', or '.join(told[:_NAMED])}" + ", or others" * (len(told) > _NAMED)


def some_of(things: Iterable[object]) -> str:
    """The first few of these as a phrase, and the number of the others."""
    return spoken(tuple(map(str, things)), most=_NAMED, last="or")


def arrives_on(links: Mapping[str, Link], dev: str) -> str | None:
    """The device on which IP sees packets that arrive on this one; None for a VRF or if unknown."""
    top = links.get(dev)
    while top is not None and top.master is not None:
        top = links.get(top.master)
        if top is None or top.kind not in _JOINING:
            return None
    return None if top is None else top.name


def with_devices_of(fib: Fib, packets: Iterable[PodPackets]) -> Fib:
    """The host as if the devices of these packets existed."""
    missing = {dev for sender in packets for dev in sender.devs} - fib.links.keys()
    return fib.with_links(Link(name=dev, index=0) for dev in sorted(missing)) if missing else fib


class _Effects:
    """The rules' effects on packets, by the value of one selector's field.

    A rule with such a value is told by what it does apart from that, and by the number of the other rules before it.
    """

    def __init__(self, rules: Sequence[Rule], selector: str) -> None:
        """Take the rules of a family, and the field of the selector."""
        # A goto leads to a priority; otherwise only the order of the rules matters.
        unmatched: dict[str, Any] = {selector: None, "protocol": 0}
        if not any(rule.action == "goto" for rule in rules):
            unmatched["priority"] = 0
        numbers: dict[Rule, int] = {}
        others = 0
        self._of_value: dict[object, list[tuple[int, int, int]]] = {}
        for place, rule in enumerate(rules):
            value = getattr(rule, selector)
            others += value is None or rule.invert  # which all packets match, or nearly all
            if value is not None:
                number = numbers.setdefault(attrs.evolve(rule, **unmatched), len(numbers))
                self._of_value.setdefault(value, []).append((place, others, number))

    def where(self, values: Iterable[object]) -> tuple[tuple[int, int], ...]:
        """A value that is equal for packets that the rules treat alike; `values` are those that match the packets."""
        matching = sorted(rule for value in values for rule in self._of_value.get(value, ()))
        return tuple((others, number) for _, others, number in matching)


def _classes_of_sources(snapshot: Snapshot, cidrs: Sequence[Prefix], rules: Sequence[Rule]) -> list[tuple[Prefix, ...]]:
    """The CIDRs, cut where a rule or route distinguishes sources; equal parts together."""
    effects = _Effects(rules, "src")
    of_routes: set[Prefix] = set()
    if cidrs[0].family == IPV6 and any(outline.has_source for outline in snapshot.routes.outlines):
        of_routes = {shape.source for shape in snapshot.routes.shapes if shape.source is not None}
    told = of_routes | {rule.src for rule in rules if rule.src is not None}
    cuts = sorted({place for prefix in told for place in (prefix.first, prefix.last + 1)})
    lengths = {prefix.length for prefix in told}
    classes: dict[object, list[Prefix]] = {}
    for family, first, last in spans_of(cidrs):
        begins = [first, *(cut for cut in cuts if first < cut <= last)]
        for begin, following in pairwise([*begins, last + 1]):
            around = [Prefix.around(family, begin, length) for length in lengths]
            alike = effects.where(around), frozenset(of_routes.intersection(around))
            classes.setdefault(alike, []).extend(prefixes_between(family, begin, following - 1))
    return [tuple(parts) for parts in classes.values()]


def _classes_of_devices(
    snapshot: Snapshot, patterns: Sequence[str], expected: Sequence[Prefix], rules: Sequence[Rule]
) -> list[tuple[tuple[str, ...], bool]]:
    """The devices on which pods' packets arrive, in groups that are treated alike, and whether they exist."""
    effects = _Effects(rules, "iif")
    preferred = set(_preferred(snapshot, expected)) if expected[0].family == IPV6 else set()
    existing = {link.name: link.kind for link in snapshot.links}
    missing = sorted(
        {rule.iif for rule in rules if rule.iif is not None and is_like(rule.iif, patterns)} - existing.keys()
    )
    classes: dict[object, list[str]] = {}
    for dev in dict.fromkeys((*_arriving(snapshot, patterns), *missing)):
        alike = effects.where((dev,)), dev in existing, dev if dev in preferred else ""
        classes.setdefault(alike, []).append(dev)
    found = [(tuple(devs), devs[0] in existing) for devs in classes.values()]
    if not any(is_like(dev, patterns, kind) for dev, kind in existing.items()):
        found.append(((), False))
    return found


def _arriving(snapshot: Snapshot, patterns: Sequence[str]) -> Iterator[str]:
    """The devices on which pods' IP packets arrive: a port's packets arrive on its bridge. Not for VRFs."""
    links = {link.name: link for link in snapshot.links}
    for link in snapshot.links:
        is_pods = link.name != "lo" and is_like(link.name, patterns, link.kind)
        dev = arrives_on(links, link.name) if is_pods else None
        if dev is not None:
            yield dev


def _preferred(snapshot: Snapshot, expected: Sequence[Prefix]) -> Iterator[str]:
    """The devices of IPv6 routes whose choice can depend on the packet's incoming device."""
    routes, width = snapshot.routes, width_of(IPV6)
    low, high = min(prefix.first for prefix in expected), max(prefix.last for prefix in expected)
    hosts = [(1 << width - length) - 1 for length in range(width + 1)]
    for column in routes.columns:
        if column.family != IPV6:
            continue
        prefixes = zip(column.positions, column.networks, column.lengths, strict=True)
        near = [row for row in prefixes if row[1] <= high and row[1] | hosts[row[2]] >= low]
        counts = Counter((network, length) for _, network, length in near)
        for at, network, length in near:
            shape = routes.shapes[routes.shape_numbers[at]]
            if counts[network, length] > 1 or len(shape.legs) > 1:
                yield from shape.devs
