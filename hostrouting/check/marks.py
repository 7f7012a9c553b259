"""Who sets the marks that an answer depends on: looked up on the host, and as JSON.

Here: which marks matter for a check or an explanation, and what was found about them. Not here: the rules that set
marks (`kernel.marking`), BPF programs on a device (`kernel.bpf`), and the lines about it (`cli`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import attrs

from hostrouting.kernel.marking import ALL_BITS, Effect, IpsecPolicy, Marking, MarkSetter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hostrouting.check.examine import Examination
    from hostrouting.fib import Cases
    from hostrouting.kernel.bpf import ProgramsAt
    from hostrouting.kernel.marking import MarkingOf
    from hostrouting.model import Prefix, Rule

__all__ = ["NOT_IN_A_SNAPSHOT", "Marks", "SoughtMark", "SourcesOfMarks", "look_for_marks", "marks_of", "rules_in"]

_DEVICES = 4  # of pods, on which BPF programs are looked for: the CNI treats all of its devices alike
NOT_IN_A_SNAPSHOT = Marking(unseen=("packet filters and IPsec policies (a snapshot does not contain them)",))


class SourcesOfMarks(Protocol):
    """What a host is asked: its packet filters and IPsec policies, and the BPF programs on a device."""

    @property
    def marking_of(self) -> MarkingOf:
        """Returns what can mark packets of a family."""
        ...

    @property
    def programs_at(self) -> ProgramsAt:
        """Returns the BPF programs that process packets arriving on a device before nftables."""
        ...


@attrs.frozen
class SoughtMark:
    """A mark that rules select, as in `ip rule`, and the rules of packet filters that can set it."""

    name: str
    rules: tuple[int, ...]
    setters: tuple[tuple[MarkSetter, tuple[Effect, ...]], ...]


@attrs.frozen
class Marks:
    """Who sets the marks that an answer depends on; empty if it depends on none."""

    sought: tuple[SoughtMark, ...] = ()
    programs: tuple[str, ...] = ()
    """BPF programs that can mark packets as they arrive, each a phrase."""
    policies: tuple[IpsecPolicy, ...] = ()
    """IPsec policies for the same destinations."""
    unseen: tuple[str, ...] = ()
    """What could not be looked at, each with the reason."""

    @classmethod
    def together(cls, many: Iterable[Marks]) -> Marks:
        """Those of several families."""
        every = list(many)
        return cls(
            tuple(sought for marks in every for sought in marks.sought),
            tuple(dict.fromkeys(program for marks in every for program in marks.programs)),
            tuple(policy for marks in every for policy in marks.policies),
            tuple(dict.fromkeys(reason for marks in every for reason in marks.unseen)),
        )

    def document(self) -> dict[str, Any]:
        """The same for JSON: the keys are there only if the answer depends on a mark."""
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
            "markingPrograms": list(self.programs),
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
        marks = {
            drop.replies_to.mark for drop in family.dropped if drop.replies_to is not None and drop.replies_to.mark
        }
        rules = [
            *rules_in(note.cases for note in family.notes),
            *(
                rule
                for rule in of_family
                if rule.fwmask and any(not rule.fwmark or mark & rule.fwmask == rule.fwmark for mark in marks)
            ),
        ]
        devs = dict.fromkeys(
            dev for pods in family.pods for packets in pods.packets if packets.exist for dev in packets.devs
        )
        of_families.append(
            look_for_marks(host, rules, family=family.report.family, destinations=family.report.cidrs, devs=devs)
        )
    return Marks.together(of_families)


def look_for_marks(
    host: Callable[[], SourcesOfMarks] | None,
    rules: Iterable[Rule],
    *,
    family: int,
    destinations: Iterable[Prefix],
    devs: Iterable[str] = (),
) -> Marks:
    """Look for who sets the marks that these rules select.

    Also for BPF programs on the devices `devs`, and for IPsec policies on the way to the destinations. A snapshot has
    no `host` to look at.
    """
    by_mark: dict[tuple[int, int], dict[int, None]] = {}
    for rule in rules:
        if rule.fwmask:
            by_mark.setdefault((rule.fwmark, rule.fwmask), {})[rule.priority] = None
    if not by_mark:
        return Marks()
    here = None if host is None else host()
    marking = NOT_IN_A_SNAPSHOT if here is None else here.marking_of(family)
    names, near = list(devs), list(destinations)
    looked = [] if here is None else [(dev, here.programs_at(dev)) for dev in names[:_DEVICES]]
    unseen = [*marking.unseen, *(f"{reason} on {dev}" for dev, programs in looked for reason in programs.unseen)]
    if here is not None and len(names) > _DEVICES:
        unseen.append(f"BPF programs on {len(names) - _DEVICES} more devices of pods (only a few are looked at)")
    return Marks(
        tuple(
            SoughtMark(
                f"{mark:#x}" + (f"/{mask:#x}" if mask != ALL_BITS else ""),
                tuple(priorities),
                tuple((setter, marking.effects(setter)) for setter in marking.setters if setter.can_set(mark, mask)),
            )
            for (mark, mask), priorities in by_mark.items()
        ),
        tuple(f"{program} on {dev}" for dev, programs in looked for program in programs.found),
        tuple(policy for policy in marking.policies if any(_overlap(policy.destination, prefix) for prefix in near)),
        tuple(dict.fromkeys(unseen)),
    )


def _overlap(one: Prefix, other: Prefix) -> bool:
    return one in other or other in one
