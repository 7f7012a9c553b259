"""The known fields of a packet without its destination, the questions of rules, and assumptions about the rest.

Here: one packet against one question, answered yes, no, or unknown; and assumptions about unknown fields, all of one
packet. Not here: the rules that the questions come from, and their order (`rules`).

Every selector of a rule becomes an `Ask`: whether a number is in a range, or has certain bits. Such questions have two
properties that `Supposed` needs: whether yes to one implies yes to another is known at once, and two about the same
field become one. So for each field one true question is enough, and an assumption that contradicts it is noticed.
Questions with the answer no cannot be joined in this way, and are kept as they are.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import attrs

from hostrouting.kernel._fib.decision import CHOSEN, Case, Condition
from hostrouting.kernel._rule import SELECTORS, TO, FullRule, tos_bits
from hostrouting.model.prefix import IP, IPV4, IPV6, Prefix, as_ip
from hostrouting.model.route import NextHop
from hostrouting.model.rule import Rule

if TYPE_CHECKING:
    from typing_extensions import Self

REACHABLE = "reachable"
"""The name, in a condition, of the question whether a gateway is reachable: its value is the next hop."""

# A selector and its value, as `ip rule` prints them.
Words: TypeAlias = tuple[str, str]


def has_tos(packet: int, asked: int, family: int = IPV4) -> bool:
    """Whether a packet matches the tos of a rule or a route; tos 0 matches every packet."""
    bits, _, seen = tos_bits(asked, family)
    return not bits or packet & seen == bits


def _as_ip(value: str | IP | None) -> IP | None:
    return None if value is None else as_ip(value)


class Sought(NamedTuple):
    """The fields of a packet that matter inside a table; None for unknown ones."""

    tos: int | None = 0
    # The device that the packet's socket is bound to.
    oif: str = ""
    source: int | None = 0
    # The device that the packet came in by; empty for packets of the host itself.
    iif: str = ""


@attrs.frozen(kw_only=True)
class Flow:
    """The known fields of a packet without its destination; None for unknown ones.

    `iif` is "lo" for packets that the host itself sends; `oif` is the device that their socket is bound to, "" if it is
    not bound; a `source` of 0.0.0.0 has not been chosen yet.

    For a bound socket the answer is what the tables have for that device. If they have nothing, Linux still sends the
    packet out there, as if the destination were a neighbour. Packets within a VRF are not covered: a snapshot does not
    show which table they use.
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
        """The same packet, with the fields of a plain packet where they are unknown."""
        return Flow(
            **{
                name: getattr(PLAIN, name) if (value := getattr(self, name)) is None else value
                for name in attrs.fields_dict(Flow)
            }
        )

    def sought(self, family: int) -> Sought:
        """What a table of this family needs to know."""
        source = self.source
        number = None if source is None else int(source) if source.version == family else 0
        return Sought(self.tos, self.oif or "", number, "" if self.iif in {None, "lo"} else self.iif or "")

    def known(self, family: int) -> dict[str, int]:
        """The known fields as numbers, by name."""
        return {
            selector.flow: selector.number(value, family)
            for selector in SELECTORS
            if selector.flow and (value := getattr(self, selector.flow)) is not None
        }


# Nothing is known: the answer names every rule that could change it.
ANY = Flow()
# The packet of `ip route get`: sent by this host as root, without a mark, from a socket that is not bound. For IPv4 the
# kernel assumes UDP (17) and port 0 at both ends unless the request says otherwise.
PLAIN = Flow(source=IPv4Address(0), iif="lo", oif="", mark=0, tos=0, uid=0, ipproto=17, sport=0, dport=0)


class Ask(NamedTuple):
    """A question about a packet: whether the field `name` is between `low` and `high`.

    With a `mask`: whether it has the bits of `low` within the mask. `words` is the selector as `ip rule` prints it;
    `plain` is the answer for a plain packet of this host.
    """

    name: str
    words: Words
    low: int
    high: int
    mask: int | None
    plain: bool

    def allows(self, number: int) -> bool:
        """Whether the answer is yes for this number."""
        return self.low <= number <= self.high if self.mask is None else not (number ^ self.low) & self.mask

    def answer(self, known: Mapping[str, int]) -> bool | None:
        """The answer for these known fields; None if the field of the question is unknown."""
        number = known.get(self.name)
        return None if number is None else self.allows(number)

    def implies(self, other: "Self") -> bool:
        """Whether a yes to this question implies a yes to the other one about the same field."""
        if self.mask is None or other.mask is None:
            return other.low <= self.low and self.high <= other.high
        return not other.mask & ~self.mask and other.allows(self.low)

    def joined(self, other: "Self") -> "Self | None":
        """One question that combines both; None if both cannot be true."""
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
    """The questions of the rule about everything but the destination, each with whether any packet can match.

    A rule for a device that does not exist matches no packet ("[detached]").
    """
    plainly, full = _known_of_plain(rule.family), FullRule.of(rule)
    for selector in _ASKED:
        if selector.says(full):
            possible = selector.possible(full, devs)
            words = (selector.word, selector.text(full))
            ask = Ask(selector.flow or selector.word, words, *selector.bounds(full), plain=False)
            yield ask._replace(plain=possible and ask.answer(plainly) is True), possible
    for name, value in full.others:
        # This library does not know which packets such a selector matches.
        yield _alone(f"{name} {value}", (name, value), plain=False), True


