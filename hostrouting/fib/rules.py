"""The rules of one family, prepared for one flow: which rules matter for which destinations.

Here: rules by priority, what each selects on, where a goto continues. Not here: the walk through them (`walk`).
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.fib.flow import Ask, Flow, asks_of, has_tos
from hostrouting.fib.region import Region
from hostrouting.fib.table import Entry, Table
from hostrouting.fib.walk import Stage, Turn
from hostrouting.model import Rule, width_of

if TYPE_CHECKING:
    from hostrouting.fib.answer import Cases

__all__ = ["Default", "Rules"]


class Default(NamedTuple):
    """A default route, the rule by which a packet finds it, and whether that rule suppresses it."""

    entry: Entry
    rule: Rule
    suppressed: bool


class Rules:
    """The rules of one family, prepared for one flow."""

    def __init__(
        self,
        rules: Sequence[Rule],
        family: int,
        flow: Flow,
        *,
        groups: dict[str, int],
        table_of: Callable[[Rule], Table | None],
    ) -> None:
        """Take the rules, the known fields of a packet, and the groups of the devices."""
        self._family, self._groups, self._known = family, groups, flow.known(family)
        self.sought = flow.sought(family)
        self._turns: list[Turn] = []
        starts: dict[int, int] = {}
        for rule in rules:
            starts.setdefault(rule.priority, len(self._turns))
            self._turns.append(self._of(rule, table_of))
        for turn in self._turns:
            rule = turn.stage.rule
            if rule.action == "goto" and rule.target is not None and rule.target > rule.priority:
                turn.target = starts.get(rule.target)
        tables = [turn.stage.table for turn in self._turns if not turn.never]
        self.tables = tuple({id(table): table for table in tables if table is not None}.values())
        # Where a rule for some destinations begins to matter, or has just ended.
        spans = [turn.span for turn in self._turns if turn.span is not None and not turn.never]
        self.cuts = sorted({place for low, high in spans for place in (low, high + 1)})
        self._regions: dict[int, Region] = {}
        self._cases: dict[Cases, Cases] = {}

    def _of(self, rule: Rule, table_of: Callable[[Rule], Table | None]) -> Turn:
        stage = Stage(rule, table_of(rule) if rule.action == "to_table" else None, self._groups)
        open_: list[Ask] = []
        impossible, unmet = False, None
        for ask, possible in asks_of(rule, self._groups):
            answer = ask.answer(self._known) if possible else False
            impossible = impossible or answer is False
            if answer is None:
                open_.append(ask)
            if not (ask.plain if answer is None else answer):
                unmet = unmet or ask.words
        span = None if rule.dst is None else (rule.dst.first, rule.dst.last)
        return Turn(stage, tuple(open_), invert=rule.invert, span=span, impossible=impossible, unmet=unmet)

    def turns(self, address: int) -> list[Turn]:
        """Every rule as it applies to this destination, also those that match no packet."""
        return [turn.at(address) for turn in self._turns]

    def region(self, address: int) -> Region:
        """The rules as they apply to a packet for this destination."""
        place = bisect_right(self.cuts, address) if self.cuts else 0
        found = self._regions.get(place)
        if found is None:
            found = self._regions[place] = Region(
                self._met_at(address), self.sought, width_of(self._family), self._cases
            )
        return found

    def _met_at(self, address: int) -> list[Turn]:
        """The turns that some packet for this destination takes."""
        found: list[Turn] = []
        begins: list[int] = []
        for turn in self.turns(address):
            begins.append(len(found))
            if not turn.never:
                found.append(turn)
        begins.append(len(found))
        return [turn if turn.target is None else turn.leading_to(begins[turn.target]) for turn in found]

    def defaults(self) -> Iterator[Default]:
        """The default routes, in the order in which a plain packet finds them if no other route and no rule matches it.

        Suppressed ones are included: if the first default route of a table is suppressed, all of that table are.
        """
        at, every = 0, (0, (1 << width_of(self._family)) - 1)
        while at < len(self._turns):
            turn = self._turns[at]
            at += 1
            if turn.never:
                continue
            plain = all(ask.plain for ask in turn.asks)
            partial = plain and turn.span is not None and turn.span != every
            # Of rules with a destination, only those for all but a few addresses (`not to`) lead to the default route.
            if (partial or not plain) is not turn.invert or (partial and turn.stage.table is None):
                continue
            if turn.stage.table is not None:
                yield from self._defaults_of(turn.stage, turn.stage.table)
            elif turn.target is not None:
                at = turn.target
            elif turn.stage.verdict:
                return

    def _defaults_of(self, stage: Stage, table: Table) -> Iterator[Default]:
        tos = self.sought.tos or 0
        routes = (it for it in table.of(0, 0) if it.route.source is None)
        entries = [it for it in routes if not it.route.tos or has_tos(tos, it.route.tos)]
        for entry in entries:
            if entry.throws:
                return
            yield Default(entry, stage.rule, not stage.keeps(entries[0]))
