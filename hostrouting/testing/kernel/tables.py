"""The fake kernel's route tables and policy rules: what is stored, in which order, and which rules are refused.

Here: storage, the order in which Linux lists routes and rules, and the search for routes that cover an address. Not
here: whether a route is accepted, the routes that devices and addresses add and delete (`ipv4`, `ipv6`), and what a
rule does in a lookup (`hostrouting.kernel._fib`).
"""

import errno
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Generic, TypeVar

import attrs

from hostrouting.kernel._rule import SELECTORS, FullRule
from hostrouting.model.prefix import IPV4, Prefix, width_of
from hostrouting.model.route import Route
from hostrouting.model.rule import Rule, default_rules
from hostrouting.testing.kernel.devices import Refused

# A prefix is packed as its network, shifted by this, plus its length.
_BITS = 8
# The largest packet, and what remains of it for TCP.
_MAX_MTU, _MAX_ADVMSS = 65535 - 15, 65535 - 40


@attrs.define(eq=False)
class Installed:
    """A route in a table. Its next hops have their present state: linkdown, dead."""

    route: Route
    # The scope of each next hop; IPv4 compares it when looking for identical routes.
    reach: tuple[int, ...] = ()
    # Every next hop is dead: the next flush deletes the route.
    dead: bool = False

    def mark(self, dev: str, *, linkdown: bool, dead: bool | None = None) -> None:
        """Set the state of its next hops by this device; None leaves `dead` as it is."""
        legs = []
        for leg in self.route.legs:
            state = (linkdown, leg.dead if dead is None else dead)
            is_so = leg.dev != dev or (leg.linkdown, leg.dead) == state
            legs.append(leg if is_so else attrs.evolve(leg, linkdown=state[0], dead=state[1]))
        if legs != [*self.route.legs]:
            self.route = attrs.evolve(self.route, legs=tuple(legs))

    def twin_of(self, other: "Installed") -> bool:
        """Whether Linux would store the same data (fib_info) for both."""
        return self.reach == other.reach and bare(self.route) == bare(other.route)


def as_kept(route: Route) -> Route:
    """The route with its metrics as Linux stores them: capped at the largest packet, and none for 0."""
    return attrs.evolve(
        bare(route),
        mtu=min(route.mtu, _MAX_MTU) if route.mtu else None,
        advmss=min(route.advmss, _MAX_ADVMSS) if route.advmss else None,
    )


def bare(route: Route) -> Route:
    """The route as in a request: without the state of its next hops."""
    if not any(leg.linkdown or leg.dead or leg.pervasive for leg in route.legs):
        return route
    legs = tuple(attrs.evolve(leg, linkdown=False, dead=False, pervasive=False) for leg in route.legs)
    return attrs.evolve(route, legs=legs)


def by_source(installed: Installed) -> tuple[int, int, int]:
    """The place of a route among those of its prefix: routes for sources first, longer source prefixes before."""
    source = installed.route.source
    return (1, 0, 0) if source is None else (0, source.last, -source.length)


S = TypeVar("S", bound=Installed)


