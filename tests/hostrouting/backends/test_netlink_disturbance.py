"""Which changes spoil the reading of a few routes, and which do not."""

import pytest

from hostrouting.backends.netlink.watching import EVERYTHING, Wanted
from hostrouting.model import TABLE_LOCAL, TABLE_MAIN, Prefix, RouteKey

HERE = Prefix.parse("20.0.0.0/16")
THERE = Prefix.parse("fd00::/16")


def key(prefix: Prefix, *, table: int = TABLE_MAIN, protocol: int = 213) -> RouteKey:
    """Where a route belongs."""
    return (prefix.family, table, prefix.network, prefix.length, protocol)


@pytest.mark.parametrize(
    ("wanted", "changed", "disturbs"),
    [
        (EVERYTHING, key(HERE, table=100), True),
        (Wanted(table=TABLE_MAIN), key(HERE), True),
        (Wanted(table=TABLE_MAIN), key(HERE, table=100), False),
        # Both are one until the first rule.
        (Wanted(table=TABLE_MAIN), key(HERE, table=TABLE_LOCAL), True),
        (Wanted(table=TABLE_LOCAL), key(HERE, table=TABLE_MAIN), True),
        (Wanted(table=100), key(HERE, table=TABLE_LOCAL), False),
        # Within what begins at one address the kernel counts.
        (Wanted(protocol=213), key(HERE, protocol=4), True),
        (Wanted(prefixes=frozenset({HERE})), key(HERE, protocol=4), True),
        (Wanted(prefixes=frozenset({HERE})), key(Prefix.parse("20.0.0.0/24")), True),
        (Wanted(prefixes=frozenset({HERE})), key(Prefix.parse("20.0.1.0/24")), False),
        # In IPv6 it counts all of the table.
        (Wanted(prefixes=frozenset({THERE})), key(Prefix.parse("fd01::/16")), True),
        (Wanted(table=TABLE_MAIN, prefixes=frozenset({THERE})), key(Prefix.parse("fd01::/16"), table=100), False),
    ],
)
def test_what_disturbs(wanted: Wanted, changed: RouteKey, *, disturbs: bool) -> None:
    """A change disturbs where the kernel could lose its place by it, and nowhere else."""
    assert wanted.disturbed_by(changed) == disturbs


def test_what_is_wanted() -> None:
    """A route is wanted when nothing that was asked for leaves it out; a number of 0 is a number."""
    assert key(HERE) in EVERYTHING
    assert key(HERE) in Wanted(4, TABLE_MAIN, 213, frozenset({HERE}))
    for other in (
        Wanted(6),
        Wanted(table=0),
        Wanted(protocol=0),
        Wanted(prefixes=frozenset()),
        Wanted(prefixes=frozenset({THERE})),
    ):
        assert key(HERE) not in other
