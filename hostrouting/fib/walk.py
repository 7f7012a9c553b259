"""The walk through the rules: one rule as the walk sees it, and which rule is next.

Here: which packets a rule matches, where they continue, and whether a route from its table is the answer: goto,
suppression, throw, verdicts. Not here: which rules matter where (`rules`).
"""

from collections.abc import Iterator, Sequence
from copy import copy
from typing import TypeAlias

from hostrouting.fib.flow import Ask, Sought, Words
from hostrouting.fib.table import Entry, Table
from hostrouting.model import IPV4, REFUSING, TO, Rule

__all__ = ["Ending", "Span", "Stage", "Turn", "plain_turns"]

# The first and the last address.
Span: TypeAlias = tuple[int, int]


class Stage:
    """One rule as the walk sees it: what it does with packets that match it."""

    __slots__ = ("_groups", "rule", "simple", "table", "verdict")

    def __init__(self, rule: Rule, table: Table | None, groups: dict[str, int]) -> None:
        """Take the rule, the table that it looks up (if that has routes), and the groups of the devices."""
        self.rule, self.table, self._groups = rule, table, groups
        # Whether it suppresses nothing.
        self.simple = rule.suppress_prefixlength is None and rule.suppress_ifgroup is None
        # Whether the rule itself is the answer: blackhole, unreachable, prohibit.
        self.verdict = rule.action in REFUSING

    def take(self, address: int, sought: Sought) -> tuple[Entry | None, bool, bool]:
        """The route that a packet finds, whether an unknown field matters, and whether the walk ends here."""
        if self.table is None:
            return None, False, self.verdict
        entry, unclear = self.table.best(address, sought)
        # A shortcut: nearly every route is kept.
        return entry, unclear, entry is not None and ((self.simple and not entry.throws) or self.keeps(entry))

    def keeps(self, entry: Entry) -> bool:
        """Whether a found route is the answer; otherwise the next rule is tried."""
        if entry.throws:
            return False
        rule, route = self.rule, entry.route
        if self.simple or route.type in REFUSING:
            return True
        if rule.suppress_prefixlength is not None and entry.length <= rule.suppress_prefixlength:
            return False
        if rule.suppress_ifgroup is None:
            return True
        # IPv4 checks the first next hop, in use or not; IPv6 has already chosen one.
        legs = route.legs if route.prefix.family == IPV4 else entry.legs
        return not legs or self._groups.get(legs[0].dev or "") != rule.suppress_ifgroup

    def suppresses_up_to(self, dev: str | None, width: int) -> int:
        """The longest prefix for which a route by this device is suppressed here; -1 if there is none."""
        group = None if dev is None else self._groups.get(dev)
        if group is not None and group == self.rule.suppress_ifgroup:
            return width
        return -1 if (limit := self.rule.suppress_prefixlength) is None else limit


# Where a walk ended: the stage and the route that decide. No stage: no rule decided. No route: the rule did.
Ending: TypeAlias = tuple[Stage | None, Entry | None]


class Turn:
    """A stage in a list: the packets that take it, and where they continue if it is a goto.

    Packets that answer yes to all of `asks` take it, or (`invert`) all others; `span` are its destinations. If it is
    `impossible` that a packet answers yes, `invert` makes it match all.
    """

    __slots__ = ("asks", "impossible", "invert", "never", "plain", "span", "stage", "target", "unmet")

    def __init__(
        self,
        stage: Stage,
        asks: tuple[Ask, ...] = (),
        *,
        invert: bool,
        span: Span | None = None,
        target: int | None = None,
        impossible: bool = False,
        unmet: Words | None = None,
    ) -> None:
        """Take what is known; `unmet` is the first selector that a plain packet does not match."""
        self.stage, self.impossible, self.unmet = stage, impossible, unmet
        self.asks, self.span = ((), None) if impossible else (asks, span)
        self.invert = invert and not impossible
        # An index into the list of turns; None except for a goto that has a target.
        self.target = target
        # Whether no packet takes it.
        self.never = not invert if impossible else invert and not self.asks and self.span is None
        # Whether a plain packet of this host takes it, apart from its destination.
        self.plain = (unmet is None) is not invert

    def at(self, address: int) -> "Turn":
        """The same turn for one destination, which then needs no check any more."""
        if self.span is None:
            return self
        low, high = self.span
        if low <= address <= high:
            return Turn(self.stage, self.asks, invert=self.invert, target=self.target, unmet=self.unmet)
        unmet = (TO.word, TO.text(self.stage.rule))
        return Turn(self.stage, invert=self.invert, target=self.target, impossible=True, unmet=unmet)

    def leading_to(self, target: int | None) -> "Turn":
        """The same goto in another list of turns."""
        found = copy(self)
        found.target = target
        return found


def plain_turns(turns: Sequence[Turn]) -> Iterator[Turn]:
    """The turns that a plain packet visits, whether it takes them (`plain`) or not: all up to a verdict.

    None of them has a destination left to check.
    """
    at = 0
    while at < len(turns):
        turn = turns[at]
        yield turn
        at += 1
        if turn.plain and turn.target is not None:
            at = turn.target
        elif turn.plain and turn.stage.verdict:
            return
