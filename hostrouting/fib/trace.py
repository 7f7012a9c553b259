"""How one plain packet is routed, rule by rule: for an operator who asks why it leaves where it
does.
"""

from collections.abc import Iterator
from typing import NamedTuple

from hostrouting.fib.engine import GOES_ON, Effect, Fib
from hostrouting.model.prefix import IP
from hostrouting.model.route import Route
from hostrouting.model.rule import Rule


class Tried(NamedTuple):
    """A rule that was tried, with the result and the route that was found."""

    rule: Rule
    result: Effect
    """What the rule does with the packet; one that does not select the packet is skipped, too."""
    route: Route | None = None


def trace_rules(fib: Fib, address: IP | str) -> Iterator[Tried]:
    """Each rule that is tried for a plain packet to this address, up to the one that ends the
    lookup.
    """
    number = fib.number_of(address)
    for place, rule in enumerate(fib.rules):
        applied = fib.apply(place)
        if not applied.selects_plain(number):
            yield Tried(rule, "skipped")
            continue
        effect, route = applied.effect_for(number)
        if effect == "not-judged":
            route = None
        yield Tried(rule, effect, route)
        if effect not in GOES_ON:
            return
