"""What a lookup answers, as plain values.

Here: facts about a decision. Not here: how it was found, and the sentences in which it is told.
"""

from typing import Literal, TypeAlias

import attrs

from hostrouting.model import NextHop, Route, RouteType, Rule, extent

__all__ = ["Cases", "Cell", "Condition", "Contest", "Decision", "Kind", "Variant"]

# A route's type, or what became of a packet that no route took.
Kind: TypeAlias = RouteType | Literal["no-route"]


@attrs.frozen
class Condition:
    """Something that a rule asks of a packet and that nobody told us: all of `selectors`, or (not `holds`) not all.

    The selectors are those of `rule`, or `tos` of a route in the table that it names.
    """

    rule: Rule
    selectors: tuple[tuple[str, str], ...]
    holds: bool

    def __str__(self) -> str:
        words = " ".join(f"{name} {value}" for name, value in self.selectors)
        return f"{'' if self.holds else 'not '}{words} (rule {self.rule.priority})"

    def __repr__(self) -> str:
        return f"<Condition {self}>"


# Sets of conditions, one of which is all true.
Cases: TypeAlias = tuple[tuple[Condition, ...], ...]


@attrs.frozen
class Decision:
    """What happens to a packet, and by which rule and which route.

    `legs` are the ways that it may take: those of the route that are in use. `variants` says where the answer
    would be another if what is not known of the packet were not what a plain packet of the host's own has.
    """

    kind: Kind
    rule: Rule | None
    route: Route | None
    legs: tuple[NextHop, ...]
    variants: "tuple[Variant, ...]" = ()

    @property
    def devs(self) -> tuple[str, ...]:
        """The devices by which it may leave, each once, in order."""
        return tuple(dict.fromkeys(leg.dev for leg in self.legs if leg.dev is not None))

    def __str__(self) -> str:
        """The route that decides, its legs in use where these are not all, the rule, and the variants, by number."""
        words = [self.kind if self.route is None else str(self.route)]
        words += [self.kind] if self.route is not None and self.kind not in {"unicast", self.route.type} else []
        if self.route is not None and self.legs != self.route.legs:
            words.append(f"by {', '.join(map(str, self.legs)) or 'nothing'}")
        words += [f"(rule {self.rule.priority})"] if self.rule is not None else []
        words += [f"and {len(self.variants)} variants"] if self.variants else []
        return " ".join(words)

    def __repr__(self) -> str:
        return f"<Decision {self}>"


@attrs.frozen
class Variant:
    """Another answer, and what would have to be true of the packet for it: all of one of the `cases`."""

    cases: Cases
    decision: Decision


@attrs.frozen
class Cell:
    """A maximal range of destinations, as integers, both ends included, with one and the same decision."""

    first: int
    last: int
    decision: Decision

    def __repr__(self) -> str:
        decision = self.decision
        of = decision.rule.family if decision.rule else decision.route.prefix.family if decision.route else None
        where = f"{self.first} to {self.last}" if of is None else extent(of, self.first, self.last)
        return f"<Cell {where}: {decision}>"


@attrs.frozen
class Contest:
    """A range of destinations, and what a route that is yet to come would have to be to decide there.

    A new route that covers the range decides if its prefix is at least `length` long; None if no length will do.
    """

    first: int
    last: int
    decision: Decision
    length: int | None
