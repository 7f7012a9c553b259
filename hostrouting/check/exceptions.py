"""What does not count as an escape: routes that refuse packets for the host's own pod blocks, and known packets.

Here: which devices match a pattern, which routes are for a pod block, and whether a kind of packets is known, and as
what. Not here: which devices and refusing routes each CNI has (`config.cni`), whether the rest escapes (`overlap`), and
the sentences.

A rule can send packets elsewhere by their source, mark, user and the like. Only packets about which nothing is known
make a verdict undecided. Known are:

- *Replies from an own address.* A packet with a source address of this host leaves by the device that has the address:
  replies leave where the requests came in. The packets of a socket that is bound to a device leave by that device.
  Packets with a source that Linux chooses by itself are not known: for TCP, Linux chooses the source by a first lookup,
  and then looks up the route again, with the source, and so meets rules that the first lookup did not.
- *Forwarded packets.* A source that is not this host's own, or a device that packets arrive on, selects packets that
  this host forwards. Those of pods have a check of their own (`pods`); nothing is expected of others. An address on an
  allowed device counts as a pod's.
- *A tunnel's own packets.* A VPN marks them, so that they leave by the default route of table main and not by the
  tunnel. If that route leads to InfiniBand, they are not known.
- *What the configuration declares*, rule by rule.

A case lists only the conditions that a plain packet does not meet.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property, lru_cache
from typing import Literal, TypeAlias

from hostrouting.config.cni import CNI_ROUTES, CniRoute
from hostrouting.config.settings import IntendedRule
from hostrouting.fib.decision import Case, Cases, Condition, Decision
from hostrouting.fib.engine import Fib
from hostrouting.model.prefix import IPV4, LOOPBACK, Prefix, width_of
from hostrouting.model.route import REFUSING, SCOPE_LINK, TABLE_MAIN, Route
from hostrouting.model.snapshot import Address


class PodBlocks:
    """The blocks of addresses for pods of one host, within the checked CIDRs."""

    def __init__(self, fib: Fib, cidrs: tuple[Prefix, ...], allowed: tuple[str, ...]) -> None:
        """Take the host, the CIDRs that are checked, and the patterns of devices that may carry a part of them."""
        self._fib, self._cidrs, self._allowed = fib, cidrs, allowed

    def holds(self, route: Route) -> bool:
        """Whether the route refuses packets for one of this host's pod blocks.

        True for a route that a CNI adds, and for a route whose prefix contains a route by an allowed device. The prefix
        must be smaller than a checked CIDR: a route that refuses a whole CIDR, or more, affects other nodes too.
        """
        return route.type in REFUSING and self._is_part(route) and self._is_block(route)

    def _is_part(self, route: Route) -> bool:
        return any(route.prefix in cidr and route.prefix != cidr for cidr in self._cidrs)

    def _is_block(self, route: Route) -> bool:
        return any(self._is_left(route, trace) for trace in CNI_ROUTES) or any(
            inner.type == "unicast" and inner.legs and all(self.is_like(dev, self._allowed) for dev in inner.devs)
            for inner in self._fib.within(route.prefix, table=route.table)
        )

    def _is_left(self, route: Route, trace: CniRoute) -> bool:
        if route.protocol not in trace.protocols or route.type not in trace.types:
            return False
        if trace.single and route.prefix.length < width_of(route.prefix.family):
            return False
        return trace.dev == "*" or any(is_like(link.name, (trace.dev,)) for link in self._fib.snapshot.links)

    def is_like(self, dev: str, patterns: Iterable[str]) -> bool:
        """Whether a device of this host matches one of these patterns, by its name and its kind."""
        return is_like(dev, patterns, self._kinds.get(dev, ""))

    @cached_property
    def _kinds(self) -> dict[str, str]:
        return {link.name: link.kind for link in self._fib.snapshot.links}


def is_like(dev: str, patterns: Iterable[str], kind: str | None = None) -> bool:
    """Whether a device of this name and kind matches one of these patterns; without a kind, by its name alone."""
    return _names(tuple(patterns), kind)(dev) is not None


@lru_cache(maxsize=64)
def _names(patterns: tuple[str, ...], kind: str | None) -> Callable[[str], object]:
    """A regular expression for the names of devices of this kind, from the patterns that apply to that kind."""
    import re  # noqa: PLC0415  loaded when the first stray device or route is seen
    from fnmatch import translate  # noqa: PLC0415  see above

    parts = (pattern.partition(" ") for pattern in patterns)
    names = (name for name, _, demanded in parts if not demanded or kind in {None, demanded})
    return re.compile("|".join(map(translate, names)) or r"(?!)").match


Known: TypeAlias = Literal["", "own-address", "bound", "forwarded", "tunnel", "intended"]
"""The known kinds of packets; empty if it is not known what the packets are."""

_LOOPBACKS = (Prefix.of(LOOPBACK), Prefix.parse("::1/128"))


class Exceptions:
    """Decides which packets of one host are known to be harmless."""

    def __init__(
        self,
        fib: Fib,
        family: int,
        *,
        expected_devs: Sequence[str],
        allowed_devs: Sequence[str],
        intended: Iterable[IntendedRule],
    ) -> None:
        """Take the host, the expected devices, the patterns of allowed ones, and the rules that are declared."""
        self._fib, self._family, self._named, self._allowed = fib, family, expected_devs, allowed_devs
        self._reasons = {declared.rule: declared.reason for declared in intended}
        self._sources_by = cache(self._find_sources)

    @cached_property
    def _own(self) -> dict[int, set[str]]:
        """The devices of each address of the host; computed on first use, because most checks do not need them."""
        found: dict[int, set[str]] = {}
        for address in self._fib.snapshot.addresses:
            if address.ip.version == self._family and not any(address.ip in block for block in _LOOPBACKS):
                found.setdefault(int(address.ip), set()).add(address.dev)
        return {ip: devs for ip, devs in found.items() if not all(is_like(dev, self._allowed) for dev in devs)}

    def sources(self, decision: Decision) -> frozenset[int]:
        """The sources that Linux may choose for plain packets with this decision.

        For a device without an address, IPv4 takes that of the first device. The order is certain if lo or an expected
        device has the lowest number: any other may have been moved to a pod and back, and then comes last. IPv6 takes
        an address that suits the destination, so any; the devices of pods have none, and are left out.
        """
        found: set[int] = set()
        for route in (decision.route, *decision.in_turn):
            if route is not None and route.prefsrc is not None:
                found.add(int(route.prefsrc))
            elif route is not None:
                found.update(*(self._sources_by(dev) for dev in decision.devs if dev in route.devs))
        return frozenset(found)

    def _find_sources(self, dev: str) -> frozenset[int]:
        is_ipv4, every = self._family == IPV4, self._global
        near = [address for address in every if address.dev == dev]
        if all(address.scope for address in near) and (is_ipv4 or not is_like(dev, self._allowed)):
            # IPv4 has a use for the addresses with a narrower scope only if the route is without a gateway.
            elsewhere = [address for address in every if address.scope < SCOPE_LINK]
            first = elsewhere[0].dev if elsewhere and is_ipv4 else ""
            certain = [address for address in elsewhere if address.dev == first in {"lo", *self._named}]
            near += elsewhere if all(address.scope for address in certain) else certain
        return frozenset(int(address.ip) for address in near)

    @cached_property
    def _global(self) -> tuple[Address, ...]:
        """The addresses that Linux may choose for destinations elsewhere; in IPv6 none of scope link.

        IPv6 uses an address of any device rather than one that is not preferred.
        """
        is_ipv4, every = self._family == IPV4, self._fib.snapshot.addresses
        narrowest = SCOPE_LINK if is_ipv4 else 0
        found = tuple(one for one in every if one.ip.version == self._family and one.scope <= narrowest)
        return tuple(one for one in found if is_ipv4 or one.preferred) or found

    def known(self, case: Case, decision: Decision, chosen: frozenset[int] = frozenset()) -> Known:
        """The known kind of packets that fulfil all conditions of the case and get this decision; None if unknown.

        `chosen` are the sources that Linux may choose for plain packets to the same destination.
        """
        if self._reasons and case and all(condition.rule.selection in self._reasons for condition in case):
            return "intended"
        sources = [
            (Prefix.parse(value), condition.holds)
            for condition in case
            for name, value in condition.selectors
            if name == "from" and (condition.holds or len(condition.selectors) == 1)
        ]
        if any(map(_is_forwarded, case)):
            return "forwarded"
        if sources:
            return self._by_source(sources, decision, chosen)
        if decision.goes_out and any(condition.holds and self._is_bound(condition, decision) for condition in case):
            return "bound"
        return "tunnel" if self._is_of_tunnel(case, decision) else ""

    def reasons(self, cases: Cases) -> tuple[str, ...]:
        """Why the rules of these cases are intended."""
        rules = (condition.rule.selection for case in cases for condition in case) if self._reasons else ()
        return tuple(dict.fromkeys(self._reasons[rule] for rule in rules if rule in self._reasons))

    def _by_source(self, sources: list[tuple[Prefix, bool]], decision: Decision, chosen: frozenset[int]) -> Known:
        def is_among(ip: int) -> bool:
            return all((block.first <= ip <= block.last) is inside for block, inside in sources)

        own = [devs for ip, devs in self._own.items() if is_among(ip)]
        if own and not (decision.goes_out and all(devs.issuperset(decision.devs) for devs in own)):
            return ""
        if any(map(is_among, chosen)):
            return ""
        of_hosts = all(inside and block.first == block.last for block, inside in sources)
        return "own-address" if own and of_hosts else "forwarded"

    def _is_bound(self, condition: Condition, decision: Decision) -> bool:
        return any(name == "oif" and decision.devs == (dev,) for name, dev in condition.selectors)

    def _is_of_tunnel(self, case: Case, decision: Decision) -> bool:
        route = decision.route
        if route is None or route.prefix.length or route.table != TABLE_MAIN or not decision.goes_out:
            return False
        infiniband = {link.name for link in self._fib.snapshot.links if link.infiniband}
        return any(map(_is_exempted, case)) and infiniband.isdisjoint(decision.devs)


def _is_forwarded(condition: Condition) -> bool:
    """Whether only packets that this host forwards meet the condition."""
    if condition.holds:
        return any(name == "iif" and dev != "lo" for name, dev in condition.selectors)
    return condition.selectors == (("iif", "lo"),)


def _is_exempted(condition: Condition) -> bool:
    """Whether a mark makes packets skip the rule, or look up table main."""
    rule = condition.rule
    by_mark = condition.holds and [name for name, _ in condition.selectors] == ["fwmark"]
    return by_mark and (rule.invert or (rule.action == "to_table" and rule.table == TABLE_MAIN))
