"""Who sets the marks that an answer depends on: the lookup on the host, and its result as JSON.

Here: which marks matter for a check or an explanation, and what was found about them. Not here: the rules that set
marks (`kernel.marking`), and the lines about it (`cli`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from hostrouting.check.examine import Examination
    from hostrouting.fib.decision import Cases
    from hostrouting.kernel.marking import Effect, IpsecPolicy, MarkingOf, MarkSetter
    from hostrouting.model.prefix import Prefix
    from hostrouting.model.rule import Rule


class SourcesOfMarks(Protocol):
    """The question to a host: its packet filters and IPsec policies."""

    @property
    def marking_of(self) -> MarkingOf:
        """Returns what can mark packets of a family."""


class SoughtMark(NamedTuple):
    """A mark that rules select, as in `ip rule`, and the rules of packet filters that can set it."""

    name: str
    rules: tuple[int, ...]
    setters: tuple[tuple[MarkSetter, tuple[Effect, ...]], ...]


class Marks(NamedTuple):
    """The programs and rules that set the marks on which an answer depends; empty if there are no such marks."""

    sought: tuple[SoughtMark, ...] = ()
    policies: tuple[IpsecPolicy, ...] = ()
    """IPsec policies for the same destinations."""
    unseen: tuple[str, ...] = ()
    """What could not be looked at, each with the reason."""

    @classmethod
    def together(cls, many: Iterable[Marks]) -> Marks:
        """The marks of several families together."""
        every = list(many)
        return cls(
            tuple(sought for marks in every for sought in marks.sought),
            tuple(policy for marks in every for policy in marks.policies),
            tuple(dict.fromkeys(reason for marks in every for reason in marks.unseen)),
        )

    def document(self) -> dict[str, Any]:
        """The marks as JSON. The keys are only there if the answer depends on a mark."""
        if not self.sought:
            return {}
        return {
            "marks": [
                {
                    "mark": mark.name,
                    "rules": list(mark.rules),
                    "setters": [
                        {"place": setter.place, "text": setter.text, "effects": list(effects)}
                        for setter, effects in mark.setters
                    ],
                }
                for mark in self.sought
            ],
            "ipsec": [
                {
                    "source": str(policy.source),
                    "destination": str(policy.destination),
                    "only": policy.only,
                    "action": policy.action,
                    "end": policy.end,
                }
                for policy in self.policies
            ],
            "notLookedAt": list(self.unseen),
        }


def rules_in(cases: Iterable[Cases]) -> Iterator[Rule]:
    """The rules that these conditions are about."""
    return (condition.rule for alternatives in cases for case in alternatives for condition in case)


def marks_of(found: Examination, host: Callable[[], SourcesOfMarks] | None) -> Marks:
    """Who sets the marks that the notes of a check, or its dropped answers, depend on.

    A snapshot has no `host` to look at.
    """
    of_families = []
    for family in found.families:
        of_family = [rule for rule in family.fib.snapshot.rules if rule.family == family.report.family]
        marks = {finding.facts["mark"] for finding in family.dropped} - {0}
        rules = [
            *rules_in(note.cases for note in family.notes if not note.known),
            *(
                rule
                for rule in of_family
                if rule.fwmask and any(not rule.fwmark or mark & rule.fwmask == rule.fwmark for mark in marks)
            ),
        ]
        of_families.append(look_for_marks(host, rules, family=family.report.family, destinations=family.report.cidrs))
    return Marks.together(of_families)


def look_for_marks(
    host: Callable[[], SourcesOfMarks] | None, rules: Iterable[Rule], *, family: int, destinations: Iterable[Prefix]
) -> Marks:
    """Look for who sets the marks that these rules select.

    Also for IPsec policies on the way to the destinations. A snapshot has no `host` to look at.
    """
    by_mark: dict[tuple[int, int], dict[int, None]] = {}
    for rule in rules:
        if rule.fwmask:
            by_mark.setdefault((rule.fwmark, rule.fwmask), {})[rule.priority] = None
    if not by_mark:
        return Marks()
    from hostrouting.kernel.marking import ALL_BITS, NOT_IN_A_SNAPSHOT  # noqa: PLC0415  few hosts have such rules

    marking = NOT_IN_A_SNAPSHOT if host is None else host().marking_of(family)
    near = list(destinations)
    return Marks(
        tuple(
            SoughtMark(
                f"{mark:#x}" + (f"/{mask:#x}" if mask != ALL_BITS else ""),
                tuple(priorities),
                tuple((setter, marking.effects(setter)) for setter in marking.setters if setter.can_set(mark, mask)),
            )
            for (mark, mask), priorities in by_mark.items()
        ),
        tuple(policy for policy in marking.policies if any(_overlap(policy.destination, prefix) for prefix in near)),
        marking.unseen,
    )


def _overlap(one: Prefix, other: Prefix) -> bool:
    return one in other or other in one
