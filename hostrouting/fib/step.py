"""One rule as a walk meets it.

Here: what it does with a route that its table has, and what it still asks of a packet. Not here: the order of rules.
"""

from typing import TypeAlias

from hostrouting.fib.flow import Ask
from hostrouting.fib.table import ERRORS, Entry, Table
from hostrouting.model import Rule

__all__ = ["Outcome", "Span", "Step", "Turn"]

# The first and the last address.
Span: TypeAlias = tuple[int, int]


class Step:
    """What a rule does with packets that it is for."""

    __slots__ = ("_groups", "rule", "simple", "table", "verdict")

    def __init__(self, rule: Rule, table: Table | None, groups: dict[str, int]) -> None:
        """Take the rule, the table that it leads to, if it has routes, and the groups of the devices."""
        self.rule, self.table, self._groups = rule, table, groups
        # Whether it suppresses nothing.
        self.simple = rule.suppress_prefixlength is None and rule.suppress_ifgroup is None
        # Whether the rule itself is the answer: blackhole, unreachable, prohibit.
        self.verdict = rule.action in ERRORS

    def keeps(self, entry: Entry) -> bool:
        """Whether a route that was found is the answer, and not a reason to ask the next rule."""
        if entry.throws:
            return False
        rule, route = self.rule, entry.route
        if self.simple or route.type in ERRORS:
            return True
        if rule.suppress_prefixlength is not None and entry.length <= rule.suppress_prefixlength:
            return False
        group = self._groups.get(entry.legs[0].dev or "") if entry.legs else None
        return group is None or group != rule.suppress_ifgroup

    def suppresses_up_to(self, dev: str | None, width: int) -> int:
        """The longest prefix of which a route by this device is no answer here; -1: there is none."""
        group = None if dev is None else self._groups.get(dev)
        if group is not None and group == self.rule.suppress_ifgroup:
            return width
        return -1 if (limit := self.rule.suppress_prefixlength) is None else limit


# Where a walk ended: the step and the route that decide. No step: no rule decided. No route: the rule did.
Outcome: TypeAlias = tuple[Step | None, Entry | None]


class Turn:
    """A step among others: for which packets it is, and where those go on for which it is a goto."""

    __slots__ = ("asks", "invert", "plain", "span", "step", "target")

    def __init__(
        self, step: Step, asks: tuple[Ask, ...], *, invert: bool, span: Span | None = None, target: int | None = None
    ) -> None:
        """Packets that say yes to all of `asks` take it, or (`invert`) all others; `span` are its destinations."""
        self.step, self.asks, self.invert, self.span = step, asks, invert, span
        # An index of the turns among which this one stands; None for all but a goto that leads on.
        self.target = target
        # Whether a plain packet of the host's own takes it, its destination apart.
        self.plain = all(ask.plain for ask in asks) is not invert
