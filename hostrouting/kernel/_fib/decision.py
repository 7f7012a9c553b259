"""The result of a lookup, as plain values.

Here: facts about a decision. Not here: how it is computed, and the messages about it.
"""

from typing import Literal, NamedTuple, TypeAlias

from hostrouting.model.prefix import MULTICAST, Prefix, width_of
from hostrouting.model.route import PROTOCOL_KERNEL, TABLE_MAIN, NextHop, Route, RouteType, protocol_name, table_name
from hostrouting.model.rule import Rule

CHOSEN = "chosen"
"""The name, in a condition, of the question whether Linux chose a next hop by a hash; the value is the next hop."""

# A route's type, or no-route if no route decides.
Kind: TypeAlias = RouteType | Literal["no-route"]
# Types for addresses of the local network: the packets are sent out by a device, but to no expected one.
_LINKWIDE = frozenset({"broadcast", "anycast", "multicast"})
_MULTICAST = {family: Prefix.of(block) for family, block in MULTICAST.items()}


def is_own(kind: Kind, route: Route | None) -> bool:
    """Whether a packet stays on this host, or on one local network: then no device is expected for it.

    A route of type broadcast, anycast or multicast counts inside the multicast range, and for a single address if it
    has proto kernel, as those that Linux adds for the ends of a network, and in IPv6 for its routers. Any other does
    not count: Linux sends those packets out by the route's device, as for a unicast route.
    """
    if kind == "local":
        return True
    if kind not in _LINKWIDE:
        return False
    if route is None or route.type != kind:
        return True  # the kind follows from the address alone
    prefix = route.prefix
    is_of_linux = prefix.length == width_of(prefix.family) and route.protocol == PROTOCOL_KERNEL
    return is_of_linux or prefix in _MULTICAST[prefix.family]


def goes_out(kind: Kind, route: Route | None) -> bool:
    """Whether a packet leaves by a device, so that the device matters."""
    return kind == "unicast" or (kind in _LINKWIDE and not is_own(kind, route))


class Condition(NamedTuple):
    """A condition on unknown fields: all of `selectors` are true, or (not `holds`) at least one is not.

    The selectors are those of `rule`, or the `tos` of a route in the table that it looks up.
    """

    rule: Rule
    selectors: tuple[tuple[str, str], ...]
    holds: bool

    def __str__(self) -> str:
        words = " ".join(f"{name} {value}" for name, value in self.selectors)
        return f"{'' if self.holds else 'not '}{words} (rule {self.rule.priority})"

    def __repr__(self) -> str:
        return f"<Condition {self}>"


# Conditions that apply to a packet, all of them.
Case: TypeAlias = tuple[Condition, ...]
# Sets of conditions; one set applies in full.
Cases: TypeAlias = tuple[Case, ...]


class Decision(NamedTuple):
    """What happens to a packet, and the rule and the route that decide it.

    `legs` are the next hops that a packet may take: those of the route in use, and those of the routes `in_turn`,
    which Linux uses instead while the route's gateway is not known to be reachable. `variants` are the other answers
    for packets whose unknown fields differ from those of a plain packet of this host.
    """

    kind: Kind
    rule: Rule | None
    route: Route | None
    legs: tuple[NextHop, ...]
    variants: "tuple[Variant, ...]" = ()
    in_turn: tuple[Route, ...] = ()

    @property
    def devs(self) -> tuple[str, ...]:
        """The devices by which the packet may leave, each once, in order."""
        return tuple(dict.fromkeys(leg.dev for leg in self.legs if leg.dev is not None))

    @property
    def own(self) -> bool:
        """Whether the destination is one of this host's own addresses or networks, as defined by `is_own`."""
        return is_own(self.kind, self.route)

    @property
    def goes_out(self) -> bool:
        """Whether the packet leaves by a device, so that the device matters."""
        return goes_out(self.kind, self.route)

    @property
    def holder(self) -> str:
        """What decides: a route with its route protocol, or a rule."""
        route, rule = self.route, self.rule
        if route is None:
            return f"rule {rule}" if rule else "no rule"
        away = rule is not None and route.table != TABLE_MAIN
        table = f" table {table_name(route.table)}, rule {rule.priority}" if away and rule else ""
        # A route by a device without a carrier still wins, but its packets are lost.
        lost = " linkdown" if self.legs and all(leg.linkdown for leg in self.legs) else ""
        return f"{route.name} proto {protocol_name(route.protocol)}{table}{lost}"

    def __str__(self) -> str:
        """The deciding route and rule, the next hops in use if some are not, and the number of variants."""
        words = [self.kind if self.route is None else str(self.route)]
        words += [self.kind] if self.route is not None and self.kind not in {"unicast", self.route.type} else []
        if self.route is not None and self.legs != self.route.legs:
            words.append(f"by {', '.join(map(str, self.legs)) or 'nothing'}")
        words += [f"(rule {self.rule.priority})"] if self.rule is not None else []
        words += [f"and {len(self.variants)} variants"] if self.variants else []
        return " ".join(words)

    def __repr__(self) -> str:
        return f"<Decision {self}>"


class Variant(NamedTuple):
    """A different answer, for packets that fulfil all conditions of one of the `cases`."""

    cases: Cases
    decision: Decision


class Cell(NamedTuple):
    """A maximal range of destinations with the same decision; as integers, both ends included."""

    first: int
    last: int
    decision: Decision
