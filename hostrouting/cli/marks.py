"""Who sets the marks that an answer depends on: looked up on the host, as lines and as JSON.

Here: which marks to look for, and what is told about them. Not here: the rules that set marks (`hostrouting.marking`),
and BPF programs on a device (`hostrouting.ingress`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.cli.page import Painted, line, spoken
from hostrouting.marking import Marking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hostrouting.cli.page import Line
    from hostrouting.fib import Cases
    from hostrouting.host import Host
    from hostrouting.marking import Effect, IpsecPolicy, MarkSetter
    from hostrouting.model import Prefix, Rule

__all__ = ["NOT_IN_A_SNAPSHOT", "Marks", "look_for_marks"]

_FWMARK = "fwmark"
_FOR: dict[Effect, str] = {
    "arriving": "for packets that arrive",
    "own": "for packets of this host",
    "none": "too late to change a route",
}
NOT_IN_A_SNAPSHOT = Marking(unseen=("packet filters and IPsec policies (a snapshot does not contain them)",))
_NOBODY = "no rule that was found; a program can also mark the packets of its own sockets"


@attrs.frozen
class SoughtMark:
    """A mark that rules select, as in `ip rule`, and who can set it."""

    name: str
    rules: tuple[int, ...]
    setters: tuple[MarkSetter, ...]


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
        its = list(many)
        return cls(
            tuple(sought for it in its for sought in it.sought),
            tuple(dict.fromkeys(program for it in its for program in it.programs)),
            tuple(policy for it in its for policy in it.policies),
            tuple(dict.fromkeys(reason for it in its for reason in it.unseen)),
        )

    def lines(self) -> Iterator[Line]:
        """What was found, for an operator."""
        for it in self.sought:
            rules = "rules" if len(it.rules) > 1 else "rule"
            yield line(f"Mark {it.name} ({rules} {spoken(list(map(str, it.rules)))}) is set by:")
            for setter in it.setters:
                effect = " and ".join(_FOR[effect] for effect in setter.effects)
                yield line("  ", Painted(f"{setter.place}: {setter.text} ({effect})", "warn"))
            if not it.setters:
                yield line(Painted(f"  {_NOBODY}", "soft"))
        for program in self.programs:
            yield line("  ", Painted(f"perhaps {program}", "warn"))
        for policy in self.policies:
            yield line(Painted(_policy(policy), "warn"))
        if self.unseen:
            yield line(Painted(f"Not looked at: {'; '.join(self.unseen)}.", "soft"))

    def document(self) -> dict[str, Any]:
        """The same for JSON: the keys are there only if marks were looked for."""
        if not self.sought:
            return {}
        return {
            "marks": [
                {
                    "mark": it.name,
                    "rules": list(it.rules),
                    "setters": [
                        {"place": setter.place, "text": setter.text, "effects": list(setter.effects)}
                        for setter in it.setters
                    ],
                }
                for it in self.sought
            ],
            "markingPrograms": list(self.programs),
            "ipsec": [
                {"source": str(it.source), "destination": str(it.destination), "end": it.end, "drops": it.drops}
                for it in self.policies
            ],
            "notLookedAt": list(self.unseen),
        }


def _policy(it: IpsecPolicy) -> str:
    where = f"An IPsec policy for packets from {it.source} to {it.destination}"
    if it.drops:
        return f"{where} drops them."
    return f"{where} encapsulates them: they leave by the route to {it.end}." if it.end else f"{where} encrypts them."


def _overlap(one: Prefix, other: Prefix) -> bool:
    return one in other or other in one


def look_for_marks(
    host: Callable[[], Host] | None,
    cases: Iterable[Cases],
    *,
    family: int,
    destinations: Iterable[Prefix],
    devs: Iterable[str] = (),
) -> Marks:
    """Look for who sets the marks in these conditions, on the way to the destinations; `devs` are those of pods.

    A snapshot has no `host` to look at.
    """
    rules: dict[str, dict[Rule, None]] = {}
    for condition in (condition for it in cases for case in it for condition in case):
        for name, value in condition.selectors:
            if name == _FWMARK:
                rules.setdefault(value, {})[condition.rule] = None
    if not rules:
        return Marks()
    here = None if host is None else host()
    marking = NOT_IN_A_SNAPSHOT if here is None else here.marking_of(family)
    programs = [] if here is None else [here.programs_at(dev) for dev in devs]
    near = list(destinations)
    return Marks(
        tuple(
            SoughtMark(
                name,
                tuple(dict.fromkeys(rule.priority for rule in its)),
                tuple(it for it in marking.setters if any(it.can_set(rule.fwmark, rule.fwmask) for rule in its)),
            )
            for name, its in rules.items()
        ),
        tuple(dict.fromkeys(program for it in programs for program in it.found)),
        tuple(it for it in marking.policies if any(_overlap(it.destination, prefix) for prefix in near)),
        (*marking.unseen, *dict.fromkeys(reason for it in programs for reason in it.unseen)),
    )
