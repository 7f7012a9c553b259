"""Who sets the marks that an answer depends on: looked up on the host, as lines and as JSON.

Here: what is told about the marks. Not here: the rules that set marks (`hostrouting.marking`), and BPF programs on a
device (`hostrouting.ingress`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.cli.page import SHOWN, Painted, capped, line, spoken
from hostrouting.marking import ALL_BITS, Effect, IpsecPolicy, Marking, MarkSetter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hostrouting.cli.page import Line
    from hostrouting.fib import Cases
    from hostrouting.host import Host
    from hostrouting.model import Prefix, Rule

__all__ = ["NOT_IN_A_SNAPSHOT", "Marks", "look_for_marks", "rules_in"]

_DEVICES = 4  # of pods, on which BPF programs are looked for: the CNI treats all of its devices alike
_FOR: dict[Effect, str] = {
    "arriving": "for packets that arrive",
    "own": "for packets of this host",
    "own-later": "for packets of this host whose route Linux looks up again later, as after DNAT",
    "none": "too late for the route of this packet",
}
NOT_IN_A_SNAPSHOT = Marking(unseen=("packet filters and IPsec policies (a snapshot does not contain them)",))
_DOES = {"drop": "drops them", "pass": "leaves them as they are", "transport": "encrypts them"}


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
            rules = f"rule{'s' if len(it.rules) > 1 else ''} {spoken(list(map(str, it.rules)))}"
            if it.setters:
                yield line(f"Mark {it.name} ({rules}) can be set by:")
                rows = [_setter(setter, effects) for setter, effects in it.setters[:SHOWN]]
                yield from capped(rows, len(it.setters))
            else:
                who = "Nothing that was looked at" if self.unseen else "No rule of a packet filter"
                told = f"{who} sets mark {it.name} ({rules}). A program may set it on its own sockets."
                yield line(Painted(told, "soft"))
        if self.programs:
            yield line("BPF programs that can mark packets as they arrive:")
            yield from capped((line("  ", Painted(it, "warn")) for it in self.programs[:SHOWN]), len(self.programs))
        yield from capped((line(Painted(_policy(it), "warn")) for it in self.policies[:SHOWN]), len(self.policies))
        if self.unseen:
            yield line(Painted(f"Not looked at: {'; '.join(self.unseen)}.", "soft"))

    def document(self) -> dict[str, Any]:
        """The same for JSON: the keys are there only if the answer depends on a mark."""
        if not self.sought:
            return {}
        return {
            "marks": [
                {
                    "mark": it.name,
                    "rules": list(it.rules),
                    "setters": [
                        {"place": setter.place, "text": setter.text, "effects": list(effects)}
                        for setter, effects in it.setters
                    ],
                }
                for it in self.sought
            ],
            "markingPrograms": list(self.programs),
            "ipsec": [
                {
                    "source": str(it.source),
                    "destination": str(it.destination),
                    "only": it.only,
                    "action": it.action,
                    "end": it.end,
                }
                for it in self.policies
            ],
            "notLookedAt": list(self.unseen),
        }


def _setter(setter: MarkSetter, effects: Sequence[Effect]) -> Line:
    effect = " and ".join(_FOR[effect] for effect in effects)
    return line("  ", Painted(f"{setter.place}: {setter.text} ({effect})", "warn"))


def _policy(it: IpsecPolicy) -> str:
    only = f" ({it.only})" if it.only else ""
    does = f"encapsulates them: they leave by the route to {it.end}" if it.action == "tunnel" else _DOES[it.action]
    return f"An IPsec policy for packets from {it.source} to {it.destination}{only} {does}."


def rules_in(cases: Iterable[Cases]) -> Iterator[Rule]:
    """The rules that these conditions are about."""
    return (condition.rule for it in cases for case in it for condition in case)


def look_for_marks(
    host: Callable[[], Host] | None,
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
    unseen = [*marking.unseen, *(f"{reason} on {dev}" for dev, it in looked for reason in it.unseen)]
    if here is not None and len(names) > _DEVICES:
        unseen.append(f"BPF programs on {len(names) - _DEVICES} more devices of pods (only a few are looked at)")
    return Marks(
        tuple(
            SoughtMark(
                f"{mark:#x}" + (f"/{mask:#x}" if mask != ALL_BITS else ""),
                tuple(priorities),
                tuple((it, marking.effects(it)) for it in marking.setters if it.can_set(mark, mask)),
            )
            for (mark, mask), priorities in by_mark.items()
        ),
        tuple(f"{program} on {dev}" for dev, it in looked for program in it.found),
        tuple(it for it in marking.policies if any(_overlap(it.destination, prefix) for prefix in near)),
        tuple(dict.fromkeys(unseen)),
    )


def _overlap(one: Prefix, other: Prefix) -> bool:
    return one in other or other in one