def tos_ask(tos: int, family: int = IPV4) -> tuple[Ask, bool]:
    """The question for a packet with the tos of a route; and whether any packet can have that tos."""
    asked, _, seen = tos_bits(tos, family)
    return Ask("tos", ("tos", f"{tos:#x}"), asked, asked, seen, plain=not asked), not asked & ~seen


def source_ask(source: Prefix) -> Ask:
    """The question whether a packet comes from one of these sources."""
    first = source.first
    return Ask("source", ("from", str(source)), first, source.last, None, plain=not first)


def _alone(name: str, words: Words, *, plain: bool) -> Ask:
    """A question about a field that no other question is about, and whose value is never known."""
    return Ask(name, words, 1, 1, None, plain)


def reachable_ask(legs: Iterable[NextHop]) -> Ask:
    """The question whether the gateway of one of these next hops is reachable."""
    way = " or ".join(f"{leg.gateway} dev {leg.dev}" for leg in legs)
    return _alone(f"{REACHABLE} {way}", (REACHABLE, way), plain=True)


def chosen_ask(position: int, legs: Iterable[NextHop]) -> Ask:
    """The question whether Linux has chosen one of these next hops of the route at this position.

    Linux chooses anew for each route.
    """
    way = " or ".join(f"via {leg.gateway} dev {leg.dev}" if leg.gateway else f"dev {leg.dev}" for leg in legs)
    return _alone(f"{CHOSEN} {position} {way}", (CHOSEN, way), plain=True)


# A set of numbers: all or none of a range, or two halves. Adding to it makes a new one, and both share what is equal.
_Numbers: TypeAlias = "bool | tuple[_Numbers, _Numbers]"


def _bits(name: str, family: int) -> int:
    """The number of bits that hold every value of a field, or more. A device is the number that its name spells."""
    return 128 if family == IPV6 or name in {"iif", "oif"} else 32


def _added(numbers: _Numbers, low: int, high: int, bits: int) -> _Numbers:
    """The numbers with low … high added; all numbers have this many bits."""
    last = (1 << bits) - 1
    if numbers is True or low > last or high < 0:
        return numbers
    if low <= 0 and last <= high:
        return True
    left, right = numbers or (False, False)
    half = 1 << bits - 1
    halves = _added(left, low, high, bits - 1), _added(right, low - half, high - half, bits - 1)
    return halves == (True, True) or halves


def _has_all(numbers: _Numbers, low: int, high: int, bits: int) -> bool:
    """Whether all of low … high are among the numbers, as far as their bits reach."""
    last = (1 << bits) - 1
    if isinstance(numbers, bool) or low > last or high < 0:
        return numbers is True or low > last or high < 0
    half, (left, right) = 1 << bits - 1, numbers
    return _has_all(left, low, high, bits - 1) and _has_all(right, low - half, high - half, bits - 1)


class Supposed(NamedTuple):
    """Assumptions about a packet that hold together, and the conditions from which they come.

    `holds` has a true question for each field. `excluded` has the numbers of a field that the packet does not have. Of
    each of the `refused`, which are not about a range of one field, at least one part is false. If several of those
    together leave no value, this is not noticed.
    """

    holds: dict[str, Ask]
    excluded: dict[str, _Numbers]
    refused: tuple[tuple[Ask, ...], ...]
    conditions: Case

    def suppose(self, rule: Rule, asks: tuple[Ask, ...], *, true: bool) -> "Supposed | None":
        """Add the assumption that all of `asks` are true, or that at least one is not; None if impossible."""
        still = tuple(ask for ask in asks if not self._says(ask))
        if not still:
            return self if true else None
        holds = self._with(still)
        if holds is None:
            return None if true else self
        # What is true for a plain packet anyway is not a condition.
        conditions = self.conditions
        if all(ask.plain for ask in still) is not true:
            conditions = (*conditions, Condition(rule, tuple(ask.words for ask in still), true))
        if true:
            found = Supposed(holds, self.excluded, self.refused, conditions)
        elif len(still) > 1 or still[0].mask is not None:
            return Supposed(self.holds, self.excluded, (*self.refused, still), conditions)
        else:
            found = Supposed(self.holds, self._without(still[0], rule.family), self.refused, conditions)
        return None if any(found._is_impossible(ask.name, rule.family) for ask in still) else found

    def _without(self, ask: Ask, family: int) -> dict[str, _Numbers]:
        """The excluded numbers and those of this question."""
        before = self.excluded.get(ask.name, False)
        return {**self.excluded, ask.name: _added(before, ask.low, ask.high, _bits(ask.name, family))}

    def _is_impossible(self, name: str, family: int) -> bool:
        """Whether the assumptions leave no value for this field, or contradict a question that is answered no."""
        held, excluded = self.holds.get(name), self.excluded.get(name, False)
        if excluded is True:
            return True
        if held is None:
            return False
        refused = (asks for asks in self.refused if len(asks) > 1 or asks[0].name == name)
        return _has_all(excluded, held.low, held.high, _bits(name, family)) or any(
            all(map(self._says, asks)) for asks in refused
        )

    def _says(self, ask: Ask) -> bool:
        """Whether the assumptions imply yes to this question."""
        held = self.holds.get(ask.name)
        return held is not None and held.implies(ask)

    def _with(self, asks: tuple[Ask, ...]) -> dict[str, Ask] | None:
        """The questions that are true, with these added; None if that is impossible."""
        holds = dict(self.holds)
        for ask in asks:
            joined = holds[ask.name].joined(ask) if ask.name in holds else ask
            if joined is None:
                return None
            holds[ask.name] = joined
        return holds


# No assumption.
ANYTHING = Supposed({}, {}, (), ())
