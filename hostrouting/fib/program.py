"""The rules of one family, made ready for one flow, and the ways in which a lookup walks through them.

Here: rules by priority, goto, suppression, throw; and, for what is not known of a packet, every way that is
possible. Not here: which destinations are asked for.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from hostrouting.fib.answer import Condition
from hostrouting.fib.flow import PLAIN, Flow, answers, same_tos
from hostrouting.fib.table import ERRORS, Entry, Table
from hostrouting.model import Rule

__all__ = ["Outcome", "Program", "Step"]

Selector: TypeAlias = tuple[str, str]
Truth: TypeAlias = dict[Selector, bool]
Path: TypeAlias = tuple[Condition, ...]


class Step:
    """A rule as this flow meets it: what is known of the flow has been settled, what is not stays `open`."""

    __slots__ = ("high", "invert", "low", "open", "plainly", "rule", "selects", "table", "target")

    def __init__(self, rule: Rule, table: Table | None, plainly: Truth) -> None:
        """Take the rule, the table that it leads to, and what each open selector says of a plain packet."""
        self.rule, self.table, self.plainly = rule, table, plainly
        self.open = tuple(plainly)
        self.invert = rule.invert
        self.selects = rule.invert or rule.dst is not None
        self.low, self.high = (-1, -1) if rule.dst is None else (rule.dst.first, rule.dst.last)
        # Where a goto goes on, as an index of the program's steps.
        self.target: int | None = None

    def for_any_packet(self) -> None:
        """Drop every selector: `not` stands before one that does not hold."""
        self.low, self.invert, self.selects, self.open = -1, False, False, ()

    def covers(self, address: int) -> bool:
        """Whether the rule is for this destination."""
        return self.low < 0 or self.low <= address <= self.high

    @property
    def ends(self) -> bool:
        """Whether the rule itself is the answer: blackhole, unreachable, prohibit."""
        return self.rule.action in ERRORS

    def keeps(self, entry: Entry, groups: dict[str, int]) -> bool:
        """Whether a route that was found is the answer, and not a reason to ask the next rule."""
        rule = self.rule
        if (rule.suppress_prefixlength is None and rule.suppress_ifgroup is None) or entry.route.type in ERRORS:
            return entry.route.type != "throw"
        short = rule.suppress_prefixlength is not None and entry.length <= rule.suppress_prefixlength
        group = groups.get(entry.legs[0].dev or "") if entry.legs else None
        return entry.route.type != "throw" and not short and (group is None or group != rule.suppress_ifgroup)


# Where a walk ended: the step and the route that decide. No step: no rule decided. No route: the rule did.
Outcome: TypeAlias = tuple[Step | None, Entry | None]
_NOTHING: Outcome = (None, None)


class Program:
    """The steps of one family's rules for one flow."""

    def __init__(
        self,
        rules: Sequence[Rule],
        flow: Flow,
        *,
        width: int,
        groups: dict[str, int],
        table_of: Callable[[Rule], Table | None],
    ) -> None:
        """Leave out the rules that are not for this flow, whatever the destination.

        `width` is that of an address, `groups` are the groups of the devices.
        """
        self.flow, self._width, self._groups = flow, width, groups
        self.steps: list[Step] = []
        starts: dict[int, int] = {}
        for rule in rules:
            starts.setdefault(rule.priority, len(self.steps))
            self.steps += self._steps(rule, table_of)
        for step in self.steps:
            if step.rule.action == "goto" and step.rule.target is not None:
                # One that points nowhere, or backwards, is passed over.
                step.target = starts.get(step.rule.target) if step.rule.target > step.rule.priority else None
        self.unsure = any(step.open for step in self.steps)

    def _steps(self, rule: Rule, table_of: Callable[[Rule], Table | None]) -> Iterator[Step]:
        said = dict(answers(rule, self.flow, self._groups))
        plainly = dict(answers(rule, PLAIN, self._groups))
        unknown = {selector: plainly[selector] is True for selector, answer in said.items() if answer is None}
        step = Step(rule, table_of(rule) if rule.action == "to_table" else None, unknown)
        if not rule.l3mdev and False not in said.values():
            yield step
        elif rule.invert:
            step.for_any_packet()
            yield step

    def follow(self, address: int) -> tuple[Outcome, bool]:
        """What decides for a packet of which everything is known, and whether tos made it pass over a route."""
        steps, groups, tos, oif = self.steps, self._groups, self.flow.tos or 0, self.flow.oif
        at, passed = 0, False
        while at < len(steps):
            step = steps[at]
            at += 1
            if step.selects and step.covers(address) is step.invert:
                continue
            if step.table is not None:
                entry, passed_here = step.table.best(address, tos, oif)
                passed = passed or passed_here
                if entry is not None and step.keeps(entry, groups):
                    return (step, entry), passed
            elif step.target is not None:
                at = step.target
            elif step.ends:
                return (step, None), passed
        return _NOTHING, passed

    def defaults(self) -> Iterator[Entry]:
        """The default routes, in the order in which a packet meets them that no other route and no rule is for.

        What suppresses default routes is passed over: a VPN that hides the default route of main from packets has
        not made another one of it.
        """
        at, every = 0, (1 << self._width) - 1
        while at < len(self.steps):
            step = self.steps[at]
            at += 1
            partial = step.low >= 0 and (step.low, step.high) != (0, every)
            # Of rules for some destinations, those for all but a few lead to the default route, if they lead anywhere.
            if partial is not step.invert or (partial and step.table is None):
                continue
            if step.table is not None:
                for entry in step.table.of(0, 0):
                    if entry.route.tos and not same_tos(entry.route.tos, self.flow.tos or 0):
                        continue
                    if entry.route.type == "throw":
                        break
                    yield entry
            elif step.target is not None:
                at = step.target
            elif step.ends:
                return

    def length_to_decide(self, address: int, table: Table, beats: Callable[[Entry], int]) -> int | None:
        """How long the prefix of a new route in the table has to be at least, to decide; None: no length will do.

        `beats` says from which length on it is preferred to the route that it would meet there.
        """
        # Only a route at least this long comes to where the walk is now.
        shortest, floor, at = self._width + 1, 0, 0
        while at < len(self.steps):
            step = self.steps[at]
            at += 1
            if step.covers(address) is step.invert:
                continue
            if step.table is not None:
                entry, _ = step.table.best(address, self.flow.tos or 0, self.flow.oif)
                decides = entry is not None and step.keeps(entry, self._groups)
                suppressed = -1 if (limit := step.rule.suppress_prefixlength) is None else limit
                if step.table is table:
                    preferred = 0 if entry is None else beats(entry)
                    shortest = min(shortest, max(preferred, suppressed + 1, floor))
                    floor = max(floor, preferred) if decides else floor
                # A route that is preferred here and then suppressed goes on to the next rule.
                if decides and (step.table is not table or floor > suppressed):
                    break
            elif step.target is not None:
                at = step.target
            elif step.ends:
                break
        return shortest if shortest <= self._width else None

    def explore(self, address: int) -> Iterator[tuple[Path, Outcome]]:
        """Every end that is possible given what is not known, with what would have to be true for it.

        The end that a plain packet comes to is among them, with no conditions.
        """
        return self._explore(address, 0, {}, ())

    def _explore(self, address: int, at: int, truth: Truth, path: Path) -> Iterator[tuple[Path, Outcome]]:
        while at < len(self.steps):
            step = self.steps[at]
            at += 1
            selected = step.covers(address) and all(truth.get(name, True) for name in step.open)
            still = tuple(name for name in step.open if name not in truth) if selected else ()
            if not still and selected is step.invert:
                continue
            matching = _suppose(step, still, truth, path, holds=not step.invert)
            if step.target is not None:
                if not still:
                    at = step.target
                    continue
                yield from self._explore(address, step.target, *matching)
            elif step.table is not None or step.ends:
                *by_tos, (_, end, outcome) = self._ends(step, address, *matching)
                for tos_truth, tos_end, tos_outcome in by_tos:
                    if tos_outcome is None:
                        yield from self._explore(address, at, tos_truth, tos_end)
                    else:
                        yield tos_end, tos_outcome
                if outcome is None:
                    # Nothing is found there: the rule changes nothing, whether it matches or not.
                    continue
                yield end, outcome
                if not still:
                    return
            else:
                # A table without routes, a goto that leads nowhere: the rule changes nothing either.
                continue
            truth, path = _suppose(step, still, truth, path, holds=step.invert)
        yield path, _NOTHING

    def _ends(self, step: Step, address: int, truth: Truth, path: Path) -> Iterator[tuple[Truth, Path, Outcome | None]]:
        """What a matching rule comes to: first for each tos that its routes ask for, last for all others.

        None: the next rule is asked.
        """
        if step.table is None:
            yield truth, path, (step, None)
            return
        for entry in step.table.covering(address):
            outcome = (step, entry) if step.keeps(entry, self._groups) else None
            if self.flow.oif and not entry.leaves_by(self.flow.oif):
                continue
            if entry.route.tos and self.flow.tos is None:
                asked = ("tos", f"{entry.route.tos:#x}")
                if asked not in truth:
                    holding = Condition(step.rule, (asked,), holds=True)
                    yield {**truth, asked: True}, (*path, holding), outcome
                    truth = {**truth, asked: False}
                if not truth[asked]:
                    continue
            elif entry.route.tos and not same_tos(entry.route.tos, self.flow.tos or 0):
                continue
            yield truth, path, outcome
            return
        yield truth, path, None


def _suppose(step: Step, still: tuple[Selector, ...], truth: Truth, path: Path, *, holds: bool) -> tuple[Truth, Path]:
    """What is known after it was supposed that all the open selectors hold, or that not all of them do."""
    if holds:
        truth = {**truth, **dict.fromkeys(still, True)}
    elif len(still) == 1:
        truth = {**truth, still[0]: False}
    # What holds for a plain packet anyway is no condition.
    if still and all(step.plainly[name] for name in still) is not holds:
        path = (*path, Condition(step.rule, still, holds))
    return truth, path
