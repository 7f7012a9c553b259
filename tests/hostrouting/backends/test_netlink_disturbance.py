"""The changes that spoil the reading of a few routes, and those that do not."""

import pytest

from hostrouting.kernel.netlink.watch import EVERYTHING, Wanted
from hostrouting.model import TABLE_LOCAL, TABLE_MAIN, Prefix, Route

HERE = Prefix.parse("20.0.0.0/16")
THERE = Prefix.parse("fd00::/16")


def route_to(prefix: Prefix, *, table: int = TABLE_MAIN) -> Route:
    """A route that was changed."""
    return Route(prefix, table=table)


@pytest.mark.parametrize(
    ("wanted", "changed", "disturbs"),
    [
        (EVERYTHING, route_to(HERE, table=100), True),
        (Wanted(table=TABLE_MAIN), route_to(HERE), True),
        (Wanted(table=TABLE_MAIN), route_to(HERE, table=100), False),
        # The two tables are merged until the first custom rule.
        (Wanted(table=TABLE_MAIN), route_to(HERE, table=TABLE_LOCAL), True),
        (Wanted(table=TABLE_LOCAL), route_to(HERE, table=TABLE_MAIN), True),
        (Wanted(table=100), route_to(HERE, table=TABLE_LOCAL), False),
        # Among routes that begin at one address, the kernel counts.
        (Wanted(protocol=213), route_to(HERE), True),
        (Wanted(prefixes=frozenset({HERE})), route_to(HERE), True),
        (Wanted(prefixes=frozenset({HERE})), route_to(Prefix.parse("20.0.0.0/24")), True),
        (Wanted(prefixes=frozenset({HERE})), route_to(Prefix.parse("20.0.1.0/24")), False),
        # In IPv6 it counts the routes of the whole table.
        (Wanted(prefixes=frozenset({THERE})), route_to(Prefix.parse("fd01::/16")), True),
        (Wanted(table=TABLE_MAIN, prefixes=frozenset({THERE})), route_to(Prefix.parse("fd01::/16"), table=100), False),
    ],
)
def test_what_disturbs(wanted: Wanted, changed: Route, *, disturbs: bool) -> None:
    """A change disturbs only where the kernel could lose its position because of it."""
    assert wanted.disturbed_by(changed) == disturbs