class Tables(Generic[S]):
    """All tables of one family. A table that once existed stays, even if it is empty."""

    def __init__(self, family: int) -> None:
        """Start without any table."""
        self._family = family
        self._width = width_of(family)
        self._tables: dict[int, dict[int, list[S]]] = {}

    def __contains__(self, table: int) -> bool:
        return table in self._tables

    def __iter__(self) -> Iterator[int]:
        return iter(self._tables)

    def create(self, table: int) -> None:
        """Create the table, if it does not exist."""
        self._tables.setdefault(table, {})

    def at(self, table: int, prefix: Prefix) -> list[S]:
        """The routes of exactly this prefix, in order, whatever their sources are; a copy."""
        return list(self._tables.get(table, {}).get(prefix.network << _BITS | prefix.length, ()))

    def put(self, table: int, prefix: Prefix, installed: Sequence[S]) -> None:
        """Set the routes of exactly this prefix."""
        by_prefix, key = self._tables[table], prefix.network << _BITS | prefix.length
        if installed:
            by_prefix[key] = list(installed)
        else:
            by_prefix.pop(key, None)

    def drop(self, gone: Iterable[S]) -> None:
        """Remove these, wherever they are."""
        for one in gone:
            route = one.route
            kept = [member for member in self.at(route.table, route.prefix) if member is not one]
            self.put(route.table, route.prefix, kept)

    def covering(self, address: int, tables: Iterable[int]) -> Iterator[S]:
        """The routes that cover the address: longest prefix first, and for one prefix the tables in the given order."""
        searched = [by_prefix for table in tables if (by_prefix := self._tables.get(table))]
        for host in range(self._width + 1):
            key = (address >> host << host + _BITS) | (self._width - host)
            for by_prefix in searched:
                yield from by_prefix.get(key, ())

    def everything(self) -> Iterator[S]:
        """All routes, in no particular order; safe while the tables change."""
        for by_prefix in list(self._tables.values()):
            for installed in list(by_prefix.values()):
                yield from list(installed)

    def by_device(self, dev: str) -> Iterator[S]:
        """The routes with a next hop by the device."""
        return (installed for installed in self.everything() if dev in installed.route.devs)

    def listed(self) -> Iterator[S]:
        """All routes, in the order of `ip route show table all`.

        Linux hashes tables by the low byte of their number, the newest first. Within a table IPv4 lists by first
        address and then the longest prefix. IPv6 lists what is inside a prefix before it; but the routes of a prefix
        for some sources (`from`) come before both.
        """
        ages = {table: age for age, table in enumerate(self._tables)}
        for table in sorted(self._tables, key=lambda number: (number & 255, -ages[number])):
            by_prefix = self._tables[table]
            if self._family == IPV4:
                for key in sorted(by_prefix, key=_by_first):
                    yield from by_prefix[key]
            else:
                yield from _walked(by_prefix)


def _by_first(key: int) -> int:
    # With the bits of the length inverted, the longest comes first.
    return key ^ 255


def _walked(by_prefix: dict[int, list[S]]) -> Iterator[S]:
    """IPv6 routes in the order of a walk through the tree of prefixes.

    The walk meets the routes for some sources when it comes to a prefix, and the others when it leaves it.
    """
    met = [(_by_last(key), key, False) for key in by_prefix]
    met += [(_on_arrival(key), key, True) for key, its in by_prefix.items() if its[0].route.source is not None]
    for _, key, sourced in sorted(met):
        yield from (member for member in by_prefix[key] if (member.route.source is not None) is sourced)


def _on_arrival(key: int) -> tuple[int, bool, int]:
    return key >> _BITS, False, key & 255


def _by_last(key: int) -> tuple[int, bool, int]:
    network, length = key >> _BITS, key & 255
    return network | ((1 << (128 - length)) - 1), True, -length


# If two rules agree in these and in their selectors, the second is refused; `invert` is not compared.
_TOLD_APART_BY = ("action", "table", "priority", "suppress_ifgroup", "suppress_prefixlength", "protocol")
# In these, 0 is a value of its own.
_LIMITS = ("suppress_ifgroup", "suppress_prefixlength")
_ECN = 0x03
# The bits of tos that an IPv4 rule may select on, apart from dscp.
_TOS = 0x1F
_priority = attrgetter("priority")
_FIELDS = [(selector, name) for selector in SELECTORS for name in selector.fields]
# Other selectors that Linux does not compare if a rule does not set them.
_LEFT_OPEN = frozenset({"flowlabel"})


