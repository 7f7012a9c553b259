"""Who sets the marks that an answer depends on, as lines.

Here: what an operator reads about it. Not here: how it is found out (`hostrouting.sought_marks`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostrouting.cli.page import SHOWN, Painted, capped, line, spoken

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hostrouting.cli.page import Line
    from hostrouting.marking import Effect, IpsecPolicy, MarkSetter
    from hostrouting.sought_marks import Marks

__all__ = ["mark_lines"]

_FOR: dict[Effect, str] = {
    "arriving": "for packets that arrive",
    "own": "for packets of this host",
    "own-later": "for packets of this host whose route Linux looks up again later, as after DNAT",
    "none": "too late for the route of this packet",
}
_DOES = {"drop": "drops them", "pass": "leaves them as they are", "transport": "encrypts them"}


def mark_lines(marks: Marks) -> Iterator[Line]:
    """What was found, for an operator."""
    for it in marks.sought:
        rules = f"rule{'s' if len(it.rules) > 1 else ''} {spoken(list(map(str, it.rules)))}"
        if it.setters:
            yield line(f"Mark {it.name} ({rules}) can be set by:")
            rows = [_setter(setter, effects) for setter, effects in it.setters[:SHOWN]]
            yield from capped(rows, len(it.setters))
        else:
            who = "Nothing that was looked at" if marks.unseen else "No rule of a packet filter"
            told = f"{who} sets mark {it.name} ({rules}). A program may set it on its own sockets."
            yield line(Painted(told, "soft"))
    if marks.programs:
        yield line("BPF programs that can mark packets as they arrive:")
        yield from capped((line("  ", Painted(it, "warn")) for it in marks.programs[:SHOWN]), len(marks.programs))
    yield from capped((line(Painted(_policy(it), "warn")) for it in marks.policies[:SHOWN]), len(marks.policies))
    if marks.unseen:
        yield line(Painted(f"Not looked at: {'; '.join(marks.unseen)}.", "soft"))


def _setter(setter: MarkSetter, effects: Sequence[Effect]) -> Line:
    effect = " and ".join(_FOR[effect] for effect in effects)
    return line("  ", Painted(f"{setter.place}: {setter.text} ({effect})", "warn"))


def _policy(it: IpsecPolicy) -> str:
    only = f" ({it.only})" if it.only else ""
    does = f"encapsulates them: they leave by the route to {it.end}" if it.action == "tunnel" else _DOES[it.action]
    return f"An IPsec policy for packets from {it.source} to {it.destination}{only} {does}."
