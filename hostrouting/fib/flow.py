"""What is known of a packet apart from its destination, and what a rule asks of it.

Here: one packet against one question, answered yes, no, or nobody knows. Not here: several questions together
(`supposed`), and the order of rules (`rules`).
"""

from collections.abc import Collection, Iterator, Mapping
from functools import cache
from ipaddress import IPv4Address
from typing import NamedTuple, Self, TypeAlias

import attrs

from hostrouting.model import IP, IPV4, SELECTORS, TO, Rule, as_ip, tos_bits

__all__ = ["ANY", "PLAIN", "Ask", "Flow", "Words", "asks_of", "has_tos", "tos_ask"]

# A selector and its value, as `ip rule` says them.
Words: TypeAlias = tuple[str, str]


def has_tos(packet: int, asked: int, family: int = IPV4) -> bool:
    """Whether a packet has the tos that a rule or a route asks for; each has the tos 0."""
    bits, _, seen = tos_bits(asked, family)
    return not bits or packet & seen == bits


def _as_ip(value: str | IP | None) -> IP | None:
    return None if value is None else as_ip(value)


@attrs.frozen(kw_only=True)
class Flow:
    """What a lookup can know of a packet besides where it goes; None is "not known".

    `iif` is "lo" for packets that the host makes itself; `oif` is the device that their socket is bound to, ""
    when it is bound to none; a `source` of 0.0.0.0 is one that is yet to be chosen.

    For a bound socket the answer is what the tables have by that device. Where they have nothing, Linux takes the
    destination for a neighbour and sends the packet out there all the same. Packets within a VRF are left out: which
    table is theirs no snapshot says.
    """

    source: IP | None = attrs.field(default=None, converter=_as_ip)
    iif: str | None = None
    oif: str | None = None
    mark: int | None = None
    tos: int | None = None
    uid: int | None = None
    ipproto: int | None = None
    sport: int | None = None
    dport: int | None = None

    def assumed(self) -> "Flow":
        """The same packet, as plain as it may be where it is not known."""
        return Flow(
            **{
                name: getattr(PLAIN, name) if (value := getattr(self, name)) is None else value
                for name in attrs.fields_dict(Flow)
            }
        )

    def known(self, family: int) -> dict[str, int]:
        """What is known, under the names by which rules ask for it, each as a number."""
        return {
            selector.word: selector.number(value, family)
            for selector in SELECTORS
            if selector.flow and (value := getattr(self, selector.flow)) is not None
        }


# Nothing is known: the answer names every rule that could make it another.
ANY = Flow()
# What `ip route get` asks: the host's own packet, by root, without a mark, from a socket that is not bound. In IPv4 the
# kernel takes it for one of UDP (17) between the ports 0, unless it is told otherwise.
PLAIN = Flow(source=IPv4Address(0), iif="lo", oif="", mark=0, tos=0, uid=0, ipproto=17, sport=0, dport=0)


class Ask(NamedTuple):
    """A question about a packet: whether what is called `name` is between `low` and `high`.

    With a `mask`: whether it has the bits of `low` where the mask has any. `words` say it as `ip rule` does;
    `plain` is what a plain packet of the host's own answers.
    """

    name: str
    words: Words
    low: int
    high: int
    mask: int | None
    plain: bool

    def allows(self, number: int) -> bool:
        """Whether it is yes for this number."""
        return self.low <= number <= self.high if self.mask is None else not (number ^ self.low) & self.mask

    def answer(self, known: Mapping[str, int]) -> bool | None:
        """What those who know this much say; None when they do not know."""
        number = known.get(self.name)
        return None if number is None else self.allows(number)

    def implies(self, other: Self) -> bool:
        """Whether yes to this is yes to the other, which asks for the same."""
        if self.mask is None or other.mask is None:
            return other.low <= self.low and self.high <= other.high
        return not other.mask & ~self.mask and other.allows(self.low)

    def joined(self, other: Self) -> Self | None:
        """Yes to both, as one question; None where that cannot be."""
        if self.mask is None or other.mask is None:
            low, high = max(self.low, other.low), min(self.high, other.high)
            return self._replace(low=low, high=high) if low <= high else None
        if (self.low ^ other.low) & self.mask & other.mask:
            return None
        return self._replace(low=self.low & self.mask | other.low & other.mask, mask=self.mask | other.mask)


_ASKED = tuple(selector for selector in SELECTORS if selector is not TO)


@cache
def _known_of_plain(family: int) -> dict[str, int]:
    return PLAIN.known(family)


def asks_of(rule: Rule, devs: Collection[str]) -> Iterator[tuple[Ask, bool]]:
    """What the rule asks of a packet, its destination apart; each with whether any packet can say yes.

    A rule for a device that the host does not have is no rule for any packet ("[detached]").
    """
    plainly = _known_of_plain(rule.family)
    for selector in _ASKED:
        if selector.says(rule):
            possible = selector.possible(rule, devs)
            words = (selector.word, selector.text(rule))
            ask = Ask(selector.word, words, *selector.bounds(rule), plain=False)
            yield ask._replace(plain=possible and ask.answer(plainly) is True), possible
    for name, value in rule.others:
        # What this library does not know is a question of its own, which nobody can answer.
        yield Ask(f"{name} {value}", (name, value), 1, 1, None, plain=False), True


def tos_ask(tos: int, family: int = IPV4) -> tuple[Ask, bool]:
    """Whether a packet has the tos of a route; and whether any can have it."""
    asked, _, seen = tos_bits(tos, family)
    return Ask("tos", ("tos", f"{tos:#x}"), asked, asked, seen, plain=not asked), not asked & ~seen
