"""Flaws: findings about the default routes of a host that do not change the verdict. No unit is
held back for a flaw, so none is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hostrouting.finding import Finding, Remedy
from hostrouting.model.prefix import Prefix
from hostrouting.model.route import devs_of
from hostrouting.text import spoken

if TYPE_CHECKING:
    from hostrouting.check.judge import Judge


def find_flaws(judge: Judge) -> Iterator[Finding]:
    """Yield a warning if a card that is not expected has a default route, too. There is no warning
    if the configuration names the expected devices, or if these are in doubt, because the doubt
    says more.

    A card does not count if a rule selects by its address: somebody has given it a table of its
    own, and uses it on purpose.
    """
    uplinks = judge.uplinks
    if judge.configured_devs or uplinks.doubtful:
        return
    others = devs_of(uplinks.defaults) - uplinks.devs
    sources = {rule.src for rule in judge.fib.rules}
    for address in judge.devices.addresses:
        if Prefix.of(address.ip) in sources:
            others -= {address.dev}
    cards = sorted(dev for dev in others if judge.devices.may_be_card(dev))
    if cards:
        used = sorted(uplinks.devs)
        sentence = f"Linux prefers the default route of {spoken(used)} to that of {spoken(cards)}"
        yield Finding(
            "default-routes",
            "warning",
            sentence,
            spoken(cards),
            Remedy(
                "write the right devices into routeOverlap.expectedDevs, or name them with --dev "
                "for check and repair"
            ),
            {"candidates": [*used, *cards]},
        )
