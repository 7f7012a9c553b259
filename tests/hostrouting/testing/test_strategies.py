"""Strategies: the rare shapes are drawn, too, for which the laws are there."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, find, settings
from hypothesis.strategies import SearchStrategy

from hostrouting.model.route import TABLE_LOCAL
from tests.support.configs import configs
from tests.support.routing import prefixes, routes, rules, small_block

FOUR = small_block(4)


def without_route(config: Any) -> bool:
    """Whether the configuration rewrites probes, and has no route for the replies."""
    return config.probe_rewrite.enabled and not config.probe_rewrite.ensure_route


DRAWN: dict[str, tuple[SearchStrategy[Any], Callable[[Any], object]]] = {
    "a default route": (prefixes(FOUR, wider=True), lambda prefix: prefix.length == 0),
    "a single address": (prefixes(FOUR), lambda prefix: prefix.is_single),
    "a source around 0.0.0.0": (rules(FOUR), lambda rule: rule.src and rule.src.first == 0),
    "a mark that 0 fulfils": (rules(FOUR), lambda rule: rule.fwmask and not rule.fwmark),
    "not": (rules(FOUR), lambda rule: rule.invert and rule.selectors()),
    "iif lo": (rules(FOUR), lambda rule: rule.iif == "lo"),
    "an address of this host": (routes(FOUR), lambda route: route.table == TABLE_LOCAL),
    "a probe rewrite without a route": (configs(), without_route),
}
"""By name: what draws it, and how it is recognised."""
few = settings(max_examples=3000, deadline=None, database=None, phases=[Phase.generate])


@pytest.mark.parametrize("shape", DRAWN)
def test_what_is_drawn(shape: str) -> None:
    """A law says nothing about what its strategy never draws."""
    strategy, is_drawn = DRAWN[shape]
    find(strategy, lambda value: bool(is_drawn(value)), settings=few)
