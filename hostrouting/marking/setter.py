"""What can mark a packet, as values: rules of packet filters, and BPF programs.

Here: a rule that sets marks, which marks it can set, and whether that changes a route. Not here: how it is found.

A rule by mark (`fwmark`) sees the mark that a packet has when its route is looked up: after prerouting for one that
arrives, before any packet filter for one that the host itself sends. A mark that is set in output only changes the
route if the chain has the type `route`, because then Linux looks up the route again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

if TYPE_CHECKING:
    from hostrouting.model import Prefix

__all__ = ["ALL_BITS", "Effect", "IpsecPolicy", "MarkSetter", "Marking", "effect_of"]

ALL_BITS = 0xFFFFFFFF

Effect: TypeAlias = Literal["arriving", "own", "none"]
"""Which packets take another route because of it: those that arrive, those of the host itself, or none."""

_BEFORE_ROUTING = frozenset({"ingress", "prerouting"})


def effect_of(hooks: frozenset[tuple[str, str]]) -> tuple[Effect, ...]:
    """The effects of a chain that runs at these hooks, each with the type of the base chain."""
    found: list[Effect] = []
    if any(hook in _BEFORE_ROUTING for _, hook in hooks):
        found.append("arriving")
    if ("route", "output") in hooks:
        found.append("own")
    return tuple(found) or ("none",)


@attrs.frozen
class MarkSetter:
    """A rule that sets the mark of a packet: where it is, what it does, and the mark of a packet that had none before.

    Of that mark, the bits in `unknown` are taken from elsewhere, such as the mark of the connection.
    """

    place: str
    text: str
    effects: tuple[Effect, ...]
    value: int
    unknown: int = 0

    def can_set(self, mark: int, mask: int) -> bool:
        """Whether a packet can match `fwmark mark/mask` because of this rule."""
        known = mask & ~self.unknown
        return bool(mark & mask) and self.value & known == mark & known


@attrs.frozen
class IpsecPolicy:
    """An IPsec policy for packets that leave: it encapsulates those from `source` to `destination`, or drops them.

    `end` is the other end of the tunnel; empty if there is none, as in transport mode.
    """

    source: Prefix
    destination: Prefix
    end: str = ""
    drops: bool = False


@attrs.frozen
class Marking:
    """What was found on a host that can mark packets, and what could not be looked at, each with the reason."""

    setters: tuple[MarkSetter, ...] = ()
    policies: tuple[IpsecPolicy, ...] = ()
    unseen: tuple[str, ...] = ()