class Rules:
    """The rules of one family, by priority; equal priorities in the order in which they were added."""

    def __init__(self, family: int) -> None:
        """Start with the default rules."""
        self._family = family
        self._rules = [FullRule.of(rule) for rule in default_rules(family)]
        # Linux walks the rules in a lookup only after the first custom rule was added.
        self.custom = False

    def __iter__(self) -> Iterator[Rule]:
        return (full.rule for full in self._rules)

    def in_force(self) -> tuple[Rule, ...]:
        """The rules that apply to lookups of plain packets."""
        if not self.custom:
            return default_rules(self._family)
        return tuple(plain.rule for rule in self._rules if (plain := _for_plain_packets(rule)) is not None)

    def add(self, rule: Rule) -> None:
        """Add the rule after those of the same priority."""
        full = FullRule.of(rule)
        _check(full)
        first, place = (cut(self._rules, rule.priority, key=_priority) for cut in (bisect_left, bisect_right))
        if any(rule.dst in {None, there.dst} and _same(there, full) for there in self._rules[first:place]):
            raise Refused(errno.EEXIST)
        if full.tos & _ECN:
            raise Refused(errno.EINVAL, "Invalid dsfield (tos): ECN bits must be 0")
        if rule.family == IPV4 and full.tos & ~_TOS:
            raise Refused(errno.EINVAL, "Invalid tos")
        self._rules.insert(place, full)
        self.custom = True

    def delete(self, rule: Rule) -> None:
        """Delete the first rule that matches this one; ENOENT if there is none."""
        full = FullRule.of(rule)
        _check(full)
        found = next((place for place, there in enumerate(self._rules) if _is_meant(there, full)), None)
        if found is None:
            raise Refused(errno.ENOENT)
        # Only IPv4 notices a deleted rule: IPv6 still looks up local and main after their rules were deleted.
        self.custom = self.custom or self._family == IPV4
        del self._rules[found]


def _for_plain_packets(rule: FullRule) -> FullRule | None:
    """The rule without its unknown selectors; a plain packet matches these if their values are zero."""
    if all(_is_zero(value) for _, value in rule.others):
        return attrs.evolve(rule, others=())
    if not rule.invert:
        return None
    silent = FullRule(family=rule.family, priority=rule.priority, action=rule.action)
    said = ("table", "target", "l3mdev", "suppress_prefixlength", "suppress_ifgroup", "protocol")
    return attrs.evolve(silent, **{name: getattr(rule, name) for name in said})


def _is_zero(value: str) -> bool:
    number, _, _ = value.partition("/")
    return number in {"0", "0x0"}


def _check(rule: FullRule) -> None:
    if rule.action == "goto" and (rule.target or 0) <= rule.priority:
        raise Refused(errno.EINVAL, "Backward goto not supported")
    if rule.l3mdev and rule.table:
        raise Refused(errno.EINVAL, "l3mdev and table are mutually exclusive")
    for words in (selector.refusal(rule) for selector in SELECTORS):
        if words:
            raise Refused(errno.EINVAL, words)


def _same(there: FullRule, rule: FullRule) -> bool:
    """Whether Linux refuses `rule` because `there` is equal."""

    def told(one: FullRule) -> set[tuple[str, str]]:
        return {other for other in one.others if other[0] not in _LEFT_OPEN}

    return (
        told(there) == told(rule)
        and set(rule.others) <= set(there.others)
        and all(getattr(there, name) == getattr(rule, name) for name in _TOLD_APART_BY)
        and all(
            _is_said(there, rule, name) if field.loose else getattr(there, name) == getattr(rule, name)
            for field, name in _FIELDS
        )
    )


def _is_meant(there: FullRule, rule: FullRule) -> bool:
    """Whether a delete request for `rule` matches this rule in Linux; unset fields match anything."""
    return (
        there.action == rule.action
        and there.priority == rule.priority
        and rule.others in {(), there.others}
        and all(getattr(rule, name) in {None, getattr(there, name)} for name in _LIMITS)
        and all(_is_said(there, rule, name) for name in ("table", "protocol", *(name for _, name in _FIELDS)))
    )


def _is_said(there: FullRule, rule: FullRule, name: str) -> bool:
    """Whether a rule has the value that another sets; an unset value matches."""
    said = getattr(rule, name)
    return not (said & ~_ECN if name == "tos" else said) or said == getattr(there, name)
