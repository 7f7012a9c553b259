"""hostrouting.routes.uplink: the routes that it suggests, and that the kernel uses them."""

from collections.abc import Iterator

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostrouting.fib.engine import Fib
from hostrouting.kernel.base import RouteRequest
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.prefix import Prefix, ip_at
from hostrouting.model.route import OURS, Route
from hostrouting.routes.uplink import hides, is_held, way_round
from tests.support.commands import LINKS, furnish
from tests.support.examples import scaled
from tests.support.namespace import Namespace, private_namespace

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

# A prefix and its halves, and a single address.
PREFIXES = {
    4: [Prefix.parse(it) for it in ("20.0.0.0/16", "20.0.0.0/17", "20.0.128.0/17", "20.1.0.1/32")],
    6: [Prefix.parse(it) for it in ("2001:db8::/48", "2001:db8::/49", "2001:db8:0:8000::/49", "2001:db8:1::1/128")],
}
SOURCE = Prefix.parse("fd00:2::/64")


@pytest.fixture(scope="module")
def namespace() -> Iterator[Namespace]:
    """Four devices; eth0 has an address of each family."""
    with private_namespace() as made:
        furnish(made, LINKS)
        yield made


def standing(family: int) -> st.SearchStrategy[list[Route]]:
    """Routes of another program by ib0; in IPv6 some are only for some sources."""
    one = st.builds(
        lambda prefix, metric, source: attrs.evolve(
            Route.to(prefix, dev="ib0", metric=metric, protocol=186), source=source
        ),
        st.sampled_from(PREFIXES[family]),
        st.sampled_from([1, 2, 1024, 2000] if family == 6 else [0, 1, 1024]),
        st.sampled_from([None, None, None, SOURCE] if family == 6 else [None]),
    )
    return st.lists(one, max_size=6, unique_by=lambda it: it.key)


@settings(max_examples=scaled(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), family=st.sampled_from([4, 6]))
def test_law_the_kernel_uses_them(namespace: Namespace, data: st.DataObject, family: int) -> None:
    """The suggested routes can be added, and packets use them, except those to a longer prefix that is held."""
    others = data.draw(standing(family))
    prefix = data.draw(st.sampled_from(PREFIXES[family]))
    with NetlinkBackend(netns=namespace.path) as backend:
        made = backend.change(RouteRequest("add", route) for route in others)
        fib = Fib(backend.snapshot(family=family))
        found = way_round(prefix, lambda it, metric: is_held(it, metric, fib))
        ours = [Route.to(it, dev="eth0", metric=metric, protocol=OURS) for it, metric in found]
        added = backend.change(RouteRequest("add", route) for route in ours)
        answers = [backend.lookup([ip_at(family, at)])[0] for at in (prefix.first, prefix.last)]
        backend.change(RouteRequest("delete", route) for route in (*others, *ours))
    assert [it.error for it in (*made, *added)] == [None] * len([*others, *ours])
    shortest = min((it.length for it, _ in found), default=129)
    for address, answer in zip((prefix.first, prefix.last), answers, strict=True):
        longer = [
            other
            for other in others
            if other.prefix.length > shortest and other.prefix.first <= address <= other.prefix.last
        ]
        if found and (not longer or any(hides(it) for it in longer)):
            assert answer.route is not None
            assert answer.route.devs == ("eth0",), (found, answer)


@pytest.mark.parametrize(
    ("prefix", "held", "found"),
    [
        ("20.0.0.0/16", 0, "20.0.0.0/17 metric 0, 20.0.128.0/17 metric 0"),
        ("20.0.0.0/16", 1, "20.0.0.0/16 metric 0"),
        ("20.1.0.1/32", 0, ""),
        ("2001:db8::/48", 2000, "2001:db8::/48 metric 1024"),
        ("2001:db8::/48", 1024, "2001:db8::/48 metric 1"),
        ("2001:db8::/48", 1, "2001:db8::/49 metric 1024, 2001:db8:0:8000::/49 metric 1024"),
        ("2001:db8:1::1/128", 2, "2001:db8:1::1/128 metric 1"),
        ("2001:db8:1::1/128", 1, ""),
    ],
)
def test_where_one_is_held(prefix: str, held: int, found: str) -> None:
    """The usual metric comes first, then the lowest, then the halves."""
    ways = way_round(Prefix.parse(prefix), lambda it, metric: str(it) == prefix and metric >= held)
    assert ", ".join(f"{it} metric {metric}" for it, metric in ways) == found
