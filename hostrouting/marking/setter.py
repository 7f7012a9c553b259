"""What can mark a packet, and what encapsulates it, as values: rules of packet filters, and IPsec policies.

Here: a rule that sets marks, which marks it can set, and whether that changes a route. Not here: how it is found.

A rule by mark (`fwmark`) sees the mark that a packet has when its route is looked up: after prerouting for one that
arrives, before any packet filter for one that the host itself sends. A mark that is set in output changes the route
only if Linux looks it up again: after a chain of type `route` in which something of the packet changed, and after a
change of the destination in a chain of type `nat`. So it also counts if such a chain comes later. Not counted: VXLAN
and Geneve look up the outer packet with the mark of the inner one, and with `fwmark_reflect` or `tcp_fwmark_accept`
replies get the mark of the packet that was received.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hostrouting.model import Prefix

__all__ = ["ALL_BITS", "Effect", "Hook", "IpsecPolicy", "MarkSetter", "Marking", "MarkingOf", "MarkingRules"]

ALL_BITS = 0xFFFFFFFF

Effect: TypeAlias = Literal["arriving", "own", "own-later", "none"]
"""Which packets take another route because of it: those that arrive, those of the host itself, those of the host itself
if a later chain has their route looked up again, or none."""

_LOOKING_UP_AGAIN = frozenset({"route", "nat"})


class Hook(NamedTuple):
    """Where a base chain runs. Chains with a lower priority come first."""

    type: str
    name: str
    priority: int
    of_bridge: bool = False
    """Whether it sees the packets of a bridge, before IP does."""

    @property
    def looks_up_again(self) -> bool:
        """Whether Linux may look up the route again after the chain."""
        return self.name == "output" and self.type in _LOOKING_UP_AGAIN and not self.of_bridge

    def effect(self, others: Iterable[Hook]) -> Effect:
        """The effect of a mark that is set here, if these other base chains exist."""
        if self.name in {"ingress", "prerouting"} or (self.of_bridge and self.name == "input"):
            return "arriving"
        if self.name != "output" or self.of_bridge:
            return "none"
        if self.type == "route":
            return "own"
        return "own-later" if any(it.looks_up_again and it.priority >= self.priority for it in others) else "none"


@attrs.frozen
class MarkSetter:
    """A rule that sets the mark of a packet: where it is, what it does, and which bits of the mark it writes.

    Of the bits that it `writes`, those in `unknown` are taken from elsewhere, such as the mark of the connection; the
    others get those of `value`. It keeps all other bits.
    """

    place: str
    text: str
    hooks: frozenset[Hook]
    value: int
    writes: int = ALL_BITS
    unknown: int = 0

    def can_set(self, mark: int, mask: int) -> bool:
        """Whether packets match `fwmark mark/mask`, or no longer `fwmark 0/mask`, because of this rule and others."""
        may_set, mark = (self.value | self.unknown) & mask, mark & mask
        if not mark:
            return bool(may_set)
        known = self.writes & mask & ~self.unknown
        return bool(may_set & mark) and not (self.value ^ mark) & known


@attrs.frozen
class IpsecPolicy:
    """An IPsec policy for packets that leave, from `source` to `destination`.

    `only` are its other selectors, as `ip xfrm policy` prints them. `action` is what it does; with `tunnel`, the
    packets are routed to `end`.
    """

    source: Prefix
    destination: Prefix
    action: Literal["pass", "drop", "transport", "tunnel"]
    end: str = ""
    only: str = ""


@attrs.frozen
class MarkingRules:
    """What was read from one packet filter: the rules that set marks, and the base chains that have rules."""

    setters: tuple[MarkSetter, ...] = ()
    hooks: frozenset[Hook] = frozenset()


@attrs.frozen
class Marking:
    """What was found on a host that can mark packets, and what could not be looked at, each with the reason."""

    setters: tuple[MarkSetter, ...] = ()
    hooks: frozenset[Hook] = frozenset()
    policies: tuple[IpsecPolicy, ...] = ()
    unseen: tuple[str, ...] = ()

    def effects(self, setter: MarkSetter) -> tuple[Effect, ...]:
        """The effects of a rule, at each place where it runs."""
        found = {hook.effect(self.hooks) for hook in setter.hooks}
        order: tuple[Effect, ...] = ("arriving", "own", "own-later")
        return tuple(it for it in order if it in found) or ("none",)


class MarkingOf(Protocol):
    """Finds what can mark packets of a family."""

    def __call__(self, family: int) -> Marking:
        """What was found, and what could not be looked at. Raises nothing."""
        ...
